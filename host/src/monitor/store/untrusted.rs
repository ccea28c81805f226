//! Limits of memory and time while a file of any origin is read as a database.

use std::cell::Cell;

use rusqlite::config::DbConfig;
use rusqlite::{ffi, Connection};

/// Largest value of a database that is read, in bytes: a histogram or a text. Those of a monitor are below 300 kB.
const LARGEST_VALUE: i32 = 8 << 20;

/// Most memory of SQLite while it reads a file of any origin, in bytes.
const MOST_MEMORY: i64 = 128 << 20;

/// Steps of SQLite's machine between two looks at their number.
const STEPS: i32 = 10_000;

/// Steps for a file of `bytes`: a million a second, at least. A monitor's database takes one per ten bytes. The pages of a damaged one
/// may refer to each other in a way that never ends.
fn most_steps(bytes: u64) -> u64 {
    bytes.saturating_mul(2).saturating_add(20_000_000)
}

/// Room for the rows of a file, in bytes: they have no more than the file, apart from what a row takes in memory. The pages of a
/// damaged file may refer to each other, so that a few of them are read as gigabytes.
#[derive(Debug)]
pub(super) struct Room(Cell<u64>);

impl Room {
    /// That of a file of `bytes` with its log.
    pub fn of(bytes: u64) -> Room {
        Room(Cell::new(bytes.saturating_mul(8).saturating_add(16 << 20)))
    }

    /// That of our own database, which was checked when it was opened.
    pub fn any() -> Room {
        Room(Cell::new(u64::MAX))
    }

    /// Takes the room of a row with these texts and histograms.
    pub fn take(&self, row: usize, contents: &[usize]) -> rusqlite::Result<()> {
        let bytes = contents.iter().fold(row as u64, |sum, &bytes| sum.saturating_add(bytes as u64));
        let left = self.0.get().checked_sub(bytes).ok_or_else(|| {
            let why = "its rows have more bytes than the file: it is damaged".to_owned();
            rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_CORRUPT), Some(why))
        })?;
        self.0.set(left);
        Ok(())
    }
}

/// Settings of a connection that reads a file of any origin, of `bytes` with its log.
pub(super) fn configure(connection: &Connection, bytes: u64) -> rusqlite::Result<()> {
    connection.busy_timeout(std::time::Duration::from_secs(5))?;
    let mut left = most_steps(bytes) / u64::from(STEPS.unsigned_abs());
    let is_over = move || {
        left = left.saturating_sub(1);
        left == 0
    };
    connection.progress_handler(STEPS, Some(is_over))?;
    // Older libraries have neither; what they guard against is also checked by [`super::schema::content`].
    for (setting, on) in
        [(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false), (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)]
    {
        let _ = connection.set_db_config(setting, on);
    }
    let _ = connection.pragma_update(None, "hard_heap_limit", MOST_MEMORY);
    // A reader that dropped its privileges can create no file; what is sorted is one window.
    connection.pragma_update(None, "temp_store", "memory")?;
    // SAFETY: the handle is that of an open connection, and the call only stores a number.
    unsafe { ffi::sqlite3_limit(connection.handle(), ffi::SQLITE_LIMIT_LENGTH, LARGEST_VALUE) };
    Ok(())
}
