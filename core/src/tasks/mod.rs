//! Real-time task sets: what they are, whether they can meet their deadlines, and what would happen if they ran.
//!
//! - [`set`]: the set as rt-app's JSON describes it; `read` and `write` are its grammar.
//! - [`load`]: from events to (C, T, D, J, B).
//! - [`fixed`], [`edf`], [`blocking`], [`global`]: the tests of schedulability; [`analyse`] puts them together, [`show`]
//!   prints them.
//! - [`program`]: the set with numbers in place of names, each thread with its policy: what an executor runs; [`jobs`]:
//!   what it counts; [`outcome`]: both and the analysis as a run file and a table.
//! - [`fiber_trace`]: what the scheduler of fibers recorded, as a text that `explain` reads.
//! - [`simulate`]: a scheduler in virtual time, the check on the analysis; [`generate`]: random sets.
//!
//! Not here: threads. `lathunt_host::tasks` runs a set.

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
pub mod program;
mod read;
pub mod set;
pub mod show;
pub mod simulate;
mod sound;
mod write;

pub use read::{NotATaskSet, Unreadable, MOST_TASKS};

#[cfg(test)]
mod tests;
