//! Is this machine set up for real time? Rules as data, applied to the facts of a machine.
//!
//! A rule ([`rule::Rule`]) is an entry in one of the tables in `rules/`: facts needed, expectation, severity, why, how to
//! fix, source. Facts come as a [`snapshot::Snapshot`], which `host` takes from the running system or from a copy, so
//! that a far-away machine or a bare kernel configuration can be checked. "Unknown" is an answer, with the reason; what
//! depends on the workload is reported and not failed.
//!
//! Not here: changing anything. [`fix_script`] prints what a person may run.

mod answers;
pub mod facts;
mod fix_script;
pub mod json;
pub mod judge;
mod patches;
pub mod rule;
pub mod rules;
pub mod snapshot;
mod text;

pub use answers::{answers, Answers};
pub use fix_script::{fix_script, kconfig_fragment};
pub use judge::{check, Finding};
pub use rule::{Fix, Outcome, Profile, Rule, Severity};
pub use snapshot::{Origin, Snapshot};
pub use text::{text, Shown};
