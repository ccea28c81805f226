//! Does a thread of higher priority preempt a lower one at once? Threads of rising priority on one CPU, each released while
//! the next lower one computes: the question of rt-tests' preempt-test, here with the latency of each preemption.
//!
//! A timer releases the lowest thread, on an absolute schedule. Each thread computes half of its work, releases the next
//! higher one by a futex, and computes the rest. The releasing thread must not continue in user space before the released one
//! is done: if it does, the order is violated ([`Level::violations`]). A cycle in which a thread was on another CPU shows
//! nothing about the order: there it runs at the same time, whatever its priority.
//!
//! The latency is from the clock read before the FUTEX_WAKE to the clock read after FUTEX_WAIT: it contains both system calls
//! and one switch. That of the lowest thread is from the programmed expiry to its first instruction.

mod level;

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use lathunt_core::series::{Quantity, Series};
use lathunt_core::time::{Cpu, Mono, Ns};

use super::over::Over;
use super::sender::sleep_until;
use super::tally::plain;
use super::thread::{Place, Worker};
use super::trips::{Trip, Trips};
use crate::clock;
use crate::error::{Error, Result};
use crate::instrument::counters::bump;
use crate::sched;

pub use level::{Level, WorstPreemption};

const RELAXED: Ordering = Ordering::Relaxed;

/// Minimum and maximum number of threads of a chain.
pub const LEVELS: (u32, u32) = (2, 32);

/// What to measure.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// CPU of all threads.
    pub cpu: Cpu,
    /// SCHED_FIFO priority of the highest thread; each lower thread has one less.
    pub priority: i32,
    /// Number of threads.
    pub levels: u32,
    /// Length of a cycle. Each thread computes a quarter of its share: the chain takes a quarter of the CPU.
    pub interval: Ns,
    /// Length of the schedule; `None`: until [`Chain::end`].
    pub duration: Option<Ns>,
    /// How long to wait for a released thread at the end.
    pub timeout: Ns,
    /// The first latency above this ends the measurement.
    pub break_at: Option<Ns>,
    /// Number of the worst preemptions to keep of each thread.
    pub worst: usize,
}

struct Shared {
    options: Options,
    levels: Vec<Level>,
    begun: AtomicU64,
    ended: AtomicU64,
    missed: AtomicU64,
    broke: AtomicU64, // 0: no; else latency + 1
    over: Over,
    stop: AtomicBool,
}

/// A running measurement. Dropping it ends it.
pub struct Chain {
    shared: Arc<Shared>,
    workers: Vec<Worker<()>>,
}

impl Chain {
    /// Starts the threads. `trips` receive each preemption: one queue per thread, the lowest first, or none.
    ///
    /// # Errors
    /// If there are not enough priorities below the highest, or the CPU or a priority is refused.
    pub fn start(options: Options, trips: &[Arc<Trips>]) -> Result<Chain> {
        let lowest = options.priority - options.levels as i32 + 1;
        if options.levels < LEVELS.0 || options.levels > LEVELS.1 || lowest < 1 {
            return Err(Error::refused(
                "start",
                format!("{} threads of rising priority up to {}", options.levels, options.priority),
                "each needs a SCHED_FIFO priority of its own: raise -p",
            ));
        }
        let level = |at: i32| Level::new(lowest + at, at == 0, &options, trips.get(at as usize).cloned());
        let shared = Arc::new(Shared {
            options,
            levels: (0..options.levels as i32).map(level).collect(),
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            missed: AtomicU64::new(0),
            broke: AtomicU64::new(0),
            over: Over::default(),
            stop: AtomicBool::new(false),
        });
        let mut chain = Chain { shared, workers: Vec::new() };
        // The highest first: when the lowest starts the cycles, all others wait.
        for at in (0..options.levels as usize).rev() {
            let place = Place { cpu: Some(options.cpu), priority: chain.shared.levels[at].priority };
            let shared = Arc::clone(&chain.shared);
            let work = move || match at {
                0 => shared.lowest(),
                _ => shared.released(at),
            };
            let name = chain.shared.levels[at].comm();
            chain.workers.push(Worker::start(&name, place, work)?);
        }
        Ok(chain)
    }

    /// What it measures.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.shared.options
    }

    /// Whether it is running. Call it several times a second: it makes room for the next hour.
    #[must_use]
    pub fn is_running(&self) -> bool {
        let elapsed = self.elapsed();
        self.shared.levels.iter().for_each(|level| level.seconds.extend(elapsed));
        let lowest = self.workers.last();
        if self.shared.over.is_set() {
            lowest.iter().for_each(|worker| worker.kick());
        }
        lowest.is_some_and(|worker| !worker.is_finished())
    }

    /// Asks it to end: no more cycles.
    pub fn end(&self) {
        self.shared.over.end();
    }

    /// The threads, from the lowest up.
    #[must_use]
    pub fn levels(&self) -> &[Level] {
        &self.shared.levels
    }

    /// Cycles that were due during a stall, except the first, which ran.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.shared.missed.load(RELAXED)
    }

    /// The latency that triggered the break limit.
    #[must_use]
    pub fn broke(&self) -> Option<Ns> {
        self.shared.broke.load(Ordering::Acquire).checked_sub(1).map(Ns)
    }

    /// Length of the schedule so far.
    #[must_use]
    pub fn elapsed(&self) -> Ns {
        let begun = self.shared.begun.load(Ordering::Acquire);
        let ended = match self.shared.ended.load(Ordering::Acquire) {
            0 if begun == 0 => 0,
            0 => clock::mono().0,
            ended => ended,
        };
        Ns(ended.saturating_sub(begun))
    }

    /// One series per thread: `preempt CPU 1, timer to 88`, `preempt CPU 1, 88 to 89`. A violated order is counted as out of
    /// order, a thread that never ran after its release as lost.
    #[must_use]
    pub fn series(&self) -> Vec<Series> {
        let (options, begun) = (&self.shared.options, self.shared.begun.load(Ordering::Acquire));
        let one = |level: &Level| {
            let counts = level.counts();
            let mut series = Series::new(Quantity::Preemption, Some(options.cpu), plain(&level.counters));
            series.begin = (begun > 0).then_some(Mono(begun));
            series.thread = Some(level.thread());
            series.interval_ns = Some(options.interval);
            series.channel = Some(level.name(options.cpu));
            if let Some(replayed) = &level.replayed {
                series.missed = Some(self.missed());
                series.replayed = Some(plain(replayed));
            }
            series.lost = counts.lost;
            series.counts = Some(counts);
            series.set_seconds(level.seconds.collect());
            series
        };
        self.levels().iter().map(one).collect()
    }

    /// Changes by other processes to CPUs or scheduling of the threads; after [`Chain::stop`].
    #[must_use]
    pub fn changed(&self) -> Vec<String> {
        self.workers.iter().filter_map(Worker::changed).collect()
    }

    /// Ends all threads at once.
    pub fn stop(&mut self) {
        self.shared.over.end();
        self.shared.stop.store(true, Ordering::Release);
        for worker in self.workers.iter_mut().rev() {
            worker.end(Duration::from_millis(500));
        }
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    /// The lowest thread: starts each cycle.
    fn lowest(&self) {
        let level = &self.levels[0];
        level.tid.store(sched::tid().0, Ordering::Release);
        let begin = clock::mono().0;
        self.begun.store(begin, Ordering::Release);
        let end = self.options.duration.map_or(u64::MAX, |length| begin.saturating_add(length.0));
        let interval = self.options.interval.0.max(1);
        let (mut due, mut cycle) = (begin.saturating_add(interval), 0u32);
        loop {
            if !self.over.is_set() {
                sleep_until(due.min(end));
            }
            let now = clock::mono().0;
            // A cycle that was due before the end starts, however late this thread is.
            let end = self.over.or(end);
            if due > end {
                break;
            }
            if now < due {
                continue; // a signal
            }
            cycle = cycle.wrapping_add(1);
            bump(&level.released, 1);
            level.released_at.store(due, Ordering::Release);
            self.enter(level, now, cycle);
            // Activations that were due in the meantime, within the measurement.
            let passed = now.min(end).saturating_sub(due) / interval;
            if let Some(replayed) = &level.replayed {
                let since = now - due;
                replayed.record(Ns(since));
                let missed =
                    replayed.record_at_most(Ns(since.saturating_sub(interval)), Ns(interval), passed);
                bump(&self.missed, missed);
            }
            due = due.saturating_add((passed + 1).saturating_mul(interval));
            self.compute(0, cycle);
            self.await_all(cycle, u64::MAX);
            self.settle(cycle);
        }
        self.ended.store(clock::mono().0, Ordering::Release);
        self.await_all(cycle, clock::mono().0.saturating_add(self.options.timeout.0));
        self.settle(cycle);
        self.over.end();
    }

    /// The cycle is over when all have finished: in order, without a wait, unless the order was violated.
    fn await_all(&self, cycle: u32, until: u64) {
        let is_open = || self.levels[1..].iter().any(|level| level.done.load(Ordering::Acquire) != cycle);
        while is_open() && !self.stop.load(RELAXED) && clock::mono().0 < until {
            if until == u64::MAX && self.over.is_set() {
                return;
            }
            sleep_until(clock::mono().0 + 1_000_000);
        }
    }

    /// Counts the violations of a cycle that is over, once, unless a thread was on another CPU.
    fn settle(&self, cycle: u32) {
        let elsewhere = self.levels.iter().any(|level| level.elsewhere.load(Ordering::Acquire) == cycle);
        for level in &self.levels {
            if level.violated.swap(0, Ordering::AcqRel) == cycle && cycle != 0 && !elsewhere {
                bump(&level.violations, 1);
            }
        }
    }

    /// A thread above the lowest: waits for its release.
    fn released(&self, at: usize) {
        let level = &self.levels[at];
        level.tid.store(sched::tid().0, Ordering::Release);
        let mut seen = 0;
        while !self.stop.load(RELAXED) {
            wait(&level.word, seen);
            let cycle = level.word.load(Ordering::Acquire);
            if cycle == seen {
                continue;
            }
            let now = clock::mono().0;
            seen = cycle;
            self.enter(level, now, cycle);
            self.compute(at, cycle);
        }
    }

    fn enter(&self, level: &Level, now: u64, cycle: u32) {
        self.look(level, cycle);
        let released = level.released_at.load(Ordering::Acquire);
        let latency = Ns(now.saturating_sub(released));
        level.counters.record(latency);
        level.last.store(latency.0, RELAXED);
        if let Some(trips) = &level.trips {
            let sequence = u64::from(cycle);
            trips.push(&Trip { sequence, begin: released, end: now, ..Trip::default() });
        }
        let second = now.saturating_sub(self.begun.load(RELAXED)) / 1_000_000_000;
        level.seconds.note(u32::try_from(second).unwrap_or(u32::MAX), latency);
        if self.options.worst > 0 {
            level.keep(WorstPreemption { released: Mono(released), latency, cycle }, self.options.worst);
        }
        if self.options.break_at.is_some_and(|limit| latency > limit) {
            let first = latency.0.saturating_add(1);
            let _ = self.broke.compare_exchange(0, first, Ordering::AcqRel, RELAXED);
            self.over.end();
        }
    }

    /// Half of the work, the release of the next higher thread, the rest.
    fn compute(&self, at: usize, cycle: u32) {
        let half = self.options.interval.0 / (8 * self.levels.len() as u64);
        spin(half);
        if let Some(next) = self.levels.get(at + 1) {
            bump(&next.released, 1);
            next.released_at.store(clock::mono().0, Ordering::Release);
            next.word.store(cycle, Ordering::Release);
            wake(&next.word);
            // Back in user space: the higher thread must have run and finished.
            if next.done.load(Ordering::Acquire) != cycle {
                next.violated.store(cycle, Ordering::Release);
            }
        }
        spin(half);
        self.look(&self.levels[at], cycle);
        self.levels[at].done.store(cycle, Ordering::Release);
    }

    /// Notes whether the calling thread, that of `level`, is on another CPU.
    fn look(&self, level: &Level, cycle: u32) {
        if sched::current_cpu() != self.options.cpu {
            level.elsewhere.store(cycle, Ordering::Release);
        }
    }
}

fn spin(length: u64) {
    let until = clock::mono().0.saturating_add(length);
    while clock::mono().0 < until {
        std::hint::spin_loop();
    }
}

fn wait(word: &AtomicU32, seen: u32) {
    // SAFETY: the word outlives the call; no time limit. Errors (another value, a signal) are seen by the caller's load.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            seen,
            ptr::null::<libc::timespec>(),
        )
    };
}

fn wake(word: &AtomicU32) {
    // SAFETY: the word outlives the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1) };
}
