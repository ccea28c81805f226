//! Why a file is not opened as a database, the error message, and how a damaged one is set aside.

use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use lathunt_core::monitor::event::{Event, Kind};
use lathunt_core::monitor::window::UnixMs;
use rusqlite::{Connection, ErrorCode};

use super::hold::beside;
use super::schema::{self, Content};
use crate::error::{Error, Result};

/// SQLite's error, with a remedy.
pub(super) fn said(path: &Path, error: rusqlite::Error) -> Error {
    let hint = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => "free some space on that disk",
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied | ErrorCode::ReadOnly) => {
            "name a place that can be written with --database"
        }
        _ => "",
    };
    Error::new("write the database", path.display().to_string(), error).hint(hint)
}

/// Whether the file's header says that a monitor wrote it (sqlite.org/fileformat.html: the application id, at 68).
pub(super) fn bears_our_mark(path: &Path) -> bool {
    let mut header = [0; 72];
    let read = crate::input::regular(path).and_then(|mut file| file.read_exact(&mut header));
    read.is_ok()
        && header.starts_with(b"SQLite format 3\0")
        && header[68..] == schema::APPLICATION.to_be_bytes()
}

/// The file itself is damaged, rather than its location.
pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

/// Why a file is not used as a database.
#[derive(Debug)]
pub(super) enum Refusal {
    Damaged(String),
    Foreign,
    Newer(i32),
    Sqlite(rusqlite::Error),
    /// SQLite calls every error of the kernel but a full disk "disk I/O error".
    System(std::io::Error),
}

impl Refusal {
    /// The same in one line.
    pub fn into_error(self, path: &Path) -> Error {
        let shown = path.display().to_string();
        match self {
            Refusal::Damaged(why) => Error::refused(
                "use",
                format!("{shown} as database: {why}"),
                "no monitor wrote it; name another file with --database",
            ),
            Refusal::Foreign => Error::refused(
                "use",
                format!("{shown} as database: it belongs to another program"),
                "name another file with --database",
            ),
            Refusal::Newer(version) => Error::refused(
                "use",
                format!("{shown}: version {version}, this lathunt writes {}", schema::VERSION),
                "use a newer lathunt, or another file with --database",
            ),
            Refusal::Sqlite(error) => said(path, error),
            Refusal::System(error) => {
                let is_full = matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
                let hint = if is_full { "free some space on that disk" } else { "" };
                Error::new("write the database", path.display().to_string(), error).hint(hint)
            }
        }
    }

    /// With the error of the kernel, if that is the cause: `connection` has just failed.
    pub fn on(self, connection: &Connection) -> Refusal {
        let Refusal::Sqlite(error) = self else { return self };
        if error.sqlite_error_code() != Some(ErrorCode::SystemIoFailure) {
            return Refusal::Sqlite(error);
        }
        // SAFETY: the handle of an open connection; the call only reads a number of it.
        match unsafe { rusqlite::ffi::sqlite3_system_errno(connection.handle()) } {
            0 => Refusal::Sqlite(error),
            errno => Refusal::System(std::io::Error::from_raw_os_error(errno)),
        }
    }
}

impl From<rusqlite::Error> for Refusal {
    fn from(error: rusqlite::Error) -> Refusal {
        match is_damage(&error) {
            true => Refusal::Damaged(error.to_string()),
            false => Refusal::Sqlite(error),
        }
    }
}

/// Opens or creates the database at `path`.
pub(super) fn open(path: &Path) -> std::result::Result<Connection, Refusal> {
    let mut connection = Connection::open(path)?;
    match prepare(&mut connection) {
        Ok(()) => Ok(connection),
        Err(refusal) => Err(refusal.on(&connection)),
    }
}

fn prepare(connection: &mut Connection) -> std::result::Result<(), Refusal> {
    match schema::content(connection)? {
        Content::Foreign => return Err(Refusal::Foreign),
        Content::Newer(version) => return Err(Refusal::Newer(version)),
        Content::Empty => {
            schema::configure(connection)?;
            schema::create(connection)?;
        }
        Content::Ours => {
            schema::configure(connection)?;
            let sound: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
            if sound != "ok" {
                return Err(Refusal::Damaged(sound));
            }
            schema::upgrade(connection)?;
        }
    }
    Ok(())
}

/// Removes a database that could not be completed, with its journals. They may not exist.
pub(super) fn remove(path: &Path) {
    for ending in ["", "-wal", "-shm", "-journal"] {
        let _ = std::fs::remove_file(format!("{}{ending}", path.display()));
    }
}

/// Renames a damaged database with its journals.
pub(super) fn set_aside(path: &Path, why: &str, now: UnixMs) -> Result<Event> {
    let digits: String = now.to_string().chars().filter(char::is_ascii_digit).collect();
    let mut target = beside(path, &format!("damaged-{digits}"));
    let mut number = 1;
    while target.exists() {
        number += 1;
        target = beside(path, &format!("damaged-{digits}-{number}"));
    }
    std::fs::rename(path, &target)
        .map_err(|error| Error::new("set aside the damaged database", path.display().to_string(), error))?;
    for ending in ["-wal", "-shm"] {
        let with = |file: &Path| PathBuf::from(format!("{}{ending}", file.display()));
        // They may not exist; without them the database that was set aside lacks at most its last windows.
        let _ = std::fs::rename(with(path), with(&target));
    }
    let detail = format!(
        "the database {} is damaged ({}); it was set aside as {} and a new one begun",
        path.display(),
        why.lines().collect::<Vec<_>>().join("; "),
        target.display()
    );
    Ok(Event::new(now, Kind::DatabaseDamaged, detail))
}
