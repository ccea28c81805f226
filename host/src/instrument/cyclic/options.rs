//! Options of a measurement by timed threads.

use lathunt_core::histogram::Layout;
use lathunt_core::time::{Cpu, Ns};

use super::{Clock, Wait};
use crate::sched::Policy;

/// One measuring thread.
#[derive(Clone, Copy, Debug)]
pub struct ThreadSpec {
    /// CPU it is bound to; `None`: any.
    pub cpu: Option<Cpu>,
    /// Real-time priority, 1 to 99; not used by other policies.
    pub priority: i32,
    /// Period; not zero.
    pub interval: Ns,
}

/// When the first period begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alignment {
    /// Spread over one interval, so that the threads do not disturb each other by waking at the same moment.
    None,
    /// All threads at one moment, thread n later by n times this offset.
    Together(Ns),
    /// All threads at a full second, later by this offset.
    FullSecond(Ns),
    /// At this time of the clock of the activations, ns, then spread over one interval. It may be in the future.
    At(u64),
}

/// CPU time of a thread per period, and its deadline (SCHED_DEADLINE with the deadline at the end of the period).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// CPU time.
    pub runtime: Ns,
    /// Period.
    pub period: Ns,
}

/// What to measure and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// One entry per measuring thread.
    pub threads: Vec<ThreadSpec>,
    /// Scheduling policy of all of them.
    pub policy: Policy,
    /// Clock of the activations.
    pub clock: Clock,
    /// System call by which a thread waits.
    pub wait: Wait,
    /// When the periods begin.
    pub alignment: Alignment,
    /// The first thread that sees this much time passed ends the measurement.
    pub duration: Option<Ns>,
    /// A thread ends after this many samples; the others go on until [`super::Cyclic::stop`].
    pub loops: Option<u64>,
    /// Samples of this first part are kept separately ([`super::Cyclic::warm_up`]); duration and loops count from its end.
    pub warm_up: Option<Ns>,
    /// Reserved CPU time, instead of `policy` and `priority`.
    pub reservation: Option<Reservation>,
    /// Rows of the histograms.
    pub layout: Layout,
    /// Length of the list of worst samples.
    pub peaks: usize,
    /// Latencies below this never enter it.
    pub peak_floor: Ns,
    /// The first latency above this ends the measurement.
    pub break_at: Option<Ns>,
    /// Lock all memory of the process.
    pub lock_memory: bool,
    /// How long a real-time thread may run without sleeping before the measurement ends (and, ten times as long, before
    /// the kernel kills the process); `None`: no limit.
    pub runaway: Option<Ns>,
    /// Threads are named `NAME/0`, `NAME/1`, …; `None` keeps the name of the process.
    pub thread_name: Option<String>,
}

impl Options {
    /// FIFO 95, 1 ms, one thread bound to each of `cpus`, unlimited, memory locked: the recommended setup.
    #[must_use]
    pub fn on(cpus: impl IntoIterator<Item = Cpu>) -> Options {
        let spec = |cpu| ThreadSpec { cpu: Some(cpu), priority: 95, interval: Ns::from_ms(1) };
        Options {
            threads: cpus.into_iter().map(spec).collect(),
            policy: Policy::Fifo,
            clock: Clock::Monotonic,
            wait: Wait::Absolute,
            alignment: Alignment::None,
            duration: None,
            loops: None,
            warm_up: None,
            reservation: None,
            layout: Layout::LATENCY,
            peaks: 8,
            peak_floor: Ns::ZERO,
            break_at: None,
            lock_memory: true,
            runaway: Some(Ns::from_ms(2_000)),
            thread_name: Some("cyclic".to_owned()),
        }
    }
}
