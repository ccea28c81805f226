//! One program that the consumer reads: its rings, and its trace.

use std::ffi::OsString;
use std::rc::Rc;
use std::time::Instant;
use std::{fs, io};

use lathunt_core::export::ctf::Trace;
use lathunt_core::trace::user_ring::control;

use super::MOST_RINGS;
use crate::beneath::Directory;
use crate::channel::clock;
use crate::channel::drain::{Drain, Tally};
use crate::channel::output::{uuid_of, Quota, TraceDir};
use crate::channel::program::Program;
use crate::channel::session::Session;
use crate::channel::snapshot;

/// A program that is read, with its trace.
pub(super) struct Attached {
    pub program: Program,
    dir: TraceDir,
    drains: Vec<Drain>,
    /// The ring that the next round starts with.
    first: usize,
    /// Number of rings that it may have.
    pub most_rings: usize,
    /// Why nothing can be written at the moment.
    pub problem: Option<String>,
    pub retry_at: Option<Instant>,
}

impl Attached {
    pub fn new(program: Program, output: &Rc<Directory>, session: &Session) -> Attached {
        let dir = TraceDir::new(output.clone(), directory_name(&program), describe(&program, session, ""));
        let attached = Attached {
            program,
            dir,
            drains: Vec::new(),
            first: 0,
            most_rings: MOST_RINGS,
            problem: None,
            retry_at: None,
        };
        attached.apply(session);
        attached
    }

    /// Enables and disables every event as the session specifies.
    pub fn apply(&self, session: &Session) {
        for event in self.program.events.iter() {
            self.program.enable(event.id, session.wants(&event.name));
        }
    }

    /// Reads at most `most` bytes; returns the fill level of its fullest ring, in percent.
    pub fn drain(&mut self, session: &Session, quota: &mut Quota, most: usize) -> io::Result<u32> {
        for event in self.program.refresh(self.most_rings) {
            self.program.enable(event.id, session.wants(&event.name));
        }
        while self.drains.len() < self.program.rings.len() {
            let ring = self.drains.len();
            self.program.rings[ring].set_overwrite(session.overwrite && ring > 0);
            self.drains.push(Drain::open(&self.program, ring, &mut self.dir)?);
        }
        let (mut fullest, mut left) = (0, most);
        if !session.overwrite {
            // The next round continues with the ring at which this one stops.
            let (first, rings) = (self.first, self.drains.len());
            for ring in (0..rings).map(|ring| (first + ring) % rings) {
                if left == 0 {
                    self.first = ring;
                    return Ok(100); // read on soon
                }
                let drain = &mut self.drains[ring];
                fullest = fullest.max(drain.run(&self.program, &mut self.dir, quota, &mut left)?);
            }
        }
        Ok(fullest)
    }

    pub fn tally(&self) -> Tally {
        let mut tally = Tally { discarded: self.program.value(control::NO_RING), ..Tally::default() };
        for drain in &self.drains {
            tally += drain.tally(&self.program);
        }
        tally
    }

    /// Drains the rest of a program that has ended, or whose session ends.
    pub fn finish(&mut self, session: &Session, quota: &mut Quota) -> io::Result<Tally> {
        let mut tally = Tally { discarded: self.program.value(control::NO_RING), ..Tally::default() };
        if session.overwrite {
            tally += snapshot::write(&self.program, &mut self.dir, quota)?;
            return Ok(tally);
        }
        let mut left = self.program.held_bytes();
        for drain in &mut self.drains {
            tally += drain.finish(&self.program, &mut left)?;
        }
        Ok(tally)
    }
}

/// Name of the directory of its trace.
pub(super) fn directory_name(program: &Program) -> OsString {
    let comm: String = program
        .comm
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' })
        .collect();
    format!("{comm}-{}", program.name()).into()
}

/// What its trace says of itself; `salt` distinguishes traces of one session.
pub(super) fn describe(program: &Program, session: &Session, salt: &str) -> Trace {
    let boot_id = clock::boot_id();
    Trace {
        uuid: uuid_of(&[&boot_id, &program.name(), &session.created.to_string(), salt]),
        boot_id,
        clock_offset_ns: session.clock_offset_ns,
        hostname: fs::read_to_string("/proc/sys/kernel/hostname")
            .map_or(String::new(), |name| name.trim().to_owned()),
        comm: program.comm.clone(),
        pid: program.pid,
        created: clock::iso8601(session.created),
    }
}
