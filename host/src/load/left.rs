//! Load directories left behind: their keeper was killed too.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::{places, PREFIX};
use crate::trusted;

/// Protects a load's directory from [`remove_left`] until the file is closed, by this process and all that share
/// it.
pub(super) fn hold(directory: &Path) -> io::Result<File> {
    locked(directory, libc::LOCK_SH)
}

fn locked(directory: &Path, how: libc::c_int) -> io::Result<File> {
    let file =
        File::options().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW).open(directory)?;
    // SAFETY: flock on a descriptor that we own.
    match unsafe { libc::flock(file.as_raw_fd(), how | libc::LOCK_NB) } {
        0 => Ok(file),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Directories of this user's loads that no process holds.
#[must_use]
pub fn left() -> Vec<PathBuf> {
    let entries = places().into_iter().filter_map(|place| fs::read_dir(place).ok()).flatten().flatten();
    let named = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with(PREFIX);
    let paths = entries.filter(|entry| named(&entry.file_name())).map(|entry| entry.path());
    let is_ours = |path: &PathBuf| {
        fs::symlink_metadata(path).is_ok_and(|found| {
            found.is_dir() && found.uid() == trusted::me() && found.mode() & 0o777 == 0o700
        })
    };
    paths.filter(is_ours).filter(|path| locked(path, libc::LOCK_EX).is_ok()).collect()
}

/// Removes them.
#[must_use]
pub fn remove_left() -> Vec<(PathBuf, io::Result<()>)> {
    let remove = |path: PathBuf| {
        let removed = locked(&path, libc::LOCK_EX).and_then(|_held| fs::remove_dir_all(&path));
        (path, removed)
    };
    left().into_iter().map(remove).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_held_is_not_left() {
        let directory = super::super::private_directory().unwrap();
        let held = hold(&directory).unwrap();
        assert!(!left().contains(&directory));
        drop(held);
        assert!(left().contains(&directory));
        fs::remove_dir(&directory).unwrap();
    }
}
