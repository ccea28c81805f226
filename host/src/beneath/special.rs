//! Results that go to a pipe or a character device (`/dev/stdout`, `/dev/null`): found by the same rules as other files.
//!
//! The file is held by a descriptor from the check on: neither a link of another user nor a name that changes in the meantime
//! makes root write to a disk, a terminal or another pipe.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{fstat, fstatfs, openat, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::{kind, Directory, Foreign, MOST_LINKS};
use crate::named_pipe;
use crate::trusted::{is_trusted, refused};

/// Magic number of procfs (include/uapi/linux/magic.h), whose links are the files themselves.
const PROC_SUPER_MAGIC: i64 = 0x9fa0;

/// A pipe or a character device.
#[derive(Debug)]
pub struct Special {
    found: OwnedFd,
    is_pipe: bool,
}

impl Special {
    /// What `path` names; `None`: nothing, a regular file or a directory.
    ///
    /// # Errors
    /// It is another user's pipe, a socket or a block device, or is reached through a link of another user.
    pub fn find(path: &Path, foreign: Foreign) -> io::Result<Option<Special>> {
        match Special::locate(path, foreign) {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                Ok(None)
            }
            found => found,
        }
    }

    fn locate(path: &Path, foreign: Foreign) -> io::Result<Option<Special>> {
        let mut path = path.to_owned();
        for _ in 0..MOST_LINKS {
            let Some(name) = path.file_name().map(ToOwned::to_owned) else { return Ok(None) };
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            let directory = Directory::walk(parent.unwrap_or(Path::new(".")), None, foreign)?;
            let Some(stat) = directory.find(&name)? else { return Ok(None) };
            let is_link = kind(&stat) == FileType::Symlink;
            let is_descriptor = is_link && directory.is_of_descriptors()?;
            if is_link && !is_descriptor {
                path = directory.path.join(directory.link_target(&name, foreign)?);
                continue;
            }
            let follow = if is_descriptor { OFlags::empty() } else { OFlags::NOFOLLOW };
            let found = openat(&directory.fd, &name, OFlags::PATH | OFlags::CLOEXEC | follow, Mode::empty())?;
            return Special::of(found, is_descriptor || foreign == Foreign::Allowed);
        }
        Err(Errno::LOOP.into())
    }

    /// `may_be_foreign`: the caller has it open already, or allowed it.
    fn of(found: OwnedFd, may_be_foreign: bool) -> io::Result<Option<Special>> {
        let stat = fstat(&found)?;
        let is_pipe = match kind(&stat) {
            FileType::CharacterDevice => false,
            FileType::Fifo if may_be_foreign || is_trusted(stat.st_uid) => true,
            FileType::Fifo => return Err(refused(&format!("it is a pipe of user {}", stat.st_uid))),
            FileType::BlockDevice => return Err(refused("it is a block device; name a file")),
            FileType::Socket if !may_be_foreign => {
                return Err(refused("it is a socket; name a file or a pipe"))
            }
            FileType::Socket => false,
            _ => return Ok(None),
        };
        Ok(Some(Special { found, is_pipe }))
    }

    /// Whether it is a pipe, whose reader sees its end when it is closed.
    #[must_use]
    pub fn is_pipe(&self) -> bool {
        self.is_pipe
    }

    /// Opens it for writing; a pipe is opened once it has a reader. `waiting` is called once if that takes a second.
    ///
    /// # Errors
    /// It cannot be opened, or a signal ended the wait for a reader.
    pub fn open(&self, waiting: impl FnOnce()) -> io::Result<File> {
        let path = PathBuf::from(format!("/proc/self/fd/{}", self.found.as_raw_fd()));
        match self.is_pipe {
            true => named_pipe::for_result(&path, waiting),
            false => File::options().write(true).open(path),
        }
    }
}

impl Directory {
    /// Whether its links are open files: `/proc/PID/fd`.
    fn is_of_descriptors(&self) -> io::Result<bool> {
        let in_procfs = fstatfs(&self.fd)?.f_type as i64 == PROC_SUPER_MAGIC;
        Ok(in_procfs && self.path.file_name().is_some_and(|name| name == "fd"))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn pipes_and_devices_are_found_through_own_links_and_other_kinds_are_refused() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        let find = |path: &Path| Special::find(path, Foreign::Refused);
        std::os::unix::fs::symlink("/dev/full", at("link")).unwrap();
        let full = find(&at("link")).unwrap().unwrap();
        assert!(!full.is_pipe());
        assert!(full
            .open(|| {})
            .unwrap()
            .write_all(b"x")
            .is_err_and(|e| e.kind() == io::ErrorKind::StorageFull));
        std::fs::write(at("file"), "").unwrap();
        for nothing in
            [at("file"), at("none"), at("none/x"), at("file/x"), place.path().to_owned(), "/".into()]
        {
            assert!(find(&nothing).unwrap().is_none(), "{}", nothing.display());
        }
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        assert!(find(&at("socket")).unwrap_err().to_string().contains("socket"));
        std::os::unix::fs::symlink("loop", at("loop")).unwrap();
        assert!(find(&at("loop")).is_err());
        let (mut reader, writer) = io::pipe().unwrap();
        let descriptor = find(Path::new(&format!("/proc/self/fd/{}", writer.as_raw_fd()))).unwrap().unwrap();
        assert!(descriptor.is_pipe());
        descriptor.open(|| {}).unwrap().write_all(b"result").unwrap();
        drop((writer, descriptor));
        let mut said = String::new();
        reader.read_to_string(&mut said).unwrap();
        assert_eq!(said, "result");
    }
}
