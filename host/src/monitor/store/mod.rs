//! The database of a monitor: windows are written whole or not at all; unwritable ones wait, damaged databases are set aside.
//!
//! SQLite in WAL mode: a window and the mark of the next one are one transaction, so a kill at any moment loses only the
//! running window, and its mark reports that at the next start. Readers never block the writer.
//!
//! On a full disk, windows wait in memory ([`MOST_WAITING`] at most) and are written when there is room again, with an event
//! that lists the discarded ones. A damaged file is renamed, never deleted, and a new one created.

mod earlier;
mod hold;
mod read;
mod refusal;
mod retain;
mod schema;
mod untrusted;
mod write;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use lathunt_core::monitor::event::{Event, Kind};
use lathunt_core::monitor::exceedance::Exceedances;
use lathunt_core::monitor::history::Alltime;
use lathunt_core::monitor::window::{UnixMs, Window};
use lathunt_core::time::Ns;
use rusqlite::Connection;

pub use read::Reader;

use crate::beneath::Foreign;
use crate::error::{Error, Result};
use hold::{beside, Hold};
use refusal::{bears_our_mark, is_damage, open, said, set_aside, Refusal};
use untrusted::Room;
use write::{insert, insert_event, mark};

/// Windows that may wait for disk space: a day of five-minute windows.
pub const MOST_WAITING: usize = 288;
/// Events that may wait.
const MOST_EVENTS_WAITING: usize = 1_000;

/// Limits of the history.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Windows and events older than this are deleted.
    pub keep: Ns,
    /// Maximum size of the database; the oldest windows make room, and events older than these.
    pub bytes: u64,
}

/// Outcome for a closed window.
#[derive(Debug)]
pub enum Saved {
    /// It is on disk, with all that waited.
    Yes,
    /// It waits in memory; the reason.
    Waits(Error),
    /// The database was damaged; it was set aside and the window is in a new one.
    Anew(Event),
}

/// The open database of a running monitor.
#[derive(Debug)]
pub struct Store {
    /// `None`: the old database is damaged or set aside, and no new one could be opened yet.
    connection: Option<Connection>,
    path: PathBuf,
    limits: Limits,
    waiting: VecDeque<Window>,
    events: VecDeque<Event>,
    running: Option<(UnixMs, Ns)>,
    given_up: u64,
    gap: Option<Gap>,
    hold: Hold,
}

/// Windows that waited too long and were discarded, until that is in the database.
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
    /// Opens or creates the database at `path` and locks it for this process. The events report a window lost by a killed
    /// monitor, or a damaged database that was set aside. They are in the database already.
    ///
    /// # Errors
    /// Another monitor has it, under any name; it belongs to another user or a newer version; or the location is not
    /// writable, or not safe from other users unless `foreign` allows that.
    pub fn open(path: &Path, limits: Limits, now: UnixMs, foreign: Foreign) -> Result<(Store, Vec<Event>)> {
        let directory = hold::place(path, foreign)?;
        let path = &hold::real(path)?;
        let hold = Hold::take(&directory, path)?;
        let is_new = path.symlink_metadata().is_err();
        let mut found = Vec::new();
        let connection = match open(path) {
            Ok(connection) => connection,
            Err(Refusal::Damaged(why)) if hold.was_ours || bears_our_mark(path) => {
                found.push(set_aside(path, &why, now)?);
                open(path).map_err(|refusal| refusal.into_error(path))?
            }
            Err(refusal) => {
                if is_new {
                    refusal::remove(path); // a full disk: nothing of it is left there
                }
                if !hold.was_ours {
                    let _ = std::fs::remove_file(beside(path, "lock"));
                }
                return Err(refusal.into_error(path));
            }
        };
        // One that was set aside has lost everything.
        let closed = hold.closed.filter(|_| found.is_empty());
        let left = earlier::left(&connection, path, closed, now);
        found.extend(left.map_err(|error| said(path, error))?);
        let mut store = Store {
            connection: Some(connection),
            path: path.to_owned(),
            limits,
            waiting: VecDeque::new(),
            events: VecDeque::new(),
            running: None,
            given_up: 0,
            gap: None,
            hold,
        };
        store.tell(&found);
        Ok((store, found))
    }

    /// Records the state left by an earlier monitor, once: the next start does not find it again. Until that can be written,
    /// that monitor's mark stays.
    fn tell(&mut self, found: &[Event]) {
        if found.is_empty() {
            return;
        }
        match self.connection.as_mut().map(|connection| earlier::settle(connection, found)) {
            Some(Ok(last)) => self.hold.note(last),
            _ => self.events.extend(found.iter().cloned()),
        }
    }

    /// A window starts: if nothing follows, the next start knows what was lost.
    pub fn begin(&mut self, begin: UnixMs, length: Ns) {
        self.running = Some((begin, length));
        if let Some(connection) = self.connection.as_ref().filter(|_| self.events.is_empty()) {
            let _ = mark(connection, self.running); // closing it marks the next one again
        }
    }

    /// Writes a closed window; `next`: the one that starts now, `None` at the end.
    pub fn close(&mut self, window: Window, next: Option<(UnixMs, Ns)>) -> Saved {
        let now = window.end;
        self.running = next;
        self.waiting.push_back(window);
        self.give_up_oldest();
        match self.write_waiting(now).map_err(|refusal| match &self.connection {
            Some(connection) => refusal.on(connection),
            None => refusal,
        }) {
            Ok(()) => Saved::Yes,
            Err(Refusal::Damaged(why)) => self.begin_anew(&why, now).map_or_else(Saved::Waits, Saved::Anew),
            Err(refusal) => Saved::Waits(refusal.into_error(&self.path)),
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

    /// If this fails, the next close continues from where it stopped.
    fn begin_anew(&mut self, why: &str, now: UnixMs) -> Result<Event> {
        self.connection = None;
        let event = set_aside(&self.path, why, now)?;
        self.event(event.clone());
        self.write_waiting(now).map_err(|refusal| refusal.into_error(&self.path))?;
        Ok(event)
    }

    /// Writes everything that waits, or nothing.
    fn write_waiting(&mut self, now: UnixMs) -> std::result::Result<(), Refusal> {
        let opened = match self.connection.take() {
            Some(connection) => connection,
            None => open(&self.path)?,
        };
        let connection = self.connection.insert(opened);
        let transaction = connection.transaction()?;
        let gap = self.gap.map(|gap| gap.event(now));
        self.events.iter().chain(&gap).try_for_each(|event| insert_event(&transaction, event))?;
        self.waiting.iter().try_for_each(|window| insert(&transaction, window))?;
        mark(&transaction, self.running)?;
        retain::by_age(&transaction, now.minus(self.limits.keep), now)?;
        transaction.commit()?;
        self.hold.note(self.waiting.iter().map(|window| window.end).max().or(self.hold.closed));
        // The windows are kept; more room is made at the next close. If that meets damage, all of it is written once more,
        // into a new database.
        match retain::by_size(connection, self.limits.bytes) {
            Err(error) if is_damage(&error) => return Err(error.into()),
            _ => {}
        }
        self.waiting.clear();
        self.events.clear();
        self.gap = None;
        Ok(())
    }

    /// Keeps an event, on disk at once if possible.
    pub fn event(&mut self, event: Event) {
        let connection = self.connection.as_ref().filter(|_| self.events.is_empty());
        if connection.is_none_or(|connection| insert_event(connection, &event).is_err()) {
            self.events.push_back(event);
            while self.events.len() > MOST_EVENTS_WAITING {
                self.events.pop_front();
            }
        }
    }

    /// Windows that wait for disk space.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Windows that waited too long and were discarded.
    #[must_use]
    pub fn given_up(&self) -> u64 {
        self.given_up
    }

    /// Adds the contents of the windows that ended in the span before `now`.
    ///
    /// # Errors
    /// An error of SQLite.
    pub fn add_to(&self, exceedances: &mut Exceedances, now: UnixMs) -> Result<()> {
        let from = now.minus(exceedances.span());
        let connection = self.opened()?;
        let mut add = || -> rusqlite::Result<()> {
            read::each_row(connection, &Room::any(), from, None, |row| exceedances.row(&row))?;
            read::events(connection, &Room::any(), from)?.iter().for_each(|event| exceedances.event(event));
            Ok(())
        };
        add().map_err(|error| said(&self.path, error))
    }

    fn opened(&self) -> Result<&Connection> {
        let closed = || Error::refused("read", format!("{}: it is not open", self.path.display()), "");
        self.connection.as_ref().ok_or_else(closed)
    }

    /// The largest latencies ever, with their times.
    ///
    /// # Errors
    /// An error of SQLite.
    pub fn alltime(&self) -> Result<Vec<Alltime>> {
        read::alltime(self.opened()?, &Room::any()).map_err(|error| said(&self.path, error))
    }
}
