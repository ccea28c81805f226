//! Names of files on disk: the content of a new file is of no use after a power failure if its name is lost.

use std::os::fd::AsFd;

use rustix::fs::{fsync, openat, Mode, OFlags};
use rustix::io::{Errno, Result};

/// Waits until the names in `directory` are on disk: one write to the journal of the file system, some milliseconds.
///
/// # Errors
/// The disk fails or is full. No error: the file system cannot do it, or the directory may be written and not read.
pub(super) fn names_on_disk(directory: impl AsFd) -> Result<()> {
    told(fsync(directory))
}

/// The same for the entry of a directory that was created in `parent`, a descriptor that may be `O_PATH`.
pub(super) fn new_directory_on_disk(parent: impl AsFd) -> Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match openat(parent, ".", flags, Mode::empty()) {
        Ok(readable) => names_on_disk(readable),
        Err(Errno::ACCESS) => Ok(()),
        Err(error) => Err(error),
    }
}

fn told(synced: Result<()>) -> Result<()> {
    match synced {
        // EBADF: of O_PATH.
        Err(Errno::INVAL | Errno::BADF | Errno::NOSYS | Errno::OPNOTSUPP | Errno::ROFS) => Ok(()),
        told => told,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rustix::fs::CWD;

    use super::*;

    #[test]
    fn a_disk_that_fails_is_told_and_a_file_system_that_cannot_is_not() {
        assert_eq!(told(Err(Errno::IO)), Err(Errno::IO));
        assert_eq!(told(Err(Errno::NOSPC)), Err(Errno::NOSPC));
        let place = tempfile::tempdir().unwrap();
        let open = |path: &Path, flags| openat(CWD, path, flags | OFlags::DIRECTORY, Mode::empty()).unwrap();
        for (path, flags) in [
            (place.path(), OFlags::RDONLY),
            (place.path(), OFlags::PATH),
            (Path::new("/proc"), OFlags::RDONLY),
        ] {
            let directory = open(path, flags);
            assert_eq!((names_on_disk(&directory), new_directory_on_disk(&directory)), (Ok(()), Ok(())));
        }
    }
}
