//! One 32-byte event of this tool's own tracer, whose consumer runs as a separate process, as in every session.
//!
//! The event is registered on use and not by a constructor: other commands of this program have no share.

use std::ffi::CStr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use lathunt_tracer::declare::{register, Event as Descriptor, Field};
use lathunt_tracer::Record;

use super::super::turn::Probe;
use super::THIRD;
use crate::channel::place::Place;
use crate::channel::{daemon, session};
use crate::error::{Error, Result};
use crate::private_directory::{self, Private};

const fn number(name: &'static CStr) -> Field {
    Field {
        name: name.as_ptr(),
        kind: c"u64".as_ptr(),
        base: std::ptr::null(),
        labels: std::ptr::null(),
        label_count: 0,
        size: 0,
    }
}

static FIELDS: [Field; 3] = [number(c"turn"), number(c"ticks"), number(c"third")];
static EVENT: Descriptor = Descriptor::new(c"npt:turn", &FIELDS);

/// Emits it.
pub struct Event;

impl Probe for Event {
    #[inline(always)]
    fn fire(&mut self, turn: u64, ticks: u64) {
        if !EVENT.wanted() {
            return;
        }
        if let Some(record) = Record::begin(&EVENT, 24) {
            let at = record.payload().cast::<u64>();
            // SAFETY: 24 bytes are reserved there; records begin at multiples of 8 bytes.
            unsafe {
                at.write(turn);
                at.add(1).write(ticks);
                at.add(2).write(THIRD);
            }
            record.commit();
        }
    }
}

/// Allocates memory for this thread.
pub(super) fn enter() -> Result<()> {
    match lathunt_tracer::thread_init(None) && EVENT.wanted() {
        true => Ok(()),
        false => {
            Err(Error::refused("trace", "this thread", "no memory for its ring, or LATHUNT_TRACE=off is set"))
        }
    }
}

/// The consumer and its directories.
pub struct Session {
    place: Place,
    memory: Private,
    _output: Private,
    drained: bool,
}

impl Session {
    pub(super) fn start(drained: bool, events: u64) -> Result<Session> {
        static USED: AtomicBool = AtomicBool::new(false);
        if USED.swap(true, Ordering::Relaxed) {
            return Err(Error::refused("trace", "this process", "it has been traced already"));
        }
        let shared = Path::new("/dev/shm");
        let memory = Private::below(shared, private_directory::NPT)
            .map_err(|error| Error::new("make a directory in", shared.display().to_string(), error))?;
        let output = super::room_for(if drained { events } else { 0 })?;
        let place = Place::new(memory.path.clone());
        let mut wanted = session::Session::new(output.path.join("trace"));
        wanted.overwrite = !drained;
        wanted.pids = vec![std::process::id()];
        let session = Session { place, memory, _output: output, drained };
        // SAFETY: no other thread of ours reads or changes the environment meanwhile: the probe starts before them.
        unsafe { std::env::set_var("LATHUNT_TRACE_DIR", &session.memory.path) };
        daemon::start_bound(&session.place, &wanted)?;
        register(&EVENT);
        Ok(session)
    }

    pub(super) fn finish(self) -> Result<String> {
        let status = daemon::stop(&self.place)?.unwrap_or_default();
        let tally = status.tally;
        let mode = if self.drained { "drained to disk" } else { "flight recorder" };
        Ok(format!(
            "lathunt events ({mode}): {} recorded, {} overwritten by newer ones, {} discarded",
            tally.recorded, tally.overwritten, tally.discarded
        ))
    }
}
