//! Jobs from the thread that ran them to an ordinary thread: one writer, one reader; neither waits.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use lathunt_core::tasks::jobs::Job;
use lathunt_core::tasks::program::{Rule, Thread};
use lathunt_core::time::{Cpu, Mono, Ns, Tid};

/// Maximum number of unread jobs: at 10 kHz, 0.4 s.
const ROOM: u64 = 4_096;

/// A ring. Jobs without room are counted as lost; figures are counted elsewhere and are complete.
pub struct Ring {
    /// Name of the thread in the set.
    pub name: String,
    /// Number of its task in the set.
    pub task: usize,
    /// Its policy at the start.
    pub rule: Rule,
    tid: AtomicI32, // 0: not started
    jobs: Box<[UnsafeCell<Job>]>,
    written: AtomicU64,
    read: AtomicU64,
    lost: AtomicU64,
}

// SAFETY: a place is written before `written` passes it, and not again before `read` has passed it.
unsafe impl Sync for Ring {}

impl Ring {
    /// An empty ring for the jobs of `thread`.
    pub fn new(thread: &Thread) -> Ring {
        let empty = Job {
            release: Mono(0),
            start: None,
            end: Mono(0),
            execution: Ns::ZERO,
            deadline: None,
            finished: false,
            cpu: Cpu(0),
        };
        Ring {
            name: thread.name.clone(),
            task: thread.task,
            rule: thread.rule,
            tid: AtomicI32::new(0),
            jobs: (0..ROOM).map(|_| UnsafeCell::new(empty)).collect(),
            written: AtomicU64::new(0),
            read: AtomicU64::new(0),
            lost: AtomicU64::new(0),
        }
    }

    /// Notes the thread id of the writer.
    pub fn writes(&self, tid: Tid) {
        self.tid.store(tid.0, Ordering::Relaxed);
    }

    /// Thread id of the writer; 0 before it started.
    pub fn tid(&self) -> Tid {
        Tid(self.tid.load(Ordering::Relaxed))
    }

    /// Adds a job. Only one thread may call it.
    pub fn push(&self, job: &Job) {
        let at = self.written.load(Ordering::Relaxed);
        if at - self.read.load(Ordering::Acquire) >= ROOM {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        // SAFETY: the reader is not at this slot: it reads up to `written` only, and is less than one round
        // behind.
        unsafe { *self.jobs[(at % ROOM) as usize].get() = *job };
        self.written.store(at + 1, Ordering::Release);
    }

    /// Takes all jobs. Only one thread may call it.
    pub fn drain(&self, mut each: impl FnMut(&Job)) {
        let end = self.written.load(Ordering::Acquire);
        let mut at = self.read.load(Ordering::Relaxed);
        while at < end {
            // SAFETY: the writer has passed this slot, and does not return before `read` has passed it.
            each(unsafe { &*self.jobs[(at % ROOM) as usize].get() });
            at += 1;
            self.read.store(at, Ordering::Release);
        }
    }

    /// Jobs that did not fit.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_come_out_in_order_and_what_does_not_fit_is_counted() {
        let ring = std::sync::Arc::new(Ring::new(&of()));
        let (writer, all) = (std::sync::Arc::clone(&ring), 100_000);
        let thread = std::thread::spawn(move || {
            for nth in 0..all {
                let mut job = Job { end: Mono(nth), ..first() };
                job.execution = Ns(nth * 2);
                writer.push(&job);
            }
        });
        let (mut read, mut last) = (0, None);
        loop {
            let over = thread.is_finished();
            ring.drain(|job| {
                assert!(last < Some(job.end.0) && job.execution.0 == job.end.0 * 2);
                (last, read) = (Some(job.end.0), read + 1);
            });
            if over {
                break;
            }
        }
        thread.join().unwrap();
        assert_eq!(read + ring.lost(), all);
    }

    fn of() -> Thread {
        Thread {
            name: "t".to_owned(),
            task: 0,
            rule: Rule::Fifo(1),
            cpus: None,
            delay: Ns::ZERO,
            loops: None,
            phases: Vec::new(),
            boundary: lathunt_core::tasks::program::Boundary::Repetition,
            deadline: None,
            period: None,
            budget: None,
        }
    }

    fn first() -> Job {
        Job {
            release: Mono(0),
            start: Some(Mono(0)),
            end: Mono(0),
            execution: Ns::ZERO,
            deadline: None,
            finished: true,
            cpu: Cpu(0),
        }
    }
}
