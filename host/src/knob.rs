//! Changes a setting of the machine so that it is restored: on drop, after `kill -9` by the next start, or by
//! `lathunt restore`.
//!
//! The guarantee is the order: the old value is in the journal and on disk *before* the new one is written
//! (`journal.rs`). Restoring is compare-and-set: a knob that another process has changed since is reported and left
//! alone, and so is one that is gone or now belongs to another object. One lock for all knobs: a second lathunt that
//! wants to change some while the first holds any is refused, because neither could tell which values are original.
//!
//! A signal that ends the program in order (SIGINT, SIGTERM) unwinds to the drop; any other end is a `kill -9`.
//! Settings that end with a descriptor (`/dev/cpu_dma_latency`, BPF links, detached mounts) do not need this.

mod elsewhere;
mod identity;
mod journal;
pub mod kind;
mod lock;
mod restore;

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use crate::error::{Error, Result};
use journal::Journal;

pub use elsewhere::{elsewhere, forget_lost, lost};
pub use journal::{default_directory, forget, left, pending, Change, Left};
pub use kind::Kind;
pub use lock::is_held;
pub use restore::{changed_by_other, Outcome, Restored};

/// How long to wait for an interrupt to move back.
const PATIENCE: Duration = Duration::from_secs(1);

/// The right to change knobs, and the list of those changed.
#[derive(Debug)]
pub struct Knobs {
    journal: Journal,
    changes: Vec<Change>, // in the order made
    next: u64,            // number of the next one
    kept: bool,           // changes outlive this process
}

impl Knobs {
    /// Takes the lock in `directory` ([`default_directory`]) and restores changes left by a killed run.
    ///
    /// # Errors
    /// If another lathunt holds knobs (it is named), or the directory is writable by others, or holds changes that
    /// are meant to stay ([`Knobs::keep`]).
    pub fn open(directory: &Path) -> Result<(Knobs, Vec<Restored>)> {
        Knobs::open_about(directory, "")
    }

    /// The same; the journal stores `about` with its changes, for [`left`].
    ///
    /// # Errors
    /// As [`Knobs::open`].
    pub fn open_about(directory: &Path, about: &str) -> Result<(Knobs, Vec<Restored>)> {
        Knobs::open_within(directory, about, PATIENCE)
    }

    fn open_within(directory: &Path, about: &str, patience: Duration) -> Result<(Knobs, Vec<Restored>)> {
        let (mut journal, left) = Journal::open(directory, about)?;
        if left.kept && !left.booted_since {
            let what = directory.display().to_string();
            return Err(Error::refused(
                "change",
                what,
                "it holds changes that were kept; restore them first",
            ));
        }
        let next = next_number(&left.changes); // some may stay in the journal
        let restored = restore::all(&mut journal, left, patience)?;
        Ok((Knobs { journal, changes: Vec::new(), next, kept: false }, restored))
    }

    /// Takes the lock on kept changes, to add to them or to restore them.
    ///
    /// # Errors
    /// As [`Knobs::open`], and if there are none.
    pub fn resume(directory: &Path) -> Result<Knobs> {
        let (journal, left) = Journal::open(directory, "")?;
        match left.kept && !left.booted_since {
            true => {
                let next = next_number(&left.changes);
                Ok(Knobs { journal, changes: left.changes, next, kept: true })
            }
            false => {
                let what = directory.display().to_string();
                Err(Error::refused("go on with", what, "it holds no changes that were kept"))
            }
        }
    }

    /// Writes `value` to `path` once its old value is on disk. True if that changed it.
    ///
    /// # Errors
    /// If the file cannot be read, journalled or written; nothing is changed then. The error names a managed
    /// interrupt that refuses (EIO or EPERM); a kernel that accepts the value without applying it is an error too.
    pub fn set(&mut self, path: &Path, value: &str) -> Result<bool> {
        self.change(Kind::File, path, value, "")
    }

    /// The same for a knob of any kind; `aside` is its additional data.
    ///
    /// # Errors
    /// As [`Knobs::set`].
    pub fn change(&mut self, kind: Kind, path: &Path, value: &str, aside: &str) -> Result<bool> {
        let cannot = |doing, error| Error::new(doing, path.display().to_string(), error);
        let old = kind.read(path).map_err(|error| cannot("read", error))?;
        if same(&old, value) {
            return Ok(false);
        }
        let mut change = Change {
            number: self.number(),
            kind,
            path: path.to_owned(),
            identity: identity::of(kind, path),
            old,
            new: value.trim().to_owned(),
            aside: aside.to_owned(),
            ..Change::default()
        };
        self.journal.will_change(&change)?;
        let written = kind.write(path, value, aside).map_err(|error| refusal(path, error)).and_then(|()| {
            let seen = kind.read(path).map_err(|error| cannot("read back", error))?;
            match same(&seen, &change.old) {
                true => Err(Error::refused(
                    "set",
                    path.display().to_string(),
                    "the kernel accepted the value, but the old one is still in force",
                )),
                false => Ok(seen),
            }
        });
        match written {
            Ok(seen) => {
                change.seen = Some(seen);
                let noted = self.journal.changed(&change);
                self.changes.push(change); // it is changed, journalled or not
                noted.map(|()| true)
            }
            Err(error) => {
                restore::one(&mut self.journal, &change); // what fails stays in the journal
                Err(error)
            }
        }
    }

    /// Journals a thread's CPUs before a rule of others, a cpuset's, changes them; `aside` lists the values that this
    /// may produce, separated by blanks.
    ///
    /// # Errors
    /// If the thread is gone or the journal cannot be written.
    pub fn remember(&mut self, thread: &Path, aside: &str) -> Result<()> {
        let (kind, path) = (Kind::Affinity, thread.to_owned());
        let old = kind.read(thread).map_err(|error| Error::new("read", path.display().to_string(), error))?;
        let change = Change {
            number: self.number(),
            identity: identity::of(kind, thread),
            new: old.clone(),
            seen: Some(old.clone()),
            aside: aside.to_owned(),
            ..Change { kind, path, old, ..Change::default() }
        };
        self.journal.will_change(&change)?;
        self.changes.push(change);
        Ok(())
    }

    /// Restores all but the first `kept` changes, for a step that did not work.
    pub fn roll_back(&mut self, kept: usize) -> Vec<Restored> {
        let mut undone = self.changes.split_off(kept.min(self.changes.len()));
        undone.reverse();
        undone.sort_by_key(|change| change.kind);
        restore::in_order(&mut self.journal, &undone)
    }

    /// Whether this very object is among those changed.
    #[must_use]
    pub fn holds(&self, kind: Kind, path: &Path) -> bool {
        self.changes
            .iter()
            .any(|one| one.kind == kind && one.path == path && one.identity == identity::of(kind, path))
    }

    /// Keeps all changes beyond the end of this process: [`Knobs::resume`] takes them over.
    ///
    /// # Errors
    /// If that cannot be journalled; the changes are restored then.
    pub fn keep(mut self) -> Result<()> {
        if !self.kept && !self.changes.is_empty() {
            self.journal.keep()?;
        }
        self.kept = true;
        Ok(())
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// The changes made, in their order.
    #[must_use]
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// Restores everything, the last change first, and returns the outcome of each.
    ///
    /// # Errors
    /// If the journal is empty but cannot be removed; entries of earlier runs stay in it.
    pub fn restore(self) -> Result<Vec<Restored>> {
        self.restore_within(PATIENCE)
    }

    /// The same; waits at most `patience` for interrupts to move back.
    ///
    /// # Errors
    /// As [`Knobs::restore`].
    pub fn restore_within(mut self, patience: Duration) -> Result<Vec<Restored>> {
        let changes = std::mem::take(&mut self.changes);
        restore::all(&mut self.journal, Left { changes, ..Left::default() }, patience)
    }
}

impl Drop for Knobs {
    fn drop(&mut self) {
        let changes = std::mem::take(&mut self.changes);
        if changes.is_empty() || self.kept {
            return;
        }
        // What fails stays in the journal; a drop can report only to the terminal.
        if let Ok(restored) = restore::all(&mut self.journal, Left { changes, ..Left::default() }, PATIENCE) {
            for one in restored.iter().filter(|one| one.outcome.is_due()) {
                // The reader may be gone.
                let _ = writeln!(std::io::stderr(), "lathunt: {one}; try `lathunt restore`");
            }
        }
    }
}

/// Restores changes left by a killed run below `directory`; the list is empty if there were none. Kept changes stay.
///
/// # Errors
/// As [`Knobs::open`].
pub fn recover(directory: &Path) -> Result<Vec<Restored>> {
    recover_within(directory, PATIENCE)
}

/// The same; waits at most `patience` for interrupts to move back.
///
/// # Errors
/// As [`Knobs::open`].
pub fn recover_within(directory: &Path, patience: Duration) -> Result<Vec<Restored>> {
    if !directory.exists() || left(directory).is_ok_and(|left| left.kept && !left.booted_since) {
        return Ok(Vec::new());
    }
    Knobs::open_within(directory, "", patience).map(|(_, restored)| restored)
}

/// Removes a cgroup that no journal names; its members move to its parent.
///
/// # Errors
/// The kernel's error.
pub fn remove_cgroup(path: &Path) -> std::io::Result<()> {
    Kind::Cgroup.write(path, "absent", "")
}

fn next_number(changes: &[Change]) -> u64 {
    changes.iter().map(|change| change.number + 1).max().unwrap_or(0)
}

/// Why a knob cannot be set. The kernel refuses to move a managed interrupt with EIO, newer ones with EPERM.
fn refusal(path: &Path, error: std::io::Error) -> Error {
    let code = error.raw_os_error();
    let of_interrupt = path.starts_with("/proc/irq");
    let hint = match code {
        Some(libc::EIO | libc::EPERM) if of_interrupt => {
            "a managed interrupt: its driver decides; keep it off with isolcpus=managed_irq"
        }
        Some(libc::EPERM | libc::EACCES) => "needs root, outside of a container that forbids it",
        Some(libc::EROFS) => "the file system is read-only here (a container?)",
        Some(libc::EBUSY) => "in use",
        Some(libc::EINVAL) => "the kernel does not know this value",
        _ => "",
    };
    Error::new("set", path.display().to_string(), error).hint(hint)
}

/// Whether two texts mean the same value: ignores white space, and leading zeros and commas of CPU masks.
fn same(a: &str, b: &str) -> bool {
    let words = |text: &str| text.split_ascii_whitespace().map(str::to_owned).collect::<Vec<_>>();
    words(a) == words(b) || mask(a).is_some_and(|a| mask(b) == Some(a))
}

/// A hexadecimal mask without its leading zeros. Decimal numbers look alike, and are equal in the same cases.
fn mask(text: &str) -> Option<String> {
    let digits: String = text.trim().chars().filter(|&c| c != ',').collect();
    let groups = text.trim().split(',').all(|group| !group.is_empty() && group.len() <= 8);
    let comma_means_group =
        !text.contains(',') || text.trim().split(',').skip(1).all(|group| group.len() == 8);
    (groups && comma_means_group && digits.bytes().all(|b| b.is_ascii_hexdigit()))
        .then(|| digits.trim_start_matches('0').to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_compare_by_value_and_words_by_themselves() {
        for (a, b) in
            [("3", "00000003\n"), ("ff,ffffffff", "000000ff,ffffffff"), ("A", "0a"), ("950000", "950000\n")]
        {
            assert!(same(a, b), "{a} {b}");
        }
        for (a, b) in [("3", "30"), ("0-3", "0,3"), ("1,2", "12"), ("none", "full"), ("-1", "1")] {
            assert!(!same(a, b), "{a} {b}");
        }
    }

    #[test]
    fn a_managed_interrupt_is_named_whichever_way_the_kernel_refuses() {
        for code in [libc::EIO, libc::EPERM] {
            let error =
                refusal(Path::new("/proc/irq/36/smp_affinity"), std::io::Error::from_raw_os_error(code));
            assert!(error.to_string().contains("managed interrupt"), "{error}");
        }
        let error =
            refusal(Path::new("/proc/sys/kernel/watchdog"), std::io::Error::from_raw_os_error(libc::EPERM));
        assert!(!error.to_string().contains("managed interrupt"), "{error}");
    }
}
