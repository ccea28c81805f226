//! Reserves CPUs for real-time tasks, and restores everything.
//!
//! Every change is journalled before it is made (`knob`), so that a `kill -9` at any moment leaves nothing behind: the
//! next `lathunt isolate` or `lathunt restore` undoes it. The journal is a separate one, so that measurements, which
//! have a journal too, can run while CPUs are isolated.
//!
//! `core::isolate` plans; this module surveys ([`survey`]), applies ([`Isolation`]), and repeats that for newcomers.

mod apply;
pub mod cgroup;
pub mod survey;
pub mod tenant;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lathunt_core::isolate::survey::Mechanism;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::knob::{self, Restored};
use crate::tree::{Tree, LIVE};
use crate::trusted;

pub use apply::{Isolation, Moved};

/// Time between two readings of what is left.
const BETWEEN: Duration = Duration::from_millis(50);

/// What the journal says about an isolation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// The isolated CPUs.
    pub cpus: String,
    /// Those for everything else.
    pub housekeeping: String,
    /// How.
    pub mechanism: String,
    /// When, RFC 3339.
    pub since: String,
    /// Names of processes left where they were.
    pub keep: Vec<String>,
}

/// The journal's directory: `isolate` below that of the other knobs.
#[must_use]
pub fn default_directory() -> PathBuf {
    knob::default_directory().join("isolate")
}

/// The directory of the journal that tells of an isolation: the default one, unless only another does.
#[must_use]
pub fn directory_in_use() -> PathBuf {
    let isolates = |directory: &PathBuf| apply::about(directory).is_ok();
    let default = default_directory();
    match isolates(&default) {
        true => default,
        false => knob::elsewhere().into_iter().find(isolates).unwrap_or(default),
    }
}

/// Restores everything, whether it was to stay or was left by a killed lathunt. Waits at most `patience` for
/// interrupts to move back.
///
/// # Errors
/// If a running lathunt holds it, or the journal cannot be read.
pub fn restore(directory: &Path, patience: Duration) -> Result<Vec<Restored>> {
    let left = knob::left(directory)?;
    match left.kept && !left.booted_since {
        true => knob::Knobs::resume(directory)?.restore_within(patience),
        false => knob::recover_within(directory, patience),
    }
}

/// Cpusets with our names that no journal of root names: it was deleted, or belongs to a lathunt with another `/run`, in a
/// container. For root; other users cannot read the journals.
#[must_use]
pub fn left() -> Vec<PathBuf> {
    if trusted::me() != 0 {
        return Vec::new();
    }
    let first = unnamed();
    if first.is_empty() {
        return first;
    }
    // One that ended while its cpusets and journal were read is not seen twice.
    std::thread::sleep(BETWEEN);
    let again = unnamed();
    first.into_iter().filter(|path| again.contains(path)).collect()
}

fn unnamed() -> Vec<PathBuf> {
    let cpusets = cgroup::find(&Tree::new(Path::new(LIVE)));
    let named = |mount: &PathBuf| [cgroup::ISOLATED, cgroup::HOUSEKEEPING].map(|name| mount.join(name));
    let ours = cpusets.v2.iter().chain(&cpusets.v1).flat_map(named);
    let mut left: Vec<PathBuf> = ours.filter(|path| path.is_dir()).collect();
    for directory in std::iter::once(default_directory()).chain(knob::elsewhere()) {
        match knob::left(&directory) {
            Ok(journal) if journal.unreadable == 0 => {
                left.retain(|path| !journal.changes.iter().any(|change| change.path == *path));
            }
            _ => return Vec::new(), // it may name them
        }
    }
    left
}

/// Removes them on request; their programs may use all CPUs again. What else their isolation changed is not known.
#[must_use]
pub fn remove_left() -> Vec<(PathBuf, std::io::Result<()>)> {
    let remove = |path: PathBuf| {
        let removed = knob::remove_cgroup(&path);
        if let (Ok(()), Some(mount)) = (&removed, path.parent()) {
            let _ = std::fs::write(mount.join("cpuset.sched_load_balance"), "1");
            // of cgroup v1
        }
        (path, removed)
    };
    left().into_iter().map(remove).collect()
}

/// The mechanism of that name.
#[must_use]
pub fn mechanism(name: &str) -> Option<Mechanism> {
    let all = [Mechanism::Cgroup2, Mechanism::Cpuset1, Mechanism::Affinity];
    all.into_iter().find(|one| one.name() == name)
}

/// Threads and processes in the isolated cgroup of `mechanism`; empty if it needs none.
#[must_use]
pub fn tenants(mechanism: &str) -> BTreeSet<i32> {
    let cpusets = cgroup::find(&Tree::new(Path::new(LIVE)));
    self::mechanism(mechanism).map(|one| cpusets.tenants(one)).unwrap_or_default()
}
