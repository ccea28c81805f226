//! Where the shared memory, the session and the lock lie: below `/dev/shm`, or where `LATHUNT_TRACE_DIR` says, which
//! the traced programs read as well.

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The directory of everything that a user's programs and the consumer share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    base: PathBuf,
    uid: u32,
}

impl Place {
    /// This user's.
    #[must_use]
    pub fn from_environment() -> Place {
        let base = std::env::var_os("LATHUNT_TRACE_DIR").map_or_else(|| "/dev/shm".into(), PathBuf::from);
        Place::new(base)
    }

    /// This user's, below `base`.
    #[must_use]
    pub fn new(base: PathBuf) -> Place {
        // SAFETY: no preconditions.
        Place { base, uid: unsafe { libc::geteuid() } }
    }

    /// The session's file: programs read it when they start.
    #[must_use]
    pub fn session(&self) -> PathBuf {
        self.base.join(format!("lathunt-{}.session", self.uid))
    }

    /// Held by the running consumer.
    #[must_use]
    pub fn lock(&self) -> PathBuf {
        self.base.join(format!("lathunt-{}.lock", self.uid))
    }

    /// What the consumer reports about itself.
    #[must_use]
    pub fn status(&self) -> PathBuf {
        self.base.join(format!("lathunt-{}.status", self.uid))
    }

    /// The files of all programs we may see: our own; root sees everybody's, but those of users who run a consumer
    /// themselves.
    #[must_use]
    pub fn programs(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        for (uid, directory) in self.directories() {
            let theirs = self.base.join(format!("lathunt-{uid}.lock"));
            if uid == self.uid || !super::lock::is_held(&theirs) {
                files.extend(entries(&directory).filter(|path| owner(path) == Some(uid)));
            }
        }
        files.sort();
        files
    }

    fn directories(&self) -> Vec<(u32, PathBuf)> {
        let of_uid = |path: PathBuf| {
            let uid: u32 = path.file_name()?.to_str()?.strip_prefix("lathunt-")?.parse().ok()?;
            let ours = path.is_dir() && owner(&path) == Some(uid) && (uid == self.uid || self.uid == 0);
            ours.then_some((uid, path))
        };
        entries(&self.base).filter_map(of_uid).collect()
    }
}

/// Writes `path` by way of `fresh`: readers see the old or the new text, and a link in place of `fresh` is not followed,
/// since everybody may write there.
pub(super) fn replace(path: &Path, fresh: &Path, text: &str) -> std::io::Result<()> {
    let _ = fs::remove_file(fresh); // of one that was killed
    fs::File::create_new(fresh)?.write_all(text.as_bytes())?;
    fs::rename(fresh, path)
}

fn entries(directory: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn owner(path: &Path) -> Option<u32> {
    fs::symlink_metadata(path).ok().filter(|found| !found.is_symlink()).map(|found| found.uid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_in_place_of_the_new_file_is_not_written_through() {
        let directory = tempfile::tempdir().unwrap();
        let [path, fresh, target] =
            ["status", "status.new", "target"].map(|name| directory.path().join(name));
        fs::write(&target, "dear to somebody").unwrap();
        std::os::unix::fs::symlink(&target, &fresh).unwrap();
        replace(&path, &fresh, "text").unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "dear to somebody");
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), path.is_symlink()), ("text", false));
    }
}
