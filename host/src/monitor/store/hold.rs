//! One daemon a database: a lock that ends with its process, in a file beside the database.
//!
//! The file is also the sign that a daemon of ours made the database: what cannot be read as one is set aside only where
//! it lies, so that a mistyped `--database` never moves a file of somebody else.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// The lock; it is let go when dropped.
#[derive(Debug)]
pub(super) struct Hold {
    _file: File,
    /// The lock file was there before: the database is ours.
    pub was_ours: bool,
}

impl Hold {
    /// Takes the lock of `database`.
    pub fn take(database: &Path) -> Result<Hold> {
        let path = beside(database, "lock");
        let shown = path.display().to_string();
        let was_ours = path.exists();
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).map_err(
                |error| {
                    Error::new("lock the database with", &shown, error)
                        .hint("name a place that can be written with --database")
                },
            )?;
        // SAFETY: a valid descriptor; the call changes nothing else.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
            let mut owner = String::new();
            let _ = file.read_to_string(&mut owner);
            let owner = match owner.trim() {
                "" => "another lathunt monitor".to_owned(),
                pid => format!("another lathunt monitor, process {pid},"),
            };
            return Err(Error::refused(
                "write",
                format!("{}: {owner} writes it", database.display()),
                "one monitor is enough for a machine; name another file with --database if you want two",
            ));
        }
        // Who holds it is for people; a full disk does not make the lock less of one.
        let _ = file.set_len(0).and_then(|()| write!(file, "{}", std::process::id()));
        Ok(Hold { _file: file, was_ours })
    }
}

/// `PATH.ending`
pub(super) fn beside(database: &Path, ending: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    PathBuf::from(name)
}
