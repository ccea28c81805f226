//! A directory that no other user could have created before: in a world-writable place, a predictable name may already
//! be another user's link.
//!
//! The processes that use it hold a lock on it. One without holder was left by processes that were killed, all of them:
//! [`remove_left`] finds it by its name.

use std::ffi::{CString, OsStr, OsString};
use std::fs::{self, File};
use std::io::{Error, Result};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::trusted;

/// Prefixes of their names.
pub(crate) const LOAD: &str = "lathunt-load";
pub(crate) const NPT: &str = "lathunt-npt";

/// Creates `PREFIX.XXXXXX` below `parent`, for this user only.
///
/// # Errors
/// Those of mkdtemp(3).
pub fn below(parent: &Path, prefix: &str) -> Result<PathBuf> {
    let template = parent.join(format!("{prefix}.XXXXXX")).into_os_string().into_vec();
    let template = CString::new(template)?.into_raw();
    // SAFETY: a NUL-terminated string that we own and that mkdtemp changes in place, keeping its length.
    let made = unsafe { libc::mkdtemp(template) };
    let error = Error::last_os_error();
    // SAFETY: comes from into_raw above, and has its old length.
    let path = unsafe { CString::from_raw(template) };
    match made.is_null() {
        true => Err(error),
        false => Ok(PathBuf::from(OsString::from_vec(path.into_bytes()))),
    }
}

/// Protects a directory from [`remove_left`] until the file is closed, by this process and all that share it.
pub(crate) fn hold(directory: &Path) -> Result<File> {
    locked(directory, libc::LOCK_SH)
}

/// Locks a directory that nobody holds, so that it can be removed.
pub(crate) fn locked_to_remove(directory: &Path) -> Result<File> {
    locked(directory, libc::LOCK_EX)
}

fn locked(directory: &Path, how: libc::c_int) -> Result<File> {
    let file =
        File::options().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW).open(directory)?;
    // SAFETY: flock on a descriptor that we own.
    match unsafe { libc::flock(file.as_raw_fd(), how | libc::LOCK_NB) } {
        0 => Ok(file),
        _ => Err(Error::last_os_error()),
    }
}

/// A directory that is removed when dropped.
#[derive(Debug)]
pub(crate) struct Private {
    /// Its path.
    pub path: PathBuf,
    _held: Option<File>,
}

impl Private {
    /// As [`below`].
    ///
    /// # Errors
    /// As [`below`].
    pub fn below(parent: &Path, prefix: &str) -> Result<Private> {
        let path = below(parent, prefix)?;
        Ok(Private { _held: hold(&path).ok(), path })
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path); // the rest is removed by the next `restore`
    }
}

/// Locations of loads: on disk if possible, since fsync in memory exercises nothing.
pub(crate) fn places() -> [PathBuf; 2] {
    [PathBuf::from("/var/tmp"), std::env::temp_dir()]
}

/// Directories of this user that no process holds.
#[must_use]
pub fn left() -> Vec<PathBuf> {
    let mut places = Vec::from(places());
    places.push(PathBuf::from("/dev/shm"));
    let entries = places.into_iter().filter_map(|place| fs::read_dir(place).ok()).flatten().flatten();
    let named = |name: &OsStr| [LOAD, NPT].iter().any(|one| name.to_string_lossy().starts_with(one));
    let mut paths: Vec<_> =
        entries.filter(|entry| named(&entry.file_name())).map(|entry| entry.path()).collect();
    paths.sort();
    paths.dedup();
    paths.retain(|path| {
        fs::symlink_metadata(path).is_ok_and(|found| {
            found.is_dir() && found.uid() == trusted::me() && found.mode() & 0o777 == 0o700
        })
    });
    paths.into_iter().filter(|path| locked_to_remove(path).is_ok()).collect()
}

/// Removes the directories that [`left`] finds.
#[must_use]
pub fn remove_left() -> Vec<(PathBuf, Result<()>)> {
    let remove = |path: PathBuf| {
        let removed = locked_to_remove(&path).and_then(|_held| fs::remove_dir_all(&path));
        (path, removed)
    };
    left().into_iter().map(remove).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn each_is_a_new_one_for_this_user_alone() {
        let parent = tempfile::tempdir().unwrap();
        let made = [below(parent.path(), "x").unwrap(), below(parent.path(), "x").unwrap()];
        assert_ne!(made[0], made[1]);
        for one in made {
            assert_eq!(fs::metadata(one).unwrap().permissions().mode() & 0o777, 0o700);
        }
        assert!(below(&parent.path().join("absent"), "x").is_err());
    }

    #[test]
    fn a_directory_that_is_held_is_not_left() {
        for prefix in [LOAD, NPT] {
            let directory = below(&std::env::temp_dir(), prefix).unwrap();
            let held = hold(&directory).unwrap();
            assert!(!left().contains(&directory));
            drop(held);
            assert!(left().contains(&directory));
            fs::remove_dir(&directory).unwrap();
        }
    }
}
