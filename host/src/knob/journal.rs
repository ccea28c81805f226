//! The journal of changed knobs: one JSON object per line, each on disk before the step that follows it.
//!
//! `begin` names the boot; `change` precedes the write of a knob, `seen` follows it (with the value that the kernel
//! made of it), `settled` means restored. A torn last line belongs to a step that was not taken. The file exists only
//! while something is changed.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::elsewhere;
use super::kind::Kind;
use super::lock::{self, Lock};
use crate::beneath::{self, Directory, Foreign, Readers};
use crate::error::{Error, Result};
use crate::trusted::{self, Owner};

const FILE: &str = "knobs.journal";
/// Most bytes of a journal: some thousand changes.
const MOST_BYTES: u64 = 64 << 20;

/// One knob that is, or is about to be, changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Counts the changes of one journal.
    pub number: u64,
    /// What kind of knob.
    #[serde(default, skip_serializing_if = "Kind::is_file")]
    pub kind: Kind,
    /// The file, or a path that identifies the object.
    pub path: PathBuf,
    /// Distinguishes its object from a later one of the same name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub identity: String,
    /// The value before.
    pub old: String,
    /// The value written.
    pub new: String,
    /// Value read back after the write; `None`: not known to be written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<String>,
    /// Additional data: an interrupt's CPU, the cgroup to which members return ([`Kind`]).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub aside: String,
    /// Whether an interrupt may be pinned to `aside`, on its way back.
    #[serde(skip)]
    pub pinned: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Begin {
        boot: String,
        pid: u32,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        about: String,
    },
    Change(Change),
    Seen {
        number: u64,
        value: String,
    },
    Pinned {
        number: u64,
    },
    Settled {
        number: u64,
    },
    Kept,
}

/// Changes left by an earlier run.
#[derive(Clone, Debug, Default)]
pub struct Left {
    /// In the order made.
    pub changes: Vec<Change>,
    /// A reboot has undone them.
    pub booted_since: bool,
    /// Left on purpose, until a user restores them.
    pub kept: bool,
    /// Its owner's description of itself.
    pub about: String,
    /// Process that made them.
    pub pid: u32,
    /// Unreadable lines: each may be a change that has not been restored.
    pub unreadable: usize,
}

/// Discards the contents of the journal in `directory`: nothing is restored.
///
/// # Errors
/// Another lathunt holds it, or it cannot be removed.
pub fn forget(directory: &Path) -> Result<usize> {
    if !directory.join(FILE).exists() {
        return Ok(0);
    }
    let (mut journal, left) = Journal::open(directory, "")?;
    journal.all_settled();
    journal.clear()?;
    Ok(left.changes.len() + left.unreadable)
}

/// The journal, open and locked.
#[derive(Debug)]
pub(super) struct Journal {
    directory: PathBuf,
    about: String,
    file: Option<File>, // `None` until the first change
    due: BTreeSet<u64>, // numbers of the changes that are not settled, of earlier runs too
    torn: bool,         // the last line may lack its end
    unreadable: usize,  // lines that may be changes that cannot be restored
    _lock: Lock,
}

/// `/run/lathunt` for root, else the user's own runtime directory.
#[must_use]
pub fn default_directory() -> PathBuf {
    let uid = trusted::me();
    if uid == 0 {
        return PathBuf::from("/run/lathunt");
    }
    let given = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let usual = PathBuf::from(format!("/run/user/{uid}")); // also if the variable is not set: cron, su
    let own =
        |path: &PathBuf| fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir() && meta.uid() == uid);
    match given.into_iter().chain([usual]).find(own) {
        Some(own) => own.join("lathunt"),
        None => std::env::temp_dir().join(format!("lathunt-{uid}")),
    }
}

/// Changes that the journal in `directory` still holds; read-only.
///
/// # Errors
/// If a journal exists and cannot be read.
pub fn pending(directory: &Path) -> Result<Vec<Change>> {
    left(directory).map(|left| left.changes)
}

/// The same with the journal's description of them.
///
/// # Errors
/// As [`pending`].
pub fn left(directory: &Path) -> Result<Left> {
    match trusted::read(&directory.join(FILE), Owner::MeOrRoot, MOST_BYTES) {
        Ok(bytes) => match String::from_utf8(bytes) {
            Ok(text) => Ok(parse(&text)),
            Err(_) => Ok(Left { unreadable: 1, ..Left::default() }),
        },
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Left::default()),
        Err(error) => Err(Error::new("read", directory.join(FILE).display().to_string(), error)),
    }
}

impl Journal {
    /// Takes the lock and reads the earlier changes.
    pub(super) fn open(directory: &Path, about: &str) -> Result<(Journal, Left)> {
        prepare(directory)?;
        elsewhere::check(directory)
            .map_err(|error| Error::new("keep the journal in", directory.display().to_string(), error))?;
        let lock = lock::take(directory)?;
        let path = directory.join(FILE);
        let mut journal = Journal {
            directory: directory.to_owned(),
            about: about.to_owned(),
            file: None,
            due: BTreeSet::new(),
            torn: false,
            unreadable: 0,
            _lock: lock,
        };
        let mut left = Left::default();
        let opened = OpenOptions::new().read(true).append(true).custom_flags(libc::O_NOFOLLOW).open(&path);
        match opened {
            Ok(mut file) => {
                let mut text = Vec::new();
                file.read_to_end(&mut text).map_err(|error| journal.cannot("read", error))?;
                let damaged = std::str::from_utf8(&text).is_err();
                let text = String::from_utf8(text).unwrap_or_default();
                left = parse(&text);
                left.unreadable += usize::from(damaged);
                journal.due = left.changes.iter().map(|change| change.number).collect();
                journal.unreadable = left.unreadable;
                let whole = text.len() - torn_tail(&text).len();
                if whole < text.len() {
                    // The step that it announced was not taken. Cut off, it is not mistaken for a damaged line later.
                    file.set_len(whole as u64).map_err(|error| journal.cannot("repair", error))?;
                }
                journal.torn = whole > 0 && !text[..whole].ends_with('\n');
                journal.file = Some(file);
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(journal.cannot("open", error)),
        }
        Ok((journal, left))
    }

    /// Journals a change that is about to be made.
    pub(super) fn will_change(&mut self, change: &Change) -> Result<()> {
        if self.file.is_none() {
            elsewhere::list(&self.directory);
            let created = OpenOptions::new()
                .append(true)
                .create_new(true)
                .mode(0o600)
                .open(self.directory.join(FILE))
                .map_err(|error| self.cannot("create", error))?;
            self.file = Some(created);
            self.append(&Line::Begin {
                boot: boot_id(),
                pid: std::process::id(),
                about: self.about.clone(),
            })?;
            let synced = File::open(&self.directory).and_then(|directory| directory.sync_all());
            synced.map_err(|error| self.cannot("sync", error))?;
        }
        self.append(&Line::Change(change.clone()))?;
        self.due.insert(change.number);
        Ok(())
    }

    /// Journals the value that the kernel made of it.
    pub(super) fn changed(&mut self, change: &Change) -> Result<()> {
        let value = change.seen.clone().unwrap_or_else(|| change.new.clone());
        self.append(&Line::Seen { number: change.number, value })
    }

    /// Journals that it is restored.
    pub(super) fn settled(&mut self, change: &Change) -> Result<()> {
        self.due.remove(&change.number);
        self.append(&Line::Settled { number: change.number })
    }

    /// Journals that an interrupt is about to be pinned to the CPU it came from.
    pub(super) fn will_pin(&mut self, change: &Change) -> Result<()> {
        self.append(&Line::Pinned { number: change.number })
    }

    /// Journals that the changes are to stay.
    pub(super) fn keep(&mut self) -> Result<()> {
        self.append(&Line::Kept)
    }

    /// The machine was rebooted since: no change is left to restore.
    pub(super) fn all_settled(&mut self) {
        self.due.clear();
        self.unreadable = 0;
    }

    /// Number and place of unreadable lines.
    pub(super) fn unreadable(&self) -> Option<(usize, PathBuf)> {
        (self.unreadable > 0).then(|| (self.unreadable, self.directory.join(FILE)))
    }

    /// Removes the journal if nothing is changed any more.
    pub(super) fn clear(&mut self) -> Result<()> {
        if !self.due.is_empty() || self.unreadable > 0 {
            return Ok(());
        }
        self.file = None;
        elsewhere::unlist(&self.directory); // first: a link without journal would be one that was lost
        match fs::remove_file(self.directory.join(FILE)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(self.cannot("remove", error)),
            _ => Ok(()),
        }
    }

    fn append(&mut self, line: &Line) -> Result<()> {
        let mut text = serde_json::to_string(line).map_err(|error| self.cannot("write", error))?;
        text.push('\n');
        if std::mem::replace(&mut self.torn, true) {
            text.insert(0, '\n');
        }
        let mut torn = false;
        let written = match self.file.as_mut() {
            Some(file) => {
                let before = file.metadata().map(|found| found.len());
                let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_data());
                torn = written.is_err() && before.and_then(|length| file.set_len(length)).is_err();
                written
            }
            None => Ok(()), // settled but never journalled: nothing to remember
        };
        self.torn = torn;
        written.map_err(|error| self.cannot("write", error))
    }

    fn cannot(
        &self,
        doing: &'static str,
        error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Error {
        Error::new(doing, self.directory.join(FILE).display().to_string(), error)
    }
}

/// The part of the text that is the start of one of our lines, cut off by a kill; zeros and other text are damage.
fn torn_tail(text: &str) -> &str {
    let tail = &text[text.rfind('\n').map_or(0, |end| end + 1)..];
    if tail.starts_with('{') && !tail.contains('\0') {
        tail
    } else {
        ""
    }
}

/// Complete lines; a torn last one belongs to a step not taken.
fn parse(text: &str) -> Left {
    let mut left = Left::default();
    let last = &text[text.rfind('\n').map_or(0, |end| end + 1)..];
    left.unreadable = usize::from(!last.is_empty() && torn_tail(text).is_empty());
    for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
        match serde_json::from_str(line) {
            Ok(Line::Begin { boot, pid, about }) => {
                (left.booted_since, left.pid, left.about) = (boot != boot_id(), pid, about);
            }
            Ok(Line::Pinned { number }) => {
                if let Some(change) = left.changes.iter_mut().find(|change| change.number == number) {
                    change.pinned = true;
                }
            }
            Ok(Line::Kept) => left.kept = true,
            Ok(Line::Change(change)) => left.changes.push(change),
            Ok(Line::Seen { number, value }) => {
                if let Some(change) = left.changes.iter_mut().find(|change| change.number == number) {
                    change.seen = Some(value);
                }
            }
            Ok(Line::Settled { number }) => left.changes.retain(|change| change.number != number),
            Err(_) if line.trim().is_empty() => {}
            Err(_) => left.unreadable += 1,
        }
    }
    left
}

fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// Creates the directory, or refuses one that others may write, and links of other users on its path: a journal directs
/// root's writes.
pub(super) fn prepare(directory: &Path) -> Result<()> {
    Directory::make(directory, Readers::Owner, Foreign::Refused)
        .and_then(Directory::private)
        .map(drop)
        .map_err(|error| {
            let why = error.to_string().replace(beneath::ALLOWING, "");
            Error::new("use", directory.display().to_string(), why)
                .hint("it must be a directory that only this user can write")
        })
}

/// Whether it is a directory that only this user can write.
pub(super) fn is_own(meta: &fs::Metadata) -> bool {
    meta.is_dir() && meta.uid() == trusted::me() && meta.mode() & 0o022 == 0
}
