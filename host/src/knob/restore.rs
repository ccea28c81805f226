//! Restores knobs: compare, then set. A value that another process has changed since is left alone and reported.
//!
//! cgroups go first, because the CPUs of threads and load balancing depend on them. An interrupt moves only at its next
//! arrival, and the kernel keeps its present CPU if the mask contains it: so it is first pinned to its former CPU, then
//! waited for, and then given its old mask.
//!
//! Changes that depend on a cgroup wait for it. Removing the cpuset controller from a partition that could not be
//! removed ends it all the same, and if one of its CPUs is offline at that moment, Linux 6.1 never returns that CPU to
//! the threads of the root group (kernel/cgroup/cpuset.c: "we don't mess with cpumasks of tasks in top_cpuset"). The
//! CPUs of threads are compared only after the cpuset has released them.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::journal::{Change, Journal, Left};
use super::kind::Kind;
use super::{identity, same};
use crate::error::Result;

/// Outcome for one knob.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Restored {
    /// The file, or a path that identifies the object.
    pub path: PathBuf,
    /// What was done.
    pub outcome: Outcome,
}

/// Ways in which restoring can end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The old value is restored.
    PutBack {
        /// That value.
        value: String,
    },
    /// An interrupt's old CPUs are restored, but it has not arrived since, which would have moved it to its former CPU.
    NotMovedYet {
        /// Its CPUs.
        value: String,
        /// CPU on which it arrives now.
        on: String,
        /// CPU on which it arrived before.
        before: String,
    },
    /// It had the old value already.
    AlreadyBack,
    /// Another process changed it since; left alone.
    ChangedByOther {
        /// The value found.
        found: String,
        /// The value that we had written.
        ours: String,
        /// The value before that.
        before: String,
    },
    /// The file is gone, or belongs to another object now.
    Gone,
    /// The machine was rebooted since, which undid it.
    BootedSince,
    /// Failed; stays in the journal for another try.
    Failed {
        /// Why.
        error: String,
    },
    /// Not tried, because another change has to be restored first; stays in the journal.
    Waits {
        /// That change.
        until: PathBuf,
    },
}

impl Outcome {
    /// Whether it remains to be done.
    #[must_use]
    pub fn is_due(&self) -> bool {
        matches!(self, Outcome::Failed { .. } | Outcome::Waits { .. })
    }
}

/// Restores everything, and removes the journal if nothing is left in it.
pub(super) fn all(journal: &mut Journal, mut left: Left, patience: Duration) -> Result<Vec<Restored>> {
    let of = |change: &Change, outcome| Restored { path: change.path.clone(), outcome };
    let mut restored: Vec<Restored> = Vec::new();
    if left.booted_since {
        restored.extend(left.changes.iter().map(|change| of(change, Outcome::BootedSince)));
        journal.all_settled();
    } else {
        left.changes.reverse();
        left.changes.sort_by_key(|change| change.kind);
        pin_interrupts(journal, &mut left.changes, patience);
        restored.extend(in_order(journal, &left.changes));
    }
    restored.extend(journal.unreadable().map(|(lines, path)| Restored {
        path,
        outcome: Outcome::Failed {
            error: format!(
                "{lines} lines cannot be read, and each may be a change that is still in force; it is kept: compare it with the machine, then `lathunt restore --forget` discards it"
            ),
        },
    }));
    journal.clear()?;
    Ok(restored)
}

/// Restores `changes`, sorted by kind; those that depend on a cgroup that stays wait.
pub(super) fn in_order(journal: &mut Journal, changes: &[Change]) -> Vec<Restored> {
    let mut stays: Option<PathBuf> = None;
    let mut restored = Vec::with_capacity(changes.len());
    for change in changes {
        let result = match (&stays, change.kind) {
            (Some(until), Kind::Cgroup | Kind::Subtree | Kind::Affinity) => {
                Restored { path: change.path.clone(), outcome: Outcome::Waits { until: until.clone() } }
            }
            _ => one(journal, change),
        };
        if change.kind == Kind::Cgroup && result.outcome.is_due() {
            stays.get_or_insert_with(|| change.path.clone());
        }
        restored.push(result);
    }
    restored
}

/// Restores one knob and journals that it is settled.
pub(super) fn one(journal: &mut Journal, change: &Change) -> Restored {
    let outcome = compare_and_set(change);
    if !outcome.is_due() {
        let _ = journal.settled(change); // if this fails, the next start finds the old value in place
    }
    Restored { path: change.path.clone(), outcome }
}

fn compare_and_set(change: &Change) -> Outcome {
    let failed = |error: std::io::Error| Outcome::Failed { error: why(change, &error) };
    let found = match change.kind.read(&change.path) {
        Ok(found) if is_same_object(change, &found) => found,
        Ok(_) => return Outcome::Gone,
        Err(error) if is_gone(&error) => return Outcome::Gone,
        Err(error) => return failed(error),
    };
    if same(&found, &change.old) {
        return Outcome::AlreadyBack;
    }
    if !is_ours(change, &found) {
        let ours = change.seen.as_ref().unwrap_or(&change.new);
        return Outcome::ChangedByOther { found, ours: ours.clone(), before: change.old.clone() };
    }
    let written = change.kind.write(&change.path, &change.old, &change.aside);
    match written.and_then(|()| change.kind.read(&change.path)) {
        Ok(now) if same(&now, &change.old) => put_back(change, now),
        Ok(now) => Outcome::Failed { error: format!("wrote '{}', but it holds '{now}'", change.old) },
        Err(error) if is_gone(&error) => Outcome::Gone,
        // Another cgroup needs the controller now.
        Err(error) if change.kind == Kind::Subtree && error.kind() == ErrorKind::ResourceBusy => {
            Outcome::ChangedByOther { found, ours: change.new.clone(), before: change.old.clone() }
        }
        Err(error) => failed(error),
    }
}

fn put_back(change: &Change, value: String) -> Outcome {
    let on = effective(&change.path).filter(|_| change.kind == Kind::Interrupt && !change.aside.is_empty());
    match on.filter(|on| *on != change.aside) {
        Some(on) => Outcome::NotMovedYet { value, on, before: change.aside.clone() },
        None => Outcome::PutBack { value },
    }
}

/// A cgroup that did not exist when its change was journalled has no identity yet.
fn is_same_object(change: &Change, found: &str) -> bool {
    change.kind == Kind::Cgroup && (found == "absent" || change.identity.is_empty())
        || identity::of(change.kind, &change.path) == change.identity
}

/// Whether the knob holds our value, or what the kernel itself made of that.
fn is_ours(change: &Change, found: &str) -> bool {
    let ours = change.seen.as_ref().unwrap_or(&change.new);
    let by_kernel = change.pinned || change.kind == Kind::Affinity;
    same(found, ours) || (by_kernel && change.aside.split(' ').any(|one| same(found, one)))
}

fn why(change: &Change, error: &std::io::Error) -> String {
    match (change.kind, error.raw_os_error()) {
        (Kind::Affinity | Kind::Interrupt, Some(libc::EINVAL)) => {
            format!("none of CPU {} is online; try again when one is", change.old)
        }
        _ => error.to_string(),
    }
}

/// ENODEV: the object behind an open sysfs file has gone. ESRCH: the thread ended.
fn is_gone(error: &std::io::Error) -> bool {
    error.kind() == ErrorKind::NotFound || matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ESRCH))
}

/// Pins each interrupt that has left its CPU to it again, and waits until they have arrived there.
fn pin_interrupts(journal: &mut Journal, changes: &mut [Change], patience: Duration) {
    let mut awaited = Vec::new();
    for change in changes.iter_mut().filter(|change| change.kind == Kind::Interrupt) {
        let Ok(found) = change.kind.read(&change.path) else { continue };
        let away = effective(&change.path).is_some_and(|cpu| cpu != change.aside);
        if change.aside.is_empty() || !away || !is_ours(change, &found) || !is_same_object(change, &found) {
            continue;
        }
        // Without this entry, a kill between pin and mask would look like a change by another process.
        if journal.will_pin(change).is_ok() && change.kind.write(&change.path, &change.aside, "").is_ok() {
            change.pinned = true;
            awaited.push((change.path.clone(), change.aside.clone()));
        }
    }
    let deadline = Instant::now() + patience;
    while Instant::now() < deadline
        && awaited.iter().any(|(path, cpu)| effective(path).as_ref().is_some_and(|now| now != cpu))
    {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The present value of a change's knob if it is neither ours nor the old one.
#[must_use]
pub fn changed_by_other(change: &Change) -> Option<String> {
    let found = change.kind.read(&change.path).ok()?;
    let known = !is_same_object(change, &found) || is_ours(change, &found) || same(&found, &change.old);
    (!known).then_some(found)
}

/// The CPU on which an interrupt arrives now.
fn effective(smp_affinity_list: &Path) -> Option<String> {
    let text = fs::read_to_string(smp_affinity_list.with_file_name("effective_affinity_list")).ok()?;
    Some(text.trim().to_owned())
}

impl std::fmt::Display for Restored {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = self.path.display();
        match &self.outcome {
            Outcome::PutBack { value } => write!(f, "{path}: restored to '{value}'"),
            Outcome::NotMovedYet { value, on, before } => write!(
                f,
                "{path}: restored to '{value}'; still arrives on CPU {on}, before on {before}: none arrived that could be moved"
            ),
            Outcome::AlreadyBack => write!(f, "{path}: had its old value already"),
            Outcome::ChangedByOther { found, ours, before } => write!(
                f,
                "{path}: left alone at '{found}', written by another process (ours was '{ours}', before that '{before}')"
            ),
            Outcome::Gone => write!(f, "{path}: is gone"),
            Outcome::BootedSince => write!(f, "{path}: undone by the boot since"),
            Outcome::Failed { error } => write!(f, "{path}: could not be restored: {error}"),
            Outcome::Waits { until } => write!(f, "{path}: waits until {} is restored", until.display()),
        }
    }
}
