//! Data of a run of a task set in addition to its series: its scheduling, and the figures of each thread (`tasks run`).

use serde::{Deserialize, Serialize};

use crate::time::{Cpu, Mono, Ns, Tid};

/// Part of a run file that is specific to a task set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SetRun {
    /// CPUs of the threads, unless the file gives them others.
    pub cpus: String,
    /// Speed of the `run` loops on each of these CPUs, measured before the run.
    pub speeds: Vec<Speed>,
    /// ns per loop used by `run`: measured, or given in the file.
    pub ns_per_loop: Option<f64>,
    /// CPU time of one switch with its wake-up, measured before the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch_ns: Option<Ns>,
    /// The common start.
    pub begin: Mono,
    /// Threads in file order, forked ones last; as many as there are series of responses, in the same order.
    pub threads: Vec<ThreadRun>,
    /// Assumptions and changes, one line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Response times above the analysed ones that measured costs do not explain, with the assumption that may be
    /// violated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<String>,
    /// Response times above the analysed ones that measured costs explain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accounted: Option<String>,
    /// Why a response time has no analysis; `None`: each has one, or has none because of overload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_analysed: Option<String>,
    /// Jobs of all threads around the worst one, for a chart.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stretch: Vec<ChartJob>,
    /// The kernel thread that carried all fibers, if the tasks were fibers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fibers: Option<FiberRun>,
}

/// The kernel thread that carries the fibers of a set: its preemption of fibers, and its own delays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FiberRun {
    /// Its id. Fibers have ids from 4194304 in this run, which kernel threads never have.
    pub tid: Tid,
    /// Its priority under `SCHED_FIFO`; `None`: `SCHED_OTHER`.
    pub kernel_priority: Option<i32>,
    /// How a running fiber was preempted: `a POSIX timer`, `a helper thread`, `nothing`.
    pub preemption: String,
    /// Median lateness of that, measured before the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preemption_late_ns: Option<Ns>,
    /// Total time away: a fiber was due to run but the kernel ran something else (other tasks, interrupts, the
    /// hypervisor).
    pub away_total_ns: Ns,
    /// Longest time away between two switches of fibers.
    pub away_longest_ns: Ns,
    /// Longest time from the expiry of a timer to its handling by the fiber scheduler.
    pub late_longest_ns: Ns,
    /// Number of switches between fibers.
    pub switches: u64,
}

/// Speed of a CPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Speed {
    /// The CPU.
    pub cpu: Cpu,
    /// ns per loop, fastest of many passes.
    pub ns_per_loop: f64,
}

/// The figures of one thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadRun {
    /// Its name in the set, in full.
    pub name: String,
    /// Its policy with parameters: `FIFO 10`, `DEADLINE 9 ms/20 ms/20 ms`; for a fiber `FP 10`, `EDF 20 ms`.
    pub scheduling: String,
    /// Interval between two releases, if known.
    pub period_ns: Option<Ns>,
    /// Relative deadline, if all jobs have the same.
    pub deadline_ns: Option<Ns>,
    /// Released jobs: finished, unfinished and not started ones.
    pub jobs: u64,
    /// Of those, finished ones.
    pub finished: u64,
    /// Of those, jobs released before the end of the run but not started: a backlog.
    pub not_started: u64,
    /// Jobs later than their deadline, unfinished ones included.
    pub misses: u64,
    /// The largest lateness; `None`: no job was late.
    pub lateness_max_ns: Option<Ns>,
    /// Releases without a job because the timer moved (`relative` mode).
    pub missed_releases: u64,
    /// Longest response time; for an unfinished job, the time so far.
    pub response_max_ns: Option<Ns>,
    /// Worst response time by analysis; `None`: unbounded, undecided, or not applicable.
    pub analysed_ns: Option<Ns>,
    /// Worst response time by analysis with the execution times of this run instead of the stated work, the largest lateness
    /// of a timer, and the switches of each job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accounted_ns: Option<Ns>,
    /// From the nominal release to the first instruction of the job.
    pub release: Option<Extent>,
    /// Longest minus shortest response time of finished jobs.
    pub end_jitter_ns: Option<Ns>,
    /// Smallest slack; if negative, the largest lateness.
    pub slack_min_ns: Option<i64>,
    /// CPU time of finished jobs.
    pub execution: Option<Extent>,
    /// Budget of a job, from its events.
    pub budget_ns: Option<Ns>,
    /// Waits for mutexes.
    pub blocked: Blocked,
    /// Involuntary switches.
    pub preemptions: u64,
    /// Migrations; `None`: not reported by the kernel.
    pub migrations: Option<u64>,
    /// Why it ended early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
}

/// Smallest, mean and largest time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Extent {
    /// Smallest.
    pub min_ns: Ns,
    /// Mean, rounded down.
    pub mean_ns: Ns,
    /// Largest.
    pub max_ns: Ns,
}

/// Waits for mutexes that another thread held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Blocked {
    /// Number of waits.
    pub count: u64,
    /// Total wait.
    pub total_ns: Ns,
    /// Longest wait.
    pub max_ns: Ns,
}

/// A job in the chart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChartJob {
    /// Index of its thread.
    pub thread: usize,
    /// Nominal release.
    pub release: Mono,
    /// First instruction; `None`: it never started.
    pub start: Option<Mono>,
    /// Its end, or that of the run.
    pub end: Mono,
    /// CPU time.
    pub execution_ns: Ns,
    /// Relative deadline.
    pub deadline_ns: Option<Ns>,
    /// Whether it ended.
    pub finished: bool,
}
