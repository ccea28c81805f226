//! Opens files that another user may have placed: the only way to read files in a shared or foreign directory.
//!
//! A name in a directory that others can write may be a link to a file of root's, a FIFO that never answers, a device, a
//! hard link to another file, or an endless file. [`open`] checks the file before it opens it (`O_PATH`, then through
//! `/proc/self/fd`: opening a device or a FIFO has side effects, and a name may change between check and use), and accepts
//! regular files with one name, of an expected owner, up to a size. It never blocks.
//!
//! Not here: files that the user names on the command line as input, which may well be links or pipes (the `cli`), and
//! files in `/proc` and `/sys`.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{fstat, openat, FileType, Mode, OFlags, Stat, CWD};

/// Owners whose files are trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// This process's user.
    Me,
    /// This process's user, or root.
    MeOrRoot,
    /// This process's user, root, or for root the user who called sudo, who could become root in any case.
    Trusted,
    /// That user.
    User(u32),
    /// Any user: the reader checks the content, and the size is limited here.
    Anyone,
}

impl Owner {
    fn accepts(self, uid: u32) -> bool {
        match self {
            Owner::Me => uid == me(),
            Owner::MeOrRoot => uid == 0 || uid == me(),
            Owner::Trusted => is_trusted(uid),
            Owner::User(wanted) => uid == wanted,
            Owner::Anyone => true,
        }
    }
}

/// Kind of access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read only.
    Read,
    /// Read and write in place.
    ReadWrite,
}

/// Effective user id.
#[must_use]
pub fn me() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The user and group who called sudo; `None`: this is not root, or sudo was not used.
#[must_use]
pub fn sudo_caller() -> Option<(u32, u32)> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
    let caller = number("SUDO_UID").filter(|&uid| uid != 0 && me() == 0)?;
    // Never root, even if the group is missing: a user's own group usually has the user's number.
    Some((caller, number("SUDO_GID").unwrap_or(caller)))
}

/// This user, root, and for root the user who called sudo.
pub(crate) fn is_trusted(uid: u32) -> bool {
    let caller = || std::env::var("SUDO_UID").ok()?.parse::<u32>().ok();
    uid == me() || uid == 0 || (me() == 0 && caller() == Some(uid))
}

/// Opens `path` for reading. Directories on the path are followed as usual: if they are not trusted either, use
/// [`open_in`].
///
/// # Errors
/// It does not exist, is not a regular file, belongs to another user, has other names, or is larger than `most` bytes.
pub fn open(path: &Path, owner: Owner, most: u64) -> io::Result<File> {
    open_in(CWD, path, owner, most, Access::Read)
}

/// Opens `name` below the open directory `parent`.
///
/// # Errors
/// As [`open`].
pub fn open_in(parent: impl AsFd, name: &Path, owner: Owner, most: u64, access: Access) -> io::Result<File> {
    let found = openat(parent, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let stat = fstat(&found)?;
    regular(&stat)?;
    if !owner.accepts(stat.st_uid) {
        return Err(refused(&format!("belongs to user {}, which is not a trusted owner", stat.st_uid)));
    }
    if owner != Owner::Anyone && stat.st_nlink != 1 {
        return Err(refused(&format!("has {} names, expected one", stat.st_nlink)));
    }
    if stat.st_size as u64 > most {
        return Err(refused(&format!("has {} bytes, expected at most {most}", stat.st_size)));
    }
    if owner == Owner::MeOrRoot {
        readable_by_caller(&found)?; // root's files are not this user's
    }
    reopen(&found, access)
}

/// All bytes of `path`, as [`open`]; a file that grows in the meantime is cut off at `most`.
///
/// # Errors
/// As [`open`], or it cannot be read.
pub fn read(path: &Path, owner: Owner, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path, owner, most)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The same as text.
///
/// # Errors
/// As [`read`], or it is not UTF-8.
pub fn read_text(path: &Path, owner: Owner, most: u64) -> io::Result<String> {
    String::from_utf8(read(path, owner, most)?).map_err(|_| refused("is not UTF-8 text"))
}

/// Checks that it is a regular file.
pub(crate) fn regular(stat: &Stat) -> io::Result<()> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(()),
        FileType::Symlink => Err(refused("is a symbolic link, expected a regular file")),
        FileType::Directory => Err(refused("is a directory, expected a regular file")),
        FileType::Fifo => Err(refused("is a FIFO, expected a regular file")),
        FileType::Socket => Err(refused("is a socket, expected a regular file")),
        _ => Err(refused("is a device, expected a regular file")),
    }
}

/// Checks that the user who started this program may read the file, without the capabilities that an administrator gave the
/// program (`setcap`): an error that quotes a line of the file would show it to a user who must not see it.
///
/// # Errors
/// Permission denied.
pub(crate) fn readable_by_caller(found: &OwnedFd) -> io::Result<()> {
    if rustix::process::getuid().is_root() {
        return Ok(());
    }
    // With the real user id, and without capabilities (access(2)).
    let path = format!("/proc/self/fd/{}", found.as_raw_fd());
    Ok(rustix::fs::accessat(CWD, path, rustix::fs::Access::READ_OK, rustix::fs::AtFlags::empty())?)
}

/// The file behind an `O_PATH` descriptor.
pub(crate) fn reopen(found: &OwnedFd, access: Access) -> io::Result<File> {
    File::options()
        .read(true)
        .write(access == Access::ReadWrite)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(format!("/proc/self/fd/{}", found.as_raw_fd()))
}

pub(crate) fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why.to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_link_a_pipe_a_second_name_a_device_and_a_large_file_are_refused_without_waiting() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        fs::write(at("file"), "content").unwrap();
        assert_eq!(read_text(&at("file"), Owner::Me, 7).unwrap(), "content");
        let why = |name: &Path, owner| read(name, owner, 7).unwrap_err().to_string();
        std::os::unix::fs::symlink(at("file"), at("link")).unwrap();
        assert!(why(&at("link"), Owner::Anyone).contains("symbolic link"));
        rustix::fs::mknodat(CWD, at("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        assert!(why(&at("fifo"), Owner::Anyone).contains("FIFO"));
        assert!(why(Path::new("/dev/zero"), Owner::Anyone).contains("device"));
        assert!(why(place.path(), Owner::Anyone).contains("directory"));
        fs::write(at("large"), "contents").unwrap();
        assert!(why(&at("large"), Owner::Me).contains("8 bytes"));
        assert!(why(&at("file"), Owner::User(me() + 1)).contains("belongs to"));
        fs::hard_link(at("file"), at("again")).unwrap();
        assert!(why(&at("file"), Owner::Me).contains("2 names"));
        assert!(open(&at("none"), Owner::Me, 7).is_err_and(|e| e.kind() == io::ErrorKind::NotFound));
    }
}
