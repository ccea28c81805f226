//! Files that replace others in one step.

use std::ffi::OsStr;
use std::io::{self, Write};

use rustix::fs::{linkat, openat, AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::fresh::{give, temporary, with_mode, Fresh};
use super::sync::names_on_disk;
use super::{kind, Directory, Readers};
use crate::trusted::is_trusted;

impl Directory {
    /// Replaces `name` atomically by a file with `bytes`. With `durable` the result survives a power failure.
    ///
    /// An existing file keeps its permissions if `readers` are those of the umask.
    ///
    /// # Errors
    /// The disk is full or the directory cannot be written: the old file is unchanged. Or, with `durable`, the disk failed after
    /// that: the new file may be lost in a power failure.
    pub fn replace(&self, name: &OsStr, bytes: &[u8], readers: Readers, durable: bool) -> io::Result<()> {
        self.write_new(name, None, bytes, readers, durable)
    }

    /// The same, durable, and keeps the old file as `old` once the new one is complete on disk: after a failure, both
    /// `name` and `old` are what they were before.
    ///
    /// # Errors
    /// As [`Directory::replace`].
    pub fn replace_keeping(&self, name: &OsStr, old: &OsStr, bytes: &[u8]) -> io::Result<()> {
        self.write_new(name, Some(old), bytes, Readers::Umask, true)
    }

    fn write_new(
        &self,
        name: &OsStr,
        keep: Option<&OsStr>,
        bytes: &[u8],
        readers: Readers,
        durable: bool,
    ) -> io::Result<()> {
        let kept = self.find(name)?.filter(|_| readers == Readers::Umask);
        let kept = kept.filter(|old| kind(old) == FileType::RegularFile && is_trusted(old.st_uid));
        let mut fresh = match (readers, kept) {
            (Readers::Everybody, _) => with_mode(0o644, |mode| self.unnamed(name, mode)),
            (_, Some(old)) => with_mode(old.st_mode & 0o777, |mode| self.unnamed(name, mode)),
            _ => self.unnamed(name, readers.of_file()),
        }?;
        fresh.file.write_all(bytes)?;
        if durable {
            fresh.file.sync_all()?;
        }
        keep.map(|old| self.keep(name, old)).transpose()?;
        fresh.put(name)?;
        if durable {
            names_on_disk(&self.fd)?;
        }
        Ok(())
    }

    /// Links `name` also as `old`, replacing that in one step: when `name` is replaced later, its content is kept as `old`.
    fn keep(&self, name: &OsStr, old: &OsStr) -> io::Result<()> {
        let linked = temporary(old);
        match linkat(&self.fd, name, &self.fd, &linked, AtFlags::empty()) {
            Ok(()) => {
                let renamed = self.rename(&linked, old);
                let _ = self.remove(&linked); // there if it failed, or if `old` was the same file already (rename(2))
                renamed
            }
            Err(_) => self.rename(name, old), // the file system has no hard links
        }
    }

    /// Checks that files can be created in it.
    ///
    /// # Errors
    /// Why they cannot.
    pub fn probe(&self) -> io::Result<()> {
        self.unnamed(OsStr::new("probe"), Readers::Owner.of_file()).map(drop)
    }

    /// A file that vanishes unless [`Fresh::put`] gives it a name; also when the process is killed, if the file system
    /// supports that.
    fn unnamed(&self, name: &OsStr, mode: Mode) -> io::Result<Fresh<'_>> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        match openat(&self.fd, ".", flags, mode) {
            Ok(fd) => {
                if self.for_caller {
                    give(&fd)?;
                }
                return Ok(Fresh { directory: self, file: fd.into(), name: None, of: name.to_owned() });
            }
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        let temporary = temporary(name);
        let file = self.create(&temporary, mode)?;
        Ok(Fresh { directory: self, file, name: Some(temporary), of: name.to_owned() })
    }
}
