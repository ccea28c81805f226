//! State left by an earlier monitor: windows that it closed and that are missing, and those that it never wrote.

use std::path::Path;

use lathunt_core::monitor::event::{Event, Kind};
use lathunt_core::monitor::window::UnixMs;
use rusqlite::{Connection, OptionalExtension};

use super::write::{insert_event, mark};

/// Finds all of it. `closed`: end of the last closed window, if known.
pub(super) fn left(
    connection: &Connection,
    path: &Path,
    closed: Option<UnixMs>,
    now: UnixMs,
) -> rusqlite::Result<Vec<Event>> {
    let cut_off = closed.map(|closed| cut_off(connection, path, closed, now)).transpose()?;
    Ok(cut_off.flatten().into_iter().chain(not_written(connection, now)?).collect())
}

/// Stores `found` and removes the state that it came from. Returns the end of the last existing window.
pub(super) fn settle(connection: &mut Connection, found: &[Event]) -> rusqlite::Result<Option<UnixMs>> {
    let transaction = connection.transaction()?;
    found.iter().try_for_each(|event| insert_event(&transaction, event))?;
    mark(&transaction, None)?;
    transaction.commit()?;
    last_end(connection)
}

fn last_end(connection: &Connection) -> rusqlite::Result<Option<UnixMs>> {
    let last: Option<i64> = connection.query_row("SELECT max(end_ms) FROM window", [], |row| row.get(0))?;
    Ok(last.map(UnixMs))
}

/// Windows that were closed until `closed` and are missing.
fn cut_off(
    connection: &Connection,
    path: &Path,
    closed: UnixMs,
    now: UnixMs,
) -> rusqlite::Result<Option<Event>> {
    let last = last_end(connection)?;
    if last.is_some_and(|last| last >= closed) {
        return Ok(None);
    }
    let path = path.display();
    let log = format!("its log {path}-wal was cut off or is gone (power loss, or a copy without it)");
    let why = match last {
        None => format!("it holds none. It is a new one, or {log}"),
        Some(last) => format!("its last one ends at {last}, so {log}"),
    };
    let detail = format!("the database {path} lacks windows that were closed until {closed}: {why}");
    Ok(Some(Event::new(now, Kind::WindowLost, detail)))
}

/// Windows from the mark on, which is that of the first unwritten one: the one running when the monitor ended, and those
/// before it that waited for disk space.
fn not_written(connection: &Connection, now: UnixMs) -> rusqlite::Result<Option<Event>> {
    let query = "SELECT begin_ms FROM running";
    let begin: Option<i64> = connection.query_row(query, [], |row| row.get(0)).optional()?;
    let detail = |begin| {
        format!(
            "the recording from {} until the monitor ended is lost: it was killed, the machine went down, or the database \
             could not be written",
            UnixMs(begin)
        )
    };
    Ok(begin.map(|begin| Event::new(now, Kind::WindowLost, detail(begin))))
}
