//! A task set as in rt-app's file, with lathunt's extensions, independent of scheduler and analysis.
//!
//! Times are [`Ns`]; rt-app's files count in whole µs. The facts about rt-app are those of its parser
//! (scheduler-tools/rt-app, src/rt-app_parse_config.c, 2026-05), which differs from its tutorial in places.

use std::collections::BTreeMap;

use crate::cpuset::CpuSet;
use crate::time::Ns;

/// A whole file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskSet {
    /// The object `global`.
    pub global: Global,
    /// The tasks, in file order, instances not yet expanded.
    pub tasks: Vec<Task>,
    /// Protocols of the mutexes that `resources` names (extension); others follow `pi_enabled`.
    pub mutexes: BTreeMap<String, Protocol>,
    /// Warnings on accepted input that rt-app reads differently or that has no effect.
    pub warnings: Vec<Warning>,
}

/// A warning about accepted input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// A fixed name, for scripts: `repeated-key`, `ignored-key`, `extension`, …
    pub name: &'static str,
    /// The path of the key, `tasks.t1.phases.p`; empty: the whole set.
    pub place: String,
    /// One line.
    pub text: String,
}

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.place.is_empty() {
            true => write!(f, "[{}] {}", self.name, self.text),
            false => write!(f, "[{}] {}: {}", self.name, self.place, self.text),
        }
    }
}

/// Scheduling policies, by the kernel's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// `SCHED_OTHER`
    Other,
    /// `SCHED_BATCH`
    Batch,
    /// `SCHED_IDLE`
    Idle,
    /// `SCHED_RR`
    Rr,
    /// `SCHED_FIFO`
    Fifo,
    /// `SCHED_DEADLINE`
    Deadline,
}

impl Policy {
    /// All of them.
    pub const ALL: [Policy; 6] =
        [Policy::Other, Policy::Batch, Policy::Idle, Policy::Rr, Policy::Fifo, Policy::Deadline];

    /// `SCHED_FIFO` …
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Policy::Other => "SCHED_OTHER",
            Policy::Batch => "SCHED_BATCH",
            Policy::Idle => "SCHED_IDLE",
            Policy::Rr => "SCHED_RR",
            Policy::Fifo => "SCHED_FIFO",
            Policy::Deadline => "SCHED_DEADLINE",
        }
    }

    /// Whether `priority` is a nice value under it.
    #[must_use]
    pub fn is_fair(self) -> bool {
        matches!(self, Policy::Other | Policy::Batch | Policy::Idle)
    }
}

/// Protocol of a mutex against priority inversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Nothing.
    None,
    /// The owner inherits the priority of the highest waiter.
    Inherit,
    /// Immediate ceiling: the owner runs at the priority of the highest user. Under EDF: stack resource policy.
    Ceiling,
}

impl Protocol {
    /// The name in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Protocol::None => "none",
            Protocol::Inherit => "inherit",
            Protocol::Ceiling => "ceiling",
        }
    }
}

/// The object `global`, with rt-app's defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct Global {
    /// Length of the run, seconds; `None`: until the tasks end.
    pub duration_s: Option<u32>,
    /// ns per loop of `run`; `None`: calibrated at start.
    pub ns_per_loop: Option<u32>,
    /// CPU on which `run` is calibrated.
    pub calibration_cpu: u32,
    /// Policy of tasks without one.
    pub default_policy: Policy,
    /// Mutexes without a protocol use priority inheritance.
    pub pi_enabled: bool,
    /// Memory is locked.
    pub lock_pages: bool,
    /// Sum slack over the timers of an iteration.
    pub cumulative_slack: bool,
    /// Device of `iorun`.
    pub io_device: String,
    /// Bytes of the buffer of `mem` and `iorun`.
    pub mem_buffer_size: u32,
    /// Keys that change only rt-app's own logging, kept for `convert`.
    pub logging: Vec<(String, String)>,
}

impl Default for Global {
    fn default() -> Self {
        Global {
            duration_s: None,
            ns_per_loop: None,
            calibration_cpu: 0,
            default_policy: Policy::Other,
            pi_enabled: false,
            lock_pages: true,
            cumulative_slack: false,
            io_device: "/dev/null".to_owned(),
            mem_buffer_size: 4 << 20,
            logging: Vec::new(),
        }
    }
}

/// One task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Task {
    /// Its name.
    pub name: String,
    /// Number of threads; 0: none until `fork`.
    pub instances: u32,
    /// First release after the common start.
    pub delay: Ns,
    /// Iterations over all phases; `None`: for ever.
    pub loops: Option<u32>,
    /// Its phases, in order.
    pub phases: Vec<Phase>,
    /// Scheduling of the whole task.
    pub sched: Sched,
    /// Relative deadline (extension; rt-app knows one only for `SCHED_DEADLINE`).
    pub deadline: Option<Ns>,
    /// Minimum inter-release time, without a timer (extension; rt-app's legacy `period`).
    pub period: Option<Ns>,
    /// Work of one job, if unknown from the events (extension).
    pub wcet: Option<Ns>,
    /// Release jitter for the analysis (extension).
    pub jitter: Ns,
    /// Blocking to add to that of mutexes in the analysis (extension).
    pub blocking: Ns,
}

/// Scheduling keys of a task or a phase.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sched {
    /// Policy; `None`: not specified.
    pub policy: Option<Policy>,
    /// Real-time priority or nice value; `None`: not specified.
    pub priority: Option<i32>,
    /// `dl-runtime`.
    pub dl_runtime: Option<Ns>,
    /// `dl-period`.
    pub dl_period: Option<Ns>,
    /// `dl-deadline`.
    pub dl_deadline: Option<Ns>,
    /// CPUs; `None`: not specified.
    pub cpus: Option<CpuSet>,
    /// Other kernel keys, only kept for `convert`: `util_min`, `util_max`, `taskgroup`, `nodes_membind`.
    pub other: Vec<(String, String)>,
}

/// One phase.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Phase {
    /// Its name; empty: the events are direct members of the task.
    pub name: String,
    /// Iterations; `None`: for ever.
    pub loops: Option<u32>,
    /// Its events, in order.
    pub events: Vec<Event>,
    /// Scheduling from its start on.
    pub sched: Sched,
}

/// A timer event.
#[derive(Clone, Debug, PartialEq)]
pub struct Timer {
    /// Its name; shared by all tasks that use it, unless it begins with `unique`.
    pub reference: String,
    /// Its period.
    pub period: Ns,
    /// Whether a late release keeps the schedule (true) or shifts later releases (false).
    pub absolute: bool,
}

/// An event of a task.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A number of loops that takes this long on the calibrated CPU.
    Run(Ns),
    /// Busy until this much wall-clock time has passed, preempted or not.
    Runtime(Ns),
    /// Busy until the thread has used this much CPU time (extension).
    CpuTime(Ns),
    /// Relative sleep.
    Sleep(Ns),
    /// Wait for the next release.
    Timer(Timer),
    /// Lock a mutex.
    Lock(String),
    /// Unlock it.
    Unlock(String),
    /// Wait for a condition: its name, and that of the mutex.
    Wait(String, String),
    /// Signal a condition, then wait for it.
    Sync(String, String),
    /// Signal one waiter.
    Signal(String),
    /// Signal all waiters.
    Broadcast(String),
    /// Wait until all users reached the barrier.
    Barrier(String),
    /// Count a semaphore up.
    SemPost(String),
    /// Wait for a semaphore.
    SemWait(String),
    /// Wait to be resumed, under this name.
    Suspend(String),
    /// Resume threads suspended under this name.
    Resume(String),
    /// sched_yield.
    Yield,
    /// Start an instance of a task.
    Fork(String),
    /// Write this many bytes of memory.
    Mem(u64),
    /// Write this many bytes to the device.
    IoRun(u64),
    /// Walk through memory.
    MemRun(MemRun),
}

/// The event `memrun`.
#[derive(Clone, Debug, PartialEq)]
pub struct MemRun {
    /// `read`, `write` or `chase`.
    pub kind: String,
    /// Bytes of the buffer.
    pub size: u64,
    /// Passes, or steps of a chase.
    pub count: u64,
    /// Bytes between two steps of a chase.
    pub stride: u64,
    /// A chase in random order.
    pub random: bool,
    /// A buffer shared under this name.
    pub reference: Option<String>,
}

impl Event {
    /// The key in files.
    #[must_use]
    pub fn key(&self) -> &'static str {
        match self {
            Event::Run(_) => "run",
            Event::Runtime(_) => "runtime",
            Event::CpuTime(_) => "cputime",
            Event::Sleep(_) => "sleep",
            Event::Timer(_) => "timer",
            Event::Lock(_) => "lock",
            Event::Unlock(_) => "unlock",
            Event::Wait(..) => "wait",
            Event::Sync(..) => "sync",
            Event::Signal(_) => "signal",
            Event::Broadcast(_) => "broad",
            Event::Barrier(_) => "barrier",
            Event::SemPost(_) => "sem_post",
            Event::SemWait(_) => "sem_wait",
            Event::Suspend(_) => "suspend",
            Event::Resume(_) => "resume",
            Event::Yield => "yield",
            Event::Fork(_) => "fork",
            Event::Mem(_) => "mem",
            Event::IoRun(_) => "iorun",
            Event::MemRun(_) => "memrun",
        }
    }

    /// Busy time of one execution, if stated.
    #[must_use]
    pub fn work(&self) -> Option<Ns> {
        match self {
            Event::Run(time) | Event::Runtime(time) | Event::CpuTime(time) => Some(*time),
            Event::Mem(_) | Event::IoRun(_) | Event::MemRun(_) | Event::Fork(_) => None,
            _ => Some(Ns::ZERO),
        }
    }
}

impl TaskSet {
    /// Protocol of a mutex.
    #[must_use]
    pub fn protocol(&self, mutex: &str) -> Protocol {
        let default = if self.global.pi_enabled { Protocol::Inherit } else { Protocol::None };
        self.mutexes.get(mutex).copied().unwrap_or(default)
    }
}
