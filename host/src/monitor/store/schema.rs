//! The tables of the database, and how a file is recognised as ours. docs/FORMAT.md describes them for readers with SQL.

use rusqlite::{ffi, Connection};

/// `PRAGMA application_id` of our databases ("LtHm").
pub(super) const APPLICATION: i32 = 0x4c74_486d;
/// `PRAGMA user_version`: readers accept it and all older ones.
pub(super) const VERSION: i32 = 3;

/// `cpu` of a series of tasks, which has its name in `task`.
pub(super) const NO_CPU: i64 = -1;

/// First version whose series have a `task`.
pub(super) const WITH_TASKS: i32 = 2;
/// First version whose samples have a `deadline_ns` and `misses`.
pub(super) const WITH_DEADLINES: i32 = 3;

/// Upgrades version 1, which had series of CPUs only.
const ADD_TASKS: &str = "
CREATE TABLE series_2 (
    id INTEGER PRIMARY KEY,
    quantity TEXT NOT NULL,
    cpu INTEGER NOT NULL,
    task TEXT NOT NULL DEFAULT '',
    UNIQUE (quantity, cpu, task)
) STRICT;
INSERT INTO series_2 (id, quantity, cpu) SELECT id, quantity, cpu FROM series;
DROP TABLE series;
ALTER TABLE series_2 RENAME TO series;
";

/// Upgrades version 2.
const ADD_DEADLINES: &str = "
ALTER TABLE sample ADD COLUMN deadline_ns INTEGER;
ALTER TABLE sample ADD COLUMN misses INTEGER;
";

/// `running` holds at most one row: the window that is not closed yet. If it exists at a start, the window was lost.
const TABLES: &str = "
CREATE TABLE window (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    begin_ms INTEGER NOT NULL,
    end_ms INTEGER NOT NULL,
    measured_ns INTEGER NOT NULL,
    whole INTEGER NOT NULL
) STRICT;
CREATE INDEX window_end ON window (end_ms);
CREATE TABLE series (
    id INTEGER PRIMARY KEY,
    quantity TEXT NOT NULL,
    cpu INTEGER NOT NULL,
    task TEXT NOT NULL DEFAULT '',
    UNIQUE (quantity, cpu, task)
) STRICT;
CREATE TABLE sample (
    window_id INTEGER NOT NULL REFERENCES window (id) ON DELETE CASCADE,
    series_id INTEGER NOT NULL REFERENCES series (id),
    count INTEGER NOT NULL,
    lost INTEGER NOT NULL,
    sum_ns INTEGER NOT NULL,
    max_ns INTEGER,
    p50_ns INTEGER,
    p99_ns INTEGER,
    p99_9_ns INTEGER,
    p99_99_ns INTEGER,
    max_at_ms INTEGER,
    victim TEXT,
    culprit TEXT,
    histogram BLOB NOT NULL,
    peak BLOB,
    deadline_ns INTEGER,
    misses INTEGER,
    PRIMARY KEY (window_id, series_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE alltime (
    series_id INTEGER PRIMARY KEY REFERENCES series (id),
    max_ns INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    victim TEXT,
    culprit TEXT
) STRICT;
CREATE TABLE event (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ms INTEGER NOT NULL,
    kind TEXT NOT NULL,
    detail TEXT NOT NULL
) STRICT;
CREATE TABLE running (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    begin_ms INTEGER NOT NULL,
    length_ms INTEGER NOT NULL
) STRICT;
";

/// Settings of a connection that writes. Nothing here touches a file that may be another program's.
pub(super) fn configure(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(std::time::Duration::from_secs(5))?;
    connection.pragma_update(None, "auto_vacuum", "incremental")?;
    connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
    // A closed window is on disk before the next starts; once in five minutes that costs nothing.
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update_and_check(None, "journal_size_limit", 4 << 20, |_| Ok(()))?;
    connection.pragma_update_and_check(None, "wal_autocheckpoint", 256, |_| Ok(()))?;
    connection.pragma_update(None, "cache_size", -2_000) // KiB
}

/// Classification of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// No tables yet.
    Empty,
    /// Ours.
    Ours,
    /// Ours, from a newer lathunt.
    Newer(i32),
    /// A database of another program.
    Foreign,
}

/// Largest value of a database that is read, in bytes: a histogram or a text. Those of a monitor are below 300 kB.
const LARGEST_VALUE: i32 = 8 << 20;

/// Settings of a connection that reads a file of any origin.
pub(super) fn configure_reading(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(std::time::Duration::from_secs(5))?;
    // A reader that dropped its privileges can create no file; what is sorted is one window.
    connection.pragma_update(None, "temp_store", "memory")?;
    // SAFETY: the handle is that of an open connection, and the call only stores a number.
    unsafe { ffi::sqlite3_limit(connection.handle(), ffi::SQLITE_LIMIT_LENGTH, LARGEST_VALUE) };
    Ok(())
}

/// Our tables.
const NAMES: [&str; 6] = ["window", "series", "sample", "alltime", "event", "running"];

/// Whether a table has a generated column: it could compute without end.
fn computes(connection: &Connection) -> rusqlite::Result<bool> {
    let mut computes = false;
    for name in NAMES {
        connection.pragma(None, "table_xinfo", name, |row| {
            computes |= row.get::<_, i64>("hidden")? != 0;
            Ok(())
        })?;
    }
    Ok(computes)
}

/// Inspects a database without changing it.
pub(super) fn content(connection: &Connection) -> rusqlite::Result<Content> {
    let number = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i32>(0));
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    // A view or a virtual table instead of one of our tables could compute without end.
    let replaced: i64 = connection.query_row(
        "SELECT count(*) FROM sqlite_schema WHERE name IN ('window', 'series', 'sample', 'alltime', 'event', 'running') \
         AND (type <> 'table' OR sql LIKE 'create virtual%')",
        [],
        |row| row.get(0),
    )?;
    Ok(match (number("application_id")?, number("user_version")?, tables) {
        _ if replaced > 0 || computes(connection)? => Content::Foreign,
        (APPLICATION, version, _) if version > VERSION => Content::Newer(version),
        (APPLICATION, _, _) => Content::Ours,
        (0, 0, 0) => Content::Empty,
        _ => Content::Foreign,
    })
}

/// Brings an older database of ours up to date, all or nothing.
pub(super) fn upgrade(connection: &mut Connection) -> rusqlite::Result<()> {
    let from = version(connection)?;
    if from >= VERSION {
        return Ok(());
    }
    // Rows that refer to a replaced table would be deleted with it. The pragma has no effect within a transaction.
    connection.pragma_update(None, "foreign_keys", false)?;
    let transaction = connection.transaction()?;
    for (since, change) in [(WITH_TASKS, ADD_TASKS), (WITH_DEADLINES, ADD_DEADLINES)] {
        if from < since {
            transaction.execute_batch(change)?;
        }
    }
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.commit()?;
    connection.pragma_update(None, "foreign_keys", true)
}

/// `PRAGMA user_version`
pub(super) fn version(connection: &Connection) -> rusqlite::Result<i32> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Creates the tables, all or none.
pub(super) fn create(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    transaction.execute_batch(TABLES)?;
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.commit()
}

#[cfg(test)]
mod tests {
    use lathunt_core::monitor::window::UnixMs;

    use super::super::read::Reader;
    use super::*;

    /// A database with a window of one sample, whose tables were changed.
    fn database(from: &str, to: &str, histogram: &str) -> (tempfile::TempDir, std::path::PathBuf) {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("history.db");
        let connection = Connection::open(&path).unwrap();
        assert!(TABLES.contains(from));
        connection.execute_batch(&TABLES.replacen(from, to, 1)).unwrap();
        let fill = format!(
            "PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {VERSION}; \
             INSERT INTO window VALUES (1, 1000, 2000, 1000000000, 1); \
             INSERT INTO series (id, quantity, cpu) VALUES (1, 'wakeup', 0); \
             INSERT INTO sample (window_id, series_id, count, lost, sum_ns, max_ns, histogram) \
             VALUES (1, 1, 1, 0, 9000, 9000, {histogram});"
        );
        connection.execute_batch(&fill).unwrap();
        (place, path)
    }

    #[test]
    fn a_database_that_computes_its_values_is_not_read() {
        let (_place, path) = database("    victim TEXT,", "    victim TEXT,", "x'00'");
        assert_eq!(Reader::open(&path).unwrap().rows(UnixMs(0), None).unwrap().len(), 1);
        let computed = "    victim TEXT AS (printf('%.*c', 900000000, 'x')) VIRTUAL,";
        let (_place, path) = database("    victim TEXT,", computed, "x'00'");
        let error = Reader::open(&path).unwrap_err().to_string();
        assert!(error.contains("it is not a database of lathunt monitor"), "{error}");
    }

    #[test]
    fn a_giant_value_is_an_error_and_sorting_needs_no_file() {
        let (_place, path) = database("    victim TEXT,", "    victim TEXT,", "zeroblob(20000000)");
        let error = Reader::open(&path).unwrap().rows(UnixMs(0), None).unwrap_err().to_string();
        assert!(error.contains("too big"), "{error}");
        let connection = Connection::open(&path).unwrap();
        configure_reading(&connection).unwrap();
        let place: i32 = connection.pragma_query_value(None, "temp_store", |row| row.get(0)).unwrap();
        assert_eq!(place, 2, "in memory");
    }
}
