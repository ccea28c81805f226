//! Runs a task set: one process, one thread per task instance, rt-app's events with the semantics of its code.
//!
//! [`execute`] takes a [`Program`] and returns what its threads did. Kernel threads are in `kernel`, fibers of
//! `lathunt_runtime` in `fibers`: both use the same steps and figures (`worker`), on different carriers (`ground`).
//!
//! Safety of the machine: a supervisor that no thread of the set can preempt ends the run at its time, at a signal, or when a
//! real-time thread has not slept for longer than `RLIMIT_RTTIME` allows; busy loops check its flag every 20 µs. If the
//! supervisor dies, the kernel kills the process. Policies, memory locks and limits end with the process.
//!
//! Differences from rt-app: a barrier tracks its waiters, so its last arriver does not pass twice; a wait ends only by a
//! signal (no spurious wake-ups); a late job has its real lateness, not "0".

mod fibers;
mod ground;
mod kernel;
mod locks;
mod memory;
mod os_thread;
pub(crate) mod policy;
mod queues;
mod ring;
mod shared;
mod so_far;
mod supervisor;
mod work;
mod worker;

use std::sync::Arc;

use lathunt_core::cpuset::CpuSet;
use lathunt_core::tasks::jobs::Job;
use lathunt_core::tasks::outcome::Executed;
use lathunt_core::tasks::program::{Program, Rule, Step};
use lathunt_core::time::{Mono, Ns};

use crate::error::Result;
use crate::sched;
use shared::Shared;

pub use lathunt_runtime::{FiberAlloc, Preemption};
pub use supervisor::STUCK;
pub use work::Speeds;

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// CPUs of threads that name none.
    pub cpus: CpuSet,
    /// CPUs that no thread of the set uses, for the supervisor; `None`: there are none.
    pub housekeeping: Option<CpuSet>,
    /// Length; `None`: until the threads end, or a signal.
    pub duration: Option<Ns>,
    /// Speed of the loops of `run`.
    pub speeds: Speeds,
    /// CPU time of one switch, for the result.
    pub switch: Option<Ns>,
    /// How long a real-time thread may run without sleeping before the run ends.
    pub runaway: Ns,
    /// Pass every job to [`Watch::job`].
    pub jobs: bool,
    /// Pass the figures so far to [`Watch::so_far`], every second at first and every ten seconds later; only with `jobs`.
    pub save: bool,
    /// For fibers: the priority (SCHED_FIFO, 1 to 97) of the kernel thread that carries them; `None`: an ordinary one.
    pub fiber_priority: Option<i32>,
    /// For fibers: how a running one is interrupted.
    pub fiber_preemption: Preemption,
    /// For fibers: events of their scheduler to keep, the newest before the first late job; 0: none.
    pub fiber_events: usize,
}

/// Progress.
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

/// Observer of a run, called from an ordinary thread.
pub trait Watch {
    /// Called a few times a second.
    fn progress(&mut self, progress: &Progress);
    /// A job of the thread with this index, in the order in which they end for each thread; only with [`Options::jobs`].
    fn job(&mut self, thread: usize, job: &Job);
    /// The run so far, to be saved in case of a kill.
    fn so_far(&mut self, executed: &Executed);
    /// The common start.
    fn begins(&mut self, at: Mono);
}

/// Runs `program` to its end. Blocks until then; ends early on `signals::stop_requested`.
///
/// # Errors
/// If a thread cannot get its policy, CPUs or memory; then none of them has run.
pub fn execute(
    program: &Program,
    options: &Options,
    watch: &mut dyn Watch,
) -> Result<(Executed, Vec<String>)> {
    match program.threads.iter().any(|thread| matches!(thread.rule, Rule::FiberFixed(_) | Rule::FiberEdf(_)))
    {
        true => fibers::run(program, options, watch),
        false => kernel::run(program, options, watch),
    }
}

/// Common start of both executors: the device, the limits, locked memory; notes for the result.
fn prepare(program: &Program, options: &Options) -> Result<(Arc<Shared>, Vec<String>)> {
    let mut notes = Vec::new();
    let all = || program.threads.iter().chain(program.templates.values());
    let steps = || all().flat_map(|thread| &thread.phases).flat_map(|phase| &phase.steps);
    let device = match steps().any(|step| matches!(step, Step::IoRun(_))) {
        true => Some(memory::open(&program.io_device)?),
        false => None,
    };
    let realtime = options.fiber_priority.is_some()
        || all()
            .any(|thread| !matches!(thread.rule, Rule::Fair(..) | Rule::FiberFixed(_) | Rule::FiberEdf(_)));
    if realtime {
        sched::limit_rt_time(options.runaway)?;
    }
    if realtime
        && program.lock_pages
        && let Err(error) = sched::lock_memory()
    {
        notes.push(format!("measured without locked memory: {error}"));
    }
    Ok((Arc::new(Shared::new(program, options, device)), notes))
}
