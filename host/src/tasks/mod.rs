//! Runs a task set: one process, one thread for each task instance, the events of rt-app with the meaning that its code
//! gives them.
//!
//! [`execute`] takes a [`Program`] and hands back what its threads did. The threads of the kernel are in `kernel`; a
//! scheduler in user space would be a second executor behind the same function, with the same steps and figures.
//!
//! Safety of the machine: a supervisor that no thread of the set can keep from running ends the run at its time, at a signal, or when a
//! real-time thread has not slept for longer than `RLIMIT_RTTIME` allows; busy loops look at its flag every 20 µs. Where it
//! dies, the kernel kills the process. Policies, memory locks and limits end with the process.
//!
//! Not as rt-app: a barrier has waiters with names, so that its last arriver does not pass twice; a wait ends only when it
//! is signalled (no spurious wake-ups); a late job is as late as it was, and not "0".

mod kernel;
mod locks;
mod memory;
mod policy;
mod queues;
mod ring;
mod shared;
mod supervisor;
mod work;
mod worker;

use lathunt_core::cpuset::CpuSet;
use lathunt_core::tasks::jobs::Job;
use lathunt_core::tasks::outcome::Executed;
use lathunt_core::tasks::program::Program;
use lathunt_core::time::{Mono, Ns};

use crate::error::Result;

pub use supervisor::STUCK;
pub use work::Speeds;

/// How to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where threads may run that name no CPUs.
    pub cpus: CpuSet,
    /// CPUs that no thread of the set uses, where the supervisor runs; `None`: there are none.
    pub housekeeping: Option<CpuSet>,
    /// Length; `None`: until the threads end, or a signal.
    pub duration: Option<Ns>,
    /// Speed of the loops of `run`.
    pub speeds: Speeds,
    /// CPU time of one switch, for the result.
    pub switch: Option<Ns>,
    /// How long a real-time thread may run without sleeping before the run ends.
    pub runaway: Ns,
    /// Hand every job to [`Watch::job`].
    pub jobs: bool,
}

/// How far it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// Time since the common start.
    pub elapsed: Ns,
    /// Jobs that ended.
    pub jobs: u64,
    /// Of those, late ones.
    pub misses: u64,
    /// The longest response.
    pub longest: Ns,
}

/// Who looks on, from an ordinary thread.
pub trait Watch {
    /// A few times a second.
    fn progress(&mut self, progress: &Progress);
    /// A job of the thread with this index, in the order in which they end for each thread; only with [`Options::jobs`].
    fn job(&mut self, thread: usize, job: &Job);
    /// The common start.
    fn begins(&mut self, at: Mono);
}

/// Runs `program` to its end. Blocks for as long as that takes; ends early by `signals::stop_requested`.
///
/// # Errors
/// When a thread cannot have its policy, CPUs or memory; then none of them has run.
pub fn execute(
    program: &Program,
    options: &Options,
    watch: &mut dyn Watch,
) -> Result<(Executed, Vec<String>)> {
    kernel::run(program, options, watch)
}
