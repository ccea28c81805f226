//! New files before they get their names, and their owner.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{chownat, linkat, AtFlags, Mode, CWD};
use rustix::io::Errno;
use rustix::process::{umask, Gid, Uid};

use super::Directory;
use crate::trusted;

/// Gives what root has just created to the user who called sudo, if any. It remains root's if the capability was dropped
/// before reading untrusted files.
pub(super) fn give(made: impl AsFd) -> io::Result<()> {
    let Some((uid, gid)) = trusted::sudo_caller() else { return Ok(()) };
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    match chownat(made, "", Some(uid), Some(gid), AtFlags::EMPTY_PATH) {
        Ok(()) | Err(Errno::PERM) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Creates a file with exactly `mode`, also where the umask has some of its bits: the umask is without them meanwhile. Changing
/// the mode later (fchmod) would need a right that readers of foreign files do not have ([`crate::restrict`]).
pub(super) fn with_mode<T>(mode: u32, create: impl FnOnce(Mode) -> T) -> T {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mode = Mode::from_raw_mode(mode);
    let mask = umask(Mode::from_raw_mode(0o077)); // the only way to learn it
    umask(mask.difference(mode));
    let created = create(mode);
    umask(mask);
    created
}

/// A file that has no final name yet.
pub(super) struct Fresh<'a> {
    pub(super) directory: &'a Directory,
    pub(super) file: File,
    pub(super) name: Option<OsString>,
    pub(super) of: OsString,
}

impl Fresh<'_> {
    pub(super) fn put(&mut self, name: &OsStr) -> io::Result<()> {
        if self.name.is_none() {
            let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
            match linkat(CWD, &path, self.directory, name, AtFlags::SYMLINK_FOLLOW) {
                Ok(()) => return Ok(()),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            let temporary = temporary(&self.of);
            linkat(CWD, &path, self.directory, &temporary, AtFlags::SYMLINK_FOLLOW)?;
            self.name = Some(temporary);
        }
        if let Some(temporary) = &self.name {
            self.directory.rename(temporary, name)?;
        }
        self.name = None;
        Ok(())
    }
}

impl Drop for Fresh<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = self.directory.remove(name);
        }
    }
}

/// A name that is unique across calls and processes.
pub(super) fn temporary(name: &OsStr) -> OsString {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let ns =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |time| time.as_nanos());
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let mut temporary = OsString::from(".");
    temporary.push(name);
    temporary.push(format!(".{}.{ns:x}.{number}.part", std::process::id()));
    temporary
}
