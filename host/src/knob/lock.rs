//! The lock of a journal's directory: one process at a time changes knobs. The kernel releases it when that process ends.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::error::{Error, Result};

const LOCK: &str = "knobs.lock";

/// The right to change knobs. Released explicitly: a process that another thread has just forked shares the open file
/// until its exec, and would hold the lock that long.
#[derive(Debug)]
pub(super) struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // SAFETY: flock on a descriptor that we own.
        unsafe { libc::flock(self.0.as_raw_fd(), libc::LOCK_UN) };
    }
}

/// Takes it, or names its holder.
pub(super) fn take(directory: &Path) -> Result<Lock> {
    let path = directory.join(LOCK);
    let cannot = |error: std::io::Error| Error::new("lock", path.display().to_string(), error);
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(&path)
        .map_err(cannot)?;
    // SAFETY: flock on a descriptor that we own.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
        let mut holder = String::new();
        let _ = file.read_to_string(&mut holder); // only to name the holder
        let who = match holder.trim() {
            "" => "another lathunt".to_owned(), // it has not written its id yet
            pid => format!("another lathunt (pid {pid})"),
        };
        let what = directory.display().to_string();
        let hint = format!("{who} is changing settings or has changed them: wait until it ends, or stop it");
        return Err(Error::refused("write the journal in", what, hint));
    }
    file.set_len(0).map_err(cannot)?;
    file.seek(SeekFrom::Start(0)).map_err(cannot)?;
    write!(file, "{}", std::process::id()).map_err(cannot)?;
    Ok(Lock(file))
}

/// Whether a running lathunt holds the journal in `directory`.
#[must_use]
pub fn is_held(directory: &Path) -> bool {
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(directory.join(LOCK));
    // SAFETY: flock on a descriptor that is open during the call; closing it releases the lock.
    opened.is_ok_and(|file| unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_SH | libc::LOCK_NB) } != 0)
}
