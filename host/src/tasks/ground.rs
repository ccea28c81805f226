//! The carrier of a thread of the set: a kernel thread (`kernel`), or a fiber of the runtime (`fibers`). Its jobs, and the
//! meaning of its events, are the same on both ([`super::worker`]).

use lathunt_core::cpuset::CpuSet;
use lathunt_core::tasks::program::Rule;
use lathunt_core::time::{Cpu, Mono, Ns};

use super::locks::Refused;

/// Deadline of the awaited job, for a scheduler by deadlines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Released at this time, with this relative deadline.
    At(Mono, Option<Ns>),
    /// Released when another thread signals, with this relative deadline from then on.
    OnSignal(Option<Ns>),
}

/// Record entry of a job that was released at this time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// It begins.
    Begins(Mono),
    /// It has ended, late or in time.
    Ends {
        /// Its release.
        release: Mono,
        /// After its deadline.
        late: bool,
    },
}

/// The services that a thread of the set needs. Only that thread calls them.
pub trait Ground {
    /// CPU time so far.
    fn cpu_time(&self) -> Ns;
    /// Its CPU.
    fn cpu(&self) -> Cpu;
    /// Announces the next job, before the wait for it.
    fn expect(&mut self, due: Due);
    /// Sleeps until a time; returns at once if it has passed. False: the run ends.
    fn sleep_until(&mut self, due: Mono) -> bool;
    /// Sets policy and CPUs of a phase.
    fn enter(&mut self, rule: Option<Rule>, cpus: Option<&CpuSet>) -> Result<(), String>;
    /// Locks a mutex; returns the time it waited for another thread, if it had to.
    fn lock(&mut self, mutex: usize) -> Result<Option<Ns>, Refused>;
    /// Unlocks a mutex of this thread.
    fn unlock(&mut self, mutex: usize);
    /// The mutex that it locked last.
    fn held(&self) -> Option<usize>;
    /// Joins the waiters of a condition; then the caller unlocks its mutex, and sleeps.
    fn join(&mut self, condition: usize) -> Result<(), Refused>;
    /// Sleeps until it is released; returns the time of the release. `None`: the run ends.
    fn sleep(&mut self) -> Option<Mono>;
    /// Releases one waiter of a condition.
    fn signal(&mut self, condition: usize) -> Result<(), Refused>;
    /// Releases all.
    fn broadcast(&mut self, condition: usize) -> Result<(), Refused>;
    /// Waits for the others at a barrier; returns the arrival time of the last one. `None`: the run ends.
    fn barrier(&mut self, barrier: usize) -> Result<Option<Mono>, Refused>;
    /// Counts a semaphore up; false: it is full.
    fn post(&mut self, semaphore: usize) -> Result<bool, Refused>;
    /// Counts it down; returns the time of the post. `None`: the run ends.
    fn take(&mut self, semaphore: usize) -> Result<Option<Mono>, Refused>;
    /// Lets others of its priority run.
    fn yield_now(&mut self);
    /// Starts a thread of this task.
    fn fork(&mut self, task: usize) -> Result<(), String>;
    /// A job begins or ends, for the scheduling record.
    fn mark(&mut self, mark: Mark);
    /// Writes `bytes` to the device of `iorun`; false: the run ends.
    fn write(&mut self, buffer: &[u8], bytes: u64) -> std::io::Result<bool>;
}
