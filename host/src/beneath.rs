//! Writes results where others may write, too: the one way to make, replace and rename files.
//!
//! A [`Directory`] is an open descriptor, and every file is reached from it by one name that is never followed: nothing
//! that is renamed or linked meanwhile leads a write elsewhere. New content goes into a file without a name (or under a
//! name made with `O_EXCL`) that then takes the place of the old one, so that after any failure or kill the old file or the
//! new one is there, never a part.
//!
//! On the way to it, links are followed only if they are this user's, root's, or of the user who called sudo: nobody else
//! may choose where root writes. A directory that belongs to others, or that everybody can write and rename files in, is
//! refused unless the caller says otherwise: its owner could replace what is written before it is read.
//! Which files may be overwritten at all is not decided here (`cli/src/file.rs`).

mod below;
mod fresh;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    fchmod, fstat, fsync, linkat, mkdirat, openat, readlinkat, renameat, statat, unlinkat, AtFlags, FileType,
    Mode, OFlags, Stat, CWD,
};
use rustix::io::Errno;

use self::fresh::{give, temporary, Fresh};
use crate::trusted::{self, me, refused, Access, Owner};

/// Links on the way to a directory, as the kernel limits them.
const MOST_LINKS: usize = 40;

/// Who may read a file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// As the umask says.
    Umask,
    /// This user alone: kernel addresses, memory maps, traces.
    Owner,
    /// Everybody, whatever the umask.
    Everybody,
}

impl Readers {
    fn of_file(self) -> Mode {
        Mode::from_raw_mode(if self == Readers::Owner { 0o600 } else { 0o666 })
    }

    fn of_directory(self) -> Mode {
        Mode::from_raw_mode(if self == Readers::Owner { 0o700 } else { 0o777 })
    }
}

/// Whether directories and links of other users will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// No.
    Refused,
    /// The user has said so.
    Allowed,
}

/// An open directory.
#[derive(Debug)]
pub struct Directory {
    fd: OwnedFd,
    path: PathBuf,
    /// New files belong to the user who called sudo.
    for_caller: bool,
}

impl Directory {
    /// Opens `path`, which must be a directory that is fit to be written.
    ///
    /// # Errors
    /// It is not there, no directory, or others can change what is in it.
    pub fn open(path: &Path, foreign: Foreign) -> io::Result<Directory> {
        Directory::walk(path, None, foreign)?.checked(foreign)
    }

    /// The same, with what is missing on the way made for `readers`.
    ///
    /// # Errors
    /// As [`Directory::open`], or it cannot be made.
    pub fn make(path: &Path, readers: Readers, foreign: Foreign) -> io::Result<Directory> {
        Directory::walk(path, Some((readers, false)), foreign)?.checked(foreign)
    }

    /// The same for results: what is made belongs to the user who called sudo, if one did.
    ///
    /// # Errors
    /// As [`Directory::make`].
    pub fn make_for_caller(path: &Path, readers: Readers, foreign: Foreign) -> io::Result<Directory> {
        Ok(Directory::walk(path, Some((readers, true)), foreign)?.checked(foreign)?.for_caller())
    }

    /// From now on new files in it belong to the user who called sudo, if one did.
    #[must_use]
    pub fn for_caller(self) -> Directory {
        Directory { for_caller: true, ..self }
    }

    /// The directory and the name in it that `path` leads to, links followed as far as they are trusted.
    ///
    /// # Errors
    /// As [`Directory::open`], or `path` names no file.
    pub fn of_file(path: &Path, foreign: Foreign) -> io::Result<(Directory, OsString)> {
        let mut path = path.to_owned();
        for _ in 0..MOST_LINKS {
            let name = path.file_name().ok_or_else(|| refused("that names no file"))?.to_owned();
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            let directory = Directory::walk(parent.unwrap_or(Path::new(".")), None, foreign)?;
            match directory.find(&name)? {
                Some(stat) if kind(&stat) == FileType::Symlink => {
                    let target = directory.link_target(&name, foreign)?;
                    path = directory.path.join(target);
                }
                _ => return Ok((directory.checked(foreign)?, name)),
            }
        }
        Err(Errno::LOOP.into())
    }

    fn walk(path: &Path, make: Option<(Readers, bool)>, foreign: Foreign) -> io::Result<Directory> {
        let start = |name: &Path| -> io::Result<Directory> {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            Ok(Directory {
                fd: openat(CWD, name, flags, Mode::empty())?,
                path: name.to_owned(),
                for_caller: false,
            })
        };
        let mut here = start(Path::new("."))?;
        let mut rest: Vec<OsString> = parts(path);
        let mut links = 0;
        while let Some(name) = rest.pop() {
            if name == "/" {
                here = start(Path::new("/"))?;
                continue;
            }
            let found = here.find(&name)?;
            if found.as_ref().is_some_and(|stat| kind(stat) == FileType::Symlink) {
                links += 1;
                if links > MOST_LINKS {
                    return Err(Errno::LOOP.into());
                }
                rest.extend(parts(&here.link_target(&name, foreign)?));
                continue;
            }
            let mut is_new = false;
            if let (None, Some((readers, _))) = (&found, make) {
                here = here.checked(foreign)?; // whoever owns it could put another one in its place
                match mkdirat(&here.fd, &name, readers.of_directory()) {
                    Ok(()) => is_new = true,
                    Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            here = here.step(&name)?;
            if is_new && make.is_some_and(|(_, for_caller)| for_caller) {
                give(&here.fd)?;
            }
        }
        // What is written needs a descriptor of its own kind: fsync refuses those of O_PATH.
        let fd = openat(&here.fd, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let fd = match fd {
            Err(Errno::ACCESS) => here.fd, // may be entered and written, not listed
            fd => fd?,
        };
        Ok(Directory { fd, path: here.path, for_caller: false })
    }

    fn step(&self, name: &OsStr) -> io::Result<Directory> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let path = match self.path == Path::new(".") {
            true => PathBuf::from(name),
            false => self.path.join(name),
        };
        Ok(Directory { fd: openat(&self.fd, name, flags, Mode::empty())?, path, for_caller: false })
    }

    /// Where the link `name` leads, if whoever made it may decide that.
    fn link_target(&self, name: &OsStr, foreign: Foreign) -> io::Result<PathBuf> {
        let link = openat(&self.fd, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        let stat = fstat(&link)?;
        let (ours, procfs) = (is_trusted(stat.st_uid), self.path.starts_with("/proc"));
        if foreign == Foreign::Refused && !(ours && (stat.st_nlink == 1 || procfs)) {
            return Err(refused(&format!(
                "{} is a symbolic link of user {}, which is not followed",
                self.path.join(name).display(),
                stat.st_uid
            )));
        }
        let target = readlinkat(&link, "", Vec::new())?;
        Ok(PathBuf::from(<OsString as std::os::unix::ffi::OsStringExt>::from_vec(target.into_bytes())))
    }

    fn checked(self, foreign: Foreign) -> io::Result<Directory> {
        let stat = fstat(&self.fd)?;
        let shown = self.path.display();
        let instead = "name another directory, or pass --allow-foreign-directory";
        if foreign == Foreign::Refused && !is_trusted(stat.st_uid) {
            let uid = stat.st_uid;
            return Err(refused(&format!("the directory {shown} belongs to user {uid}; {instead}")));
        }
        let (everybody, sticky) = (stat.st_mode & 0o002 != 0, stat.st_mode & 0o1000 != 0);
        if foreign == Foreign::Refused && everybody && !sticky && me() == 0 {
            return Err(refused(&format!("everybody can replace files in the directory {shown}; {instead}")));
        }
        Ok(self)
    }

    /// A directory that has been opened elsewhere, and proven there.
    pub(crate) fn of_fd(fd: OwnedFd, path: PathBuf) -> Directory {
        Directory { fd, path, for_caller: false }
    }

    /// That nobody else can read or change anything in it: for state that is believed later.
    ///
    /// # Errors
    /// It belongs to somebody else, or others have rights in it.
    pub fn private(self) -> io::Result<Directory> {
        let stat = fstat(&self.fd)?;
        match stat.st_uid == me() && stat.st_mode & 0o022 == 0 {
            true => Ok(self),
            false => Err(refused(&format!(
                "it must be a directory that only this user can write, but it belongs to user {} with mode {:o}",
                stat.st_uid,
                stat.st_mode & 0o7777
            ))),
        }
    }

    /// Where it was found: for messages, and for programs that are started in it.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What has this name; a link itself, not its target.
    ///
    /// # Errors
    /// The directory cannot be searched.
    pub fn find(&self, name: &OsStr) -> io::Result<Option<Stat>> {
        match statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// A new file; refused where anything has this name.
    ///
    /// # Errors
    /// As said, or it cannot be made.
    pub fn create_new(&self, name: &OsStr, readers: Readers) -> io::Result<File> {
        let flags = OFlags::RDWR
            | OFlags::CREATE
            | OFlags::EXCL
            | OFlags::NOFOLLOW
            | OFlags::NONBLOCK
            | OFlags::CLOEXEC;
        let file: File = openat(&self.fd, name, flags, readers.of_file())?.into();
        if self.for_caller {
            give(&file)?;
        }
        Ok(file)
    }

    /// Opens a file of ours, to be read and written in place; made where it is missing.
    ///
    /// # Errors
    /// It is a link, no regular file, somebody else's, or has other names.
    pub fn open_or_create(&self, name: &OsStr, readers: Readers) -> io::Result<File> {
        match self.create_new(name, readers) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                trusted::open_in(self, Path::new(name), Owner::Me, u64::MAX, Access::ReadWrite)
            }
            made => made,
        }
    }

    /// Opens a file of ours for reading.
    ///
    /// # Errors
    /// As [`trusted::open`].
    pub fn read(&self, name: &OsStr, owner: Owner, most: u64) -> io::Result<File> {
        trusted::open_in(self, Path::new(name), owner, most, Access::Read)
    }

    /// Puts `bytes` in the place of `name`, at once. With `durable` it survives a power cut.
    ///
    /// A file that was there keeps its permissions where `readers` are those of the umask.
    ///
    /// # Errors
    /// The disk is full, or the directory cannot be written; the old file is as before.
    pub fn replace(&self, name: &OsStr, bytes: &[u8], readers: Readers, durable: bool) -> io::Result<()> {
        let mut fresh = self.unnamed(name, readers)?;
        fresh.file.write_all(bytes)?;
        if let (Readers::Umask, Some(old)) = (readers, self.find(name)?) {
            if kind(&old) == FileType::RegularFile && is_trusted(old.st_uid) {
                fchmod(&fresh.file, Mode::from_raw_mode(old.st_mode & 0o777))?;
            }
        }
        if readers == Readers::Everybody {
            fchmod(&fresh.file, Mode::from_raw_mode(0o644))?;
        }
        if durable {
            fresh.file.sync_all()?;
        }
        fresh.put(name)?;
        if durable {
            let _ = fsync(&self.fd); // not every file system can sync a directory, and the data are there anyhow
        }
        Ok(())
    }

    /// Gives the file `name` the second name `old`, whose file goes: when `name` is replaced, its content stays.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn keep(&self, name: &OsStr, old: &OsStr) -> io::Result<()> {
        match unlinkat(&self.fd, old, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        match linkat(&self.fd, name, &self.fd, old, AtFlags::empty()) {
            Ok(()) => Ok(()),
            Err(_) => self.rename(name, old), // no second names there
        }
    }

    /// Renames within the directory.
    ///
    /// # Errors
    /// Those of renameat(2).
    pub fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(renameat(&self.fd, from, &self.fd, to)?)
    }

    /// Removes a file.
    ///
    /// # Errors
    /// Those of unlinkat(2).
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(&self.fd, name, AtFlags::empty())?)
    }

    /// That files can be made in it.
    ///
    /// # Errors
    /// They cannot, and why.
    pub fn probe(&self) -> io::Result<()> {
        self.unnamed(OsStr::new("probe"), Readers::Owner).map(drop)
    }

    /// A file that vanishes if it is not [`Fresh::put`] under a name, also with a killed process where the file system
    /// can do that.
    fn unnamed(&self, name: &OsStr, readers: Readers) -> io::Result<Fresh<'_>> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        match openat(&self.fd, ".", flags, readers.of_file()) {
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
        let file = self.create_new(&temporary, readers)?;
        Ok(Fresh { directory: self, file, name: Some(temporary), of: name.to_owned() })
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Components of a path, last first.
fn parts(path: &Path) -> Vec<OsString> {
    let part = |component: Component| match component {
        Component::CurDir | Component::Prefix(_) => None,
        other => Some(other.as_os_str().to_owned()),
    };
    path.components().rev().filter_map(part).collect()
}

fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// This user, root, and for root the user who called sudo, who could become root anyhow.
fn is_trusted(uid: u32) -> bool {
    let caller = || std::env::var("SUDO_UID").ok()?.parse::<u32>().ok();
    uid == me() || uid == 0 || (me() == 0 && caller() == Some(uid))
}

#[cfg(test)]
mod tests;
