//! Finds the journals that users keep in directories of their choice (`--journal`), so that the next command restores
//! what a killed one had changed.
//!
//! Each is a symbolic link in `elsewhere` below the default directory, made before the first change. Its name is the
//! device and inode of the journal's directory: another directory in its place is not taken for it. A link whose
//! directory is gone stays: settings that nothing restores any more are reported until the user discards them.

use std::fs;
use std::io::{Error, ErrorKind, Result, Write};
use std::os::unix::fs::{symlink, MetadataExt};
use std::path::{Path, PathBuf};

use super::journal::{default_directory, is_own, prepare};
use crate::beneath;

fn links() -> PathBuf {
    default_directory().join("elsewhere")
}

/// The link of `directory`, and the path it holds; `None` for the default directory and those below.
fn link(directory: &Path) -> Result<Option<(PathBuf, PathBuf)>> {
    let path = directory.canonicalize()?;
    if path.starts_with(default_directory()) {
        return Ok(None);
    }
    let meta = fs::symlink_metadata(&path)?;
    Ok(Some((links().join(format!("{:x}-{:x}", meta.dev(), meta.ino())), path)))
}

/// Refuses a directory that others could rename, and with it the only record of the changes.
pub(super) fn check(directory: &Path) -> Result<()> {
    let Some((_, path)) = link(directory)? else { return Ok(()) };
    match beneath::who_can_replace(&path)? {
        None => Ok(()),
        Some(who) => Err(Error::new(ErrorKind::InvalidInput, format!("{who} can rename or replace it"))),
    }
}

/// Lists `directory`, whose lock the caller holds. One that cannot be listed can still be restored by its path.
pub(super) fn list(directory: &Path) {
    let listed = link(directory).and_then(|found| {
        let Some((link, path)) = found else { return Ok(()) };
        prepare(&links()).map_err(Error::other)?;
        let _ = fs::remove_file(&link); // of a directory that had the same inode
        symlink(path, link)
    });
    if let Err(error) = listed {
        // The reader may be gone.
        let _ = writeln!(
            std::io::stderr(),
            "lathunt: cannot note the journal in {} below {}: {error}; after a kill, only `lathunt restore --journal` finds it",
            directory.display(),
            links().display(),
        );
    }
}

/// Takes `directory` off the list.
pub(super) fn unlist(directory: &Path) {
    if let Ok(Some((link, _))) = link(directory) {
        let _ = fs::remove_file(link);
    }
}

/// Links with the paths they hold, and whether the journal's directory is there.
fn listed() -> Vec<(PathBuf, PathBuf, bool)> {
    let trusted = fs::symlink_metadata(links()).is_ok_and(|meta| is_own(&meta));
    let entries = trusted.then(|| fs::read_dir(links()).ok()).flatten().into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let path = fs::read_link(entry.path()).ok()?;
            let is_there = matches!(link(&path), Ok(Some((link, _))) if link == entry.path());
            Some((entry.path(), path, is_there))
        })
        .collect()
}

/// Directories of journals other than the default one, of this user.
#[must_use]
pub fn elsewhere() -> Vec<PathBuf> {
    listed().into_iter().filter(|(_, _, is_there)| *is_there).map(|(_, path, _)| path).collect()
}

/// Directories whose journal held changes, and that are gone since, or replaced by others.
#[must_use]
pub fn lost() -> Vec<PathBuf> {
    listed().into_iter().filter(|(_, _, is_there)| !is_there).map(|(_, path, _)| path).collect()
}

/// Takes the lost ones off the list; returns their number.
#[must_use]
pub fn forget_lost() -> usize {
    let lost = listed().into_iter().filter(|(_, _, is_there)| !is_there);
    lost.filter(|(link, _, _)| fs::remove_file(link).is_ok()).count()
}
