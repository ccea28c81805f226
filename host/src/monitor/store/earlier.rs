//! What a monitor before this one left behind: windows that it closed and that are gone, and those that it never wrote.

use std::path::Path;

use lathunt_core::monitor::event::{Event, Kind};
use lathunt_core::monitor::window::UnixMs;
use rusqlite::{Connection, OptionalExtension};

/// Windows that were closed until `closed` and are not there.
pub(super) fn cut_off(
    connection: &Connection,
    path: &Path,
    closed: UnixMs,
    now: UnixMs,
) -> rusqlite::Result<Option<Event>> {
    let query = "SELECT max(end_ms) FROM window";
    let last: Option<i64> = connection.query_row(query, [], |row| row.get(0))?;
    if last.is_some_and(|last| last >= closed.0) {
        return Ok(None);
    }
    let from = match last {
        None => "it holds none".to_owned(),
        Some(last) => format!("its last one ends at {}", UnixMs(last)),
    };
    let path = path.display();
    let detail = format!(
        "the database {path} lacks windows that were closed until {closed}: {from}. Its log {path}-wal was cut off or is gone \
         (power loss, or a copy without it)"
    );
    Ok(Some(Event::new(now, Kind::WindowLost, detail)))
}

/// Windows from the mark on, which is that of the first one that was not written: the one that ran when the monitor ended,
/// and before it those that waited for room on the disk.
pub(super) fn not_written(connection: &Connection, now: UnixMs) -> rusqlite::Result<Option<Event>> {
    let query = "SELECT begin_ms FROM running";
    let begin: Option<i64> = connection.query_row(query, [], |row| row.get(0)).optional()?;
    let detail = |begin| {
        format!(
            "what was recorded from {} until the monitor ended is lost: it was killed, the machine went down, or the database \
             could not be written",
            UnixMs(begin)
        )
    };
    Ok(begin.map(|begin| Event::new(now, Kind::WindowLost, detail(begin))))
}
