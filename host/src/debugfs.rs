//! Reads debugfs without mounting it anywhere: a detached mount is held by a file descriptor and ends with it.
//!
//! `fsopen`, `fsconfig`, `fsmount` since Linux 5.2; need CAP_SYS_ADMIN. A mounted debugfs is used if there is one.
//! Kernel lockdown forbids many of its files (EPERM) even to root.

use std::ffi::CString;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::tree::Tree;

/// A file system without a mount point; gone when dropped.
#[derive(Debug)]
pub struct DetachedMount {
    mount: OwnedFd,
}

impl DetachedMount {
    /// Mounts a `kind` (`debugfs`, `tracefs`) detached.
    ///
    /// # Errors
    /// EPERM without CAP_SYS_ADMIN, ENODEV if the kernel has no such file system, ENOSYS before 5.2.
    pub fn new(kind: &str) -> Result<DetachedMount> {
        const FSCONFIG_CMD_CREATE: libc::c_uint = 6; // include/uapi/linux/mount.h
        const CLOEXEC: libc::c_uint = 1; // FSOPEN_CLOEXEC and FSMOUNT_CLOEXEC
        let name = CString::new(kind).map_err(|error| Error::new("mount", kind, error))?;
        let nothing = std::ptr::null::<libc::c_char>();
        // SAFETY: the arguments are a NUL-terminated name and flags; the result is checked before use.
        let context = descriptor(unsafe { libc::syscall(libc::SYS_fsopen, name.as_ptr(), CLOEXEC) }, kind)?;
        // SAFETY: FSCONFIG_CMD_CREATE takes no key, value or aux.
        let created = unsafe {
            libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), FSCONFIG_CMD_CREATE, nothing, nothing, 0)
        };
        if created != 0 {
            return Err(Error::last_os("mount", kind));
        }
        // SAFETY: a valid context, flags and no attributes; the result is checked before use.
        let mount = unsafe { libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), CLOEXEC, 0) };
        Ok(DetachedMount { mount: descriptor(mount, kind)? })
    }

    /// A path to its root, valid in this process while this value lives.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.mount.as_raw_fd()))
    }
}

fn descriptor(result: libc::c_long, kind: &str) -> Result<OwnedFd> {
    match i32::try_from(result) {
        // SAFETY: the kernel has just returned this descriptor to us; nobody else owns it.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(Error::last_os("mount", kind).hint("needs CAP_SYS_ADMIN")),
    }
}

/// Text of a debugfs file: from `/sys/kernel/debug` if mounted, else (live system) from a detached mount.
///
/// `None` if it is absent or refused; a refusal is noted.
#[must_use]
pub fn read(tree: &Tree, path: &str) -> Option<String> {
    let mounted = format!("sys/kernel/debug/{path}");
    if !tree.is_live() || !tree.names("sys/kernel/debug").is_empty() {
        return tree.text(&mounted);
    }
    let detached = match DetachedMount::new("debugfs") {
        Ok(detached) => detached,
        Err(error) => {
            tree.note(format!("debugfs: {error}"));
            return None;
        }
    };
    match std::fs::read_to_string(detached.path().join(path)) {
        Ok(text) => Some(text.trim().to_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => {
            tree.note(format!("debugfs {path}: cannot be read ({error}; kernel lockdown?)"));
            None
        }
    }
}
