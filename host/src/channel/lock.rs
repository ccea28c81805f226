//! One consumer per user: an flock that the kernel drops when its holder dies.
//!
//! Everybody may write where it lies (`/dev/shm`): a link that somebody put in its place is not followed.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::error::{Error, Result};

/// No link is followed, and no pipe waited for.
const ITSELF: libc::c_int = libc::O_NOFOLLOW | libc::O_NONBLOCK;

/// Held as long as this lives.
#[derive(Debug)]
pub struct Lock(#[allow(dead_code)] File);

/// Takes the lock at `path`; fails where another consumer has it.
///
/// # Errors
/// Another consumer runs, or the file cannot be made.
pub fn take(path: &Path) -> Result<Lock> {
    let file = OpenOptions::new().create(true).truncate(false).write(true).custom_flags(ITSELF).open(path);
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
    OpenOptions::new()
        .read(true)
        .custom_flags(ITSELF)
        .open(path)
        .is_ok_and(|file| !flock(&file, libc::LOCK_SH))
}

fn flock(file: &File, kind: libc::c_int) -> bool {
    // SAFETY: an open descriptor.
    unsafe { libc::flock(file.as_raw_fd(), kind | libc::LOCK_NB) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_in_place_of_the_lock_is_not_followed() {
        let place = tempfile::tempdir().unwrap();
        let (lock, target) = (place.path().join("lathunt-0.lock"), place.path().join("target"));
        std::os::unix::fs::symlink(&target, &lock).unwrap();
        assert!(take(&lock).is_err() && !target.exists());
        std::fs::remove_file(&lock).unwrap();
        let held = take(&lock).unwrap();
        assert!(is_held(&lock) && take(&lock).is_err());
        drop(held);
        assert!(!is_held(&lock));
    }
}
