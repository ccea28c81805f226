//! Is this machine configured for real time? Rules as data, applied to the facts of a machine.
//!
//! A rule ([`rule::Rule`]) is an entry in one of the tables in `rules/`: facts needed, expectation, severity, why, how
//! to fix, source. Facts come as a [`snapshot::Snapshot`], which `host` takes from the running system or from a copy,
//! so that a remote machine or a kernel configuration alone can be checked. "Unknown" is a valid result, with the
//! reason; settings that depend on the workload are reported and do not fail.
//!
//! Not here: changing anything. [`fix_script`] prints what a person may run.

mod answers;
pub mod facts;
mod fix_script;
pub mod json;
pub mod judge;
pub mod kconfig;
mod patches;
pub mod rule;
pub mod rules;
pub mod snapshot;
mod text;

pub use answers::{answers, Answers};
pub use fix_script::{fix_script, kconfig_fragment};
pub use judge::{check, Finding};
pub use kconfig::Kconfig;
pub use rule::{Fix, Outcome, Profile, Rule, Severity};
pub use snapshot::{Origin, Snapshot};
pub use text::{text, Shown};
