//! One daemon per database: a lock that ends with its process, in a file beside the database.
//!
//! The file also shows that a daemon of ours created the database: an unreadable file is set aside only if there is a lock
//! file, so that a mistyped `--database` never moves another program's file.
//!
//! And it stores up to when windows were closed: SQLite silently drops what is cut off at the end of its log.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use lathunt_core::monitor::window::UnixMs;

use crate::beneath::{Directory, Foreign, Readers};
use crate::error::{Error, Result};
use crate::trusted::{self, Owner};

/// A killed monitor holds its lock until its memory is unmapped: its successor waits this long.
const GRACE: Duration = Duration::from_millis(500);

/// The lock; released when dropped.
#[derive(Debug)]
pub(super) struct Hold {
    file: File,
    /// The lock file existed before: the database is ours.
    pub was_ours: bool,
    /// End of the last window closed by the previous monitor; `None`: unknown.
    pub closed: Option<UnixMs>,
}

impl Hold {
    /// Takes the lock of `database`, beneath its open `directory`: another user's link there would be overwritten.
    pub fn take(directory: &Directory, database: &Path) -> Result<Hold> {
        let path = beside(database, "lock");
        let shown = path.display().to_string();
        let was_ours = path.exists();
        let name = path.file_name().unwrap_or_default();
        let opened = directory.open_or_create(name, Readers::Umask, Owner::Trusted);
        let mut file = opened.map_err(|error| {
            Error::new("lock the database with", &shown, error)
                .hint("name a place that can be written with --database")
        })?;
        if !locks(&file) {
            let mut owner = String::new();
            let _ = file.read_to_string(&mut owner);
            let owner = match owner.lines().next().unwrap_or_default() {
                "" => "another lathunt monitor".to_owned(),
                pid => format!("another lathunt monitor, process {pid},"),
            };
            return Err(Error::refused(
                "write",
                format!("{}: {owner} writes it", database.display()),
                "one monitor is enough for a machine; name another file with --database if you want two",
            ));
        }
        let mut before = String::new();
        let _ = file.read_to_string(&mut before);
        let closed = before.lines().nth(1).and_then(|ms| ms.parse().ok()).map(UnixMs);
        let mut hold = Hold { file, was_ours, closed };
        hold.note(closed);
        Ok(hold)
    }

    /// Notes that windows are closed up to `end`. The holder's id is for people; on a full disk the lock still holds.
    pub fn note(&mut self, end: Option<UnixMs>) {
        self.closed = end;
        let end = end.map_or_else(String::new, |end| format!("\n{}", end.0));
        let text = format!("{}{end}", std::process::id());
        let _ = self.file.set_len(0).and_then(|()| self.file.write_all_at(text.as_bytes(), 0));
    }
}

/// The real path of `database`: the lock, SQLite's log and databases set aside are beside it, whatever name is used.
///
/// # Errors
/// It is a dangling link, it has a second name (hard link), which would have another lock and log, it is not a regular file, or
/// its directory does not exist.
pub(super) fn real(database: &Path) -> Result<PathBuf> {
    let shown = database.display();
    match database.canonicalize() {
        Ok(path) => match path.metadata() {
            Ok(file) if file.is_file() && file.nlink() > 1 => Err(Error::refused(
                "use",
                format!("{shown} as database: it has {} names (hard links)", file.nlink()),
                "two monitors could write it, each by another name; remove the others or copy the file",
            )),
            Ok(file) if !file.is_file() && !file.is_dir() => Err(Error::refused(
                "use",
                format!("{shown} as database: it is not a regular file"),
                "name a file with --database",
            )),
            _ => Ok(path),
        },
        Err(error) if error.kind() == ErrorKind::NotFound && !database.is_symlink() => {
            let parent = database.parent().filter(|parent| !parent.as_os_str().is_empty());
            let parent = parent.unwrap_or(Path::new(".")).canonicalize();
            let parent = parent.map_err(|error| Error::new("find the database", shown.to_string(), error))?;
            Ok(database.file_name().map_or_else(|| database.to_owned(), |name| parent.join(name)))
        }
        Err(error) => Err(Error::new("find the database", shown.to_string(), error)
            .hint("name a file that can be written with --database")),
    }
}

/// The directory of `database`, created if missing. Its files, and those of SQLite beside it, are not other users'.
///
/// # Errors
/// The directory belongs to another user, or one of the files does: its owner could change what root writes and reads.
pub(super) fn place(database: &Path, foreign: Foreign) -> Result<Directory> {
    let refused = |path: &Path, error| {
        Error::new("use", format!("{} as database", path.display()), error)
            .hint("name another place with --database")
    };
    if let Some(parent) = database.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Directory::make(parent, Readers::Umask, foreign).map_err(|error| refused(database, error))?;
    }
    let (directory, name) =
        Directory::of_file(database, foreign).map_err(|error| refused(database, error))?;
    for ending in ["", "-wal", "-shm", "-journal"] {
        let mut file = name.clone();
        file.push(ending);
        let found = directory.belongs_to_others(&file);
        if foreign == Foreign::Refused && found.map_err(|error| refused(database, error))? {
            let path = directory.path().join(&file);
            return Err(refused(&path, trusted::refused("it is a file of another user")));
        }
    }
    Ok(directory)
}

/// Whether the lock was free within [`GRACE`].
fn locks(file: &File) -> bool {
    let end = Instant::now() + GRACE;
    loop {
        // SAFETY: a valid descriptor; the call changes nothing else.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        sleep(Duration::from_millis(10));
    }
}

/// `PATH.ending`
pub(super) fn beside(database: &Path, ending: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    PathBuf::from(name)
}
