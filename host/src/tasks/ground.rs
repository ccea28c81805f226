//! What carries a thread of the set: a thread of the kernel (`kernel`), or a fiber of the runtime (`fibers`). Its jobs, and the
//! meaning of its events, are the same on both ([`super::worker`]).

use lathunt_core::cpuset::CpuSet;
use lathunt_core::tasks::program::Rule;
use lathunt_core::time::{Cpu, Mono, Ns};

use super::locks::Refused;

/// By when the job that a thread waits for must be ready: what a scheduler by deadlines goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Released at this time, with this relative deadline.
    At(Mono, Option<Ns>),
    /// Released when another thread signals, with this relative deadline from then on.
    OnSignal(Option<Ns>),
}

/// What a record says of a job that was released at this time.
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

/// The services that a thread of the set needs. They are called by that thread alone.
pub trait Ground {
    /// CPU time so far.
    fn cpu_time(&self) -> Ns;
    /// Where it is.
    fn cpu(&self) -> Cpu;
    /// Says which job comes next, before the wait for it.
    fn expect(&mut self, due: Due);
    /// Sleeps until a time; past ones are no sleep. False: the run ends.
    fn sleep_until(&mut self, due: Mono) -> bool;
    /// Policy and CPUs from a phase on.
    fn enter(&mut self, rule: Option<Rule>, cpus: Option<&CpuSet>) -> Result<(), String>;
    /// Locks a mutex; the time that it waited for another thread, if it had to.
    fn lock(&mut self, mutex: usize) -> Result<Option<Ns>, Refused>;
    /// Unlocks what this thread holds.
    fn unlock(&mut self, mutex: usize);
    /// The mutex that it has locked last.
    fn held(&self) -> Option<usize>;
    /// Joins the waiters of a condition; then the caller unlocks its mutex, and sleeps.
    fn join(&mut self, condition: usize) -> Result<(), Refused>;
    /// Sleeps until it is released; the time of that. `None`: the run ends.
    fn sleep(&mut self) -> Option<Mono>;
    /// Releases one waiter of a condition.
    fn signal(&mut self, condition: usize) -> Result<(), Refused>;
    /// Releases all.
    fn broadcast(&mut self, condition: usize) -> Result<(), Refused>;
    /// Waits for the others at a barrier; the time of the last one. `None`: the run ends.
    fn barrier(&mut self, barrier: usize) -> Result<Option<Mono>, Refused>;
    /// Counts a semaphore up; false: it is full.
    fn post(&mut self, semaphore: usize) -> Result<bool, Refused>;
    /// Counts it down; the time of the post. `None`: the run ends.
    fn take(&mut self, semaphore: usize) -> Result<Option<Mono>, Refused>;
    /// Lets others of its priority run.
    fn yield_now(&mut self);
    /// Starts a thread of this task.
    fn fork(&mut self, task: usize) -> Result<(), String>;
    /// A job begins or ends, for a record of who ran.
    fn mark(&mut self, mark: Mark);
    /// Writes `bytes` to the device of `iorun`; false: the run ends.
    fn write(&mut self, buffer: &[u8], bytes: u64) -> std::io::Result<bool>;
}
