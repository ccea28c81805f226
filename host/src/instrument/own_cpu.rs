//! Is a measuring thread still on its CPU, and at its priority? Affinity, a cpuset or hotplug may move it after it was
//! bound, and a privileged process may lower it. A priority that was changed and restored in between is not seen.
//!
//! The C library reads the CPU from the rseq area that the kernel maintains in each thread (else by the vDSO): a few
//! ns per sample, no system call.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::OnceLock;

use lathunt_core::conditions::LeftCpu;
use lathunt_core::tasks::program::Rule;
use lathunt_core::time::Cpu;

use crate::sched::{self, Policy};
use crate::tasks::policy;

/// CPUs that one thread was seen on; the thread writes, any thread reads.
#[derive(Debug)]
pub struct OwnCpu {
    wanted: Option<Cpu>,
    elsewhere: AtomicU64,
    is_elsewhere: AtomicBool, // at the last look
    last: AtomicU64,          // number of the other CPU
    unbound: AtomicU64,       // 1: its affinity had changed at the end
    changed: OnceLock<String>,
}

impl OwnCpu {
    /// For a thread bound to `wanted`; `None`: it may move.
    #[must_use]
    pub fn new(wanted: Option<Cpu>) -> OwnCpu {
        OwnCpu {
            wanted,
            elsewhere: AtomicU64::new(0),
            is_elsewhere: AtomicBool::new(false),
            last: AtomicU64::new(0),
            unbound: AtomicU64::new(0),
            changed: OnceLock::new(),
        }
    }

    /// Records the calling thread's CPU, as that of its last `samples`. True: it is another CPU, or was at the last look, so
    /// that what its own CPU did in between does not explain a sample.
    #[inline]
    pub fn look(&self, samples: u64) -> bool {
        let Some(wanted) = self.wanted else { return false };
        // SAFETY: no preconditions; -1 where it cannot be known.
        let on = unsafe { libc::sched_getcpu() };
        let (is, was) = (on >= 0 && on as u32 != wanted.0, self.is_elsewhere.load(Relaxed));
        if is {
            self.elsewhere.fetch_add(samples, Relaxed);
            self.last.store(on as u64, Relaxed);
        }
        if is != was {
            self.is_elsewhere.store(is, Relaxed);
        }
        is || was
    }

    /// Records whether the calling thread is still bound; a system call, at its end.
    pub fn look_at_affinity(&self) {
        let Some(wanted) = self.wanted else { return };
        let bound = sched::affinity().map(|cpus| cpus.iter().eq([wanted])).unwrap_or(true);
        self.unbound.store(u64::from(!bound), Relaxed);
    }

    /// Records whether the calling thread still has its policy and priority; two system calls, at its end.
    pub fn look_at_policy(&self, policy: Policy, priority: i32) {
        sched::changed_from(policy, priority).into_iter().for_each(|how| drop(self.changed.set(how)));
    }

    /// As [`OwnCpu::look_at_policy`], for a thread with a reservation; a system call, at its end.
    pub fn look_at_rule(&self, rule: Rule) {
        policy::changed_from(rule).into_iter().for_each(|how| drop(self.changed.set(how)));
    }

    /// Changes by another process to how the thread is scheduled.
    #[must_use]
    pub fn rescheduled(&self) -> Option<String> {
        let how = self.changed.get()?;
        Some(format!("another process changed the scheduling of its measuring thread: it ended as {how}"))
    }

    /// What invalidates the CPU of the samples, if anything.
    #[must_use]
    pub fn left(&self) -> Option<LeftCpu> {
        let (samples, unbound) = (self.elsewhere.load(Relaxed), self.unbound.load(Relaxed) == 1);
        let cpu = self.wanted.filter(|_| samples > 0 || unbound)?;
        let on = (samples > 0).then(|| Cpu(self.last.load(Relaxed) as u32));
        let why = if unbound { "its affinity was changed" } else { "it was moved away and back" };
        Some(LeftCpu { cpu, samples: Some(samples), on, why: why.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_is_moved_is_seen_elsewhere_and_one_that_stays_is_not() {
        let cpus: Vec<Cpu> = sched::affinity().unwrap().iter().collect();
        let Some((&first, &last)) = cpus.first().zip(cpus.last()).filter(|(first, last)| first != last)
        else {
            eprintln!("skipped: a second CPU is needed");
            return;
        };
        let thread = std::thread::spawn(move || {
            let own = OwnCpu::new(Some(first));
            sched::pin(first).unwrap();
            assert!(!own.look(1));
            own.look_at_affinity();
            assert_eq!(own.left(), None);
            sched::pin(last).unwrap();
            assert!(own.look(1) && own.look(4096));
            sched::pin(first).unwrap();
            assert!(own.look(1), "it came back since the last look");
            assert!(!own.look(1));
            sched::pin(last).unwrap();
            own.look_at_affinity();
            own.left().unwrap()
        });
        let left = thread.join().unwrap();
        assert_eq!((left.cpu, left.samples, left.on), (first, Some(4097), Some(last)));
        assert!(left.why.contains("affinity"), "{left:?}");
    }

    #[test]
    fn a_thread_that_is_lowered_says_so_at_its_end() {
        let thread = std::thread::spawn(|| {
            let own = OwnCpu::new(None);
            own.look_at_policy(Policy::Other, 0);
            assert_eq!(own.rescheduled(), None);
            sched::set_policy(Policy::Idle, 0).unwrap();
            own.look_at_policy(Policy::Other, 0);
            own.rescheduled().unwrap()
        });
        let how = thread.join().unwrap();
        assert!(how.ends_with("it ended as SCHED_IDLE 0 instead of SCHED_OTHER 0"), "{how}");
    }
}
