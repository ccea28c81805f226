//! The figures of one thread.

use serde::{Deserialize, Serialize};

use super::chain::Followed;
use super::deadlines::AppliedDeadline;
use super::ends::OtherEnd;
use super::faulting::Faulting;
use super::others::OTHERS;
use super::point::Class;
use super::unfinished::{State, Unfinished};
use crate::peak::Peak;
use crate::series::{Quantity, Series, Thread};
use crate::time::{Mono, Ns, Prio, Tid};

/// A thread of the recorded system.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Task {
    /// The thread.
    pub thread: Thread,
    /// Its process.
    pub process: Tid,
    /// `SCHED_FIFO`, …
    pub policy: String,
    /// Set for a chain of threads that wake each other, named `first>second>last`: its response times are from the
    /// release of the first thread to the end of the last. `None`: a thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<Followed>,
    /// Where it waits for its next activation: `clock_nanosleep TIMER_ABSTIME`, `read 5 (timerfd)`, `futex …`; `None`:
    /// it never blocked twice.
    pub waits_in: Option<String>,
    /// `waits_in` was chosen by the user; else it is inferred.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_chosen: bool,
    /// Whether a timer ends that wait.
    pub timer_driven: bool,
    /// Complete activations.
    pub activations: u64,
    /// It had complete activations in an earlier window; not stored, because a stored recording is one window.
    #[serde(skip)]
    pub had_jobs: bool,
    /// Its period; `None` for a thread without one.
    pub period: Option<Period>,
    /// `timer`, `wakeup`, `timer+wakeup`, `sharedprio`, `response`: those with samples.
    pub series: Vec<Series>,
    /// CPU time per job, interrupts included.
    pub execution: Option<Span>,
    /// Number of preemptions.
    pub preemptions: u64,
    /// Page faults of its code (counted on x86 only).
    pub page_faults: u64,
    /// The memory with page faults; `None`: there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub faulting: Option<Faulting>,
    /// The deadline of its response times.
    pub deadline_ns: Option<Ns>,
    /// Number of deadline misses; a lower limit if activations were not recorded. A thread that sleeps until absolute
    /// times or reads a periodic timerfd also misses each release that it overran.
    pub misses: u64,
    /// The largest lateness.
    #[serde(default)]
    pub miss_max_ns: Option<Ns>,
    /// Overruns: sleeps until a time that had passed, and reads of a timerfd that had already expired. Only if the
    /// thread blocked all the same does it have an activation for it.
    #[serde(default)]
    pub late_sleeps: u64,
    /// The largest part of timer slack in its latencies, which count from the requested time. `None`: no slack, as in
    /// real-time threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slack_max_ns: Option<Ns>,
    /// Timeouts that count in ticks released jobs: by how much earlier than the release the program may have asked for it, so
    /// much longer a response may be. `None`: none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounded_ns: Option<Ns>,
    /// Activations that were not recorded, from the kernel's count of its switches and from wakings on its way to
    /// sleep: they are not part of any figure.
    #[serde(default)]
    pub not_recorded: u64,
    /// Its last job, if it was not finished when the recording or the thread ended: not part of any response time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unfinished: Option<Unfinished>,
    /// How long it had been stopped in its main wait when the recording ended, by a signal, a debugger or the freezer: it may
    /// have been released meanwhile. `None`: it was not. Part of [`Task::outside_ns`].
    #[serde(skip)]
    pub stopped_ns: Option<Ns>,
    /// The longest time outside any response time: from its start to its first wait in [`Task::waits_in`], from its
    /// last release to its end, across lost activations, or its whole life if it never waited there. `None`: none was
    /// recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outside_ns: Option<Ns>,
    /// Maximum length of its jobs if another wait started them, the longest first, at most four. If all waits are in
    /// one place, it is the longest response time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_turns: Vec<OtherSpans>,
    /// Its releases are irregular: several waits may belong to one job. `None`: no sign of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub several_waits: Option<SeveralWaits>,
    /// In a periodic thread, a release off the period may be a wait within a job: the longest span from the release
    /// before it to the end of the job after it. `None`: there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off_period_ns: Option<Ns>,
    /// Late jobs that may each be several jobs in time, because the thread can take the next one without blocking.
    /// `None`: there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub several_jobs: Option<SeveralJobs>,
    /// Threads that released it, at most 16: its response time starts when they wake it. In a thread without a complete
    /// job, the one that created it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub released_by: Vec<Tid>,
    /// Median interval between its releases, regular or not. `None`: too few, or the user chose where its jobs start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub released_every_ns: Option<Ns>,
    /// The longest sleep before its jobs, if only its own timeout ends it, at a time that is not computed from a period: events
    /// it polls for are noticed that late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub polls_every_ns: Option<Ns>,
    /// Longest time from the end of its wait in `waits_in` until it ran. Present only if that end does not prove a release (a
    /// relative sleep that does not keep a period, a mutex, a page fault): the thread may poll for its job after it, and a late
    /// job is a doubt if half of the jobs take more than half of the deadline. Of a chain: the longest of its threads that
    /// may poll.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub polls_from_ns: Option<Ns>,
    /// Longest time of a job without a CPU: delays, preemptions and waits. Present only if its jobs seem to spin until
    /// their release after the wait in `waits_in`: no event tells that from work, but their CPU time is shorter by the delay of
    /// their start. A late job is then a doubt if half of the jobs take more than half of the deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off_cpu_ns: Option<Ns>,
    /// The place other than `waits_in` whose waits are the least far apart: if they start its jobs, none took longer.
    /// Present only if the times of its releases in `waits_in` do not show that they are computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_start: Option<OtherStart>,
    /// A place where it waits in at least half of its jobs, for a timer or for a thread that it did not ask: it is not
    /// known whether these waits end jobs. If they do, its response times are of several jobs each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_end: Option<OtherEnd>,
    /// Its worst wake-up, with its context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst: Option<Box<Peak>>,
    /// Other places where it blocked, the longest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocking: Vec<Blocking>,
    /// The deadline it was judged by; absent: the deadline of the verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_to: Option<AppliedDeadline>,
    /// Causes of its late jobs, the most frequent first; only with a deadline.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub late_causes: Vec<LateCause>,
}

/// The main cause of some late jobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LateCause {
    /// `mutex without inheritance, held by logger`; a job that was late due to backlog has the cause of the job before
    /// it.
    pub cause: String,
    /// Number of late jobs in which it took more time than any other cause.
    pub jobs: u64,
    /// Its total time in these jobs.
    pub time_ns: Ns,
    /// The longest response time of these jobs.
    pub worst_ns: Ns,
}

/// An inferred period.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Period {
    /// Median interval between two releases.
    pub median_ns: Ns,
    /// Median difference between the interval of two starts and that of their releases.
    pub jitter_median_ns: Ns,
    /// The largest such difference.
    pub jitter_max_ns: Ns,
    /// Missed releases: whole periods without one.
    pub missed: u64,
    /// The period changed: missed releases are counted by the period of their time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub changed: bool,
    /// The longest one, if it changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_ns: Option<Ns>,
}

/// Smallest, mean and largest value.
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
pub struct OtherSpans {
    /// The place.
    pub place: String,
    /// Only waits ended by timers; false: only waits ended otherwise.
    pub after_timer: bool,
    /// The longest span.
    pub longest_ns: Ns,
    /// Only waits of this call site, if several wait in the place: as in `--activation 'PLACE@CALL'`. `None`: all waits
    /// that timers ended, or all others (`after_timer`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// Only waits ended by this source: `one timer`, `thread 4711`, `interrupts`; or on `one stack` of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// A wait that may start jobs instead of the main wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OtherStart {
    /// The place.
    pub place: String,
    /// The longest time from the end of a wait there to the next wait there.
    pub longest_ns: Ns,
}

/// A place other than the thread's main wait, with its waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Blocking {
    /// Its kind.
    pub class: Class,
    /// `futex FUTEX_LOCK_PI 0x…`, `page fault`, `fsync 3`.
    pub place: String,
    /// Number of waits.
    pub count: u64,
    /// Total wait.
    pub total_ns: Ns,
    /// The longest wait.
    pub max_ns: Ns,
    /// Start of the longest wait.
    pub max_at: Mono,
    /// The thread that ended the longest wait ended by a thread (the holder of a lock); `None`: only timers or
    /// interrupts did.
    pub released_by: Option<Thread>,
}

/// Recorded jobs that may be parts of one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SeveralWaits {
    /// Number of successive intervals whose sum is regular; `None`: no such number.
    pub waits: Option<u32>,
    /// Longest time from a release to the end of that many recorded jobs (up to 16), or between two pauses.
    pub longest_ns: Ns,
}

/// Late recorded jobs that may contain more than one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SeveralJobs {
    /// Their number.
    pub turns: u64,
    /// The longest of them.
    pub longest_ns: Ns,
    /// The longest single job that is certain, over all late ones.
    pub certain_ns: Ns,
    /// Number of all late jobs.
    pub late: u64,
}

impl Task {
    /// Whether no response time that exceeded `deadline` is certain: each may be of several jobs in time, or of a job
    /// that was released later. [`OTHERS`] count only late jobs that are certain; the response times of all are together.
    #[must_use]
    pub fn is_late_by_doubt_alone(&self, deadline: Ns) -> bool {
        let response = self.of(Quantity::Response);
        let late = response.map_or(0, |series| series.histogram.count_from(deadline + Ns(1)));
        let several =
            self.several_jobs.is_some_and(|several| several.turns == several.late && late <= several.turns);
        several || self.is_release_in_doubt(deadline) || self.thread.comm == OTHERS
    }

    /// Whether its late jobs may have been released after the wait from which they are measured.
    #[must_use]
    pub fn is_release_in_doubt(&self, deadline: Ns) -> bool {
        self.may_poll_until(deadline) || self.may_spin_until(deadline) || self.may_start_elsewhere(deadline)
    }

    /// Whether its late jobs may have been in time if another wait starts them.
    #[must_use]
    pub fn may_start_elsewhere(&self, deadline: Ns) -> bool {
        let other = self.other_start.as_ref().filter(|_| !self.is_chosen);
        other.is_some_and(|other| other.longest_ns <= deadline)
    }

    /// The wait within its jobs that may end them, if its longest response time is of several jobs then.
    #[must_use]
    pub fn may_end_earlier(&self) -> Option<&OtherEnd> {
        let longest = self.of(Quantity::Response).and_then(|series| series.histogram.max());
        self.other_end.as_ref().filter(|end| !self.is_chosen && Some(end.longest_ns) < longest)
    }

    /// Whether its late jobs may have polled for their release. A thread that spins until its next period, or for a flag,
    /// does so each time: if half of its jobs take less than half of the deadline, a late one is an exception.
    #[must_use]
    pub fn may_poll_until(&self, deadline: Ns) -> bool {
        self.is_always_long(deadline) && self.has_inferred_starts() && self.polls_from_ns.is_some()
    }

    /// Whether the recorder has chosen the waits at which jobs start, at least of one thread of a chain.
    #[must_use]
    pub fn has_inferred_starts(&self) -> bool {
        !self.is_chosen || self.chain.is_some()
    }

    /// Whether its late jobs may have spun until their release after a wait that ended before it.
    #[must_use]
    pub fn may_spin_until(&self, deadline: Ns) -> bool {
        self.is_always_long(deadline) && !self.is_chosen && self.off_cpu_ns.is_some()
    }

    fn is_always_long(&self, deadline: Ns) -> bool {
        let typical = self.of(Quantity::Response).and_then(|series| series.histogram.quantile(0.5));
        typical.is_none_or(|typical| typical > Ns(deadline.0 / 2))
    }

    /// The longest time above `deadline` that a job of a thread that may spin certainly took: time without a CPU is not a
    /// spin, and a spin ends at the next release at the latest.
    #[must_use]
    pub fn took_beyond(&self, deadline: Ns) -> Option<Ns> {
        let response = self.of(Quantity::Response).and_then(|series| series.histogram.max());
        let beyond = response.zip(self.period.as_ref()).filter(|(_, period)| !period.changed);
        let beyond = beyond.map(|(response, period)| response.saturating_sub(period.median_ns));
        let took = self.off_cpu_ns?.max(beyond.unwrap_or_default());
        let else_certain = !self.may_poll_until(deadline) && !self.may_start_elsewhere(deadline);
        (took > deadline && self.may_spin_until(deadline) && else_certain).then_some(took)
    }

    /// The longest time above `deadline` from a release to the start of its job, of a thread that may poll: that job was late all the same.
    #[must_use]
    pub fn waited_beyond(&self, deadline: Ns) -> Option<Ns> {
        self.polls_from_ns.filter(|&waited| waited > deadline && self.may_poll_until(deadline))
    }

    /// Signs that a job contains several of its waits. Events may come at any time; at regular times only every so many
    /// waits, they are a sign as well.
    #[must_use]
    pub fn waits_in_one_job(&self) -> Option<SeveralWaits> {
        self.several_waits.filter(|several| self.timer_driven || several.waits.is_some())
    }

    /// Its largest latency.
    #[must_use]
    pub fn largest(&self) -> Ns {
        let latencies = self.series.iter().filter(|series| series.quantity != Quantity::Response);
        latencies.filter_map(|series| series.histogram.max()).max().unwrap_or_default()
    }

    /// Its unfinished last job if it exceeds the deadline, in a thread that had jobs before, or waits for a CPU.
    /// SCHED_OTHER threads often end in another place than their main wait; the first thread of a chain is real-time or not.
    #[must_use]
    pub fn late_end(&self) -> Option<&Unfinished> {
        let is_real_time = self.chain.is_some() || self.thread.prio.is_some_and(Prio::is_realtime);
        let had_jobs = self.had_jobs || self.activations > 0;
        let is_turn = |end: &&Unfinished| match end.state {
            State::Waits => true,
            State::Runs | State::Preempted => had_jobs,
            State::Blocked | State::Ended => had_jobs && (is_real_time || end.locked_ns > self.deadline_ns),
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
