//! Selects the running thread: the scheduler as a pure state machine. Times go in, decisions come out.
//!
//! There is no clock, no signal and no stack here: the machine layer calls these functions with the scheduler locked and
//! carries out the decisions of [`Scheduler::reschedule`]; tests drive the same code in virtual time. Nothing allocates after
//! a thread or an object was created, because `tick` runs inside a signal handler.
//!
//! - [`lists`]: ready queue and wait lists. [`timers`]: timed events. [`server`]: the sporadic server.
//! - [`thread`]: state of a thread. [`sched`]: states, charging, switching; `placing`: changes of urgency. [`jobs`]: releases, deadlines, budgets.
//! - [`record`]: what happened, for tools. [`locks`]: mutexes and their protocols; `at_once`: uncontended ones. [`waits`]: semaphores, conditions, barriers, the end of threads.

mod at_once;
pub mod jobs;
pub mod lists;
pub mod locks;
mod placing;
pub mod record;
pub mod sched;
pub mod server;
#[cfg(test)]
mod tests;
pub mod thread;
pub mod timers;
pub mod waits;

pub use locks::Protocol;
pub use sched::Scheduler;
pub use thread::{Budget, OnOverrun, Params, Policy, Release};

/// A time that is never reached, in ns: no deadline, no timer.
pub const NEVER: u64 = u64::MAX;

/// Priorities are 0 (lowest) to 98.
pub const PRIORITIES: u8 = 99;

/// A thread, by its index in the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct ThreadId(pub u32);

/// "No thread" and "no object" in links.
pub(crate) const NONE: u32 = u32::MAX;

/// Order of threads: the higher priority, then the earlier absolute deadline (ns). Threads without one have [`NEVER`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Urgency {
    /// 0 to 98.
    pub priority: u8,
    /// Absolute, in ns.
    pub deadline: u64,
}

impl Urgency {
    /// Strictly more urgent: equal threads do not preempt each other.
    #[must_use]
    #[inline]
    pub fn before(self, other: Urgency) -> bool {
        self.priority > other.priority || (self.priority == other.priority && self.deadline < other.deadline)
    }

    /// The more urgent of the two.
    #[must_use]
    #[inline]
    pub fn most(self, other: Urgency) -> Urgency {
        if other.before(self) {
            other
        } else {
            self
        }
    }
}

/// Why the scheduler refuses a request. Each has the errno for C programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The table of threads is full (EAGAIN).
    TooManyThreads,
    /// A parameter outside its range (EINVAL).
    Invalid(&'static str),
    /// The caller's priority is above the ceiling, or its relative deadline shorter than the floor (EINVAL).
    AboveCeiling,
    /// Waiting would never end: the chain of owners leads back to the caller (EDEADLK).
    Deadlock,
    /// The caller does not hold the mutex (EPERM).
    NotOwner,
    /// It is held, or threads wait for it (EBUSY).
    Busy,
    /// Would have to wait (EAGAIN).
    WouldBlock,
    /// No such thread or object, or it has ended (ESRCH).
    Gone,
    /// The counter would exceed its maximum (EOVERFLOW).
    Overflow,
}

impl Refusal {
    /// The errno for it.
    #[must_use]
    pub fn errno(self) -> i32 {
        match self {
            Refusal::TooManyThreads | Refusal::WouldBlock => libc::EAGAIN,
            Refusal::Invalid(_) | Refusal::AboveCeiling => libc::EINVAL,
            Refusal::Deadlock => libc::EDEADLK,
            Refusal::NotOwner => libc::EPERM,
            Refusal::Busy => libc::EBUSY,
            Refusal::Gone => libc::ESRCH,
            Refusal::Overflow => libc::EOVERFLOW,
        }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Refusal::TooManyThreads => "the runtime's table of threads is full; raise Config::threads",
            Refusal::Invalid(what) => what,
            Refusal::AboveCeiling => {
                "the thread's priority is above the mutex's ceiling (or its relative deadline below the floor)"
            }
            Refusal::Deadlock => "waiting for this mutex would never end: deadlock",
            Refusal::NotOwner => "the caller does not hold this mutex",
            Refusal::Busy => "in use",
            Refusal::WouldBlock => "would have to wait",
            Refusal::Gone => "no such thread, or it has ended",
            Refusal::Overflow => "the semaphore has reached its maximum",
        })
    }
}

impl std::error::Error for Refusal {}

/// How a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The awaited event has happened.
    Done,
    /// The time limit came first.
    TimedOut,
    /// The thread was cancelled while it waited.
    Cancelled,
}

/// Whether the calling thread continues or must wait: then [`Scheduler::reschedule`] comes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Nothing to wait for.
    Go,
    /// The current thread is blocked.
    Wait,
}
