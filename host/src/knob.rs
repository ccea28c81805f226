//! Changing a setting of the machine so that it is put back: on drop, after `kill -9` by the next start, or by
//! `lathunt restore`.
//!
//! The order is the promise: the old value is in the journal and on disk *before* the new one is written
//! (`journal.rs`). Putting back is compare-and-set: a knob that somebody else has changed since is reported and left
//! alone, and so is one that has gone or is now another object. One lock for all: a second lathunt that wants to
//! change knobs while the first still holds some is refused, because neither could then tell whose value it sees.
//!
//! A signal that ends the program in order (SIGINT, SIGTERM) unwinds to the drop; any other end is a `kill -9`.
//! Settings that end with a descriptor (`/dev/cpu_dma_latency`, BPF links, detached mounts) need nothing of this.

mod identity;
mod journal;

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::error::{Error, Result};
use journal::{Change, Journal};

pub use journal::{default_directory, pending};

/// The right to change knobs, and the list of those changed.
#[derive(Debug)]
pub struct Knobs {
    journal: Journal,
    changes: Vec<Change>, // in the order made
}

/// What became of one knob.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Restored {
    /// The file.
    pub path: PathBuf,
    /// What was done.
    pub outcome: Outcome,
}

/// Ways in which putting back can end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The old value is back.
    PutBack {
        /// That value.
        value: String,
    },
    /// It had the old value already.
    AlreadyBack,
    /// Somebody else changed it since; left alone.
    ChangedByOther {
        /// What it holds.
        found: String,
        /// What we had written.
        ours: String,
        /// What it held before us.
        before: String,
    },
    /// The file is gone, or belongs to another object now.
    Gone,
    /// The machine was booted since, which undid it.
    BootedSince,
    /// Not possible; stays in the journal for another try.
    Failed {
        /// Why.
        error: String,
    },
}

impl Knobs {
    /// Takes the lock in `directory` ([`default_directory`]) and puts back what a killed run left changed.
    ///
    /// # Errors
    /// When another lathunt holds knobs (it is named), or the directory is not ours alone to write.
    pub fn open(directory: &Path) -> Result<(Knobs, Vec<Restored>)> {
        let (mut journal, left) = Journal::open(directory)?;
        let restored = put_back_all(&mut journal, left)?;
        Ok((Knobs { journal, changes: Vec::new() }, restored))
    }

    /// Writes `value` to `path`, after its old value is safe. True when that changed something.
    ///
    /// # Errors
    /// When the file cannot be read, journalled or written; nothing is changed then. A refusal by a managed interrupt
    /// (EIO or EPERM) says so, and a kernel that takes the value without heeding it is an error too.
    pub fn set(&mut self, path: &Path, value: &str) -> Result<bool> {
        let old = read(path).map_err(|error| Error::new("read", path.display().to_string(), error))?;
        if same(&old, value) {
            return Ok(false);
        }
        let identity = identity::of(path);
        let number = self.changes.last().map_or(0, |change| change.number + 1);
        let mut change =
            Change { number, path: path.to_owned(), identity, old, new: value.trim().to_owned(), seen: None };
        self.journal.will_change(&change)?;
        let written = write(path, value).map_err(|error| refusal(path, error)).and_then(|()| {
            let seen =
                read(path).map_err(|error| Error::new("read back", path.display().to_string(), error))?;
            match same(&seen, &change.old) {
                true => Err(Error::refused(
                    "set",
                    path.display().to_string(),
                    "the kernel took the value and kept the old",
                )),
                false => Ok(seen),
            }
        });
        match written {
            Ok(seen) => {
                change.seen = Some(seen);
                self.journal.changed(&change)?;
                self.changes.push(change);
                Ok(true)
            }
            Err(error) => {
                put_back(&mut self.journal, &change);
                Err(error)
            }
        }
    }

    /// Puts everything back, the last change first, and says what became of each.
    ///
    /// # Errors
    /// When the journal cannot be removed although nothing is left in it.
    pub fn restore(mut self) -> Result<Vec<Restored>> {
        let changes = std::mem::take(&mut self.changes);
        put_back_all(&mut self.journal, journal::Left { changes, booted_since: false })
    }
}

impl Drop for Knobs {
    fn drop(&mut self) {
        let changes = std::mem::take(&mut self.changes);
        if changes.is_empty() {
            return;
        }
        // What fails stays in the journal; a drop has nobody to tell but the terminal.
        if let Ok(restored) = put_back_all(&mut self.journal, journal::Left { changes, booted_since: false })
        {
            for one in restored.iter().filter(|one| matches!(one.outcome, Outcome::Failed { .. })) {
                eprintln!("lathunt: {one}; try `lathunt restore`");
            }
        }
    }
}

/// Puts back what a killed run left below `directory`; the list is empty when there was nothing.
///
/// # Errors
/// As [`Knobs::open`].
pub fn recover(directory: &Path) -> Result<Vec<Restored>> {
    if !directory.exists() {
        return Ok(Vec::new());
    }
    Knobs::open(directory).map(|(_, restored)| restored)
}

fn put_back_all(journal: &mut Journal, left: journal::Left) -> Result<Vec<Restored>> {
    let restored: Vec<Restored> = match left.booted_since {
        true => left
            .changes
            .iter()
            .map(|c| Restored { path: c.path.clone(), outcome: Outcome::BootedSince })
            .collect(),
        false => left.changes.iter().rev().map(|change| put_back(journal, change)).collect(),
    };
    if restored.iter().all(|one| !matches!(one.outcome, Outcome::Failed { .. })) {
        journal.clear()?;
    }
    Ok(restored)
}

fn put_back(journal: &mut Journal, change: &Change) -> Restored {
    let outcome = compare_and_set(change);
    if !matches!(outcome, Outcome::Failed { .. }) {
        let _ = journal.settled(change); // when this fails, the next start finds the old value in place
    }
    Restored { path: change.path.clone(), outcome }
}

fn compare_and_set(change: &Change) -> Outcome {
    let failed = |error: std::io::Error| Outcome::Failed { error: error.to_string() };
    let found = match read(&change.path) {
        Ok(found) if identity::of(&change.path) == change.identity => found,
        Ok(_) => return Outcome::Gone,
        Err(error) if is_gone(&error) => return Outcome::Gone,
        Err(error) => return failed(error),
    };
    if same(&found, &change.old) {
        return Outcome::AlreadyBack;
    }
    let ours = change.seen.as_ref().unwrap_or(&change.new);
    if !same(&found, ours) {
        return Outcome::ChangedByOther { found, ours: ours.clone(), before: change.old.clone() };
    }
    match write(&change.path, &change.old).and_then(|()| read(&change.path)) {
        Ok(now) if same(&now, &change.old) => Outcome::PutBack { value: now },
        Ok(now) => Outcome::Failed { error: format!("wrote '{}', but it holds '{now}'", change.old) },
        Err(error) if is_gone(&error) => Outcome::Gone,
        Err(error) => failed(error),
    }
}

/// ENODEV: the object behind an open sysfs file has gone.
fn is_gone(error: &std::io::Error) -> bool {
    error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(libc::ENODEV)
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

/// The value that a knob holds; of `always [madvise] never` the chosen word.
fn read(path: &Path) -> std::io::Result<String> {
    let text = fs::read_to_string(path)?;
    Ok(chosen(text.trim()).unwrap_or(text.trim()).to_owned())
}

fn chosen(text: &str) -> Option<&str> {
    let one_line = !text.contains('\n');
    text.split_ascii_whitespace()
        .filter(|_| one_line && text.contains(' '))
        .find_map(|word| word.strip_prefix('[')?.strip_suffix(']'))
}

/// One write, as knobs want it: the kernel takes it whole or refuses it. Never creates or truncates a file.
fn write(path: &Path, value: &str) -> std::io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).open(path)?;
    file.write_all(value.trim().as_bytes())
}

/// Whether two texts mean the same value: white space apart, and CPU masks with leading zeros and commas.
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

impl std::fmt::Display for Restored {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = self.path.display();
        match &self.outcome {
            Outcome::PutBack { value } => write!(f, "{path}: put back to '{value}'"),
            Outcome::AlreadyBack => write!(f, "{path}: had its old value already"),
            Outcome::ChangedByOther { found, ours, before } => write!(
                f,
                "{path}: left alone at '{found}', which somebody else wrote (ours was '{ours}', before that '{before}')"
            ),
            Outcome::Gone => write!(f, "{path}: is gone"),
            Outcome::BootedSince => write!(f, "{path}: undone by the boot since"),
            Outcome::Failed { error } => write!(f, "{path}: could not be put back: {error}"),
        }
    }
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
    fn of_a_choice_the_chosen_word_is_the_value() {
        assert_eq!(chosen("always [madvise] never"), Some("madvise"));
        assert_eq!(chosen("performance"), None);
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
