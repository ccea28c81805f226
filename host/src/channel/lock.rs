//! One consumer per user: an flock, which the kernel drops when its holder dies, and a record lock, which identifies the
//! holder.
//!
//! The process id of the consumer comes from the kernel (`F_GETLK`), never from a file, whose writer could put any process
//! id there. It is used only while a pidfd proves that it still is the process that held the lock.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

use crate::beneath::{Directory, Readers};
use crate::error::{Error, Result};
use crate::trusted::{self, Access, Owner};

/// Held as long as this lives.
#[derive(Debug)]
pub struct Lock(#[allow(dead_code)] File);

/// Takes the lock `name` in `directory`; fails if another consumer has it.
///
/// # Errors
/// Another consumer is running, or the file cannot be created.
pub fn take(directory: &Directory, name: &OsStr) -> Result<Lock> {
    let shown = || directory.path().join(name).display().to_string();
    let file = directory
        .open_or_create(name, Readers::Owner, Owner::Me)
        .map_err(|source| Error::new("make", shown(), source))?;
    hold(file).ok_or_else(|| {
        Error::refused(
            "start a second recording of instrumented programs",
            "of this user",
            "`lathunt trace status` shows the first, `lathunt trace stop` ends it",
        )
    })
}

/// Takes the locks of an open file; `None` if another process has them.
pub(super) fn hold(file: File) -> Option<Lock> {
    (flock(&file, libc::LOCK_EX) && record_lock(&file, libc::F_SETLK).is_some()).then_some(Lock(file))
}

/// Whether a consumer holds the lock of this user's session.
#[must_use]
pub fn is_held(path: &Path) -> bool {
    trusted::open(path, Owner::Me, u64::MAX).is_ok_and(|file| !flock(&file, libc::LOCK_SH))
}

/// The same for the lock `name` in `directory`, if it is a file of `owner`.
pub(super) fn is_held_in(directory: &Directory, name: &OsStr, owner: Owner) -> bool {
    directory.read(name, owner, u64::MAX).is_ok_and(|file| !flock(&file, libc::LOCK_SH))
}

/// The process that holds a lock.
#[derive(Debug)]
pub struct Holder {
    /// Its process id.
    pub pid: u32,
    process: OwnedFd,
}

impl Holder {
    /// The current holder of the lock at `path`; `None` if there is none.
    #[must_use]
    pub fn of(path: &Path) -> Option<Holder> {
        let file = trusted::open_in(rustix::fs::CWD, path, Owner::Me, u64::MAX, Access::ReadWrite).ok()?;
        let pid = record_lock(&file, libc::F_GETLK).filter(|&pid| pid > 0)?;
        // SAFETY: plain system call; the result is a new descriptor or -1.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        if fd < 0 {
            return None;
        }
        // SAFETY: just opened, ours alone.
        let process = unsafe { OwnedFd::from_raw_fd(fd as i32) };
        // The number was the holder's before the descriptor was opened. If it still is, the descriptor is the holder's.
        let still = record_lock(&file, libc::F_GETLK) == Some(pid);
        still.then_some(Holder { pid: pid as u32, process })
    }

    /// Sends it SIGTERM; returns whether it was still running.
    pub fn terminate(&self) -> bool {
        let info = std::ptr::null::<libc::siginfo_t>();
        let fd = self.process.as_raw_fd();
        // SAFETY: an open pidfd, no siginfo.
        unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd, libc::SIGTERM, info, 0) == 0 }
    }
}

fn flock(file: &File, kind: libc::c_int) -> bool {
    // SAFETY: an open descriptor.
    unsafe { libc::flock(file.as_raw_fd(), kind | libc::LOCK_NB) == 0 }
}

/// Sets or queries the record lock; returns the process id that the kernel reports (0: no holder, or lock taken).
fn record_lock(file: &File, command: libc::c_int) -> Option<libc::pid_t> {
    // SAFETY: all-zero is a valid flock (the whole file); `whole` outlives the call.
    unsafe {
        let mut whole: libc::flock = std::mem::zeroed();
        whole.l_type = libc::F_WRLCK as libc::c_short;
        let done = libc::fcntl(file.as_raw_fd(), command, &mut whole) == 0;
        let free = command == libc::F_SETLK || whole.l_type == libc::F_UNLCK as libc::c_short;
        done.then_some(if free { 0 } else { whole.l_pid })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::beneath::Foreign;

    #[test]
    fn a_link_in_place_of_the_lock_is_not_followed() {
        let place = tempfile::tempdir().unwrap();
        let directory = Directory::open(place.path(), Foreign::Refused).unwrap();
        let name = OsStr::new("trace.lock");
        let (lock, target) = (place.path().join(name), place.path().join("target"));
        std::os::unix::fs::symlink(&target, &lock).unwrap();
        assert!(take(&directory, name).is_err() && !target.exists());
        std::fs::remove_file(&lock).unwrap();
        let held = take(&directory, name).unwrap();
        assert!(is_held(&lock) && take(&directory, name).is_err());
        drop(held);
        assert!(!is_held(&lock) && Holder::of(&lock).is_none());
    }
}
