//! Opens files that the user names as input: the only way to read them.
//!
//! A name may be a link, a pipe (`<(zcat trace.dat.gz)`), or `-` for stdin. Directories, sockets and devices are refused with
//! the reason, and before they are opened: opening a device can have side effects. A pipe is waited for, as the user may
//! have started its writer later; a callback reports that, since a silent wait looks like slow work.
//!
//! Files that other users may have placed, without the user naming them: [`crate::trusted`].

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::fs::{fstat, openat, statat, AtFlags, FileType, Mode, OFlags, Stat, CWD};
use rustix::io::Errno;

use crate::signals;
use crate::trusted::{self, refused, Access};

/// How long a pipe may be silent before that is reported.
const SILENCE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// An open input.
#[derive(Debug)]
pub struct Input {
    file: File,
    path: PathBuf,
    is_regular: bool,
    /// Called once when a pipe is silent.
    waiting: Option<fn(&Path)>,
}

/// Whether `path` is stdin: `-`, or the name of the kernel for it.
#[must_use]
pub fn is_stdin(path: &Path) -> bool {
    path == Path::new("-") || path == Path::new("/dev/stdin")
}

/// Opens the input `path`. `waiting` is called once if a pipe sends nothing for a second, and gets the path.
///
/// # Errors
/// It does not exist, cannot be opened, or is a directory, a socket or a device.
pub fn open(path: &Path, waiting: fn(&Path)) -> io::Result<Input> {
    let of =
        |file: File, is_regular| Input { file, path: path.to_owned(), is_regular, waiting: Some(waiting) };
    if is_stdin(path) {
        let stdin = io::stdin().as_fd().try_clone_to_owned()?;
        let stat = fstat(&stdin)?;
        return match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => Err(refused("it is a directory, expected a file or a pipe")),
            kind => Ok(of(stdin.into(), kind == FileType::RegularFile)),
        };
    }
    let found = openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let kind = kind(&found)?;
    match kind {
        FileType::RegularFile | FileType::Fifo => {
            Ok(of(trusted::reopen(&found, Access::Read)?, kind == FileType::RegularFile))
        }
        other => Err(refused(&format!("it is {}, expected a file or a pipe", called(other)))),
    }
}

/// Opens the regular file `path`, which the user has not named: it was found in a directory that may be another user's. Never
/// waits. A link is judged by the file that is open, so a swap in between deceives nobody.
///
/// # Errors
/// It does not exist, cannot be opened, is not a regular file, or [`leads_elsewhere`].
pub fn regular(path: &Path) -> io::Result<File> {
    let entry = openat(CWD, path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let link = fstat(&entry)?;
    let found = match is_link(&link) {
        true => openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?,
        false => entry,
    };
    if let Some(why) = elsewhere(&link, &fstat(&found)?) {
        return Err(refused(&why));
    }
    match kind(&found)? {
        FileType::RegularFile => trusted::reopen(&found, Access::Read),
        other => Err(refused(&format!("it is {}, expected a regular file", called(other)))),
    }
}

/// Why an entry of a directory is not followed: it is a link with which another user would have this one read (and publish)
/// files that its maker may not read. Links to own files of their maker are followed.
///
/// # Errors
/// It does not exist.
pub fn leads_elsewhere(path: &Path) -> io::Result<Option<String>> {
    Ok(elsewhere(&statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)?, &statat(CWD, path, AtFlags::empty())?))
}

/// As [`leads_elsewhere`]; `link`: the entry, `target`: what it leads to, or the entry itself.
fn elsewhere(link: &Stat, target: &Stat) -> Option<String> {
    let (maker, owner) = (link.st_uid, target.st_uid);
    let is_theirs = is_link(link) && !trusted::is_trusted(maker) && owner != maker;
    is_theirs.then(|| format!("it is a symbolic link of user {maker} to a file of user {owner}"))
}

fn is_link(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Symlink
}

/// The kind of a file that the caller may read.
fn kind(found: &OwnedFd) -> io::Result<FileType> {
    trusted::readable_by_caller(found)?;
    Ok(FileType::from_raw_mode(fstat(found)?.st_mode))
}

fn called(kind: FileType) -> &'static str {
    match kind {
        FileType::Directory => "a directory",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        _ => "a device",
    }
}

impl Input {
    /// Whether it is a regular file, which can be mapped.
    #[must_use]
    pub fn is_regular(&self) -> bool {
        self.is_regular
    }

    /// Its length in bytes; 0 for a pipe, and for a file of the kernel.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.file.metadata().map_or(0, |found| found.len())
    }

    pub(crate) fn as_file(&self) -> &File {
        &self.file
    }

    /// All bytes, `most` at most.
    ///
    /// # Errors
    /// It cannot be read, or is larger.
    pub fn bytes(self, most: u64) -> io::Result<Vec<u8>> {
        let this = self.at_most(most)?;
        // Of the known length: a vector that grows has room for twice as much.
        let mut bytes = Vec::with_capacity(match this.is_regular {
            true => usize::try_from(this.length()).unwrap_or(0).saturating_add(1),
            false => 0,
        });
        this.take(most + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > most {
            return Err(too_large(most));
        }
        Ok(bytes)
    }

    /// The same input; an error before the first byte is read if its length is known and larger, as that of a sparse file.
    ///
    /// # Errors
    /// It has more than `most` bytes.
    pub fn at_most(self, most: u64) -> io::Result<Input> {
        match self.is_regular && self.length() > most {
            true => Err(too_large(most)),
            false => Ok(self),
        }
    }

    /// Waits until a pipe has data or its writer has left.
    fn wait(&mut self) -> io::Result<()> {
        loop {
            let mut fds = [PollFd::new(&self.file, PollFlags::IN)];
            match poll(&mut fds, self.waiting.is_some().then_some(&SILENCE)) {
                Ok(0) => {
                    if let Some(waiting) = self.waiting.take() {
                        waiting(&self.path);
                    }
                }
                Ok(_) => return Ok(()),
                Err(Errno::INTR) if signals::stop_requested().is_none() => {}
                Err(Errno::INTR) => return Err(io::Error::other("interrupted by a signal")),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn too_large(most: u64) -> io::Error {
    io::Error::other(format!("larger than {} MiB, the limit for such a file", most >> 20))
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.is_regular {
            return self.file.read(buffer);
        }
        loop {
            self.wait()?;
            match self.file.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {} // another reader was faster
                read => return read,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    static WAITED: AtomicUsize = AtomicUsize::new(0);

    fn waiting(_: &Path) {
        WAITED.fetch_add(1, Ordering::Relaxed);
    }

    fn fifo(path: &Path) {
        rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::RWXU, 0).unwrap();
    }

    #[test]
    fn what_is_neither_file_nor_pipe_is_refused_with_its_type() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        let why = |path: &Path| open(path, waiting).unwrap_err().to_string();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        assert!(why(&at("socket")).contains("a socket"));
        assert!(why(Path::new("/dev/zero")).contains("a device"));
        assert!(why(place.path()).contains("a directory"));
        assert_eq!(open(&at("none"), waiting).unwrap_err().kind(), io::ErrorKind::NotFound);
        fifo(&at("fifo"));
        assert!(regular(&at("fifo")).unwrap_err().to_string().contains("a FIFO"));
        fs::write(at("file"), "12345").unwrap();
        std::os::unix::fs::symlink("file", at("link")).unwrap();
        assert_eq!(open(&at("link"), waiting).unwrap().bytes(5).unwrap(), b"12345");
        assert!(open(&at("file"), waiting).unwrap().bytes(4).unwrap_err().to_string().contains("larger"));
        File::create(at("sparse")).unwrap().set_len(1 << 40).unwrap();
        let sparse = open(&at("sparse"), waiting).unwrap();
        assert!(sparse.bytes(1 << 38).unwrap_err().to_string().contains("larger than 262144 MiB"));
    }

    #[test]
    fn a_pipe_is_waited_for_and_that_is_reported_once() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("fifo");
        fifo(&path);
        let to = path.clone();
        let writer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(2_300));
            let mut pipe = File::options().write(true).open(to).unwrap();
            pipe.write_all(b"first").unwrap();
            std::thread::sleep(Duration::from_millis(100));
            pipe.write_all(b" second").unwrap();
        });
        assert_eq!(open(&path, waiting).unwrap().bytes(100).unwrap(), b"first second");
        writer.join().unwrap();
        assert_eq!(WAITED.load(Ordering::Relaxed), 1);
    }
}
