//! Directories in an open directory: never through a link, never those of another user.

use std::ffi::OsStr;
use std::io;

use rustix::fs::{mkdirat, openat, Mode, OFlags};
use rustix::io::Errno;

use super::sync::names_on_disk;
use super::{give, made, Directory, Foreign, Readers};

impl Directory {
    /// Opens the directory `name` in this one, creating it if missing; refuses a link or another user's
    /// directory.
    ///
    /// # Errors
    /// It is refused as above, or cannot be created.
    pub fn below(&self, name: &OsStr, readers: Readers) -> io::Result<Directory> {
        match mkdirat(&self.fd, name, readers.of_directory()) {
            Ok(()) if self.for_caller => {
                made::note(&self.fd, name);
                names_on_disk(&self.fd)?;
            }
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        self.enter(name)
    }

    /// Creates the directory `name` in this one; fails if the name exists, even as a dangling link.
    ///
    /// # Errors
    /// The name exists, or the directory cannot be created.
    pub fn make_below(&self, name: &OsStr, readers: Readers) -> io::Result<Directory> {
        mkdirat(&self.fd, name, readers.of_directory())?;
        if self.for_caller {
            made::note(&self.fd, name);
            names_on_disk(&self.fd)?;
        }
        let below = self.enter(name)?;
        if self.for_caller {
            give(&below.fd)?;
        }
        Ok(below)
    }

    fn enter(&self, name: &OsStr) -> io::Result<Directory> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = openat(&self.fd, name, flags, Mode::empty())?;
        let below = Directory { fd, path: self.path.join(name), for_caller: self.for_caller };
        below.checked(Foreign::Refused)
    }
}
