//! The counters of one thread of the chain. One thread writes each field.

use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use lathunt_core::histogram::{Histogram, Layout};
use lathunt_core::latency_box::Counts;
use lathunt_core::series::Thread;
use lathunt_core::time::{Cpu, Mono, Ns, Prio, Tid};

use super::Options;
use crate::instrument::counters::Counters;
use crate::instrument::cyclic::seconds::Seconds;
use crate::latency_box::tally::plain;
use crate::latency_box::trips::Trips;

const RELAXED: Ordering = Ordering::Relaxed;

/// One of the worst preemptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorstPreemption {
    /// When the thread was released.
    pub released: Mono,
    /// From then until it ran.
    pub latency: Ns,
    /// The cycle, from 1.
    pub cycle: u32,
}

/// A thread of the chain; readable at any time.
pub struct Level {
    pub(super) priority: i32,
    pub(super) tid: AtomicI32,
    /// The futex: number of the cycle of the last release.
    pub(super) word: AtomicU32,
    pub(super) released_at: AtomicU64,
    /// The last cycle it finished.
    pub(super) done: AtomicU32,
    pub(super) released: AtomicU64,
    /// The cycle in which its releaser continued before it was done, until the cycle is over; 0: none.
    pub(super) violated: AtomicU32,
    /// The last cycle in which its thread was on another CPU; 0: none.
    pub(super) elsewhere: AtomicU32,
    pub(super) violations: AtomicU64,
    pub(super) counters: Counters,
    /// Of the lowest thread: including the cycles that were due in a stall.
    pub(super) replayed: Option<Counters>,
    pub(super) last: AtomicU64,
    pub(super) seconds: Seconds,
    worst: Mutex<Vec<WorstPreemption>>,
    pub(super) trips: Option<Arc<Trips>>,
}

impl Level {
    pub(super) fn new(priority: i32, is_lowest: bool, options: &Options, trips: Option<Arc<Trips>>) -> Level {
        Level {
            priority,
            tid: AtomicI32::new(0),
            word: AtomicU32::new(0),
            released_at: AtomicU64::new(0),
            done: AtomicU32::new(0),
            released: AtomicU64::new(0),
            violated: AtomicU32::new(0),
            elsewhere: AtomicU32::new(0),
            violations: AtomicU64::new(0),
            counters: Counters::new(Layout::LATENCY),
            replayed: is_lowest.then(|| Counters::new(Layout::LATENCY)),
            last: AtomicU64::new(0),
            seconds: Seconds::new(options.duration),
            worst: Mutex::new(Vec::with_capacity(options.worst + 1)),
            trips,
        }
    }

    pub(super) fn comm(&self) -> String {
        format!("preempt/{}", self.priority)
    }

    /// Its thread.
    #[must_use]
    pub fn thread(&self) -> Thread {
        let at = self.tid.load(Ordering::Acquire);
        Thread { tid: Tid(at), comm: self.comm(), prio: Some(Prio::from_rt(self.priority)) }
    }

    /// `88 to 89`.
    #[must_use]
    pub fn step(&self) -> String {
        match self.replayed {
            Some(_) => format!("timer to {}", self.priority),
            None => format!("{} to {}", self.priority - 1, self.priority),
        }
    }

    pub(super) fn name(&self, cpu: Cpu) -> String {
        format!("preempt CPU {cpu}, {}", self.step())
    }

    /// Releases and preemptions so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let answered = self.counters.count.load(RELAXED);
        let sent = self.released.load(RELAXED).max(answered);
        let out_of_order = self.violations.load(RELAXED);
        Counts { sent, answered, lost: sent - answered, out_of_order, ..Counts::default() }
    }

    /// How often its releaser continued before it was done.
    #[must_use]
    pub fn violations(&self) -> u64 {
        self.violations.load(RELAXED)
    }

    /// The most recent latency.
    #[must_use]
    pub fn last(&self) -> Option<Ns> {
        (self.counters.count.load(RELAXED) > 0).then(|| Ns(self.last.load(RELAXED)))
    }

    /// The latencies so far.
    #[must_use]
    pub fn histogram(&self) -> Histogram {
        plain(&self.counters)
    }

    /// The worst preemptions, worst first.
    #[must_use]
    pub fn worst(&self) -> Vec<WorstPreemption> {
        let mut worst = self.worst.lock().map(|worst| worst.clone()).unwrap_or_default();
        worst.sort_by_key(|one| (std::cmp::Reverse(one.latency), one.cycle));
        worst
    }

    pub(super) fn keep(&self, one: WorstPreemption, most: usize) {
        // Only the reader at the end also takes this lock: while measuring it is free.
        let Ok(mut worst) = self.worst.lock() else { return };
        if worst.len() < most {
            worst.push(one); // within the capacity
        } else if let Some(least) = worst.iter_mut().min_by_key(|one| one.latency)
            && one.latency > least.latency
        {
            *least = one;
        }
    }
}
