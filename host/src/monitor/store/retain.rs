//! How much history is kept: by age and by size, always the newest window, and with small deletions only. The table of
//! the largest latencies ever stays.
//!
//! Wall clocks may be wrong, but the order of closing never is. So only windows closed before the first recent one are
//! deleted by age: those of a board that booted in 1970, between others of today, stay as long as these.

use lathunt_core::monitor::window::UnixMs;
use rusqlite::{named_params, params, Connection};

/// Maximum number of rows deleted by age at one close: a clock that is wrong for an hour must not empty the history.
const MOST_BY_AGE: u32 = 64;
/// Maximum number of windows deleted between two checks of the size.
const MOST_BY_SIZE: i64 = 16;

/// Deletes windows and events from before `oldest`, a few at a time.
pub(super) fn by_age(connection: &Connection, oldest: UnixMs, now: UnixMs) -> rusqlite::Result<()> {
    for (table, time) in [("window", "end_ms"), ("event", "at_ms")] {
        let delete = format!(
            "DELETE FROM {table} WHERE id IN (SELECT id FROM {table} WHERE {time} < :oldest \
             AND id < (SELECT min(id) FROM {table} WHERE {time} BETWEEN :oldest AND :now) ORDER BY id LIMIT :most)"
        );
        let of = named_params! { ":oldest": oldest.0, ":now": now.0, ":most": MOST_BY_AGE };
        connection.execute(&delete, of)?;
    }
    Ok(())
}

/// Deletes events that are older than all windows, then the oldest windows, until the size is at most `bytes`.
pub(super) fn by_size(connection: &Connection, bytes: u64) -> rusqlite::Result<()> {
    let mut deleted = false;
    // Leaves some margin until the next deletion: the file itself shrinks only afterwards.
    while used_bytes(connection)? > bytes / 16 * 15 && delete_oldest(connection)? > 0 {
        deleted = true;
    }
    if deleted {
        // One page per step: both are run to completion.
        for pragma in ["PRAGMA incremental_vacuum", "PRAGMA wal_checkpoint(TRUNCATE)"] {
            let mut statement = connection.prepare(pragma)?;
            let mut rows = statement.query([])?;
            while rows.next()?.is_some() {}
        }
    }
    Ok(())
}

/// Returns the number of rows.
fn delete_oldest(connection: &Connection) -> rusqlite::Result<usize> {
    let events = connection.execute(
        "DELETE FROM event WHERE at_ms < (SELECT begin_ms FROM window ORDER BY id LIMIT 1) AND id < coalesce( \
         (SELECT min(id) FROM event WHERE at_ms >= (SELECT begin_ms FROM window ORDER BY id LIMIT 1)), 1 << 62)",
        [],
    )?;
    if events > 0 {
        return Ok(events);
    }
    let windows: i64 = connection.query_row("SELECT count(*) FROM window", [], |row| row.get(0))?;
    // A few large ones are deleted one at a time.
    connection.execute(
        "DELETE FROM window WHERE id IN (SELECT id FROM window WHERE id < (SELECT max(id) FROM window) ORDER BY id LIMIT ?1)",
        params![(windows / 16).clamp(1, MOST_BY_SIZE)],
    )
}

/// Bytes of the pages in use.
fn used_bytes(connection: &Connection) -> rusqlite::Result<u64> {
    let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let pages = number("page_count")? - number("freelist_count")?;
    Ok((pages * number("page_size")?).unsigned_abs())
}
