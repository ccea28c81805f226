//! Writes results into directories that others may be able to write: the only way to create, replace and rename files.
//!
//! A [`Directory`] is an open descriptor, and every file is opened relative to it by a single name without following links:
//! a concurrent rename or link cannot redirect a write. New content goes into an unnamed file (or one created with
//! `O_EXCL`) that then replaces the old one: after any failure or kill either the old or the new file exists.
//!
//! On the path to it, only links owned by this user, root, or the user who called sudo are followed: no other user may
//! choose where root writes. A directory that is owned by others, or for root one in which others can write and rename, is
//! refused unless the caller allows it: they could replace the file before it is read.
//! Which files may be overwritten is decided elsewhere (`cli/src/file.rs`).

mod below;
mod fresh;
mod made;
mod replace;
mod special;
mod sync;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    fstat, getxattr, mkdirat, openat, readlinkat, renameat, statat, unlinkat, AtFlags, FileType, Mode,
    OFlags, Stat, CWD,
};
use rustix::io::Errno;

use self::fresh::give;
pub use self::made::remove_empty;
pub use self::special::Special;
use crate::trusted::{self, is_trusted, me, refused, Access, Owner};

/// Advice on a refused directory, where that can be allowed.
pub(crate) const ALLOWING: &str = ", or pass --allow-foreign-directory";

/// Maximum number of links on a path, the kernel's own limit.
const MOST_LINKS: usize = 40;

/// Who may read a file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// According to the umask.
    Umask,
    /// This user only: kernel addresses, memory maps, traces.
    Owner,
    /// Everybody, regardless of the umask.
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

/// Whether directories and links owned by other users are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// No.
    Refused,
    /// The user has allowed it.
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
    /// Opens the directory `path`, which must be safe to write to.
    ///
    /// # Errors
    /// It does not exist, is not a directory, or others can change its contents.
    pub fn open(path: &Path, foreign: Foreign) -> io::Result<Directory> {
        Directory::walk(path, None, foreign)?.checked(foreign)
    }

    /// The same, creating missing components for `readers`.
    ///
    /// # Errors
    /// As [`Directory::open`], or it cannot be created.
    pub fn make(path: &Path, readers: Readers, foreign: Foreign) -> io::Result<Directory> {
        Directory::walk(path, Some((readers, false)), foreign)?.checked(foreign)
    }

    /// The same for results: created components belong to the user who called sudo, if any.
    ///
    /// # Errors
    /// As [`Directory::make`].
    pub fn make_for_caller(path: &Path, readers: Readers, foreign: Foreign) -> io::Result<Directory> {
        Ok(Directory::walk(path, Some((readers, true)), foreign)?.checked(foreign)?.for_caller())
    }

    /// New files in it will belong to the user who called sudo, if any.
    #[must_use]
    pub fn for_caller(self) -> Directory {
        Directory { for_caller: true, ..self }
    }

    /// The directory and the file name that `path` refers to; links are followed as far as they are trusted.
    ///
    /// # Errors
    /// As [`Directory::open`], or `path` has no file name.
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
                here = here.checked(foreign)?; // its owner could replace it
                match mkdirat(&here.fd, &name, readers.of_directory()) {
                    Ok(()) => is_new = true,
                    Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            let is_for_caller = is_new && make.is_some_and(|(_, for_caller)| for_caller);
            if is_for_caller {
                made::note(&here.fd, &name);
                sync::new_directory_on_disk(&here.fd)?;
            }
            here = here.step(&name)?;
            if is_for_caller {
                give(&here.fd)?;
            }
        }
        // fsync needs a descriptor that is not O_PATH.
        let fd = openat(&here.fd, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let fd = match fd {
            Err(Errno::ACCESS) => here.fd, // may be entered and written, but not listed
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

    /// Target of the link `name`, if its owner is trusted to choose it.
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
        let instead = format!("name another directory{ALLOWING}");
        if foreign == Foreign::Refused && !is_trusted(stat.st_uid) {
            let uid = stat.st_uid;
            return Err(refused(&format!("the directory {shown} belongs to user {uid}; {instead}")));
        }
        match replacers(&stat, || has_acl(&self.fd)) {
            Some(others) if foreign == Foreign::Refused && me() == 0 => {
                Err(refused(&format!("{others} can replace files in the directory {shown}; {instead}")))
            }
            _ => Ok(self),
        }
    }

    /// A directory that was opened and verified elsewhere.
    pub(crate) fn of_fd(fd: OwnedFd, path: PathBuf) -> Directory {
        Directory { fd, path, for_caller: false }
    }

    /// Checks that no other user can read or change anything in it: for state that is trusted later.
    ///
    /// # Errors
    /// It belongs to another user, or others have access to it.
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

    /// Its path: for messages, and as working directory of programs.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Status of the entry `name`; of a link itself, not its target.
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

    /// Whether there is an entry `name` that neither this user, root, nor the user who called sudo has made.
    ///
    /// # Errors
    /// The directory cannot be searched.
    pub fn belongs_to_others(&self, name: &OsStr) -> io::Result<bool> {
        Ok(self.find(name)?.is_some_and(|stat| !is_trusted(stat.st_uid)))
    }

    /// Creates a new file; fails if the name exists.
    ///
    /// # Errors
    /// The name exists, or the file cannot be created.
    pub fn create_new(&self, name: &OsStr, readers: Readers) -> io::Result<File> {
        self.create(name, readers.of_file())
    }

    fn create(&self, name: &OsStr, mode: Mode) -> io::Result<File> {
        let flags = OFlags::RDWR
            | OFlags::CREATE
            | OFlags::EXCL
            | OFlags::NOFOLLOW
            | OFlags::NONBLOCK
            | OFlags::CLOEXEC;
        let file: File = openat(&self.fd, name, flags, mode)?.into();
        if self.for_caller {
            give(&file)?;
        }
        Ok(file)
    }

    /// Opens our own file for reading and writing in place; creates it if it is missing.
    ///
    /// # Errors
    /// It is a link, not a regular file, does not belong to `owner`, or has other names.
    pub fn open_or_create(&self, name: &OsStr, readers: Readers, owner: Owner) -> io::Result<File> {
        match self.create_new(name, readers) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                trusted::open_in(self, Path::new(name), owner, u64::MAX, Access::ReadWrite)
            }
            made => made,
        }
    }

    /// Opens our own file for reading.
    ///
    /// # Errors
    /// As [`trusted::open`].
    pub fn read(&self, name: &OsStr, owner: Owner, most: u64) -> io::Result<File> {
        trusted::open_in(self, Path::new(name), owner, most, Access::Read)
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

/// Who, besides its owner, can rename and replace files in a directory. Not a group with the number of the owner: root's own, or
/// the private group of a user. The mode of the group is also the limit of an access control list, which can name anybody.
fn replacers(stat: &Stat, has_acl: impl FnOnce() -> bool) -> Option<String> {
    if stat.st_mode & 0o1000 != 0 {
        return None; // sticky: only its owner can rename a file
    }
    if stat.st_mode & 0o002 != 0 {
        return Some("everybody".to_owned());
    }
    let by_group = stat.st_mode & 0o020 != 0;
    match by_group && stat.st_gid != stat.st_uid {
        true => Some(format!("group {}", stat.st_gid)),
        false => (by_group && has_acl()).then(|| "users of its access control list".to_owned()),
    }
}

/// Who else can rename or replace `path`, which is canonical, or a directory that leads to it; `None`: nobody.
pub(crate) fn who_can_replace(path: &Path) -> io::Result<Option<String>> {
    for directory in path.ancestors().skip(1) {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = openat(CWD, directory, flags, Mode::empty())?;
        let stat = fstat(&fd)?;
        if !is_trusted(stat.st_uid) {
            return Ok(Some(format!("user {}", stat.st_uid)));
        }
        if me() == 0
            && let Some(others) = replacers(&stat, || has_acl(&fd))
        {
            return Ok(Some(others));
        }
    }
    Ok(None)
}

/// Whether the directory has an access control list, or that cannot be determined.
fn has_acl(fd: impl AsFd) -> bool {
    let path = format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd()); // the descriptor may be O_PATH
    let found = getxattr(&path, "system.posix_acl_access", &mut [0u8; 0]);
    !matches!(found, Err(Errno::NODATA | Errno::OPNOTSUPP))
}

fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

#[cfg(test)]
mod tests;
