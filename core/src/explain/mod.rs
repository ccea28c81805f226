//! From recorded events to causes: where did the time of a passage go, and whose fault is it?
//!
//! One engine serves live peaks (the flight recorder) and recorded traces. It is given a passage (a thread, a begin,
//! an end) and the events around it, and answers with an [`Explanation`].
//!
//! The rule of this module: *leaves plus `unexplained` equal the total, always*, for any stream of events, also with
//! lost, duplicated or unmatched ones. What the evidence does not show is `unexplained`; nothing is blamed by
//! elimination.
//!
//! From the bottom up: [`record`] indexes a window; [`cpu`] says who had a CPU when, [`thread`] what a thread did;
//! [`share`] adds up who had how much; `lateness` and `wait` read the phases of a live peak, which [`peak`] puts in
//! order; [`story`] follows any thread through everything it waited for, those of live peaks too;
//! [`causes`] judges, [`rank`] compares many, [`text`] prints.

pub mod answers;
pub mod causes;
pub mod cpu;
mod interrupted;
pub mod lanes;
mod lateness;
mod limits;
pub mod load;
mod loans;
pub mod mappings;
pub mod markers;
mod part;
mod passage;
pub mod passages;
pub mod peak;
pub mod periods;
pub mod rank;
pub mod record;
mod scene;
pub mod segment;
pub mod share;
mod silence;
mod standstill;
mod stolen;
pub mod story;
pub mod summary;
#[cfg(test)]
mod tests;
pub mod text;
pub mod thread;
pub mod tracers;
mod turns;
mod wait;
mod waking;

pub use part::explain_part;
pub use peak::{explain_peak, explain_timer_wakeup, explain_wakeup};
pub use scene::{TimerPassage, WakePassage};
pub use segment::{Evidence, Explanation, Gap, Kind, Segment};
pub use standstill::Standstills;
pub use story::{
    explain_answer, explain_job, explain_passage, explain_roundtrip, Answer, JobPassage, RoundTrip, SENDING,
};
