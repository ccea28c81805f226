//! Finds the journals that users keep in directories of their choice (`--journal`), so that the next command restores
//! what a killed one had changed.
//!
//! Each is a symbolic link in `elsewhere` below the default directory, made before the first change. Its name is the
//! device and inode of the journal's directory: another directory in its place is not taken for it.

use std::fs;
use std::io::{ErrorKind, Result};
use std::os::unix::fs::{symlink, MetadataExt};
use std::path::{Path, PathBuf};

use super::journal::{default_directory, is_own, prepare};

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

/// Lists `directory`, whose lock the caller holds. A directory that cannot be listed can still be restored by its path.
pub(super) fn list(directory: &Path) {
    let Ok(Some((link, path))) = link(directory) else { return };
    if prepare(&links()).is_ok() {
        let _ = fs::remove_file(&link); // of a directory that had the same inode
        let _ = symlink(path, link);
    }
}

/// The opposite.
pub(super) fn unlist(directory: &Path) {
    if let Ok(Some((link, _))) = link(directory) {
        let _ = fs::remove_file(link);
    }
}

/// Directories of journals other than the default one, of this user. Those that are gone are taken off the list.
#[must_use]
pub fn elsewhere() -> Vec<PathBuf> {
    let trusted = fs::symlink_metadata(links()).is_ok_and(|meta| is_own(&meta));
    let entries = trusted.then(|| fs::read_dir(links()).ok()).flatten().into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let path = fs::read_link(entry.path()).ok()?;
            match link(&path) {
                Ok(Some((link, _))) if link == entry.path() => Some(path),
                Err(error) if error.kind() != ErrorKind::NotFound => None,
                _ => {
                    let _ = fs::remove_file(entry.path());
                    None
                }
            }
        })
        .collect()
}
