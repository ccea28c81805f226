//! What interrupts a thread that must never stop? A loop on the processor's counter, pinned and at a real-time
//! priority, optionally with one tracer event per iteration.
//!
//! `turn` is the loop, `lane` the thread around it on one CPU, `follow` the rest: it runs on another CPU, copies the
//! kernel's record out of the flight rings while the loop runs, and has every gap attributed by `core::npt`. `probe`
//! contains the tracers that an iteration can call. A CPU without which no other work could run is never held at a
//! real-time priority.

mod anchors;
mod follow;
mod followed;
mod lane;
mod largest;
pub mod probe;
mod record;
mod steal;
mod turn;
pub mod work;

use lathunt_core::conditions::LeftCpu;
use lathunt_core::cpuset::CpuSet;
use lathunt_core::npt::ledger::ExplainedGap;
use lathunt_core::peak::Peak;
use lathunt_core::run::{Interference, Loss};
use lathunt_core::series::Series;
use lathunt_core::time::Ns;

pub use follow::{measure, Live};
pub use turn::{cost_of_statistics, Read};

use probe::Kind;
use work::Work;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where, one thread each.
    pub cpus: CpuSet,
    /// Iterations of each thread.
    pub loops: u64,
    /// SCHED_FIFO priority; 0: an ordinary thread.
    pub priority: i32,
    /// How an iteration reads the clock.
    pub read: Read,
    /// An iteration of at least this length is a gap.
    pub threshold: Ns,
    /// Tracer event of each iteration.
    pub probe: Kind,
    /// Work of each iteration besides reading the clock; only without a tracer event.
    pub work: Option<Work>,
    /// Trace the kernel by ftrace at the same time, as peers do.
    pub trace_kernel: bool,
    /// Measure for the first time, then pause for the second, so that throttling never strikes; `None`: no pause.
    pub burst: Option<(Ns, Ns)>,
    /// Record the kernel, to attribute gaps.
    pub record: bool,
    /// Gaps above this are reported while it runs.
    pub late: Option<Ns>,
    /// Number of worst gaps kept with their explanation, per CPU.
    pub worst: usize,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Found {
    /// One per CPU.
    pub series: Vec<Series>,
    /// What took the time of the gaps; adds up to it.
    pub sources: Vec<Interference>,
    /// The worst gaps, explained, worst first.
    pub worst: Vec<Peak>,
    /// Gaps with their parts in the order of their ends, at most [`KEPT`].
    pub gaps: Vec<ExplainedGap>,
    /// Attributed share of the time of gaps above 5 µs; `None`: no such gap.
    pub attributed_of_large: Option<f64>,
    /// Minimum cost of leaving the loop for the kernel and coming back, estimated from this run.
    pub entry_ns: Option<Ns>,
    /// What was lost.
    pub losses: Vec<Loss>,
    /// Notes that qualify the result.
    pub notes: Vec<String>,
    /// Length of the measurement.
    pub duration: Ns,
    /// Threads that were not on their CPU all the time.
    pub left: Vec<LeftCpu>,
    /// Signal that ended it.
    pub stopped_by: Option<i32>,
    /// Why the threads did not complete their iterations, if no signal ended them.
    pub ended_early: Option<String>,
}

/// Gaps kept in [`Found::gaps`] at most.
pub const KEPT: usize = 100_000;
