//! One consumer per user: an flock that the kernel drops when its holder dies.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::path::Path;

use crate::error::{Error, Result};

/// Held as long as this lives.
#[derive(Debug)]
pub struct Lock(#[allow(dead_code)] File);

/// Takes the lock at `path`; fails where another consumer has it.
///
/// # Errors
/// Another consumer runs, or the file cannot be made.
pub fn take(path: &Path) -> Result<Lock> {
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(path);
    let file = file.map_err(|source| Error::new("make", path.display().to_string(), source))?;
    if flock(&file, libc::LOCK_EX) {
        Ok(Lock(file))
    } else {
        Err(Error::refused(
            "start a second recording of instrumented programs",
            "of this user",
            "`lathunt trace status` shows the first, `lathunt trace stop` ends it",
        ))
    }
}

/// Whether a consumer holds it.
#[must_use]
pub fn is_held(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| !flock(&file, libc::LOCK_SH))
}

fn flock(file: &File, kind: libc::c_int) -> bool {
    // SAFETY: an open descriptor.
    unsafe { libc::flock(file.as_raw_fd(), kind | libc::LOCK_NB) == 0 }
}
