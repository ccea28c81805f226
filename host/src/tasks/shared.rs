//! State shared by the threads of a run, whatever carries them: its start and end, and the live threads.

use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex as StdMutex, PoisonError};

use lathunt_core::cpuset::CpuSet;
use lathunt_core::tasks::jobs::Job;
use lathunt_core::tasks::program::{Program, Thread, MOST_THREADS};
use lathunt_core::time::{Mono, Ns};

use super::ring::Ring;
use super::so_far::SoFar;
use super::{Options, Progress, Speeds, Watch};
use crate::{clock, signals};

/// Everything that the threads of a run share.
pub(super) struct Shared {
    pub stop: AtomicBool,
    pub timers: Vec<AtomicU64>,
    pub speeds: Speeds,
    pub device: Option<File>,
    pub live: Live,
    pub cpus: CpuSet,
    pub end: AtomicU64, // u64::MAX: unknown
    pub zero: AtomicU64,
    /// Largest lateness of the supervisor's sleeps, ns; 0: not measured.
    pub late: AtomicU64,
    pub alive: AtomicUsize,
    /// Threads that wait for a release by another one. The releasing thread counts down.
    pub waiting: Arc<AtomicUsize>,
    pub tids: StdMutex<Vec<i32>>,
    pub early: StdMutex<Vec<String>>,
    forks: Vec<AtomicUsize>,
    pub rings: StdMutex<Vec<Arc<Ring>>>,
    jobs: bool,
}

/// Running counters, for display.
#[derive(Default)]
pub(super) struct Live {
    pub jobs: AtomicU64,
    pub misses: AtomicU64,
    pub longest: AtomicU64,
}

impl Live {
    pub fn count(&self, job: &Job) {
        self.jobs.fetch_add(1, Ordering::Relaxed);
        self.longest.fetch_max(job.response().0, Ordering::Relaxed);
        if job.lateness().is_some() {
            self.misses.fetch_add(1, Ordering::Relaxed);
        }
    }
}

pub(super) fn locked<T>(mutex: &StdMutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub fn new(program: &Program, options: &Options, device: Option<File>) -> Shared {
        Shared {
            stop: AtomicBool::new(false),
            timers: program.timers.iter().map(|_| AtomicU64::new(0)).collect(),
            speeds: options.speeds.clone(),
            device,
            live: Live::default(),
            cpus: options.cpus.clone(),
            end: AtomicU64::new(u64::MAX),
            zero: AtomicU64::new(0),
            late: AtomicU64::new(0),
            alive: AtomicUsize::new(0),
            waiting: Arc::default(),
            tids: StdMutex::default(),
            early: StdMutex::default(),
            forks: {
                let tasks = program.threads.iter().chain(program.templates.values());
                let most = tasks.map(|thread| thread.task + 1).max().unwrap_or(0);
                let running = |task| program.threads.iter().filter(|thread| thread.task == task).count();
                (0..most).map(|task| AtomicUsize::new(running(task))).collect()
            },
            rings: StdMutex::default(),
            jobs: options.jobs,
        }
    }

    /// The end of the run, once known.
    pub fn end(&self) -> Mono {
        Mono(self.end.load(Ordering::Acquire).min(clock::mono().0))
    }

    /// The planned end, or the one set by a signal; `Mono(u64::MAX)`: none.
    pub fn planned(&self) -> Mono {
        Mono(self.end.load(Ordering::Acquire))
    }

    /// The common start.
    pub fn zero(&self) -> Mono {
        Mono(self.zero.load(Ordering::Acquire))
    }

    /// Largest lateness of a timer of a thread that no thread of the set delays; `None`: not measured.
    pub fn timer_late(&self) -> Option<Ns> {
        Some(Ns(self.late.load(Ordering::Acquire))).filter(|late| *late > Ns::ZERO)
    }

    pub fn alive(&self) -> usize {
        self.alive.load(Ordering::Acquire)
    }

    /// Whether every thread that is left waits for a release by another one, which will never come.
    pub fn is_stuck(&self) -> bool {
        let all_wait = || {
            let alive = self.alive();
            alive > 0 && self.waiting.load(Ordering::Acquire) >= alive
        };
        // Twice: a thread may have forked another between the two counts.
        all_wait() && all_wait()
    }

    /// Ends the run, with the reason if it is early.
    pub fn end_at(&self, at: Mono, why: Option<String>) {
        self.end.fetch_min(at.0, Ordering::AcqRel);
        locked(&self.early).extend(why);
        self.stop.store(true, Ordering::Release);
    }

    pub fn wake_all(&self) {
        // SAFETY: getpid and tgkill have no preconditions; the id of a thread that is gone no longer belongs to this
        // process.
        locked(&self.tids).iter().for_each(|tid| unsafe {
            libc::syscall(libc::SYS_tgkill, libc::getpid(), *tid, signals::wake_signal());
        });
    }

    pub fn ring(&self, thread: &Thread) -> Option<Arc<Ring>> {
        self.jobs.then(|| {
            let ring = Arc::new(Ring::new(thread));
            locked(&self.rings).push(Arc::clone(&ring));
            ring
        })
    }

    /// The next thread that a task forks, counted as alive; `Ok(None)`: the task has no template.
    pub fn forked(&self, program: &Program, task: usize) -> Result<Option<Thread>, String> {
        let Some(template) = program.templates.get(&task) else { return Ok(None) };
        if self.alive() >= MOST_THREADS {
            return Err(format!("fork: {MOST_THREADS} threads run already"));
        }
        let number = self.forks.get(task).map_or(0, |forks| forks.fetch_add(1, Ordering::Relaxed));
        self.alive.fetch_add(1, Ordering::AcqRel);
        Ok(Some(Thread { name: format!("{}-{number}", template.name), ..template.clone() }))
    }

    /// Passes on the events since the last call.
    pub fn look(&self, zero: Mono, so_far: &mut SoFar, watch: &mut dyn Watch) {
        let rings = locked(&self.rings).clone();
        for (at, ring) in rings.iter().enumerate() {
            ring.drain(|job| {
                watch.job(at, job);
                so_far.count(at, job);
            });
        }
        let now = clock::mono();
        if self.alive() > 0 && so_far.is_due(now) {
            watch.so_far(&so_far.executed(now, &rings));
        }
        watch.progress(&Progress {
            elapsed: clock::mono().since(zero),
            jobs: self.live.jobs.load(Ordering::Relaxed),
            misses: self.live.misses.load(Ordering::Relaxed),
            longest: Ns(self.live.longest.load(Ordering::Relaxed)),
        });
    }

    /// Notes for the result: why the run ended early, and jobs missing from the log.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = std::mem::take(&mut *locked(&self.early));
        let lost: u64 = locked(&self.rings).iter().map(|ring| ring.lost()).sum();
        if lost > 0 {
            notes.push(format!(
                "{lost} jobs are not in the log and the chart: they ended too fast; the figures include all"
            ));
        }
        notes
    }
}
