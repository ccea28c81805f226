//! Report of a runtime: its preemption mechanism, and statistics of its threads.

use crate::alarm::Mechanism;
use crate::fiber::Thread;
use crate::measure::Measured;
use crate::meter::Process;
use crate::ops::{with, Error};
use crate::policy::record::Happened;
use crate::state;

/// A runtime, as it is now.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// How running threads are interrupted; `None`: not at all.
    pub mechanism: Option<Mechanism>,
    /// Lateness of both mechanisms, measured at start.
    pub measured: Measured,
    /// Whether the time is read from the CPU's counter.
    pub uses_counter: bool,
    /// Switches between threads.
    pub switches: u64,
    /// Signals that were served at once.
    pub signals: u64,
    /// Signals that found the scheduler locked.
    pub deferred: u64,
    /// Threads that have not ended.
    pub live: usize,
    /// Time away of the whole process; `None` without [`crate::Config::meter`].
    pub process: Option<Process>,
}

/// The calling kernel thread's runtime.
///
/// # Errors
/// [`Error::NoRuntime`].
pub fn report() -> Result<Report, Error> {
    with(|rt| Report {
        mechanism: state::mechanism(rt),
        measured: rt.measured,
        uses_counter: rt.clock.uses_counter(),
        switches: rt.switches,
        signals: rt.signals,
        deferred: rt.deferred,
        live: rt.sched.live(),
        process: {
            rt.settle();
            rt.meter.as_ref().map(|meter| meter.process)
        },
    })
}

impl std::fmt::Display for Report {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = match self.mechanism {
            Some(Mechanism::Timer) => "POSIX timer",
            Some(Mechanism::Helper) => "helper thread",
            None => "no preemption",
        };
        write!(out, "preemption by: {name}")?;
        for (name, measured) in [("timer", self.measured.timer), ("helper", self.measured.helper)] {
            if let Some((median, worst)) = measured {
                write!(out, "; {name}: median {median} ns, worst {worst} ns late")?;
            }
        }
        Ok(())
    }
}

/// The newest events of the scheduler, oldest first, and the number of older ones that were overwritten
/// ([`crate::Config::record`]). [`crate::Thread::id`] identifies their threads.
///
/// # Errors
/// [`Error::NoRuntime`].
pub fn recorded() -> Result<(Vec<Happened>, u64), Error> {
    with(|rt| rt.sched.recorded())
}

/// Stops recording; recorded events stay.
///
/// # Errors
/// [`Error::NoRuntime`].
pub fn stop_recording() -> Result<(), Error> {
    with(|rt| rt.sched.stop_recording())
}

/// Adds an event of the program to the recorded ones. No effect if recording is off.
///
/// # Errors
/// [`Error::NoRuntime`].
pub fn note(kind: u32, value: u64) -> Result<(), Error> {
    with(|rt| {
        let now = rt.now();
        rt.sched.note(kind, value, now);
    })
}

/// The name of a thread.
///
/// # Errors
/// [`Error::NoRuntime`].
pub fn name(thread: Thread) -> Result<String, Error> {
    with(|rt| rt.fibers.get(thread.id.0 as usize).map_or("", |fiber| fiber.name()).to_string())
}
