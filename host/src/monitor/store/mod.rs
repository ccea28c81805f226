//! The database of a monitor: windows in, never half of one; what cannot be written waits, what is damaged is set aside.
//!
//! SQLite in WAL mode: a window and the mark of the next one are one transaction, so a kill at any moment loses the window
//! that ran, and the mark that is left tells so at the next start. Readers never block the writer.
//!
//! A disk that is full: windows wait in memory ([`MOST_WAITING`] at most) and are written when there is room again, with an
//! event that says which were given up. A damaged file is renamed, never deleted, and a new one begun.

mod earlier;
mod hold;
mod read;
mod refusal;
mod retain;
mod schema;
mod write;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use lathunt_core::monitor::event::{Event, Kind};
use lathunt_core::monitor::history::Alltime;
use lathunt_core::monitor::window::{UnixMs, Window};
use lathunt_core::time::Ns;
use rusqlite::Connection;

pub use read::Reader;

use crate::error::{Error, Result};
use hold::{beside, Hold};
use refusal::{is_damage, open, said, set_aside, Refusal};
use write::{insert, insert_event, mark};

/// Windows that wait for room on the disk: a day of five minutes.
pub const MOST_WAITING: usize = 288;
/// Events that wait.
const MOST_EVENTS_WAITING: usize = 1_000;

/// How much history is kept.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Windows and events older than this are deleted.
    pub keep: Ns,
    /// The database grows to this at most; the oldest windows make room, and events older than these.
    pub bytes: u64,
}

/// What became of a closed window.
#[derive(Debug)]
pub enum Saved {
    /// It is on the disk, and so is all that waited.
    Yes,
    /// It waits in memory; why.
    Waits(Error),
    /// The database was damaged; it was set aside and the window is in a new one.
    Anew(Event),
}

/// The open database of a running monitor.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    path: PathBuf,
    limits: Limits,
    waiting: VecDeque<Window>,
    events: VecDeque<Event>,
    running: Option<(UnixMs, Ns)>,
    given_up: u64,
    gap: Option<Gap>,
    hold: Hold,
}

/// Windows that waited too long and were given up, until that is in the database.
#[derive(Clone, Copy, Debug)]
struct Gap {
    windows: u64,
    from: UnixMs,
    until: UnixMs,
}

impl Gap {
    fn event(self, now: UnixMs) -> Event {
        let Gap { windows, from, until } = self;
        let detail = format!(
            "{windows} windows from {from} to {until} are lost: the database could not be written, and no more than \
             {MOST_WAITING} wait in memory"
        );
        Event::new(now, Kind::WindowLost, detail)
    }
}

impl Store {
    /// Opens or makes the database at `path` and takes it for this process. The events say what was found: a window that
    /// a killed monitor lost, a damaged database that was set aside. They are in the database already.
    ///
    /// # Errors
    /// Another monitor has it, it belongs to somebody else, it is of a newer version, or the place cannot be written.
    pub fn open(path: &Path, limits: Limits, now: UnixMs) -> Result<(Store, Vec<Event>)> {
        if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
            std::fs::create_dir_all(directory)
                .map_err(|error| Error::new("make the directory", directory.display().to_string(), error))?;
        }
        let hold = Hold::take(path)?;
        let mut found = Vec::new();
        let connection = match open(path) {
            Ok(connection) => connection,
            Err(Refusal::Damaged(why)) if hold.was_ours => {
                found.push(set_aside(path, &why, now)?);
                open(path).map_err(|refusal| refusal.into_error(path))?
            }
            Err(refusal) => {
                if !hold.was_ours {
                    let _ = std::fs::remove_file(beside(path, "lock"));
                }
                return Err(refusal.into_error(path));
            }
        };
        let (waiting, events) = (VecDeque::new(), VecDeque::new());
        let mut store = Store {
            connection,
            path: path.to_owned(),
            limits,
            waiting,
            events,
            running: None,
            given_up: 0,
            gap: None,
            hold,
        };
        // One that was set aside has lost all.
        if found.is_empty() {
            found.extend(store.cut_off(now).map_err(|error| store.said(error))?);
        }
        found.extend(earlier::not_written(&store.connection, now).map_err(|error| store.said(error))?);
        found.iter().for_each(|event| store.event(event.clone()));
        Ok((store, found))
    }

    /// Windows that were closed and are not there.
    fn cut_off(&self, now: UnixMs) -> rusqlite::Result<Option<Event>> {
        let Some(closed) = self.hold.closed else { return Ok(None) };
        earlier::cut_off(&self.connection, &self.path, closed, now)
    }

    /// A window begins: should nothing else follow, the next start knows what was lost.
    pub fn begin(&mut self, begin: UnixMs, length: Ns) {
        self.running = Some((begin, length));
        let _ = mark(&self.connection, self.running); // closing it marks the next one again
    }

    /// Writes a closed window; `next`: the one that begins now, `None` at the end.
    pub fn close(&mut self, window: Window, next: Option<(UnixMs, Ns)>) -> Saved {
        let now = window.end;
        self.running = next;
        self.waiting.push_back(window);
        self.give_up_oldest();
        match self.write_waiting(now) {
            Ok(()) => Saved::Yes,
            Err(error) if is_damage(&error) => match self.begin_anew(&error.to_string(), now) {
                Ok(event) => Saved::Anew(event),
                Err(error) => Saved::Waits(error),
            },
            Err(error) => Saved::Waits(self.said(error)),
        }
    }

    fn give_up_oldest(&mut self) {
        while self.waiting.len() > MOST_WAITING {
            let Some(window) = self.waiting.pop_front() else { break };
            self.given_up += 1;
            let gap = self.gap.get_or_insert(Gap { windows: 0, from: window.begin, until: window.end });
            (gap.windows, gap.until) = (gap.windows + 1, window.end);
        }
    }

    fn begin_anew(&mut self, why: &str, now: UnixMs) -> Result<Event> {
        let nothing = Connection::open_in_memory().map_err(|error| self.said(error))?;
        drop(std::mem::replace(&mut self.connection, nothing));
        let event = set_aside(&self.path, why, now)?;
        self.connection = open(&self.path).map_err(|refusal| refusal.into_error(&self.path))?;
        self.event(event.clone());
        self.write_waiting(now).map_err(|error| self.said(error))?;
        Ok(event)
    }

    /// Everything that waits, or nothing of it.
    fn write_waiting(&mut self, now: UnixMs) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction()?;
        let gap = self.gap.map(|gap| gap.event(now));
        self.events.iter().chain(&gap).try_for_each(|event| insert_event(&transaction, event))?;
        self.waiting.iter().try_for_each(|window| insert(&transaction, window))?;
        mark(&transaction, self.running)?;
        retain::by_age(&transaction, now.minus(self.limits.keep), now)?;
        transaction.commit()?;
        self.hold.note(self.waiting.iter().map(|window| window.end).max().or(self.hold.closed));
        self.waiting.clear();
        self.events.clear();
        self.gap = None;
        retain::by_size(&self.connection, self.limits.bytes)
    }

    /// Keeps an event, on the disk at once where that is possible.
    pub fn event(&mut self, event: Event) {
        if !self.events.is_empty() || insert_event(&self.connection, &event).is_err() {
            self.events.push_back(event);
            while self.events.len() > MOST_EVENTS_WAITING {
                self.events.pop_front();
            }
        }
    }

    /// Windows that wait for room on the disk.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Windows that waited too long and were given up.
    #[must_use]
    pub fn given_up(&self) -> u64 {
        self.given_up
    }

    /// The largest latencies ever, with their times.
    ///
    /// # Errors
    /// What SQLite says.
    pub fn alltime(&self) -> Result<Vec<Alltime>> {
        read::alltime(&self.connection).map_err(|error| self.said(error))
    }

    fn said(&self, error: rusqlite::Error) -> Error {
        said(&self.path, error)
    }
}
