//! The kernel thread of a thread of the set.

use std::sync::atomic::Ordering;
use std::sync::Arc;

use lathunt_core::cpuset::CpuSet;
use lathunt_core::tasks::program::{Program, Rule};
use lathunt_core::time::{Cpu, Mono, Ns};

use super::ground::{Due, Ground, Mark};
use super::kernel::Resources;
use super::locks::{Held, Refused};
use super::queues::{self, Place, Waiter};
use super::shared::Shared;
use super::{memory, policy, work};
use crate::error::Result;
use crate::{clock, sched};

/// The calling thread.
pub(super) struct OsThread {
    shared: Arc<Shared>,
    resources: Arc<Resources>,
    program: Arc<Program>,
    own: Waiter,
    held: Held,
}

impl OsThread {
    /// For the calling thread, which will have `rule`.
    pub fn new(
        shared: &Arc<Shared>,
        resources: &Arc<Resources>,
        program: &Arc<Program>,
        rule: Rule,
    ) -> OsThread {
        let tid = sched::tid().0.unsigned_abs();
        OsThread {
            shared: Arc::clone(shared),
            resources: Arc::clone(resources),
            program: Arc::clone(program),
            own: Waiter { place: Arc::new(Place::new(&shared.waiting)), tid, priority: rule.priority() },
            held: Held::default(),
        }
    }

    /// Sets CPUs, policy and stack.
    ///
    /// # Errors
    /// Names the obstacle.
    pub fn set_up(&self, rule: Rule, cpus: Option<&CpuSet>) -> Result<()> {
        // A kernel reservation must be allowed on all CPUs of the root domain.
        if cpus.is_some() || !matches!(rule, Rule::Deadline { .. }) {
            sched::set_affinity(cpus.unwrap_or(&self.shared.cpus))?;
        }
        sched::prefault_stack();
        policy::set(rule)
    }
}

impl Ground for OsThread {
    fn cpu_time(&self) -> Ns {
        work::cpu_time()
    }

    fn cpu(&self) -> Cpu {
        sched::current_cpu()
    }

    fn expect(&mut self, _: Due) {} // a kernel reservation tracks that itself

    fn sleep_until(&mut self, due: Mono) -> bool {
        let at = libc::timespec {
            tv_sec: (due.0 / 1_000_000_000) as libc::time_t,
            tv_nsec: (due.0 % 1_000_000_000) as _,
        };
        while clock::mono() < due {
            if self.shared.stop.load(Ordering::Relaxed) {
                return false;
            }
            // SAFETY: `at` is valid to read, and nothing is written for an absolute time.
            unsafe {
                libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &at, std::ptr::null_mut())
            };
        }
        true
    }

    fn enter(&mut self, rule: Option<Rule>, cpus: Option<&CpuSet>) -> std::result::Result<(), String> {
        if let Some(cpus) = cpus {
            sched::set_affinity(cpus).map_err(|error| error.to_string())?;
        }
        if let Some(rule) = rule {
            policy::set(rule).map_err(|error| error.to_string())?;
            self.own.priority = rule.priority();
        }
        Ok(())
    }

    fn lock(&mut self, mutex: usize) -> std::result::Result<Option<Ns>, Refused> {
        let (own, priority) = (self.own.tid, self.own.priority);
        self.resources.mutexes[mutex].lock(mutex, own, priority, &mut self.held, &self.shared.stop)
    }

    fn unlock(&mut self, mutex: usize) {
        self.resources.mutexes[mutex].unlock(mutex, self.own.tid, self.own.priority, &mut self.held);
    }

    fn held(&self) -> Option<usize> {
        self.held.latest()
    }

    fn join(&mut self, condition: usize) -> std::result::Result<(), Refused> {
        self.resources.conditions[condition].join(&self.own)
    }

    fn sleep(&mut self) -> Option<Mono> {
        queues::sleep(&self.own, &self.shared.stop)
    }

    fn signal(&mut self, condition: usize) -> std::result::Result<(), Refused> {
        self.resources.conditions[condition].signal(self.own.tid)
    }

    fn broadcast(&mut self, condition: usize) -> std::result::Result<(), Refused> {
        self.resources.conditions[condition].broadcast(self.own.tid)
    }

    fn barrier(&mut self, barrier: usize) -> std::result::Result<Option<Mono>, Refused> {
        self.resources.barriers[barrier].wait(&self.own, &self.shared.stop)
    }

    fn post(&mut self, semaphore: usize) -> std::result::Result<bool, Refused> {
        self.resources.semaphores[semaphore].post(self.own.tid)
    }

    fn take(&mut self, semaphore: usize) -> std::result::Result<Option<Mono>, Refused> {
        self.resources.semaphores[semaphore].wait(&self.own, &self.shared.stop)
    }

    fn yield_now(&mut self) {
        std::thread::yield_now();
    }

    fn fork(&mut self, task: usize) -> std::result::Result<(), String> {
        super::kernel::fork(&self.shared, &self.resources, &self.program, task)
    }

    fn mark(&mut self, _: Mark) {} // other commands record the kernel's own events

    fn write(&mut self, buffer: &[u8], bytes: u64) -> std::io::Result<bool> {
        match &self.shared.device {
            Some(device) => memory::write(device, buffer, bytes, &self.shared.stop),
            None => Ok(true),
        }
    }
}
