//! Helper threads for calls that have no readiness: files on disks, name resolution.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::signal;

/// Maximum number of helper threads.
const MOST: usize = 4;

pub(super) type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    idle: usize,
    threads: usize,
    stopped: bool,
}

/// The pool. Threads are started if no idle one is available for a job, and end with the pool.
#[derive(Default)]
pub(super) struct Pool {
    shared: Arc<(Mutex<Queue>, Condvar)>,
}

impl Pool {
    /// Queues a job. False: there is no thread, and none can be started.
    pub(super) fn submit(&self, job: Job) -> bool {
        let (mutex, condition) = &*self.shared;
        let mut queue = mutex.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.idle <= queue.jobs.len() && queue.threads < MOST {
            let shared = self.shared.clone();
            let builder = std::thread::Builder::new().name("lathunt-files".into()).stack_size(256 * 1024);
            if builder.spawn(move || work(&shared)).is_ok() {
                queue.threads += 1;
            } else if queue.threads == 0 {
                return false;
            }
        }
        queue.jobs.push_back(job);
        condition.notify_one();
        true
    }
}

fn work(shared: &(Mutex<Queue>, Condvar)) {
    signal::block_all();
    let (mutex, condition) = shared;
    let mut queue = mutex.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        if let Some(job) = queue.jobs.pop_front() {
            drop(queue);
            job();
            queue = mutex.lock().unwrap_or_else(PoisonError::into_inner);
        } else if queue.stopped {
            return;
        } else {
            queue.idle += 1;
            queue = condition.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.idle -= 1;
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner).stopped = true;
        self.shared.1.notify_all();
    }
}
