//! The event in an iteration of the loop: none, or one event of a tracer with three 64-bit numbers. One file per
//! tracer; each is set up in a session of its own, so that the user's sessions are not touched, and removed
//! afterwards.

pub mod lathunt;
pub mod lttng;
mod lttng_daemon;
pub mod marker;
mod tracefs;
pub mod uprobe;

use std::fs::File;

use lathunt_core::cpuset::CpuSet;

use super::turn::Probe;
use crate::error::{Error, Result};
use crate::private_directory::{self, Private};

/// Which tracer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The loop alone.
    Nothing,
    /// This tool's own.
    Lathunt {
        /// A consumer writes all events to disk, and events that it cannot keep up with are discarded and counted;
        /// else the newest stay in memory (flight recorder).
        drained: bool,
    },
    /// LTTng-UST, with a consumer that is woken, or that polls.
    Lttng {
        /// `--read-timer`.
        read_timer: bool,
    },
    /// The kernel's trace_marker: a system call.
    Marker,
    /// A uprobe on a function: a breakpoint.
    Uprobe,
    /// The loop alone, while the kernel is traced by ftrace.
    Kernel,
}

impl Kind {
    /// Whether an event enters the kernel, so that the loop's own time in a gap may be the tracer's.
    #[must_use]
    pub fn calls_kernel(self) -> bool {
        !matches!(self, Kind::Nothing | Kind::Kernel)
    }

    /// Why it cannot be used here; `None`: it can, as far as is known without trying.
    #[must_use]
    pub fn missing(self) -> Option<String> {
        match self {
            Kind::Nothing | Kind::Lathunt { .. } => None,
            Kind::Lttng { .. } => lttng::missing(),
            Kind::Marker | Kind::Kernel => tracefs::missing(None),
            Kind::Uprobe => tracefs::missing(Some("uprobe_events")),
        }
    }
}

/// A tracer that runs for this measurement only, and ftrace if the kernel is traced too.
pub(super) struct Session {
    tracer: Tracer,
    #[allow(dead_code)] // held until the end
    kernel: Option<tracefs::Instance>,
}

enum Tracer {
    Nothing,
    Lathunt(lathunt::Session),
    Lttng(lttng::Session),
    Marker(tracefs::Instance),
    Uprobe(uprobe::Session),
}

/// What one measuring thread needs of it.
pub(super) enum Armed {
    Nothing,
    Lathunt,
    Lttng(lttng::Call),
    Marker(File),
    Uprobe,
}

impl Session {
    /// Sets the tracer up. Some of them fork: call it before other threads run. `loops`: events per CPU to expect.
    pub fn start(kind: Kind, trace_kernel: bool, cpus: &CpuSet, loops: u64) -> Result<Session> {
        if let Some(reason) = kind.missing() {
            return Err(Error::refused("use", format!("the probe {}", kind.name()), reason));
        }
        let events = loops.saturating_mul(cpus.len() as u64);
        let tracer = match kind {
            Kind::Nothing | Kind::Kernel => Tracer::Nothing,
            Kind::Lathunt { drained } => Tracer::Lathunt(lathunt::Session::start(drained, events)?),
            Kind::Lttng { read_timer } => Tracer::Lttng(lttng::Session::start(read_timer, events)?),
            Kind::Marker => Tracer::Marker(tracefs::Instance::new()?),
            Kind::Uprobe => Tracer::Uprobe(uprobe::Session::start()?),
        };
        let mut session = Session { tracer, kernel: None };
        if trace_kernel || kind == Kind::Kernel {
            match &session.tracer {
                Tracer::Marker(instance) => instance.trace_kernel()?,
                Tracer::Uprobe(uprobe) => uprobe.trace_kernel()?,
                _ => {
                    let instance = tracefs::Instance::new()?;
                    instance.trace_kernel()?;
                    session.kernel = Some(instance);
                }
            }
        }
        Ok(session)
    }

    /// Prepares one more thread.
    pub fn arm(&self) -> Result<Armed> {
        Ok(match &self.tracer {
            Tracer::Nothing => Armed::Nothing,
            Tracer::Lathunt(_) => Armed::Lathunt,
            Tracer::Lttng(session) => Armed::Lttng(session.call()),
            Tracer::Marker(instance) => Armed::Marker(instance.marker()?),
            Tracer::Uprobe(_) => Armed::Uprobe,
        })
    }

    /// Removes the session; returns what happened to the events.
    pub fn finish(self) -> Result<Option<String>> {
        match self.tracer {
            Tracer::Lathunt(session) => session.finish().map(Some),
            Tracer::Lttng(session) => session.finish().map(Some),
            Tracer::Nothing | Tracer::Marker(_) | Tracer::Uprobe(_) => Ok(None),
        }
    }
}

impl Armed {
    /// In the measuring thread, before it measures.
    pub fn enter(&self) -> Result<()> {
        match self {
            Armed::Lathunt => lathunt::enter(),
            _ => Ok(()),
        }
    }
}

impl Kind {
    /// Its name on the command line and in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Nothing => "none",
            Kind::Lathunt { drained: false } => "lathunt",
            Kind::Lathunt { drained: true } => "lathunt (drained)",
            Kind::Lttng { read_timer: false } => "lttng",
            Kind::Lttng { read_timer: true } => "lttng --read-timer",
            Kind::Marker => "marker",
            Kind::Uprobe => "uprobe",
            Kind::Kernel => "kernel",
        }
    }
}

/// No event.
pub(super) struct Nothing;

impl Probe for Nothing {
    #[inline(always)]
    fn fire(&mut self, _: u64, _: u64) {}
}

/// The third number of every event.
const THIRD: u64 = 3;
/// Maximum bytes of an event on disk, including its share of the packet header.
const EVENT_BYTES: u64 = 48;

/// A directory for consumers' output, or why it does not fit.
fn room_for(events: u64) -> Result<Private> {
    let base = std::env::temp_dir();
    let room = Private::below(&base, private_directory::NPT)
        .map_err(|error| Error::new("make a directory in", base.display().to_string(), error))?;
    let needed = events.saturating_mul(EVENT_BYTES);
    match free_bytes(&base) {
        Some(free) if free < needed => {
            let hint = format!(
                "{needed} bytes are needed, {free} are free; measure fewer loops (-n), or set TMPDIR"
            );
            Err(Error::refused("keep", format!("{events} events below {}", base.display()), hint))
        }
        _ => Ok(room),
    }
}

fn free_bytes(path: &std::path::Path) -> Option<u64> {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(path.as_os_str().as_bytes()).ok()?;
    // SAFETY: zeros are a valid statvfs, which the call fills; the path is NUL-terminated.
    unsafe {
        let mut found: libc::statvfs = std::mem::zeroed();
        (libc::statvfs(path.as_ptr(), &mut found) == 0)
            .then(|| (found.f_bavail as u64).saturating_mul(found.f_frsize as u64))
    }
}
