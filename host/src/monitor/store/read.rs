//! The history for readers: works beside a running monitor, without its privileges and without a lock.

use std::ffi::CString;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use lathunt_core::comm::Comm;
use lathunt_core::monitor::event::{Event, Kind};
use lathunt_core::monitor::history::{Alltime, History, Row, WindowFigures};
use lathunt_core::monitor::window::{quantity, Held, SeriesKey, UnixMs};
use lathunt_core::series::Quantity;
use lathunt_core::time::{Cpu, Ns};
use rusqlite::{params, Connection, ErrorCode, OpenFlags, OptionalExtension};

use super::schema::{self, Content};
use super::untrusted::{self, Room};
use crate::error::{Error, Result};

/// A database opened for reading.
#[derive(Debug)]
pub struct Reader {
    connection: Connection,
    path: PathBuf,
    room: Room,
}

/// Length of the log beside it, if there is one: a monitor is writing it, or one was killed.
///
/// # Errors
/// A file that SQLite would open beside it is a link, or would be waited for, as a FIFO.
fn log(path: &Path) -> Result<Option<u64>> {
    let mut log = None;
    for ending in ["-journal", "-shm", "-wal"] {
        let beside = with(path, ending);
        log = match beside.symlink_metadata() {
            Ok(file) if !file.is_file() => {
                let what = format!("{}: it is not a regular file", beside.display());
                return Err(Error::refused("read", what, "no monitor made it; remove it"));
            }
            Ok(file) => Some(file.len()),
            Err(_) => None,
        };
    }
    Ok(log)
}

/// Its name with `ending`.
fn with(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Its SQLite URI as an immutable file. Otherwise SQLite creates its index of the log beside it, which an ordinary user may
/// not, and which others leave behind.
fn unchanging(path: &Path) -> String {
    let mut name = "file:".to_owned();
    for &byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                name.push(char::from(byte))
            }
            _ => name.push_str(&format!("%{byte:02x}")),
        }
    }
    name + "?immutable=1"
}

/// Precise errors: for all of these SQLite only reports that it is unable to open the file.
fn may_be_read(path: &Path) -> Result<()> {
    let refused = |why: &str, hint| Err(Error::refused("read", format!("{}: {why}", path.display()), hint));
    match path.metadata().and_then(|file| access(path).map(|()| file)) {
        Ok(file) if file.is_dir() => refused("it is a directory", "name the database in it"),
        // Opening a FIFO would wait for its writer.
        Ok(file) if !file.is_file() => {
            refused("it is not a regular file", "name a database of 'lathunt monitor'")
        }
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            refused("there is no such file", "start 'lathunt monitor', or name its database with --database")
        }
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            refused("permission denied", "read it as root or as its owner")
        }
        Err(error) => Err(Error::new("read", path.display().to_string(), error)),
    }
}

/// Not by opening it: closing a file releases all locks that this process has on it (fcntl(2)).
fn access(path: &Path) -> std::io::Result<()> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: a string that ends with a NUL and outlives the call.
    match unsafe { libc::faccessat(libc::AT_FDCWD, name.as_ptr(), libc::R_OK, libc::AT_EACCESS) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

impl Reader {
    /// Opens the database at `path`; a monitor may be writing it.
    ///
    /// # Errors
    /// It is missing, unreadable, damaged, another program's or of a newer version.
    pub fn open(path: &Path) -> Result<Reader> {
        let shown = path.display().to_string();
        may_be_read(path)?;
        // SQLite's log is beside the file that a link points to.
        let path = &path.canonicalize().map_err(|error| Error::new("read", &shown, error))?;
        let problem = |error: rusqlite::Error| unreadable(&shown, error);
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let log = log(path)?;
        let connection = match log {
            Some(_) => Connection::open_with_flags(path, flags),
            None => Connection::open_with_flags(unchanging(path), flags | OpenFlags::SQLITE_OPEN_URI),
        };
        let connection = connection.map_err(problem)?;
        let bytes = path.metadata().map_or(0, |file| file.len()).saturating_add(log.unwrap_or(0));
        untrusted::configure(&connection, bytes).map_err(problem)?;
        let hint = |what: &str| format!("{shown}: {what}");
        match schema::content(&connection).map_err(problem)? {
            Content::Ours => Ok(Reader { connection, path: path.to_owned(), room: Room::of(bytes) }),
            Content::Newer(version) => Err(Error::refused(
                "read",
                hint(&format!("version {version}; this lathunt reads up to {}", schema::VERSION)),
                "use a newer lathunt",
            )),
            Content::Empty | Content::Foreign => Err(Error::refused(
                "read",
                hint("it is not a database of lathunt monitor"),
                "name another file with --database",
            )),
        }
    }

    /// Everything since `from`.
    ///
    /// # Errors
    /// An error of SQLite, or the damaged record.
    pub fn history(&self, from: UnixMs) -> Result<History> {
        self.history_between(from, None)
    }

    /// The windows that overlap `from` to `until`, the events between, and the largest latencies ever.
    ///
    /// # Errors
    /// An error of SQLite, or the damaged record.
    pub fn history_between(&self, from: UnixMs, until: Option<UnixMs>) -> Result<History> {
        let before = |moment: UnixMs| until.is_none_or(|until| moment < until);
        let mut windows = self.windows(from)?;
        windows.retain(|(begin, _)| before(*begin));
        let rows = self.rows(from, until)?;
        let mut events = self.events(from)?;
        events.retain(|event| before(event.at));
        let alltime = self.alltime()?;
        Ok(History {
            from,
            until,
            monitor: self.started(until)?,
            windows,
            rows,
            events,
            alltime,
            latency_deadline: None,
        })
    }

    /// The monitor's message of its last start before `until`.
    fn started(&self, until: Option<UnixMs>) -> Result<Option<String>> {
        let query = "SELECT detail FROM event WHERE kind = ?1 AND at_ms < ?2 ORDER BY id DESC LIMIT 1";
        let until = until.map_or(i64::MAX, |until| until.0);
        let found = self.connection.query_row(query, params![Kind::Started.name(), until], |row| row.get(0));
        found.optional().map_err(|error| self.problem(error))
    }

    /// All series of the windows that ended after `from` and began before `until`, in the order of time.
    ///
    /// # Errors
    /// An error of SQLite, or the damaged record.
    pub fn rows(&self, from: UnixMs, until: Option<UnixMs>) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        self.each_row(from, until, |row| rows.push(row))?;
        Ok(rows)
    }

    /// As the method above, but passes the rows to `take` one by one: a month of a large machine would fill the memory.
    ///
    /// # Errors
    /// An error of SQLite.
    pub fn each_row(&self, from: UnixMs, until: Option<UnixMs>, take: impl FnMut(Row)) -> Result<()> {
        each_row(&self.connection, &self.room, from, until, take).map_err(|error| self.problem(error))
    }

    /// Start and end of the windows that ended after `from`, including those without samples.
    ///
    /// # Errors
    /// An error of SQLite.
    pub fn windows(&self, from: UnixMs) -> Result<Vec<(UnixMs, UnixMs)>> {
        let all = || -> rusqlite::Result<Vec<(UnixMs, UnixMs)>> {
            let mut query = self
                .connection
                .prepare("SELECT begin_ms, end_ms FROM window WHERE end_ms > ?1 ORDER BY id")?;
            let rows = query.query_map(params![from.0], |row| {
                self.room.take(size_of::<(UnixMs, UnixMs)>(), &[])?;
                Ok((UnixMs(row.get(0)?), UnixMs(row.get(1)?)))
            })?;
            rows.collect()
        };
        all().map_err(|error| self.problem(error))
    }

    /// Events of the monitor since `from`, in the order of recording.
    ///
    /// # Errors
    /// An error of SQLite.
    pub fn events(&self, from: UnixMs) -> Result<Vec<Event>> {
        events(&self.connection, &self.room, from).map_err(|error| self.problem(error))
    }

    /// The largest latencies since the database was created, including deleted windows.
    ///
    /// # Errors
    /// An error of SQLite.
    pub fn alltime(&self) -> Result<Vec<Alltime>> {
        alltime(&self.connection, &self.room).map_err(|error| self.problem(error))
    }

    fn problem(&self, error: rusqlite::Error) -> Error {
        unreadable(&self.path.display().to_string(), error)
    }
}

fn unreadable(shown: &str, error: rusqlite::Error) -> Error {
    let why = match error.sqlite_error_code() {
        Some(ErrorCode::OperationInterrupted) => {
            "reading it takes longer than its size explains: it is damaged".to_owned()
        }
        Some(ErrorCode::OutOfMemory) => {
            "reading it takes more memory than a window needs: it is damaged".to_owned()
        }
        _ => return Error::new("read the database", shown, error),
    };
    Error::new("read the database", shown, std::io::Error::other(why))
}

/// Passes on each series of the windows that ended after `from` and began before `until`, in the order of time; holds one row
/// in memory.
pub(super) fn each_row(
    connection: &Connection,
    room: &Room,
    from: UnixMs,
    until: Option<UnixMs>,
    mut take: impl FnMut(Row),
) -> rusqlite::Result<()> {
    let (task, held) = (task(connection)?, held(connection)?);
    let mut query = connection.prepare(&format!(
        "SELECT begin_ms, end_ms, measured_ns, whole, quantity, cpu, count, lost, sum_ns, max_ns, p50_ns, \
         p99_ns, p99_9_ns, p99_99_ns, max_at_ms, victim, culprit, histogram, peak, {task}, {held} FROM sample \
         JOIN window ON window.id = window_id JOIN series ON series.id = series_id \
         WHERE end_ms > ?1 AND begin_ms < ?2 ORDER BY window_id, quantity, cpu < 0, cpu, {task}",
    ))?;
    let mut found = query.query(params![from.0, until.map_or(i64::MAX, |until| until.0)])?;
    while let Some(row) = found.next()? {
        if let Some(row) = as_row(row)? {
            let texts = [&row.victim, &row.culprit].map(|text| text.as_ref().map_or(0, String::len));
            let peak = row.peak.as_ref().map_or(0, Vec::len);
            room.take(size_of::<Row>(), &[texts[0], texts[1], row.histogram.len(), peak])?;
            take(row);
        }
    }
    Ok(())
}

/// `None`: a series that only a newer lathunt knows.
fn as_row(row: &rusqlite::Row) -> rusqlite::Result<Option<Row>> {
    let number = |at: usize| row.get::<_, i64>(at);
    let ns =
        |at: usize| Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(at)?.map(|ns| Ns(ns.unsigned_abs())));
    let Some(quantity) = quantity(&row.get::<_, String>(4)?) else { return Ok(None) };
    let figures = WindowFigures {
        count: number(6)?.unsigned_abs(),
        sum_ns: number(8)?.unsigned_abs(),
        quantiles: [ns(10)?, ns(11)?, ns(12)?, ns(13)?],
        max: ns(9)?,
    };
    Ok(Some(Row {
        begin: UnixMs(number(0)?),
        end: UnixMs(number(1)?),
        measured: Ns(number(2)?.unsigned_abs()),
        whole: number(3)? != 0,
        key: key(quantity, number(5)?, &row.get::<_, String>(19)?),
        figures,
        lost: number(7)?.unsigned_abs(),
        max_at: row.get::<_, Option<i64>>(14)?.map(UnixMs),
        victim: row.get(15)?,
        culprit: row.get(16)?,
        held: ns(20)?.zip(ns(21)?).map(|(deadline, misses)| Held { deadline, misses: misses.0 }),
        histogram: row.get(17)?,
        peak: row.get(18)?,
    }))
}

pub(super) fn events(connection: &Connection, room: &Room, from: UnixMs) -> rusqlite::Result<Vec<Event>> {
    let mut query =
        connection.prepare("SELECT at_ms, kind, detail FROM event WHERE at_ms >= ?1 ORDER BY id")?;
    let rows = query.query_map(params![from.0], |row| {
        let (at, name, detail) = (row.get(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?);
        room.take(size_of::<Event>(), &[detail.len()])?;
        Ok(Kind::named(&name).map(|kind| Event::new(UnixMs(at), kind, detail)))
    })?;
    let events: rusqlite::Result<Vec<Option<Event>>> = rows.collect();
    Ok(events?.into_iter().flatten().collect())
}

fn key(quantity: Quantity, cpu: i64, task: &str) -> SeriesKey {
    match u32::try_from(cpu) {
        Ok(cpu) => SeriesKey::of_cpu(quantity, Cpu(cpu)),
        Err(_) => SeriesKey::of_task(quantity, Comm::cut(task)),
    }
}

/// The column; a database that no newer monitor has opened yet does not have it.
fn task(connection: &Connection) -> rusqlite::Result<&'static str> {
    Ok(if schema::version(connection)? < schema::WITH_TASKS { "''" } else { "task" })
}

/// The same for these two columns.
fn held(connection: &Connection) -> rusqlite::Result<&'static str> {
    let has = schema::version(connection)? >= schema::WITH_DEADLINES;
    Ok(if has { "deadline_ns, misses" } else { "NULL, NULL" })
}

pub(super) fn alltime(connection: &Connection, room: &Room) -> rusqlite::Result<Vec<Alltime>> {
    let task = task(connection)?;
    let mut query = connection.prepare(&format!(
        "SELECT quantity, cpu, max_ns, at_ms, victim, culprit, {task} FROM alltime \
         JOIN series ON series.id = series_id ORDER BY quantity, cpu < 0, cpu, {task}",
    ))?;
    let rows = query.query_map([], |row| {
        let (name, cpu, max) = (row.get::<_, String>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?);
        let task: String = row.get(6)?;
        let key = quantity(&name).map(|quantity| key(quantity, cpu, &task));
        let (at, victim, culprit) =
            (UnixMs(row.get(3)?), row.get::<_, Option<String>>(4)?, row.get::<_, Option<String>>(5)?);
        let texts = [&victim, &culprit].map(|text| text.as_ref().map_or(0, String::len));
        room.take(size_of::<Alltime>(), &texts)?;
        Ok(key.map(|key| Alltime { key, max_ns: Ns(max.unsigned_abs()), at, victim, culprit }))
    })?;
    let all: rusqlite::Result<Vec<Option<Alltime>>> = rows.collect();
    Ok(all?.into_iter().flatten().collect())
}
