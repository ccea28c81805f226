//! Kernel threads: all are set up first, then started together.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{mpsc, Arc, Mutex as StdMutex};
use std::thread::JoinHandle;
use std::time::Duration;

use lathunt_core::tasks::outcome::{Done, Executed};
use lathunt_core::tasks::program::{Program, Rule, Thread};
use lathunt_core::time::{Mono, Ns, Tid};

use super::locks::{self, Mutex};
use super::os_thread::OsThread;
use super::queues::{Barrier, Condition, Semaphore};
use super::shared::{locked, Shared};
use super::so_far::SoFar;
use super::worker::{places, Worker};
use super::{supervisor, Options, Watch};
use crate::error::{Error, Result};
use crate::{clock, sched, signals, threads};

/// A thread of that name.
pub(super) fn builder(name: &str) -> std::thread::Builder {
    std::thread::Builder::new().name(short(name)).stack_size(256 * 1024)
}

/// The 15 bytes of a name that the kernel and the runtime keep; a zero would end it.
pub(super) fn short(name: &str) -> String {
    let mut short = String::new();
    for letter in name.chars().filter(|letter| *letter != '\0') {
        if short.len() + letter.len_utf8() > 15 {
            break;
        }
        short.push(letter);
    }
    short
}

/// Objects that kernel threads wait for, and the threads started.
pub(super) struct Resources {
    pub mutexes: Vec<Mutex>,
    pub conditions: Vec<Condition>,
    pub barriers: Vec<Barrier>,
    pub semaphores: Vec<Semaphore>,
    gate: AtomicU32, // 0: wait, 1: go, 2: give up
    forked: StdMutex<Vec<(usize, Started)>>,
}

impl Resources {
    fn new(program: &Program) -> Resources {
        let mutex = |one: &lathunt_core::tasks::program::Mutex| Mutex::new(one.protocol, one.ceiling);
        Resources {
            mutexes: program.mutexes.iter().map(mutex).collect(),
            conditions: program.conditions.iter().map(|_| Condition::new()).collect(),
            barriers: program.barriers.iter().map(|barrier| Barrier::new(barrier.users)).collect(),
            semaphores: program.semaphores.iter().map(|_| Semaphore::new()).collect(),
            gate: AtomicU32::new(0),
            forked: StdMutex::default(),
        }
    }
}

/// Body of a thread that is set up, with its switches and migrations.
fn work(
    shared: &Arc<Shared>,
    mut worker: Worker<OsThread>,
    thread: &Thread,
    base: Mono,
    failed: Option<String>,
) -> Done {
    let tid = sched::tid();
    locked(&shared.tids).push(tid.0);
    let (switches, moves) = (preemptions(), migrations());
    let ended = failed.or_else(|| worker.go(base));
    let preemptions = preemptions().saturating_sub(switches);
    let migrations = migrations().zip(moves).map(|(now, then)| now.saturating_sub(then));
    let _ = sched::set_policy(sched::Policy::Other, 0); // lowering needs no privilege
    if let Some(why) = &ended {
        // One that cannot continue may leave others waiting for it.
        shared.end_at(clock::mono(), Some(format!("{}: {why}", thread.name)));
    }
    let comm = std::fs::read_to_string("/proc/thread-self/comm").unwrap_or_default();
    let done = Done {
        name: thread.name.clone(),
        task: thread.task,
        tid,
        comm: comm.trim_end_matches('\n').to_owned(),
        rule: thread.rule,
        figures: Some(worker.figures),
        lost: 0,
        preemptions,
        migrations,
        ended: None, // reported once for the whole run
    };
    locked(&shared.tids).retain(|one| *one != tid.0);
    shared.alive.fetch_sub(1, Ordering::AcqRel);
    done
}

fn preemptions() -> u64 {
    // SAFETY: zeros are a valid rusage, which the call overwrites.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
        usage.ru_nivcsw.max(0) as u64
    }
}

/// Migrations of the calling thread so far; `None`: unknown.
fn migrations() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/sched").ok()?;
    let line = text.lines().find(|line| line.starts_with("se.nr_migrations"))?;
    line.rsplit(':').next()?.trim().parse().ok()
}

type Started = JoinHandle<Option<Done>>;

/// Starts a thread of a task.
pub(super) fn fork(
    shared: &Arc<Shared>,
    resources: &Arc<Resources>,
    program: &Arc<Program>,
    task: usize,
) -> std::result::Result<(), String> {
    let Some(thread) = shared.forked(program, task)? else { return Ok(()) };
    let ring = shared.ring(&thread);
    let (shared, resources, program) = (Arc::clone(shared), Arc::clone(resources), Arc::clone(program));
    let (counted, all) = (Arc::clone(&shared), Arc::clone(&resources));
    let started = builder(&thread.name).spawn(move || {
        let ground = OsThread::new(&shared, &resources, &program, thread.rule);
        let failed = ground.set_up(thread.rule, places(&thread)).err().map(|error| error.to_string());
        let worker = Worker::new(&shared, &program, &thread, ground, ring);
        let base = clock::mono();
        Some(work(&shared, worker, &thread, base, failed))
    });
    match started {
        Ok(handle) => {
            locked(&all.forked).push((task, handle));
            Ok(())
        }
        Err(error) => {
            counted.alive.fetch_sub(1, Ordering::AcqRel);
            Err(format!("fork: cannot start a thread: {error}"))
        }
    }
}

/// Runs the program.
///
/// # Errors
/// As [`super::execute`].
pub(super) fn run(
    program: &Program,
    options: &Options,
    watch: &mut dyn Watch,
) -> Result<(Executed, Vec<String>)> {
    let (shared, mut notes) = super::prepare(program, options)?;
    let resources = Arc::new(Resources::new(program));
    let program = Arc::new(program.clone());
    let handles = start(&shared, &resources, &program)?;
    // Time for all of them to fall asleep.
    let zero = clock::mono() + Ns::from_ms(50) + Ns::from_us(100 * handles.len() as u64);
    let planned = options.duration.map(|duration| zero + duration);
    shared.zero.store(zero.0, Ordering::Release);
    if let Some(planned) = planned {
        shared.end.store(planned.0, Ordering::Release);
    }
    watch.begins(zero);
    let supervisor = {
        let (shared, housekeeping) = (Arc::clone(&shared), options.housekeeping.clone());
        threads::spawn(move || supervisor::watch(&shared, planned, housekeeping.as_ref()))?
    };
    open(&resources, 1);
    let mut so_far = SoFar::new(zero, options, None);
    while !supervisor.is_finished() {
        std::thread::sleep(Duration::from_millis(20));
        if supervisor::look(&shared, planned) {
            shared.wake_all();
        }
        shared.look(zero, &mut so_far, watch);
    }
    let _ = supervisor.join();
    let mut done: Vec<Done> = handles
        .into_iter()
        .zip(&program.threads)
        .map(|(handle, thread)| joined(&shared, handle, thread.task, &thread.name, thread.rule))
        .collect();
    shared.look(zero, &mut so_far, watch);
    for (task, handle) in std::mem::take(&mut *locked(&resources.forked)) {
        let rule = program.templates.get(&task).map_or(Rule::Fifo(1), |template| template.rule);
        done.push(joined(&shared, handle, task, "a forked thread", rule));
    }
    notes.append(&mut shared.notes());
    let executed = Executed {
        begin: zero,
        end: shared.end(),
        process: Tid(i32::try_from(std::process::id()).unwrap_or_default()),
        threads: done,
        speeds: options.speeds.each.clone(),
        ns_per_loop: Some(options.speeds.ns_per_loop),
        switch: options.switch,
        timer_late: shared.timer_late(),
        stretch: Vec::new(),
        fibers: None,
        fiber_trace: None,
        is_over: true,
    };
    Ok((executed, notes))
}

/// All threads, set up and waiting.
fn start(shared: &Arc<Shared>, resources: &Arc<Resources>, program: &Arc<Program>) -> Result<Vec<Started>> {
    let blocked = signals::Blocked::all_but_wake()?;
    let (ready, is_ready) = mpsc::channel();
    let mut handles = Vec::with_capacity(program.threads.len());
    let mut failed = None;
    for thread in &program.threads {
        let (shared, program, thread) = (Arc::clone(shared), Arc::clone(program), thread.clone());
        let (resources, ready, ring) = (Arc::clone(resources), ready.clone(), shared.ring(&thread));
        shared.alive.fetch_add(1, Ordering::AcqRel);
        let counted = Arc::clone(&shared);
        let started = builder(&thread.name).spawn(move || {
            let ground = OsThread::new(&shared, &resources, &program, thread.rule);
            let is_set_up = ground.set_up(thread.rule, places(&thread));
            let worker = Worker::new(&shared, &program, &thread, ground, ring);
            let _ = ready.send(is_set_up.map_err(|error| (thread.name.clone(), error)));
            while resources.gate.load(Ordering::Acquire) == 0 {
                locks::wait(&resources.gate, 0);
            }
            if resources.gate.load(Ordering::Acquire) != 1 {
                shared.alive.fetch_sub(1, Ordering::AcqRel);
                return None;
            }
            let zero = shared.zero();
            Some(work(&shared, worker, &thread, zero, None))
        });
        match started {
            Ok(handle) => handles.push(handle),
            Err(error) => {
                counted.alive.fetch_sub(1, Ordering::AcqRel);
                failed = Some(Error::new("start", "a thread of the set", error));
                break;
            }
        }
    }
    drop(blocked);
    for _ in 0..handles.len() {
        match is_ready.recv_timeout(Duration::from_secs(10)) {
            Ok(Ok(())) => {}
            Ok(Err((name, error))) => {
                failed = failed.or(Some(Error::stated(format!("tasks.{name}: {error}"))));
            }
            Err(_) => {
                let hint = "a thread of the set is not ready after 10 s: do real-time threads hold its CPU?";
                failed = failed.or(Some(Error::refused("start", "the set", hint)));
                break;
            }
        }
    }
    match failed {
        None => Ok(handles),
        Some(error) => {
            open(resources, 2);
            handles.into_iter().for_each(|handle| drop(handle.join()));
            Err(error)
        }
    }
}

fn open(resources: &Resources, how: u32) {
    resources.gate.store(how, Ordering::Release);
    locks::wake_all(&resources.gate);
}

fn joined(shared: &Shared, handle: Started, task: usize, name: &str, rule: Rule) -> Done {
    let nothing = |why: &str| Done {
        name: name.to_owned(),
        task,
        tid: Tid(0),
        comm: String::new(),
        rule,
        figures: None,
        lost: 0,
        preemptions: 0,
        migrations: None,
        ended: Some(why.to_owned()),
    };
    // If all have counted themselves out, none can be stuck.
    match shared.alive() == 0 || handle.is_finished() {
        true => handle.join().ok().flatten().unwrap_or_else(|| nothing("its thread panicked")),
        false => nothing(supervisor::STUCK),
    }
}
