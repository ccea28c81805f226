//! The polling loop: finds programs, enables their events, drains their rings, cleans up after those that ended.
//!
//! No program wakes it. It drains every 2 to 16 ms, more often when rings are fuller, and looks for new programs and a
//! changed session every 50 ms. The session's file and the traces contain what its successor needs after a crash.

mod attached;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};

use super::drain::Tally;
use super::lock::{self, Lock};
use super::output::{Quota, TraceDir};
use super::place::{Place, Share};
use super::program::Program;
use super::session::Session;
use super::snapshot;
use crate::beneath::{Directory, Readers};
use crate::error::{Error, Result};
use attached::{describe, directory_name, Attached};

/// Against ordinary programs: competing with one of them for a CPU, this process gets 29/30 of it if needed.
pub(super) const NICE: libc::c_int = -15;

/// Between two rounds of draining: a round costs some 50 µs plus the events, and the rings hold 100 ms and more.
const SHORTEST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(16);
const LOOK_AROUND: Duration = Duration::from_millis(50);
const REPORT: Duration = Duration::from_millis(500);
/// Looking for new programs takes at most this part of the time (1 / `LOOKING`): a user can create any number of files.
const LOOKING: u32 = 10;

/// Bytes read from the programs of one user in one round, some 10 ms of work: those of other users must not lose events for a
/// program that writes, or claims to have written, without end.
const MOST_PER_ROUND: usize = 64 << 20;
/// The same for one program, however many its user has.
const LEAST_PER_ROUND: usize = 64 << 10;
/// Most programs of one user at once, and most rings (threads) of them.
const MOST_PROGRAMS: usize = 2_048;
const MOST_RINGS: usize = 8_192;

/// The consumer's own status, twice a second, in [`Place::status`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Its process id.
    pub consumer: u32,
    /// Directory it writes to.
    pub dir: PathBuf,
    /// Programs being read: process id, name, events declared.
    pub programs: Vec<(u32, String, usize)>,
    /// Counts of events.
    pub tally: Tally,
    /// Bytes written.
    pub written_bytes: u64,
    /// Why nothing can be written at the moment.
    pub problem: Option<String>,
}

/// What one user's programs may take.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    programs: usize,
    rings: usize,
}

/// The only consumer of its user's programs.
pub struct Consumer {
    place: Place,
    session: Session,
    session_time: Option<SystemTime>,
    output: Rc<Directory>,
    programs: BTreeMap<Share, Attached>,
    /// Programs that the session does not select.
    ignored: BTreeSet<Share>,
    quota: Quota,
    buried: Tally,
    problem: Option<String>,
    /// Users with more programs or rings than are read.
    excess: BTreeSet<u32>,
    /// Fill level of the fullest ring in the last round, in percent.
    fullest: u32,
    _lock: Lock,
    _programs: Option<Lock>,
}

impl Consumer {
    /// Takes the lock and publishes the session for programs that start from now on.
    ///
    /// # Errors
    /// Another consumer is running, or a location or directory cannot be written.
    pub fn start(place: Place, session: Session) -> Result<Consumer> {
        let lock = lock::take(&place.state()?, place.lock().file_name().unwrap_or_default())?;
        let programs = place.claim_programs();
        let output = session.open_dir().and_then(|dir| dir.probe().map(|()| dir)).map_err(|source| {
            Error::new("write traces to", session.dir.display().to_string(), source)
                .hint("choose another -o DIR")
        })?;
        session.write(&place, Some(std::process::id()))?;
        let quota = Quota { limit: session.limit_bytes, written: size_of_tree(&session.dir) };
        let mut consumer = Consumer {
            place,
            session,
            session_time: None,
            output: Rc::new(output),
            programs: BTreeMap::new(),
            ignored: BTreeSet::new(),
            quota,
            buried: Tally::default(),
            problem: None,
            excess: BTreeSet::new(),
            fullest: 0,
            _lock: lock,
            _programs: programs,
        };
        consumer.session_time = modified(&consumer.place.session());
        consumer.look_around();
        Ok(consumer)
    }

    /// Polls until `stop`, then ends the session: events off, everything drained, the session's file gone.
    ///
    /// # Errors
    /// The last events cannot be written.
    pub fn run(mut self, stop: &AtomicBool) -> Result<Status> {
        // Above the load if allowed: a late round means discarded events. Not real-time: it must not disturb.
        // SAFETY: a plain call; without the right to do so it fails and changes nothing.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
        let (mut look_at, mut reported) = (Instant::now() + LOOK_AROUND, Instant::now());
        let mut pause = SHORTEST_PAUSE;
        while !stop.load(Ordering::Relaxed) {
            let started = Instant::now();
            if started >= look_at {
                self.look_around();
                look_at = started + LOOK_AROUND.max(started.elapsed() * LOOKING);
            }
            self.drain_all();
            if started.duration_since(reported) >= REPORT {
                reported = started;
                self.report();
            }
            pause = pause_after(pause, self.fullest);
            std::thread::sleep(pause.saturating_sub(started.elapsed()).max(pause / 4));
        }
        self.finish()
    }

    /// One check for changes and one round of draining.
    pub fn poll(&mut self) {
        self.look_around();
        self.drain_all();
    }

    /// Ends the session.
    ///
    /// # Errors
    /// The last events cannot be written.
    pub fn finish(mut self) -> Result<Status> {
        let _ = fs::remove_file(self.place.session());
        self.place.publish(None);
        self.session.rules.clear();
        self.programs.values().for_each(|attached| attached.apply(&self.session));
        self.problem = None;
        self.look_around();
        for mut attached in std::mem::take(&mut self.programs).into_values() {
            let most = attached.program.held_bytes();
            attached.retry_at = None;
            // Also the dead of which `look_around` reads no more at once.
            let ended = !attached.program.alive();
            if self.drain(&mut attached, most) && ended {
                attached.program.remove();
            }
            self.bury(attached);
        }
        let status = self.status();
        self.report();
        self.place.leave_programs();
        match &status.problem {
            None => Ok(status),
            Some(problem) => Err(Error::new(
                "write all events to",
                self.session.dir.display().to_string(),
                problem.clone(),
            )),
        }
    }

    /// Its current status.
    #[must_use]
    pub fn status(&self) -> Status {
        let mut tally = self.buried;
        for attached in self.programs.values() {
            tally += attached.tally();
        }
        let programs = self
            .programs
            .values()
            .map(|Attached { program, .. }| (program.pid, program.comm.clone(), program.events.len()));
        Status {
            consumer: std::process::id(),
            dir: self.session.dir.clone(),
            programs: programs.collect(),
            tally,
            written_bytes: self.quota.written,
            problem: self.problem(),
        }
    }

    fn report(&self) {
        if let Ok(text) = serde_json::to_string(&self.status()) {
            let path = self.place.status();
            let name = path.file_name().unwrap_or_default();
            let _ =
                self.place.state().map(|state| state.replace(name, text.as_bytes(), Readers::Owner, false));
        }
    }

    /// New programs, ended programs, a changed session.
    fn look_around(&mut self) {
        let time = modified(&self.place.session());
        if time.is_some() && time != self.session_time {
            self.session_time = time;
            if let Ok(Some(session)) = Session::read(&self.place.session()) {
                self.session.rules = session.rules;
                self.programs.values().for_each(|attached| attached.apply(&self.session));
            }
        }
        let mut parts = self.parts();
        let shares = self.place.programs();
        self.ignored.retain(|share| shares.binary_search(share).is_ok());
        for share in shares {
            if self.programs.contains_key(&share) || self.ignored.contains(&share) {
                continue;
            }
            let part = parts.entry(share.uid).or_default();
            if part.programs >= MOST_PROGRAMS {
                self.excess.insert(share.uid);
                continue;
            }
            part.programs += 1; // also for a file that is not ready, which is opened each time
            match Program::open(&share) {
                Some(program) if self.session.covers(&program.comm, program.pid) => {
                    let attached = Attached::new(program, &self.output, &self.session);
                    self.programs.insert(share, attached);
                }
                Some(_) => drop(self.ignored.insert(share)),
                None => {} // not ready yet
            }
        }
        let ended = |attached: &Attached| !attached.program.alive();
        let dead: Vec<_> = self
            .programs
            .iter()
            .filter(|(_, attached)| ended(attached))
            .map(|(share, _)| share.clone())
            .collect();
        let mut read: BTreeMap<u32, usize> = BTreeMap::new();
        for share in dead {
            let read = read.entry(share.uid).or_default();
            if *read > MOST_PER_ROUND {
                continue; // the next time: a user's programs may end by the thousand
            }
            let Some(mut attached) = self.programs.remove(&share) else { continue };
            let most = attached.program.held_bytes();
            *read = read.saturating_add(most);
            if self.drain(&mut attached, most) {
                attached.program.remove();
                self.bury(attached);
            } else {
                self.programs.insert(share, attached); // disk full: the program's memory keeps the events
            }
        }
    }

    fn parts(&self) -> BTreeMap<u32, Part> {
        let mut parts: BTreeMap<u32, Part> = BTreeMap::new();
        for (share, attached) in &self.programs {
            let part = parts.entry(share.uid).or_default();
            part.programs += 1;
            part.rings += attached.program.rings.len();
        }
        parts
    }

    /// Why events are not in the trace, or will not be.
    fn problem(&self) -> Option<String> {
        let now = self.programs.values().find_map(|attached| attached.problem.clone());
        let excess = self.excess.first().map(|uid| {
            format!("user {uid} has more than {MOST_PROGRAMS} programs or {MOST_RINGS} threads at once; the others are not read")
        });
        now.or_else(|| self.problem.clone()).or(excess)
    }

    fn drain_all(&mut self) {
        self.fullest = 0;
        let mut parts = self.parts();
        let mut programs = std::mem::take(&mut self.programs);
        for (share, attached) in &mut programs {
            let part = parts.entry(share.uid).or_default();
            let before = attached.program.rings.len();
            attached.most_rings = before + MOST_RINGS.saturating_sub(part.rings);
            if attached.program.promised_rings() > attached.most_rings {
                self.excess.insert(share.uid);
            }
            self.drain(attached, (MOST_PER_ROUND / part.programs.max(1)).max(LEAST_PER_ROUND));
            part.rings += attached.program.rings.len() - before;
        }
        self.programs = programs;
    }

    /// Reads at most `most` bytes. `false`: nothing can be written at the moment.
    fn drain(&mut self, attached: &mut Attached, most: usize) -> bool {
        if attached.retry_at.is_some_and(|at| Instant::now() < at) {
            return false;
        }
        let drained = attached.drain(&self.session, &mut self.quota, most);
        attached.problem = drained.as_ref().err().map(ToString::to_string);
        attached.retry_at = drained.as_ref().err().map(|_| Instant::now() + REPORT);
        self.fullest = self.fullest.max(*drained.as_ref().unwrap_or(&0));
        drained.is_ok()
    }

    fn bury(&mut self, mut attached: Attached) {
        if let Some(problem) = attached.problem.take() {
            self.problem = Some(problem);
        }
        match attached.finish(&self.session, &mut self.quota) {
            Ok(tally) => self.buried += tally,
            Err(error) => self.problem = Some(error.to_string()),
        }
    }
}

/// The pause after a round in which the fullest ring was `fullest` percent full.
fn pause_after(before: Duration, fullest: u32) -> Duration {
    match fullest {
        0..=12 => (before * 2).min(LONGEST_PAUSE),
        13..=25 => before,
        _ => (before / 2).max(SHORTEST_PAUSE),
    }
}

/// Writes the content of all programs' rings into a new directory below the session's; returns what was written.
///
/// # Errors
/// Writing fails.
pub fn snapshot_all(place: &Place, session: &Session) -> Result<(PathBuf, Tally)> {
    let shown = |number: u64| session.dir.join(format!("snapshot-{number}"));
    let number = (1..).find(|&number| fs::symlink_metadata(shown(number)).is_err()).unwrap_or(0);
    let dir = shown(number);
    let failed = |source| Error::new("write the snapshot", dir.display().to_string(), source);
    let below = dir.file_name().unwrap_or_default();
    let output = session.open_dir().and_then(|output| output.below(below, Readers::Owner)).map_err(failed)?;
    let output = Rc::new(output);
    let (mut quota, mut total) = (Quota { limit: session.limit_bytes, written: 0 }, Tally::default());
    for program in place.programs().iter().filter_map(Program::look) {
        if session.covers(&program.comm, program.pid) {
            let trace = describe(&program, session, &number.to_string());
            let mut out = TraceDir::new(output.clone(), directory_name(&program), trace);
            total += snapshot::write(&program, &mut out, &mut quota).map_err(failed)?;
        }
    }
    Ok((dir, total))
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).ok()?.modified().ok()
}

fn size_of_tree(dir: &Path) -> u64 {
    let size = |entry: fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => size_of_tree(&entry.path()),
        Ok(kind) if kind.is_file() => entry.metadata().map_or(0, |found| found.len()),
        _ => 0,
    };
    fs::read_dir(dir).into_iter().flatten().flatten().map(size).sum()
}
