//! From recorded events to causes: where did the time of a passage go, and whose fault is it?
//!
//! One engine serves live peaks (the flight recorder) and recorded traces. It is given a passage (a thread, a begin,
//! an end) and the events around it, and answers with an [`Explanation`].
//!
//! The rule of this module: *leaves plus `unexplained` equal the total, always*, for any stream of events, also with
//! lost, duplicated or unmatched ones. What the evidence does not show is `unexplained`; nothing is blamed by
//! elimination.

pub mod segment;

pub use segment::{Evidence, Explanation, Gap, Kind, Segment};
