//! The tables of the database, and how a file is recognised as ours. docs/FORMAT.md describes them for readers with SQL.

use rusqlite::Connection;

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
        _ if replaced > 0 => Content::Foreign,
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
