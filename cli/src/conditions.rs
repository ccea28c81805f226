//! Conditions of every measurement: the machine, its start, the command line, and the version.

use std::path::Path;

use lathunt_core::conditions::Conditions;
use lathunt_core::cpuset::CpuSet;
use lathunt_host::facts::counters::Counters;
use lathunt_host::tree::LIVE;
use lathunt_host::{facts, wall};

/// The conditions of a measurement on `cpus` that starts now.
#[must_use]
pub fn of_this_run(cpus: &CpuSet) -> Conditions {
    let mut conditions = facts::gather(Path::new(LIVE), cpus);
    conditions.started = wall::now_rfc3339();
    conditions.command = Some(command_line());
    conditions.tool = Some(tool());
    conditions
}

/// Counters before threads measure on `cpus`. Another lathunt that measures there is reported at once, and later as a doubt.
#[must_use]
pub fn before_measuring(cpus: &CpuSet) -> Counters {
    let counters = Counters::of_measurement(cpus);
    counters.neighbours().iter().for_each(|one| eprintln!("warning: {one}: the two disturb each other"));
    counters
}

/// The command line of this process. Invalid UTF-8 is replaced.
#[must_use]
pub fn command_line() -> String {
    let words: Vec<_> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    words.join(" ")
}

/// Name and version of this program.
#[must_use]
pub fn tool() -> String {
    format!("lathunt {}", env!("CARGO_PKG_VERSION"))
}
