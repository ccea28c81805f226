//! What the threads of a run share: resources, the clock of the run, and who is still there.

use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::thread::JoinHandle;

use lathunt_core::cpuset::CpuSet;
use lathunt_core::tasks::jobs::Job;
use lathunt_core::tasks::outcome::Done;
use lathunt_core::tasks::program::{Program, Thread, MOST_THREADS};
use lathunt_core::time::Mono;

use super::kernel::{builder, work};
use super::locks::Mutex;
use super::queues::{Barrier, Condition, Semaphore};
use super::ring::Ring;
use super::worker::Worker;
use super::{Options, Speeds};
use crate::{clock, signals};

/// Everything that the threads of a run share.
pub(super) struct Shared {
    pub stop: AtomicBool,
    pub mutexes: Vec<Mutex>,
    pub conditions: Vec<Condition>,
    pub barriers: Vec<Barrier>,
    pub semaphores: Vec<Semaphore>,
    pub timers: Vec<AtomicU64>,
    pub speeds: Speeds,
    pub device: Option<File>,
    pub live: Live,
    pub cpus: CpuSet,
    pub end: AtomicU64, // u64::MAX: not known
    pub zero: AtomicU64,
    pub gate: AtomicU32, // 0: wait, 1: go, 2: give up
    pub alive: AtomicUsize,
    pub tids: StdMutex<Vec<i32>>,
    pub early: StdMutex<Vec<String>>,
    pub forked: StdMutex<Vec<(usize, JoinHandle<Option<Done>>)>>,
    forks: Vec<AtomicUsize>,
    pub rings: StdMutex<Vec<Arc<Ring>>>,
    jobs: bool,
}

/// Counted on the way, for display.
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
        let mutex = |one: &lathunt_core::tasks::program::Mutex| Mutex::new(one.protocol, one.ceiling);
        Shared {
            stop: AtomicBool::new(false),
            mutexes: program.mutexes.iter().map(mutex).collect(),
            conditions: program.conditions.iter().map(|_| Condition::new()).collect(),
            barriers: program.barriers.iter().map(|barrier| Barrier::new(barrier.users)).collect(),
            semaphores: program.semaphores.iter().map(|_| Semaphore::new()).collect(),
            timers: program.timers.iter().map(|_| AtomicU64::new(0)).collect(),
            speeds: options.speeds.clone(),
            device,
            live: Live::default(),
            cpus: options.cpus.clone(),
            end: AtomicU64::new(u64::MAX),
            zero: AtomicU64::new(0),
            gate: AtomicU32::new(0),
            alive: AtomicUsize::new(0),
            tids: StdMutex::default(),
            early: StdMutex::default(),
            forked: StdMutex::default(),
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

    /// The end of the run, once that is known.
    pub fn end(&self) -> Mono {
        Mono(self.end.load(Ordering::Acquire).min(clock::mono().0))
    }

    /// The planned end, or the one that a signal has set; `Mono(u64::MAX)`: none.
    pub fn planned(&self) -> Mono {
        Mono(self.end.load(Ordering::Acquire))
    }

    /// The common start.
    pub fn zero(&self) -> Mono {
        Mono(self.zero.load(Ordering::Acquire))
    }

    pub fn alive(&self) -> usize {
        self.alive.load(Ordering::Acquire)
    }

    /// Ends the run, with the reason where that is before its time.
    pub fn end_at(&self, at: Mono, why: Option<String>) {
        self.end.fetch_min(at.0, Ordering::AcqRel);
        locked(&self.early).extend(why);
        self.stop.store(true, Ordering::Release);
    }

    pub fn wake_all(&self) {
        // SAFETY: getpid and tgkill have no preconditions; a thread id that is gone is none of this process any more.
        locked(&self.tids).iter().for_each(|tid| unsafe {
            libc::syscall(libc::SYS_tgkill, libc::getpid(), *tid, signals::wake_signal());
        });
    }

    pub fn ring(&self) -> Option<Arc<Ring>> {
        self.jobs.then(|| {
            let ring = Arc::new(Ring::new());
            locked(&self.rings).push(Arc::clone(&ring));
            ring
        })
    }

    /// Starts a thread of a task.
    pub fn fork(self: &Arc<Shared>, program: &Arc<Program>, task: usize) -> Result<(), String> {
        let Some(template) = program.templates.get(&task) else { return Ok(()) };
        if self.alive() >= MOST_THREADS {
            return Err(format!("fork: {MOST_THREADS} threads run already"));
        }
        let number = self.forks.get(task).map_or(0, |forks| forks.fetch_add(1, Ordering::Relaxed));
        let thread = Thread { name: format!("{}-{number}", template.name), ..template.clone() };
        let (shared, program) = (Arc::clone(self), Arc::clone(program));
        let ring = self.ring();
        self.alive.fetch_add(1, Ordering::AcqRel);
        let started = builder(&thread.name).spawn(move || {
            let worker = Worker::new(&shared, &program, &thread, ring);
            let failed = worker.set_up(&shared.cpus).err().map(|error| error.to_string());
            let base = clock::mono();
            Some(work(&shared, worker, &thread, base, failed))
        });
        match started {
            Ok(handle) => {
                locked(&self.forked).push((task, handle));
                Ok(())
            }
            Err(error) => {
                self.alive.fetch_sub(1, Ordering::AcqRel);
                Err(format!("fork: cannot start a thread: {error}"))
            }
        }
    }
}
