//! Writes rows of the tables.

use lathunt_core::monitor::event::Event;
use lathunt_core::monitor::history::WindowFigures;
use lathunt_core::monitor::packed::{pack, pack_peak};
use lathunt_core::monitor::window::{UnixMs, Whose, Window, WindowSeries};
use lathunt_core::time::Ns;
use rusqlite::{params, Connection, Transaction};

use super::schema;

/// The running window, or none.
pub(super) fn mark(connection: &Connection, running: Option<(UnixMs, Ns)>) -> rusqlite::Result<()> {
    match running {
        Some((begin, length)) => connection.execute(
            "INSERT OR REPLACE INTO running (one, begin_ms, length_ms) VALUES (1, ?1, ?2)",
            params![begin.0, (length.0 / 1_000_000) as i64],
        ),
        None => connection.execute("DELETE FROM running", []),
    }
    .map(drop)
}

/// An event.
pub(super) fn insert_event(connection: &Connection, event: &Event) -> rusqlite::Result<()> {
    let Event { at, kind, detail } = event;
    let mut insert =
        connection.prepare_cached("INSERT INTO event (at_ms, kind, detail) VALUES (?1, ?2, ?3)")?;
    insert.execute(params![at.0, kind.name(), detail]).map(drop)
}

/// A window with its series.
pub(super) fn insert(transaction: &Transaction, window: &Window) -> rusqlite::Result<()> {
    transaction.execute(
        "INSERT INTO window (begin_ms, end_ms, measured_ns, whole) VALUES (?1, ?2, ?3, ?4)",
        params![window.begin.0, window.end.0, to_sql(window.measured), window.whole],
    )?;
    let id = transaction.last_insert_rowid();
    window.series.iter().try_for_each(|series| insert_series(transaction, id, window, series))
}

fn insert_series(
    transaction: &Transaction,
    window_id: i64,
    window: &Window,
    series: &WindowSeries,
) -> rusqlite::Result<()> {
    let quantity = series.key.quantity.name();
    let (cpu, task) = match series.key.whose {
        Whose::Cpu(cpu) => (i64::from(cpu.0), String::new()),
        Whose::Task(name) => (schema::NO_CPU, name.text()),
    };
    transaction
        .prepare_cached("INSERT OR IGNORE INTO series (quantity, cpu, task) VALUES (?1, ?2, ?3)")?
        .execute(params![quantity, cpu, task])?;
    let series_id: i64 = transaction
        .prepare_cached("SELECT id FROM series WHERE quantity = ?1 AND cpu = ?2 AND task = ?3")?
        .query_row(params![quantity, cpu, task], |row| row.get(0))?;
    let histogram = &series.histogram;
    let WindowFigures { count, sum_ns, quantiles, max } = WindowFigures::of(histogram);
    let [p50, p99, p99_9, p99_99] = quantiles.map(|quantile| quantile.map(to_sql));
    let victim = series.peak.as_ref().map(|peak| peak.victim.to_string());
    let culprit = series.peak.as_ref().and_then(|peak| peak.culprit.clone());
    let at = series.peak_at.map(|at| at.0);
    transaction
        .prepare_cached(
            "INSERT INTO sample (window_id, series_id, count, lost, sum_ns, max_ns, p50_ns, p99_ns, p99_9_ns, p99_99_ns, \
             max_at_ms, victim, culprit, histogram, peak, deadline_ns, misses) \
             VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17)",
        )?
        .execute(params![
            window_id,
            series_id,
            to_sql(Ns(count)),
            to_sql(Ns(series.lost)),
            to_sql(Ns(sum_ns)),
            max.map(to_sql),
            p50,
            p99,
            p99_9,
            p99_99,
            at,
            victim,
            culprit,
            pack(histogram),
            series.peak.as_ref().and_then(pack_peak),
            series.held.map(|held| to_sql(held.deadline)),
            series.held.map(|held| to_sql(Ns(held.misses))),
        ])?;
    let Some(max) = max else { return Ok(()) };
    transaction
        .prepare_cached(
            "INSERT INTO alltime (series_id, max_ns, at_ms, victim, culprit) VALUES (?1, ?2, ?3, ?4, ?5) \
             ON CONFLICT (series_id) DO UPDATE SET max_ns = excluded.max_ns, at_ms = excluded.at_ms, \
             victim = excluded.victim, culprit = excluded.culprit WHERE excluded.max_ns > alltime.max_ns",
        )?
        .execute(params![series_id, to_sql(max), at.unwrap_or(window.end.0), victim, culprit])
        .map(drop)
}

/// SQLite's integers end at 2^63: 292 years in ns.
fn to_sql(value: Ns) -> i64 {
    i64::try_from(value.0).unwrap_or(i64::MAX)
}
