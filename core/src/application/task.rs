//! The figures of one thread.

use serde::{Deserialize, Serialize};

use super::chain::Followed;
use super::deadlines::HeldTo;
use super::faulting::Faulting;
use super::point::Class;
use super::unfinished::{State, Unfinished};
use crate::peak::Peak;
use crate::series::{Quantity, Series, Thread};
use crate::time::{Mono, Ns, Prio, Tid};

/// A thread of the recorded system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Task {
    /// Who.
    pub thread: Thread,
    /// Its process.
    pub process: Tid,
    /// `SCHED_FIFO`, …
    pub policy: String,
    /// Not a thread but a chain of threads that wake each other, named `first>second>last`: its responses are from the release
    /// of the first one's activation to the end of the last one's. `None`: a thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<Followed>,
    /// Where it waits for its next activation: `clock_nanosleep TIMER_ABSTIME`, `read 5 (timerfd)`, `futex …`; `None`: it never blocked twice.
    pub waits_in: Option<String>,
    /// That is where its jobs begin, as the user said; else it is inferred.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_chosen: bool,
    /// Whether a timer ends that wait.
    pub timer_driven: bool,
    /// Activations that were complete.
    pub activations: u64,
    /// Its period; `None` for a thread without one.
    pub period: Option<Period>,
    /// `timer`, `wakeup`, `timer+wakeup`, `sharedprio`, `response`: those with samples.
    pub series: Vec<Series>,
    /// Time on a CPU of each activation, interrupts included.
    pub execution: Option<Span>,
    /// How often it lost the CPU while runnable.
    pub preemptions: u64,
    /// Page faults of its code (counted on x86 only).
    pub page_faults: u64,
    /// Where they were; `None`: there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub faulting: Option<Faulting>,
    /// Activations whose response came after this.
    pub deadline_ns: Option<Ns>,
    /// How many; at least, where activations were not recorded. Of a thread that sleeps until absolute times or reads a
    /// periodic timerfd, each time that it overran the next of them.
    pub misses: u64,
    /// The largest excess of a response beyond it.
    #[serde(default)]
    pub miss_max_ns: Option<Ns>,
    /// Overruns: how often it asked to sleep until a time that had passed, or for a timerfd that had expired while it did
    /// something else. Who is woken from such a sleep has an activation all the same; who did not wait has none.
    #[serde(default)]
    pub late_sleeps: u64,
    /// The largest share that the slack of its timers has in its latencies, which count from the time it asked for. `None`: it
    /// had none, as real-time threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slack_max_ns: Option<Ns>,
    /// Activations that the thread had, by the kernel's count of its switches and by wakings on its way to sleep, and that
    /// were not recorded: no figure of the thread has them.
    #[serde(default)]
    pub not_recorded: u64,
    /// Its last turn, where that was not over when the recording ended, or ended with the thread: in no response time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unfinished: Option<Unfinished>,
    /// The longest stretch that is in no response time: from its start to its first wait in [`Task::waits_in`], from its
    /// last release to its end, where activations were lost, or its whole life where it never waited there. `None`: none
    /// was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outside_ns: Option<Ns>,
    /// How long its turns were at most if they began at another wait, the longest first; four at most. Where all waits are
    /// in one place, that is its longest response.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_turns: Vec<OtherTurns>,
    /// It is released at irregular times: several waits may belong to one job. `None`: nothing speaks for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub several_waits: Option<SeveralWaits>,
    /// Of a periodic thread: the longest span from a release to the end of the turn behind the next one, which came off the
    /// period: a wait within a job, perhaps. `None`: there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off_period_ns: Option<Ns>,
    /// Late turns that may each be several jobs in time, because the thread can take up another one there without blocking.
    /// `None`: there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub several_jobs: Option<SeveralJobs>,
    /// Threads that released it, where threads did: its response begins when they woke it. At most 16. Of a thread that has
    /// no job from begin to end, the one that created it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub released_by: Vec<Tid>,
    /// The longest sleep by a relative time that it began its turns after: what it polls for was noticed that late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub polls_every_ns: Option<Ns>,
    /// Its worst wake-up, with the circumstances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst: Option<Box<Peak>>,
    /// Where else it blocked, the longest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocking: Vec<Blocking>,
    /// What it was held to in the verdict; absent: to the deadline of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_to: Option<HeldTo>,
    /// What its late jobs were late for, the most frequent first; only where it has a deadline.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub late_causes: Vec<LateCause>,
}

/// What took most of the time of some late jobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LateCause {
    /// `mutex without inheritance, held by logger`; a job that was late because the one before it was has the cause of
    /// that one.
    pub cause: String,
    /// Late jobs of which it took more time than any other cause.
    pub jobs: u64,
    /// What it took of them together.
    pub time_ns: Ns,
    /// The longest of them, from its release to its end.
    pub worst_ns: Ns,
}

/// A period that was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Period {
    /// Median distance of two releases.
    pub median_ns: Ns,
    /// Median difference of a start from the period after the start before.
    pub jitter_median_ns: Ns,
    /// The largest such difference.
    pub jitter_max_ns: Ns,
    /// Releases that fell out: whole periods without one.
    pub missed: u64,
    /// It was another one for a while: what is counted as missed is held against the period of its time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub changed: bool,
}

/// Smallest, mean and largest of something.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Span {
    /// Smallest.
    pub min_ns: Ns,
    /// Mean.
    pub mean_ns: f64,
    /// Largest.
    pub max_ns: Ns,
}

/// The longest span from a release at a place to the next wait there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OtherTurns {
    /// The place.
    pub place: String,
    /// Only waits that timers ended; false: only those that something else ended.
    pub after_timer: bool,
    /// The longest span.
    pub longest_ns: Ns,
    /// Only waits that one of the program's calls asked for, where several wait in the place: as `--activation 'PLACE@CALL'`
    /// names it. `None`: all that timers ended, or all others (`after_timer`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// Only waits in one place that this ended: `one timer`, `thread 4711`, `interrupts`; or on `one stack` of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// A place that is not the thread's main wait, and what it cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Blocking {
    /// What it is.
    pub class: Class,
    /// `futex FUTEX_LOCK_PI 0x…`, `page fault`, `fsync 3`.
    pub place: String,
    /// How often.
    pub count: u64,
    /// How long in all.
    pub total_ns: Ns,
    /// The longest.
    pub max_ns: Ns,
    /// When that began.
    pub max_at: Mono,
    /// Who ended the longest of those that a thread ended (the holder of a lock); `None`: timers or interrupts did.
    pub released_by: Option<Thread>,
}

/// Turns that may be parts of one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SeveralWaits {
    /// Releases are regular when so many distances are taken together; `None`: they are never regular.
    pub waits: Option<u8>,
    /// From a release to the end of the last of so many turns (of up to four), at most.
    pub longest_ns: Ns,
}

/// Late turns in which a thread may have done more than one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SeveralJobs {
    /// How many.
    pub turns: u64,
    /// The longest of them.
    pub longest_ns: Ns,
    /// The longest job that is certain: in the longest of those with evidence of a late one, or in all of them.
    pub certain_ns: Ns,
    /// Late turns in all.
    pub late: u64,
}

impl Task {
    /// Whether each turn that was later than `deadline` may be several jobs in time.
    #[must_use]
    pub fn is_late_by_doubt_alone(&self, deadline: Ns) -> bool {
        let response = self.of(Quantity::Response);
        let late = response.map_or(0, |series| series.histogram.count_from(deadline + Ns(1)));
        self.several_jobs.is_some_and(|several| several.turns == several.late && late <= several.turns)
    }

    /// Its largest latency.
    #[must_use]
    pub fn largest(&self) -> Ns {
        let latencies = self.series.iter().filter(|series| series.quantity != Quantity::Response);
        latencies.filter_map(|series| series.histogram.max()).max().unwrap_or_default()
    }

    /// Its last turn, where that is in no response time and lasted longer than it may; of a thread that had turns before,
    /// or waits for a CPU. Ordinary threads often end in another place than the one they waited in before.
    #[must_use]
    pub fn late_end(&self) -> Option<&Unfinished> {
        let is_real_time = self.thread.prio.is_some_and(Prio::is_realtime);
        let is_turn = |end: &&Unfinished| match end.state {
            State::Waits => true,
            State::Runs | State::Preempted => self.activations > 0,
            State::Blocked | State::Ended => self.activations > 0 && is_real_time,
        };
        let late = |end: &&Unfinished| self.deadline_ns.is_some_and(|deadline| end.after_ns > deadline);
        self.unfinished.as_ref().filter(is_turn).filter(late)
    }

    /// The series of `quantity`.
    #[must_use]
    pub fn of(&self, quantity: Quantity) -> Option<&Series> {
        self.series.iter().find(|series| series.quantity == quantity)
    }
}

/// The name of a scheduling policy (include/uapi/linux/sched.h).
#[must_use]
pub fn policy(number: u8) -> &'static str {
    match number {
        0 => "SCHED_OTHER",
        1 => "SCHED_FIFO",
        2 => "SCHED_RR",
        3 => "SCHED_BATCH",
        5 => "SCHED_IDLE",
        6 => "SCHED_DEADLINE",
        7 => "SCHED_EXT",
        _ => "unknown policy",
    }
}
