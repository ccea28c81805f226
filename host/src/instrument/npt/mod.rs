//! What interrupts a thread that must never stop? A loop on the processor's counter, pinned and at a real-time
//! priority, optionally with one event of a tracer in each turn.
//!
//! `turn` is the loop, `lane` the thread around it on one CPU, `follow` the rest: it lives on another CPU, moves the
//! kernel's record out of the flight rings while the loop runs, and has every gap attributed by `core::npt`. `probe`
//! holds what a turn may go through. A CPU that nobody else could use is never held at a real-time priority.

mod anchors;
mod follow;
mod followed;
mod lane;
mod largest;
pub mod probe;
mod record;
mod steal;
mod turn;

use lathunt_core::conditions::LeftCpu;
use lathunt_core::cpuset::CpuSet;
use lathunt_core::npt::ledger::Told;
use lathunt_core::peak::Peak;
use lathunt_core::run::{Interference, Loss};
use lathunt_core::series::Series;
use lathunt_core::time::Ns;

pub use follow::{measure, Live};
pub use turn::{cost_of_statistics, Read};

use probe::Kind;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where, one thread each.
    pub cpus: CpuSet,
    /// Turns of each thread.
    pub loops: u64,
    /// SCHED_FIFO priority; 0: an ordinary thread.
    pub priority: i32,
    /// How a turn reads the clock.
    pub read: Read,
    /// A turn this long is a gap.
    pub threshold: Ns,
    /// Through what each turn goes.
    pub probe: Kind,
    /// Trace the kernel by ftrace meanwhile, as peers do.
    pub trace_kernel: bool,
    /// Measure so long, then pause for the second time, so that throttling never fires; `None`: without a pause.
    pub burst: Option<(Ns, Ns)>,
    /// Record the kernel, to attribute gaps.
    pub record: bool,
    /// Gaps above this are reported while it goes on.
    pub late: Option<Ns>,
    /// Worst gaps that are kept with their explanation, per CPU.
    pub worst: usize,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Found {
    /// One a CPU.
    pub series: Vec<Series>,
    /// Who took the time of the gaps; adds up to it.
    pub sources: Vec<Interference>,
    /// The worst gaps, explained, worst first.
    pub worst: Vec<Peak>,
    /// Every gap with its parts, as far as [`KEPT`] goes, in the order of their ends.
    pub gaps: Vec<Told>,
    /// Share of the time of gaps above 5 µs that has a name; `None`: no such gap.
    pub attributed_of_large: Option<f64>,
    /// What leaving the loop for the kernel and coming back costs at least, learnt from this run.
    pub entry_ns: Option<Ns>,
    /// What was lost.
    pub losses: Vec<Loss>,
    /// What has to be known beside.
    pub notes: Vec<String>,
    /// Length of the measurement.
    pub duration: Ns,
    /// Threads that were not on their CPU all the time.
    pub left: Vec<LeftCpu>,
    /// Ended by this signal.
    pub stopped_by: Option<i32>,
    /// Why the threads did not make their turns, where no signal ended them.
    pub ended_early: Option<String>,
}

/// Gaps kept in [`Found::gaps`] at most.
pub const KEPT: usize = 100_000;
