//! Reads small files below a root, and notes each that should be readable and is not.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use lathunt_core::time::Cpu;

use crate::input;

/// The root of the live system.
pub const LIVE: &str = "/";

/// Largest file read whole; `/proc/cpuinfo` of 1000 CPUs has about 2 MB.
const LIMIT: u64 = 16 << 20;

/// A file tree with `proc`, `sys` and `dev`, and the notes taken while reading it.
#[derive(Debug)]
pub struct Tree {
    root: PathBuf,
    notes: RefCell<Vec<String>>,
}

impl Tree {
    /// The tree below `root`.
    #[must_use]
    pub fn new(root: &Path) -> Tree {
        Tree { root: root.to_owned(), notes: RefCell::default() }
    }

    /// Whether this is the running system rather than a copy of another one.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.root == Path::new(LIVE)
    }

    /// The path of `path` in this tree.
    #[must_use]
    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// Adds a note unless it exists already.
    pub fn note(&self, note: impl Into<String>) {
        let note = note.into();
        let mut notes = self.notes.borrow_mut();
        if !notes.contains(&note) {
            notes.push(note);
        }
    }

    /// The notes taken.
    #[must_use]
    pub fn into_notes(self) -> Vec<String> {
        self.notes.into_inner()
    }

    /// Content without surrounding white space. `None` if there is no such file, which is a fact, or if it cannot
    /// be read, which is noted. Invalid UTF-8 is replaced; trailing NULs count as white space.
    #[must_use]
    pub fn text(&self, path: &str) -> Option<String> {
        let bytes = self.bytes(path)?;
        let text = String::from_utf8_lossy(&bytes);
        Some(text.trim_matches(|c: char| c.is_whitespace() || c == '\0').to_owned())
    }

    /// The same, if the absence of the file is worth a note too.
    #[must_use]
    pub fn expected(&self, path: &str) -> Option<String> {
        let text = self.text(path);
        if text.is_none() && !self.path(path).exists() {
            self.note(format!("/{path} does not exist"));
        }
        text
    }

    /// A number; noted if the file contains something else.
    #[must_use]
    pub fn number<T: std::str::FromStr>(&self, path: &str) -> Option<T> {
        let text = self.text(path)?;
        let number = text.parse().ok();
        if number.is_none() {
            self.note(format!("/{path}: '{text}' is not the expected number"));
        }
        number
    }

    /// Content unchanged; see [`Tree::text`].
    #[must_use]
    pub fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        // A copy may hold anything; on the running system these are files of the kernel.
        let opened = match self.is_live() {
            true => fs::File::open(self.path(path)),
            false => input::regular(&self.path(path)),
        };
        let read = opened.and_then(|file| file.take(LIMIT).read_to_end(&mut bytes));
        match read {
            Ok(_) => Some(bytes),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => None,
            Err(error) => {
                self.note(format!("/{path}: cannot be read ({error})"));
                None
            }
        }
    }

    /// Names in a directory, sorted; empty if there is none, or if it cannot be read, which is noted.
    #[must_use]
    pub fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(path));
        if let Err(error) = &entries
            && !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
        {
            self.note(format!("/{path}: cannot be read ({error})"));
        }
        let entries = entries.into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// CPUs that have a directory in `sys/devices/system/cpu`.
    #[must_use]
    pub fn cpus(&self) -> BTreeSet<Cpu> {
        let names = self.names("sys/devices/system/cpu");
        names.iter().filter_map(|name| name.strip_prefix("cpu")?.parse().ok().map(Cpu)).collect()
    }
}
