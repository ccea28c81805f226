//! Explains the time of an interval from recorded events: its parts, and their causes.
//!
//! One engine serves live peaks (the flight recorder) and recorded traces. Input: an interval (thread, start, end) and
//! the events around it. Output: an [`Explanation`].
//!
//! Invariant: *leaves plus `unexplained` always equal the total*, for any stream of events, also with lost, duplicated
//! or unmatched ones. Time without evidence is `unexplained`; nothing is blamed by elimination.
//!
//! From the bottom up: [`record`] indexes a window; [`cpu`] has the timeline of a CPU, [`thread`] the states of a
//! thread; [`share`] adds up time by source; `lateness` and `wait` explain the phases of a live peak, which [`peak`]
//! puts in order; [`critical_path`] follows any thread through everything it waited for, also for live peaks;
//! [`causes`] determines the cause, [`rank`] compares many, [`text`] prints.

pub mod answers;
pub mod causes;
mod caveats;
pub mod cpu;
pub mod critical_path;
mod follow;
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
mod pieces;
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
pub use follow::follow_waits;
pub use part::explain_part;
pub use peak::{explain_peak, explain_timer_wakeup, explain_wakeup};
pub use scene::{Interval, WakeInterval};
pub use segment::{Evidence, Explanation, Gap, Kind, Segment};
pub use standstill::Standstills;
