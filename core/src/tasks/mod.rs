//! Real-time task sets: description, schedulability analysis, and simulation.
//!
//! - [`set`]: the task set of rt-app's JSON; `read` and `write` are its grammar.
//! - [`load`]: from events to (C, T, D, J, B).
//! - [`fixed`], [`edf`], [`blocking`], [`global`]: schedulability tests; [`analyse`] combines them, [`show`] prints the
//!   result.
//! - [`program`]: the input of an executor, with numbers instead of names and a policy per thread; [`jobs`]: its
//!   statistics; [`outcome`]: both and the analysis as a run file and a table.
//! - [`fiber_trace`]: the trace of the fiber scheduler as text for `explain`.
//! - [`simulate`]: a scheduler in virtual time to verify the analysis; [`generate`]: random sets.
//!
//! Not here: execution, in `lathunt_host::tasks`.

pub mod analyse;
pub mod blocking;
pub mod edf;
pub mod fiber_trace;
pub mod fixed;
pub mod generate;
pub mod global;
pub mod jobs;
pub mod json;
pub mod load;
pub mod outcome;
mod phases;
pub mod program;
mod read;
mod reserved;
pub mod set;
pub mod show;
pub mod simulate;
mod sound;
pub mod throttling;
mod write;

pub use read::{NotATaskSet, Unreadable, MOST_TASKS};

#[cfg(test)]
mod claims_tests;
#[cfg(test)]
mod tests;
