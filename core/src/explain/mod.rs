//! From recorded events to causes: where did the time of an interval go, and whose fault is it?
//!
//! One engine serves live peaks (the flight recorder) and recorded traces. It is given an interval (a thread, a begin,
//! an end) and the events around it, and answers with an [`Explanation`].
//!
//! The rule of this module: *leaves plus `unexplained` equal the total, always*, for any stream of events, also with
//! lost, duplicated or unmatched ones. What the evidence does not show is `unexplained`; nothing is blamed by
//! elimination.
//!
//! From the bottom up: [`record`] indexes a window; [`cpu`] says who had a CPU when, [`thread`] what a thread did;
//! [`share`] adds up who had how much; `lateness` and `wait` read the phases of a live peak, which [`peak`] puts in
//! order; [`critical_path`] follows any thread through everything it waited for, those of live peaks too;
//! [`causes`] judges, [`rank`] compares many, [`text`] prints.

pub mod answers;
pub mod causes;
mod caveats;
pub mod cpu;
pub mod critical_path;
mod interrupted;
pub mod intervals;
pub mod lanes;
mod lateness;
pub mod load;
pub mod mappings;
pub mod markers;
mod part;
pub mod peak;
pub mod periods;
mod pi_boost;
pub mod rank;
pub mod record;
mod scene;
pub mod segment;
pub mod share;
mod silence;
mod standstill;
mod stolen;
pub mod summary;
#[cfg(test)]
mod tests;
pub mod text;
pub mod thread;
mod timer_interval;
pub mod tracers;
mod turns;
mod wait;
mod waking;

pub use critical_path::{
    explain_answer, explain_interval, explain_job, explain_roundtrip, Answer, JobInterval, RoundTrip, SENDING,
};
pub use part::explain_part;
pub use peak::{explain_peak, explain_timer_wakeup, explain_wakeup};
pub use scene::{Interval, WakeInterval};
pub use segment::{Evidence, Explanation, Gap, Kind, Segment};
pub use standstill::Standstills;
