//! What an application does, seen from outside: each thread's period, response times, and what it waited for.
//!
//! In: one [`Activation`] after another (from a waking to the next block). Out: a [`Task`] for each thread. Nothing in
//! the application is changed or asked. The one inference: a thread has a *main wait*, the place where it waits for its
//! next turn (a timer, a semaphore, a socket); what ends anywhere else is an interruption of the same turn, and the
//! place is an unexpected source of blocking. `turn` finds the main wait, `point` says what a place is, `places` numbers
//! them, `sums` adds up, `misses` counts overruns, and `task` is what is told.
//!
//! Memory is bounded: [`Tasks`] keeps so many threads and counts the activations of the others.

mod misses;
mod places;
mod point;
mod sums;
mod task;
mod turn;

pub use point::{Class, Place};
pub use task::{policy as policy_name, Blocking, Period, Span, Task};

use std::collections::BTreeMap;

use crate::time::{Ns, Tid};
use crate::trace::activation::Activation;
use turn::Log;

/// The threads of a recording.
pub struct Tasks {
    limit: usize,
    deadline: Option<Ns>,
    name: fn(i16) -> Option<&'static str>,
    logs: BTreeMap<Tid, Log>,
    not_kept: u64,
}

impl Tasks {
    /// Keeps at most `limit` threads; `name` names system calls by their number.
    #[must_use]
    pub fn new(limit: usize, deadline: Option<Ns>, name: fn(i16) -> Option<&'static str>) -> Tasks {
        Tasks { limit, deadline, name, logs: BTreeMap::new(), not_kept: 0 }
    }

    /// Adds one activation; those of one thread come in the order of time. True when it blocked in a place that is new
    /// of its thread.
    pub fn add(&mut self, activation: &Activation) -> bool {
        let tid = activation.thread.tid;
        if let Some(log) = self.logs.get_mut(&tid) {
            return log.add(activation, self.name);
        }
        if self.logs.len() >= self.limit {
            self.not_kept += 1;
            return false;
        }
        let log = self.logs.entry(tid).or_insert_with(|| Log::new(self.deadline));
        log.add(activation, self.name)
    }

    /// Counts anew. What is known of each thread stays; a thread that did nothing since the last call is forgotten.
    pub fn begin_window(&mut self) {
        self.logs.retain(|_, log| log.begin_window(self.name));
    }

    /// Activations of threads beyond the limit.
    #[must_use]
    pub fn not_kept(&self) -> u64 {
        self.not_kept
    }

    /// All threads, the one with the largest latency first.
    #[must_use]
    pub fn report(&self) -> Vec<Task> {
        let active = self.logs.values().filter(|log| !log.is_empty());
        let mut tasks: Vec<Task> = active.map(|log| log.report(self.name)).collect();
        tasks.sort_by_key(|task| (std::cmp::Reverse(task.largest()), task.thread.tid));
        tasks
    }
}

#[cfg(test)]
mod tests;
