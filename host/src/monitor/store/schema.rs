//! The tables of the database, and how a file is recognised as ours. docs/FORMAT.md describes them for readers with SQL.

use rusqlite::{Connection, OptionalExtension};

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

/// Our tables.
const NAMES: [&str; 6] = ["window", "series", "sample", "alltime", "event", "running"];

/// Whether a table has a generated column, or is none to SQLite (since 3.37): it could compute without end.
fn computes(connection: &Connection) -> rusqlite::Result<bool> {
    let mut computes = false;
    for name in NAMES {
        connection.pragma(None, "table_xinfo", name, |row| {
            computes |= row.get::<_, i64>("hidden")? != 0;
            Ok(())
        })?;
        connection.pragma(None, "table_list", name, |row| {
            computes |= row.get::<_, String>("type")? != "table";
            Ok(())
        })?;
    }
    Ok(computes)
}

/// Whether one of our names, in capital letters or not, is that of a view or a virtual table, which could compute without end, or
/// whether something acts when a row is written.
fn replaced(connection: &Connection) -> rusqlite::Result<bool> {
    let mut query =
        connection.prepare("SELECT name, tbl_name, type, coalesce(sql, '') FROM sqlite_schema")?;
    let mut rows = query.query([])?;
    let is_ours = |name: &str| NAMES.iter().any(|ours| name.eq_ignore_ascii_case(ours));
    while let Some(row) = rows.next()? {
        let text =
            |at: usize| Ok::<_, rusqlite::Error>(String::from_utf8_lossy(row.get_ref(at)?.as_bytes()?));
        let (name, table, kind, sql) = (text(0)?, text(1)?, text(2)?, text(3)?);
        let is_virtual = sql.to_ascii_lowercase().contains("virtual"); // no text of ours has the word
        let is_plain = kind.eq_ignore_ascii_case("table") && !is_virtual;
        if (is_ours(&name) && !is_plain) || (is_ours(&table) && kind.eq_ignore_ascii_case("trigger")) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Inspects a database without changing it.
pub(super) fn content(connection: &Connection) -> rusqlite::Result<Content> {
    let number = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i32>(0));
    let is_empty =
        connection.query_row("SELECT 1 FROM sqlite_schema LIMIT 1", [], |_| Ok(())).optional()?.is_none();
    let replaced = replaced(connection)? || computes(connection)?;
    Ok(match (number("application_id")?, number("user_version")?) {
        _ if replaced => Content::Foreign,
        (APPLICATION, version) if version > VERSION => Content::Newer(version),
        (APPLICATION, _) => Content::Ours,
        (0, 0) if is_empty => Content::Empty,
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
        let computed = "    victim TEXT AS (printf('%.*c', 9000000, 'x')) VIRTUAL,";
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
        crate::monitor::store::untrusted::configure(&connection, 1 << 20).unwrap();
        let place: i32 = connection.pragma_query_value(None, "temp_store", |row| row.get(0)).unwrap();
        assert_eq!(place, 2, "in memory");
    }

    /// The database of the tests above, with its bytes changed where the table `name` begins.
    fn damaged(name: &str, change: impl FnOnce(&mut Vec<u8>, usize)) -> String {
        let (_place, path) = database("    victim TEXT,", "    victim TEXT,", "x'00'");
        let connection = Connection::open(&path).unwrap();
        let more = "INSERT INTO event VALUES (1, 1000, 'started', 'x'); INSERT INTO alltime VALUES (1, 9000, 1000, 'v', 'c');";
        connection.execute_batch(more).unwrap();
        let query = format!("SELECT rootpage FROM sqlite_schema WHERE name = '{name}'");
        let page: u32 = connection.query_row(&query, [], |row| row.get(0)).unwrap();
        drop(connection);
        let mut bytes = std::fs::read(&path).unwrap();
        change(&mut bytes, (page as usize - 1) * PAGE);
        std::fs::write(&path, bytes).unwrap();
        let begun = std::time::Instant::now();
        let read = Reader::open(&path).and_then(|reader| reader.history_between(UnixMs(0), None));
        assert!(begun.elapsed() < std::time::Duration::from_secs(60), "{name}: {:?}", begun.elapsed());
        read.unwrap_err().to_string()
    }

    const PAGE: usize = 4096;

    /// Appends a page of a table that names the page `child` three hundred times (sqlite.org/fileformat.html, 1.6).
    fn multiplied(bytes: &mut Vec<u8>, child: u32) -> u32 {
        const CELLS: u16 = 300;
        let mut page = vec![0; PAGE];
        page[0] = 5; // inside a table
        page[3..5].copy_from_slice(&CELLS.to_be_bytes());
        page[5..7].copy_from_slice(&(PAGE as u16 - CELLS * 5).to_be_bytes());
        page[8..12].copy_from_slice(&child.to_be_bytes());
        for cell in 0..CELLS {
            let at = PAGE as u16 - (cell + 1) * 5;
            page[12 + usize::from(cell) * 2..][..2].copy_from_slice(&at.to_be_bytes());
            page[usize::from(at)..][..4].copy_from_slice(&child.to_be_bytes());
            page[usize::from(at) + 4] = 1;
        }
        bytes.extend(page);
        let pages = (bytes.len() / PAGE) as u32;
        bytes[28..32].copy_from_slice(&pages.to_be_bytes());
        pages
    }

    #[test]
    fn pages_that_name_each_other_again_and_again_are_damage_and_not_endless() {
        let told = damaged("event", |bytes, root| {
            bytes.extend_from_within(root..root + PAGE);
            let mut child = (bytes.len() / PAGE) as u32;
            (0..4).for_each(|_| child = multiplied(bytes, child));
            let top = (child as usize - 1) * PAGE;
            bytes.copy_within(top..top + PAGE, root);
        });
        assert!(told.contains("damaged") || told.contains("malformed"), "{told}");
    }

    #[test]
    fn a_view_in_capital_letters_and_a_trigger_are_not_ours() {
        let view = "CREATE VIEW Event AS WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n) \
                    SELECT id, 9000 AS at_ms, 'started' AS kind, 'x' AS detail FROM n";
        let trigger = "CREATE TRIGGER x AFTER INSERT ON window BEGIN DELETE FROM window; END";
        for (before, change) in [("DROP TABLE event", view), ("SELECT 1", trigger)] {
            let (_place, path) = database("    victim TEXT,", "    victim TEXT,", "x'00'");
            let connection = Connection::open(&path).unwrap();
            connection.execute_batch(&format!("{before};{change};")).unwrap();
            assert_eq!(content(&connection).unwrap(), Content::Foreign, "{change}");
            assert!(Reader::open(&path)
                .unwrap_err()
                .to_string()
                .contains("not a database of lathunt monitor"));
        }
    }

    #[test]
    fn a_log_that_is_a_link_or_a_pipe_is_neither_followed_nor_waited_for() {
        for ending in ["-wal", "-journal", "-shm"] {
            let (place, path) = database("    victim TEXT,", "    victim TEXT,", "x'00'");
            let beside = place.path().join(format!("history.db{ending}"));
            let fifo = std::process::Command::new("mkfifo").arg(place.path().join("pipe")).status();
            assert!(fifo.unwrap().success());
            std::os::unix::fs::symlink("pipe", &beside).unwrap();
            let told = Reader::open(&path).unwrap_err().to_string();
            assert!(told.contains("is not a regular file") && told.contains(ending), "{told}");
            std::fs::remove_file(&beside).unwrap();
            std::fs::rename(place.path().join("pipe"), &beside).unwrap();
            assert!(Reader::open(&path).unwrap_err().to_string().contains("is not a regular file"));
        }
    }
}
