//! What a run of a task set says beside its series: who scheduled it, and the figures of each thread (`tasks run`).

use serde::{Deserialize, Serialize};

use crate::time::{Cpu, Mono, Ns, Tid};

/// The part of a run file that only a run of a task set has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SetRun {
    /// CPUs where threads could run, unless the file gave them others.
    pub cpus: String,
    /// Speed of the loops of `run` on each of these CPUs, measured before the run.
    pub speeds: Vec<Speed>,
    /// ns per loop that `run` counted with: measured, or stated by the file.
    pub ns_per_loop: Option<f64>,
    /// CPU time of one switch with its wake-up, measured before the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch_ns: Option<Ns>,
    /// The common start.
    pub begin: Mono,
    /// Threads in file order, forked ones last; as many as there are series of responses, in the same order.
    pub threads: Vec<ThreadRun>,
    /// What was assumed or changed, one line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Responses above the analysed ones that measured costs do not account for, with the assumption that may have broken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<String>,
    /// Responses above the analysed ones that measured costs account for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accounted: Option<String>,
    /// Why a response has no analysis; `None`: each has one, or overload is why it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_analysed: Option<String>,
    /// Jobs of all threads around the worst one, for a chart.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stretch: Vec<ChartJob>,
    /// The thread of the kernel that carried all of them, where they were fibers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fibers: Option<FiberRun>,
}

/// The thread of the kernel that carries the fibers of a set: how it interrupts them, and what it missed itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FiberRun {
    /// Its id. The fibers have ids from 4194304 on in this run, which no thread of the kernel has.
    pub tid: Tid,
    /// Its priority under `SCHED_FIFO`; `None`: it was an ordinary thread.
    pub kernel_priority: Option<i32>,
    /// How a running fiber was interrupted: `a POSIX timer`, `a helper thread`, `nothing`.
    pub preemption: String,
    /// Median lateness of that, measured before the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preemption_late_ns: Option<Ns>,
    /// Time in which a fiber was due to run and the kernel ran something else, in all: other tasks, interrupts, the host.
    pub away_total_ns: Ns,
    /// The longest of it between two switches of fibers.
    pub away_longest_ns: Ns,
    /// The longest from a timer's time until the scheduler of the fibers saw it.
    pub late_longest_ns: Ns,
    /// Switches between fibers.
    pub switches: u64,
}

/// Speed of a CPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Speed {
    /// Which.
    pub cpu: Cpu,
    /// Fastest of many passes.
    pub ns_per_loop: f64,
}

/// The figures of one thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadRun {
    /// Its name in the set, in full.
    pub name: String,
    /// Its policy with parameters: `FIFO 10`, `DEADLINE 9 ms/20 ms/20 ms`; of a fiber `FP 10`, `EDF 20 ms`.
    pub scheduling: String,
    /// Distance of two releases, where one is known.
    pub period_ns: Option<Ns>,
    /// Relative deadline, where all jobs have the same.
    pub deadline_ns: Option<Ns>,
    /// Jobs that were released: finished, unfinished and not started ones.
    pub jobs: u64,
    /// Of those, finished ones.
    pub finished: u64,
    /// Of those, jobs that were released before the end of the run and not started: a backlog.
    pub not_started: u64,
    /// Jobs later than their deadline, unfinished ones included.
    pub misses: u64,
    /// The largest lateness; `None`: no job was late.
    pub lateness_max_ns: Option<Ns>,
    /// Releases that passed without a job because the timer moved (`relative` mode).
    pub missed_releases: u64,
    /// Longest response; of an unfinished job, what it took so far.
    pub response_max_ns: Option<Ns>,
    /// Worst response by the analysis; `None`: not bounded, not decided, or it does not apply.
    pub analysed_ns: Option<Ns>,
    /// The same with the execution times of this run in place of the stated work, with the latency of its most urgent thread
    /// and with two switches a job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accounted_ns: Option<Ns>,
    /// From the nominal release to the first instruction of the job.
    pub release: Option<Extent>,
    /// Longest minus shortest response of finished jobs.
    pub end_jitter_ns: Option<Ns>,
    /// Least time that was left until the deadline; negative: the largest lateness.
    pub slack_min_ns: Option<i64>,
    /// CPU time of finished jobs.
    pub execution: Option<Extent>,
    /// CPU time that a job should need, by its events.
    pub budget_ns: Option<Ns>,
    /// Waits for mutexes.
    pub blocked: Blocked,
    /// Involuntary switches.
    pub preemptions: u64,
    /// Moves to another CPU; `None`: the kernel does not say.
    pub migrations: Option<u64>,
    /// Why it ended early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
}

/// Smallest, mean and largest of some times.
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
    /// How often.
    pub count: u64,
    /// In all.
    pub total_ns: Ns,
    /// The longest.
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
