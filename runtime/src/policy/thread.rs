//! State of a thread in the scheduler, and its creation parameters.

use super::lists::List;
use super::server::Server;
use super::{Outcome, Refusal, Urgency, NEVER, NONE, PRIORITIES};

/// How a thread shares the processor with those of equal priority.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Policy {
    /// Runs until it waits or a more urgent one is ready (SCHED_FIFO).
    #[default]
    Fifo,
    /// Like FIFO, but goes after its equals after each quantum of CPU time (SCHED_RR).
    RoundRobin {
        /// In ns, at least 10,000.
        quantum: u64,
    },
    /// Within its priority, the earlier absolute deadline first. Needs a relative deadline.
    Edf,
    /// At its priority while its budget lasts, else at `low`; used capacity is replenished one period later (SCHED_SPORADIC,
    /// without the defects of POSIX's rules: see [`super::server`]).
    Sporadic {
        /// Priority without capacity, below the thread's.
        low: u8,
        /// Replenishment period in ns.
        period: u64,
        /// Capacity in ns, at most the period.
        budget: u64,
        /// Maximum number of pending replenishments, 1 to 16.
        replenishments: usize,
    },
}

/// When the thread's jobs are released.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Release {
    /// Once, at its start: one job without an end.
    #[default]
    Aperiodic,
    /// Every `period` ns from its start. A job that ends after the next release is followed by the next at once: no release
    /// is dropped.
    Periodic {
        /// In ns, above 0.
        period: u64,
    },
    /// By `trigger` only, at least `separation` ns apart: an earlier trigger is served later.
    Sporadic {
        /// In ns.
        separation: u64,
    },
}

/// What happens to a job that has used its budget.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnOverrun {
    /// It is counted and reported; the job continues.
    #[default]
    Count,
    /// Also, the job continues at priority 0 without a deadline until its next release.
    Background,
}

/// CPU time that each job may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    /// In ns, above 0.
    pub ns: u64,
    /// What follows.
    pub action: OnOverrun,
}

/// Creation parameters of a thread. `Params::default()` is an aperiodic FIFO thread of priority 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Params {
    /// Policy.
    pub policy: Policy,
    /// 0 (lowest) to 98.
    pub priority: u8,
    /// When jobs are released.
    pub release: Release,
    /// Deadline relative to the release, in ns. A job that takes longer is a miss.
    pub deadline: Option<u64>,
    /// CPU time for each job.
    pub budget: Option<Budget>,
    /// Absolute time of the first release in ns; `None`: now.
    pub start: Option<u64>,
}

/// Shortest round-robin quantum, in ns: a shorter one would be spent on switching.
pub const SHORTEST_QUANTUM: u64 = 10_000;

/// Longest time of any parameter, in ns (36 years): sums of three do not wrap.
pub const LONGEST: u64 = 1 << 60;

impl Params {
    /// Checks the parameters; returns the server of a sporadic server.
    pub(super) fn check(&self, now: u64) -> Result<Option<Box<Server>>, Refusal> {
        if self.priority >= PRIORITIES {
            return Err(Refusal::Invalid("a priority is 0 to 98"));
        }
        if self.deadline == Some(0) {
            return Err(Refusal::Invalid("a deadline of 0 cannot be met"));
        }
        if self.budget.is_some_and(|budget| budget.ns == 0) {
            return Err(Refusal::Invalid("a budget of 0 allows nothing to run"));
        }
        let period = match self.release {
            Release::Periodic { period: 0 } => return Err(Refusal::Invalid("a period must be above 0")),
            Release::Periodic { period } => period,
            Release::Sporadic { separation } => separation,
            Release::Aperiodic => 0,
        };
        let budget = self.budget.map_or(0, |budget| budget.ns);
        if [period, self.deadline.unwrap_or(0), budget, self.start.unwrap_or(0)]
            .iter()
            .any(|&time| time > LONGEST)
        {
            return Err(Refusal::Invalid("a time above 36 years"));
        }
        match self.policy {
            Policy::Edf if self.deadline.is_none() => Err(Refusal::Invalid("EDF needs a deadline")),
            Policy::RoundRobin { quantum } if quantum < SHORTEST_QUANTUM => {
                Err(Refusal::Invalid("a round-robin quantum is at least 10 us"))
            }
            Policy::Sporadic { low, period, budget, replenishments } => {
                match Server::new(self.priority, low, period, budget, replenishments, now) {
                    Some(server) => Ok(Some(Box::new(server))),
                    None => Err(Refusal::Invalid(
                        "a sporadic server needs 0 < budget <= period, low < priority, 1 to 16 replenishments",
                    )),
                }
            }
            _ => Ok(None),
        }
    }
}

/// Why a thread is blocked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// For a time.
    Sleep,
    /// For its next release.
    Release,
    /// For `resume`.
    Suspended,
    /// For a mutex.
    Mutex(u32),
    /// For a condition; then it takes this mutex again.
    Condition(u32, u32),
    /// For a semaphore.
    Semaphore(u32),
    /// For the others at a barrier.
    Barrier(u32),
    /// For the end of a thread.
    Join(u32),
    /// For the broker.
    Io,
}

/// State of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// The index in the table is free.
    Unused,
    /// In the ready queue.
    Ready,
    /// The one that runs: in no list.
    Running,
    /// Waits; in the list of the object, if that has one.
    Blocked(Wait),
    /// Ended; kept until it is joined or released.
    Ended,
}

/// Statistics of a thread. Times in ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Account {
    /// Jobs that have ended.
    pub jobs: u64,
    /// Jobs that had not ended by their deadline, including running ones.
    pub misses: u64,
    /// Jobs that used up their budget.
    pub overruns: u64,
    /// CPU time.
    pub cpu: u64,
    /// Longest response time of a job that has ended.
    pub worst_response: u64,
    /// Largest lateness of a job that has ended after its deadline.
    pub worst_lateness: u64,
    /// Number of preemptions by a more urgent thread.
    pub preemptions: u64,
    /// Number of times it was dispatched.
    pub dispatches: u64,
    /// CPU time at the high priority of a sporadic server beyond its capacity: sum of the timer's lateness.
    pub server_excess: u64,
    /// Mutexes that it held when it ended; they were unlocked.
    pub abandoned: u64,
}

/// A thread of the table.
#[derive(Clone, Debug)]
pub struct Thread {
    pub(super) prev: u32,
    pub(super) next: u32,
    /// Including inheritance; orders the lists.
    pub(super) urgency: Urgency,
    pub(super) state: State,
    /// Remaining slice, for round robin.
    pub(super) slice: u64,
    /// Mutexes that it owns: the first in the chain of `next_held`.
    pub(super) held: u32,
    pub(super) policy: Policy,
    /// Priority set by the program.
    pub(super) base: u8,
    pub(super) release: Release,
    pub(super) relative_deadline: u64,
    pub(super) budget: Option<Budget>,
    pub(super) server: Option<Box<Server>>,
    /// Whether the current job has used up its budget and runs in the background.
    pub(super) demoted: bool,
    pub(super) overrun: bool,
    pub(super) missed: bool,
    /// The program begins its jobs by itself: they are not counted.
    pub(super) has_own_jobs: bool,
    /// Release of the current job.
    pub(super) released_at: u64,
    pub(super) deadline_at: u64,
    pub(super) job_cpu: u64,
    /// Triggers that are not jobs yet.
    pub(super) triggers: u32,
    pub(super) next_release: u64,
    /// Semaphore that is posted at each miss and overrun.
    pub(super) notify: u32,
    pub(super) outcome: Outcome,
    /// Asked to end at the next cancellation point.
    pub(super) cancelled: bool,
    /// Requests to end are deferred.
    pub(super) uncancellable: bool,
    pub(super) joiners: List,
    pub(super) generation: u32,
    pub(super) account: Account,
}

impl Thread {
    pub(super) fn unused(generation: u32) -> Thread {
        Thread {
            prev: NONE,
            next: NONE,
            urgency: Urgency { priority: 0, deadline: NEVER },
            state: State::Unused,
            slice: 0,
            held: NONE,
            policy: Policy::Fifo,
            base: 0,
            release: Release::Aperiodic,
            relative_deadline: NEVER,
            budget: None,
            server: None,
            demoted: false,
            overrun: false,
            missed: false,
            has_own_jobs: false,
            released_at: 0,
            deadline_at: NEVER,
            job_cpu: 0,
            triggers: 0,
            next_release: 0,
            notify: NONE,
            outcome: Outcome::Done,
            cancelled: false,
            uncancellable: false,
            joiners: List::default(),
            generation,
            account: Account::default(),
        }
    }

    /// Urgency without the effect of mutexes.
    pub(super) fn own(&self, now: u64) -> Urgency {
        if self.demoted {
            return Urgency { priority: 0, deadline: NEVER };
        }
        match (self.policy, &self.server) {
            (Policy::Edf, _) => Urgency { priority: self.base, deadline: self.deadline_at },
            (Policy::Sporadic { low, .. }, Some(server)) if server.available(now) == 0 => {
                Urgency { priority: low, deadline: NEVER }
            }
            _ => Urgency { priority: self.base, deadline: NEVER },
        }
    }

    pub(super) fn is_live(&self) -> bool {
        !matches!(self.state, State::Unused | State::Ended)
    }
}
