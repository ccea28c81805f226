//! How late does a timed thread wake up? One measuring thread per CPU sleeps until an absolute time, reads the clock
//! first thing after waking, and counts the difference: the quantity that cyclictest prints.
//!
//! The measuring loop allocates nothing, takes no lock and makes no system call except the sleep (the clock is read
//! in user space). Its counters are relaxed atomics written by that thread only and readable by any thread, guarded
//! by a sequence counter (`shared`): a reader never disturbs the measurement, and intermediate results can be saved
//! while it runs.
//!
//! Both views of a stall are kept. As in cyclictest, an activation that has already passed when the thread gets to
//! it is skipped; here it is counted as missed, and its would-be latency enters the replayed histogram.
//!
//! Not here: the cause of a late wake-up. A hook ([`OnPeak`]) runs in the measuring thread, on its CPU, as soon as a
//! latency enters the list of the worst; it freezes the flight recorder.

use std::os::unix::thread::JoinHandleExt;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{mpsc, Arc};
use std::thread::JoinHandle;
use std::time::Duration;

use lathunt_core::conditions::LeftCpu;
use lathunt_core::series::{Series, Thread};
use lathunt_core::time::{Cpu, Mono, Ns, Tid};

use crate::error::{Error, Result};
use crate::sched;
use crate::signals;

pub mod clock;
pub mod halves;
mod hooks;
mod measure;
mod options;
pub(crate) mod seconds;
mod shared;
pub mod tracemark;

pub use clock::{Clock, Wait};
pub use hooks::{Hooks, OnPeak, OnSample};
pub use options::{Alignment, Options, Reservation, ThreadSpec};

/// Figures of a thread so far; each is exact, all are of nearly the same moment.
#[derive(Clone, Copy, Debug)]
pub struct Live {
    /// Thread id.
    pub tid: Tid,
    /// Samples.
    pub count: u64,
    /// Smallest latency.
    pub min: Option<Ns>,
    /// The most recent latency.
    pub now: Option<Ns>,
    /// Arithmetic mean in ns.
    pub avg_ns: Option<f64>,
    /// Largest latency.
    pub max: Option<Ns>,
    /// Activations that passed during a stall.
    pub missed: u64,
    /// The thread has ended.
    pub done: bool,
}

/// One of the worst samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorstSample {
    /// The programmed wake-up.
    pub expected: Mono,
    /// The first reading of the clock after it.
    pub woken: Mono,
    /// The difference.
    pub latency: Ns,
    /// What [`OnPeak::peak`] answered.
    pub freeze: Option<u64>,
    /// CPU of the thread at that time.
    pub cpu: Cpu,
}

/// Everything one thread measured.
#[derive(Debug)]
pub struct ThreadResult {
    /// The series, with its replayed view, maxima per second and missed activations.
    pub series: Series,
    /// The worst samples, worst first.
    pub worst: Vec<WorstSample>,
    /// The most recent latency.
    pub last: Option<Ns>,
    /// The latency by which this thread, as the first of all, ended the measurement.
    pub broke: Option<Ns>,
    /// Why the thread ended early.
    pub error: Option<String>,
    /// Set if the thread was not on its CPU all the time.
    pub left: Option<LeftCpu>,
    /// Set if another process changed its policy or its priority.
    pub rescheduled: Option<String>,
}

/// Shared by all threads of one measurement.
struct Control {
    stop: AtomicBool,
    broke_thread: AtomicI64, // -1: none
    broke_ns: AtomicU64,
    broke_at: AtomicU64, // CLOCK_MONOTONIC; 0: not yet
}

/// A running measurement. Dropping it ends it.
pub struct Cyclic {
    options: Options,
    control: Arc<Control>,
    threads: Vec<Running>,
    begun: Mono,
}

struct Running {
    shared: Arc<shared::Shared>,
    warm_up: Option<Arc<shared::Shared>>,
    handle: Option<JoinHandle<Option<String>>>,
}

impl Cyclic {
    /// Starts the threads and returns when all of them are set up and measuring. `hooks` is empty or has one entry
    /// per thread.
    ///
    /// # Errors
    /// If a thread cannot get its policy, CPU or memory (the reason is named), or an interval is zero. No thread
    /// keeps running then.
    pub fn start(options: Options, hooks: Vec<Hooks>) -> Result<Cyclic> {
        check(&options)?;
        if options.lock_memory {
            sched::lock_memory()?;
        }
        if let Some(longest) = options.runaway.filter(|_| options.policy.is_realtime()) {
            sched::limit_rt_time(longest)?;
        }
        let control = Arc::new(Control {
            stop: AtomicBool::new(false),
            broke_thread: AtomicI64::new(-1),
            broke_ns: AtomicU64::new(0),
            broke_at: AtomicU64::new(0),
        });
        let mut cyclic = Cyclic { options, control, threads: Vec::new(), begun: Mono(0) };
        let mut gates = Vec::new();
        let blocked = signals::Blocked::all_but_wake()?;
        let mut hooks = hooks.into_iter();
        for index in 0..cyclic.options.threads.len() {
            gates.push(cyclic.spawn(index, hooks.next().unwrap_or_default())?);
        }
        drop(blocked);
        for (ready, _) in &gates {
            match ready.recv() {
                Ok(set_up) => set_up?,
                Err(_) => return Err(Error::refused("start", "a measuring thread", "it ended at once")),
            }
        }
        let base = measure::base(cyclic.options.clock, cyclic.options.alignment);
        cyclic.begun = match cyclic.options.alignment {
            Alignment::At(at) => crate::clock::mono() + Ns(at.saturating_sub(cyclic.options.clock.now())),
            _ => crate::clock::mono(),
        };
        for ((_, go), thread) in gates.iter().zip(&cyclic.threads) {
            let _ = go.send(base); // a thread that is gone shows in its result
            thread.shared.release_at(cyclic.options.clock.now());
        }
        Ok(cyclic)
    }

    fn spawn(&mut self, index: usize, hooks: Hooks) -> Result<Gate> {
        let shared = Arc::new(shared::Shared::new(&self.options, self.options.threads[index].cpu));
        let cpu = self.options.threads[index].cpu;
        let warm_up = self.options.warm_up.map(|_| Arc::new(shared::Shared::new(&self.options, cpu)));
        let (ready, is_ready) = mpsc::sync_channel(1);
        let (go, started) = mpsc::sync_channel(1);
        let task = measure::Task {
            index,
            spec: self.options.threads[index],
            options: self.options.clone(),
            control: Arc::clone(&self.control),
            shared: Arc::clone(&shared),
            warm_up: warm_up.clone(),
            hooks,
        };
        let mut builder = std::thread::Builder::new().stack_size(256 * 1024);
        if let Some(name) = &self.options.thread_name {
            builder = builder.name(format!("{name}/{index}"));
        }
        let handle = builder
            .spawn(move || task.run(&ready, &started))
            .map_err(|error| Error::new("start", "a measuring thread", error))?;
        self.threads.push(Running { shared, warm_up, handle: Some(handle) });
        Ok((is_ready, go))
    }

    /// What it measures.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// When all threads were ready.
    #[must_use]
    pub fn begun(&self) -> Mono {
        self.begun
    }

    /// Thread id of thread `index`.
    #[must_use]
    pub fn tid(&self, index: usize) -> Tid {
        self.threads[index].shared.tid()
    }

    /// Specification of thread `index`.
    #[must_use]
    pub fn thread(&self, index: usize) -> Thread {
        self.threads[index].shared.thread(&self.options, index)
    }

    /// Figures of thread `index`. A few loads: does not disturb the thread.
    #[must_use]
    pub fn live(&self, index: usize) -> Live {
        self.threads[index].shared.live()
    }

    /// The `q`-quantile of thread `index` so far, as the upper edge of a bin: reads all bins (some 10 µs).
    #[must_use]
    pub fn quantile(&self, index: usize, q: f64) -> Option<Ns> {
        self.threads[index].shared.quantile(q)
    }

    /// Number of threads that have ended by themselves.
    #[must_use]
    pub fn done(&self) -> usize {
        self.threads.iter().filter(|thread| thread.shared.is_done()).count()
    }

    /// Whether the measurement goes on: not stopped, no break limit hit, duration not over, some thread alive. Call
    /// it at least once a second: it also ends threads that cannot end themselves.
    #[must_use]
    pub fn is_running(&self) -> bool {
        let length = self.options.duration.map(|length| length + self.options.warm_up.unwrap_or_default());
        let over = length.is_some_and(|length| crate::clock::mono().since(self.begun) > length);
        if over || sched::rt_time_exceeded() {
            self.control.stop.store(true, Ordering::Relaxed);
        }
        self.threads
            .iter()
            .for_each(|thread| thread.shared.seconds().extend(crate::clock::mono().since(self.begun)));
        !self.control.stop.load(Ordering::Relaxed) && self.done() < self.threads.len()
    }

    /// The thread (by index) and latency that triggered the break limit.
    #[must_use]
    pub fn broke(&self) -> Option<(usize, Ns)> {
        let thread = usize::try_from(self.control.broke_thread.load(Ordering::Acquire)).ok()?;
        Some((thread, Ns(self.control.broke_ns.load(Ordering::Acquire))))
    }

    /// When the sample above the break limit was taken: the end of the measurement.
    #[must_use]
    pub fn broke_at(&self) -> Option<Mono> {
        Some(Mono(self.control.broke_at.load(Ordering::Acquire))).filter(|at| *at > Mono(0))
    }

    /// All results so far, while it goes on: for display and for files that survive a kill.
    #[must_use]
    pub fn snapshot(&self) -> Vec<ThreadResult> {
        (0..self.threads.len()).map(|index| self.result(index)).collect()
    }

    /// Results of [`Options::warm_up`] so far; empty if there is none.
    #[must_use]
    pub fn warm_up(&self) -> Vec<ThreadResult> {
        let shared =
            |(index, thread): (usize, &Running)| Some(thread.warm_up.as_ref()?.result(&self.options, index));
        self.threads.iter().enumerate().filter_map(shared).collect()
    }

    fn result(&self, index: usize) -> ThreadResult {
        let mut result = self.threads[index].shared.result(&self.options, index);
        result.broke = self.broke().filter(|(thread, _)| *thread == index).map(|(_, latency)| latency);
        result
    }

    /// Ends the measurement: sleeping threads are woken and end without another sample.
    pub fn stop(&self) {
        self.control.stop.store(true, Ordering::Relaxed);
        for handle in self.threads.iter().filter_map(|thread| thread.handle.as_ref()) {
            if !handle.is_finished() {
                // SAFETY: the thread was not joined yet, so that its id is valid.
                unsafe { libc::pthread_kill(handle.as_pthread_t(), signals::wake_signal()) };
            }
        }
    }

    /// Stops, waits for the threads (milliseconds), and returns their results.
    #[must_use]
    pub fn finish(self) -> Vec<ThreadResult> {
        self.finish_all().0
    }

    /// The same, with the results of [`Options::warm_up`].
    #[must_use]
    pub fn finish_all(mut self) -> (Vec<ThreadResult>, Vec<ThreadResult>) {
        let errors = self.join();
        let warm_up = self.warm_up();
        let mut results = self.snapshot();
        for (result, error) in results.iter_mut().zip(errors) {
            let runaway = sched::rt_time_exceeded().then(|| RUNAWAY.to_owned());
            result.error = error.or(runaway);
        }
        (results, warm_up)
    }

    fn join(&mut self) -> Vec<Option<String>> {
        while self.threads.iter().any(|t| t.handle.as_ref().is_some_and(|handle| !handle.is_finished())) {
            self.stop(); // again: a signal between the check of the flag and the sleep has no effect
            std::thread::sleep(Duration::from_millis(1));
        }
        let panicked = || Some("the measuring thread panicked".to_owned());
        self.threads
            .iter_mut()
            .map(|thread| {
                thread.handle.take().and_then(|handle| handle.join().unwrap_or_else(|_| panicked()))
            })
            .collect()
    }
}

impl Drop for Cyclic {
    fn drop(&mut self) {
        self.join();
    }
}

const RUNAWAY: &str =
    "a real-time thread ran too long without sleeping: the interval is too short for this machine";

/// The thread reports that it is set up; then it receives the start time.
type Gate = (mpsc::Receiver<Result<()>>, mpsc::SyncSender<Option<u64>>);

fn check(options: &Options) -> Result<()> {
    if options.threads.is_empty() {
        return Err(Error::refused("measure", "without a thread", "name at least one CPU"));
    }
    if options.threads.iter().any(|thread| thread.interval == Ns::ZERO) {
        return Err(Error::refused("measure", "with an interval of 0", "it would never sleep"));
    }
    Ok(())
}
