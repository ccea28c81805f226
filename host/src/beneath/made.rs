//! Directories that this process has created for results: those in which nothing was kept are removed at its end. A full
//! disk, a refused program or a recording without events leaves no empty directory.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{unlinkat, AtFlags};

/// Each with the directory that contains it, the outermost first.
static MADE: Mutex<Vec<(OwnedFd, OsString)>> = Mutex::new(Vec::new());

/// `name` was created in `parent`.
pub(super) fn note(parent: impl AsFd, name: &OsStr) {
    // Without a free descriptor it may stay, empty.
    if let Ok(parent) = parent.as_fd().try_clone_to_owned() {
        MADE.lock().unwrap_or_else(PoisonError::into_inner).push((parent, name.to_owned()));
    }
}

/// Removes the directories for results that this process has created and that are empty; to be called once all results are
/// written.
pub fn remove_empty() {
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    while let Some((parent, name)) = made.pop() {
        let _ = unlinkat(parent, &name, AtFlags::REMOVEDIR); // not empty: kept
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Directory, Foreign, Readers};
    use super::*;

    #[test]
    fn directories_in_which_nothing_was_kept_are_removed() {
        let place = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            Directory::make_for_caller(&place.path().join(name), Readers::Umask, Foreign::Refused).unwrap()
        };
        let kept = make("a/b/kept");
        kept.replace(OsStr::new("file"), b"1", Readers::Umask, false).unwrap();
        make("a/b/none");
        make("c/d");
        std::fs::create_dir(place.path().join("theirs")).unwrap();
        make("theirs");
        remove_empty();
        let is_there = |name: &str| place.path().join(name).exists();
        assert_eq!(["a/b/kept/file", "theirs", "a/b/none", "c"].map(is_there), [true, true, false, false]);
    }
}
