//! Fibers: all threads of the set on one kernel thread, scheduled by `lathunt_runtime`, by fixed priorities or by deadlines.
//! This needs no privilege; with CAP_SYS_NICE, that kernel thread is a real-time one.
//!
//! The most urgent fiber starts the others, checks the stop flag every 20 ms, and ends the run on time. Why not a separate
//! process: decision 0045.

mod fiber;
mod recording;
mod tables;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{mpsc, Arc};
use std::time::Duration;

use lathunt_core::cpuset::CpuSet;
use lathunt_core::set_run::FiberRun;
use lathunt_core::tasks::fiber_trace::FiberTrace;
use lathunt_core::tasks::outcome::{Done, Executed};
use lathunt_core::tasks::program::{Program, Thread};
use lathunt_core::time::{Cpu, Mono, Ns, Tid};
use lathunt_runtime::{
    allocator_holds, lock_scheduler, report, sleep_until, this, Builder, Config, JoinHandle, Mechanism,
};

use super::kernel::{builder, short};
use super::shared::Shared;
use super::so_far::SoFar;
use super::worker::Worker;
use super::{supervisor, Options, Watch};
use crate::error::{Error, Result};
use crate::{clock, sched, signals, threads};
use fiber::Fiber;
use tables::{Place, Tables, MAIN};

/// Between two checks of the most urgent fiber.
const TURN: Ns = Ns::from_ms(20);
/// How long fibers may take to end.
const LAST: Ns = Ns::from_ms(2_000);

/// Results of the kernel thread: the fibers of the program in its order, forked ones, and itself.
type Carried = (Vec<Done>, FiberRun, Option<FiberTrace>);

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
    let cpu = program.common_cpu(&options.cpus).map_err(|error| Error::stated(error.to_string()))?;
    let program = Arc::new(program.clone());
    let (ready, is_ready) = mpsc::channel();
    let blocked = signals::Blocked::all_but_wake()?;
    let carrier = {
        let (shared, program, options) = (Arc::clone(&shared), Arc::clone(&program), options.clone());
        let carry = move || carry(&shared, &program, &options, cpu, &ready);
        let spawned = builder("lathunt-fibers").spawn(carry);
        spawned.map_err(|error| Error::new("start", "the thread of the fibers", error))?
    };
    drop(blocked);
    let Ok(zero) = is_ready.recv_timeout(Duration::from_secs(10)) else {
        let hint = "the thread of the fibers is not ready after 10 s: do real-time threads hold its CPU?";
        let failed = || Error::refused("start", "the set", hint);
        return Err(match carrier.is_finished() {
            true => carrier.join().ok().and_then(std::result::Result::err).unwrap_or_else(failed),
            false => failed(),
        });
    };
    watch.begins(zero);
    let planned = options.duration.map(|duration| zero + duration);
    let supervisor = {
        let (shared, housekeeping) = (Arc::clone(&shared), options.housekeeping.clone());
        threads::spawn(move || supervisor::watch(&shared, planned, housekeeping.as_ref()))?
    };
    let mut so_far = SoFar::new(zero, options, Some(FiberRun::default()));
    while !supervisor.is_finished() {
        std::thread::sleep(Duration::from_millis(20));
        supervisor::look(&shared, planned);
        shared.look(zero, &mut so_far, watch);
    }
    let _ = supervisor.join();
    // It waits as long as the supervisor does, and then abandons fibers that do not end.
    let last = clock::mono() + LAST;
    while !carrier.is_finished() && clock::mono() < last {
        std::thread::sleep(Duration::from_millis(1));
    }
    let carried = match carrier.is_finished() {
        true => carrier.join().ok(),
        false => None,
    };
    shared.look(zero, &mut so_far, watch);
    notes.append(&mut shared.notes());
    let (done, fibers, fiber_trace) = match carried {
        Some(carried) => carried?,
        None => {
            notes.push(format!("the fibers {}", supervisor::STUCK));
            (program.threads.iter().map(|thread| lost(thread, Tid(0))).collect(), FiberRun::default(), None)
        }
    };
    let executed = Executed {
        begin: zero,
        end: shared.end(),
        process: Tid(i32::try_from(std::process::id()).unwrap_or_default()),
        threads: done,
        speeds: options.speeds.each.clone(),
        ns_per_loop: Some(options.speeds.ns_per_loop),
        switch: fibers.preemption_late_ns.or(options.switch),
        timer_late: Some(fibers.late_longest_ns),
        stretch: Vec::new(),
        fibers: Some(fibers),
        fiber_trace,
        is_over: true,
    };
    Ok((executed, notes))
}

/// A fiber without figures.
fn lost(thread: &Thread, tid: Tid) -> Done {
    Done {
        name: thread.name.clone(),
        task: thread.task,
        tid,
        comm: short(&thread.name),
        rule: thread.rule,
        figures: None,
        lost: 0,
        preemptions: 0,
        migrations: None,
        ended: Some(supervisor::STUCK.to_owned()),
    }
}

/// Body of the kernel thread.
fn carry(
    shared: &Arc<Shared>,
    program: &Arc<Program>,
    options: &Options,
    cpu: Cpu,
    ready: &mpsc::Sender<Mono>,
) -> Result<Carried> {
    sched::set_affinity(&CpuSet::from_iter([cpu]))?;
    sched::prefault_stack();
    let forks = if program.templates.is_empty() { 0 } else { lathunt_core::tasks::program::MOST_THREADS };
    let config = Config {
        threads: program.threads.len() + forks + 1,
        main_priority: MAIN,
        kernel_priority: options.fiber_priority,
        runaway_seconds: 0, // the limit of the whole process is unchanged
        touch_stacks: true,
        preemption: options.fiber_preemption,
        meter: true,
        record: options.fiber_events,
        ..Config::default()
    };
    let main = || main(shared, program, options, cpu, ready);
    let ran = lathunt_runtime::run(&config, main);
    ran.map_err(|error| Error::stated(format!("cannot start the runtime of the fibers: {error}")))?
}

/// Running fibers.
#[derive(Default)]
pub(super) struct Crew {
    cpu: Cpu,
    fibers: RefCell<VecDeque<(Thread, JoinHandle<Done>)>>,
}

impl Crew {
    /// Starts a fiber and counts it as alive; its timers count from the common start, those of a forked one from its own.
    fn start(
        self: &Rc<Crew>,
        shared: &Arc<Shared>,
        program: &Arc<Program>,
        tables: &Rc<Tables>,
        thread: Thread,
        is_forked: bool,
    ) -> std::result::Result<(), String> {
        let params = tables.levels.params(thread.rule);
        let place = Rc::new(Place::new(&params, &shared.waiting).map_err(|error| error.to_string())?);
        let ground = Fiber {
            shared: Arc::clone(shared),
            program: Arc::clone(program),
            tables: Rc::clone(tables),
            crew: Rc::clone(self),
            place: Rc::clone(&place),
            held: Vec::with_capacity(8),
            cpu: self.cpu,
        };
        let ring = {
            let _held = lock_scheduler(); // with a lock that other kernel threads take
            shared.ring(&thread)
        };
        let worker = Worker::new(shared, program, &thread, ground, ring);
        let (counted, named) = (Arc::clone(shared), thread.clone());
        let body = move || {
            place.thread.set(this().ok());
            work(&counted, worker, &named, is_forked)
        };
        let started = Builder::new(&short(&thread.name)).params(params).spawn(body);
        let handle = started.map_err(|error| error.to_string())?;
        let _held = lock_scheduler();
        self.fibers.borrow_mut().push_back((thread, handle));
        Ok(())
    }

    /// Starts a fiber of a task.
    pub(super) fn fork(
        self: &Rc<Crew>,
        shared: &Arc<Shared>,
        program: &Arc<Program>,
        tables: &Rc<Tables>,
        task: usize,
    ) -> std::result::Result<(), String> {
        let Some(thread) = shared.forked(program, task)? else { return Ok(()) };
        let started = self.start(shared, program, tables, thread, true);
        started.map_err(|why| {
            shared.alive.fetch_sub(1, Ordering::AcqRel);
            format!("fork: cannot start a fiber: {why}")
        })
    }

    /// Takes the one that was started first.
    fn first(&self) -> Option<(Thread, JoinHandle<Done>)> {
        let _held = lock_scheduler();
        self.fibers.borrow_mut().pop_front()
    }

    /// Ends the waits of all.
    fn cancel(&self) {
        let _held = lock_scheduler();
        for (_, handle) in self.fibers.borrow().iter() {
            let _ = handle.thread().cancel(); // it may have ended
        }
    }
}

/// Body of a fiber.
fn work(shared: &Arc<Shared>, mut worker: Worker<Fiber>, thread: &Thread, is_forked: bool) -> Done {
    let base = if is_forked { clock::mono() } else { shared.zero() };
    let ended = worker.go(base);
    let account = this().and_then(|own| own.account()).unwrap_or_default();
    if let Some(why) = ended {
        let why = format!("{}: {why}", thread.name);
        let _held = lock_scheduler(); // with a lock that other kernel threads take
        shared.end_at(clock::mono(), Some(why));
    }
    let done = Done {
        figures: Some(worker.figures),
        lost: 0,
        preemptions: account.preemptions,
        migrations: Some(0),
        ended: None, // reported once for the whole run
        ..lost(thread, sched::tid())
    };
    shared.alive.fetch_sub(1, Ordering::AcqRel);
    done
}

/// The most urgent fiber: starts all others, and ends them.
fn main(
    shared: &Arc<Shared>,
    program: &Arc<Program>,
    options: &Options,
    cpu: Cpu,
    ready: &mpsc::Sender<Mono>,
) -> Result<Carried> {
    let refused = |why: String| Error::refused("start", "the fibers of the set", why);
    if !allocator_holds() {
        return Err(refused(
            "this program's allocator is not safe to interrupt (FiberAlloc is not set)".to_owned(),
        ));
    }
    let tables = Rc::new(Tables::new(program).map_err(|error| refused(error.to_string()))?);
    let crew = Rc::new(Crew { cpu, ..Crew::default() });
    shared.alive.store(program.threads.len(), Ordering::Release);
    for thread in &program.threads {
        let started = crew.start(shared, program, &tables, thread.clone(), false);
        if let Err(why) = started {
            shared.stop.store(true, Ordering::Release); // those that exist end as soon as they run
            crew.cancel();
            return Err(refused(format!("tasks.{}: {why}", thread.name)));
        }
    }
    // They run when this fiber sleeps, and then each until it sleeps.
    let zero = clock::mono() + Ns::from_ms(50) + Ns::from_us(100 * program.threads.len() as u64);
    let planned = options.duration.map(|duration| zero + duration);
    shared.zero.store(zero.0, Ordering::Release);
    if let Some(planned) = planned {
        shared.end.store(planned.0, Ordering::Release);
    }
    let _ = ready.send(zero);
    while shared.alive() > 0 && !shared.stop.load(Ordering::Acquire) {
        let turn = clock::mono() + TURN;
        let until = planned.map_or(turn, |planned| planned.min(turn));
        let _ = sleep_until(until.0);
        let held = lock_scheduler(); // with a lock that other kernel threads take
        supervisor::look(shared, planned);
        drop(held);
    }
    crew.cancel();
    let last = clock::mono() + LAST;
    let mut done = Vec::new();
    // A fiber that ends may have forked another before.
    let mut ids = Vec::new();
    while let Some((thread, handle)) = crew.first() {
        ids.push((handle.thread().id(), thread.name.clone()));
        crew.cancel();
        let has_ended = wait(&handle, last);
        done.push(match has_ended.then(|| handle.join()) {
            Some(Ok(Ok(figures))) => figures,
            Some(Ok(Err(_))) => Done { ended: Some("it panicked".to_owned()), ..lost(&thread, sched::tid()) },
            _ => lost(&thread, sched::tid()),
        });
    }
    Ok((done, measured(options), recording::trace(program, &ids)))
}

/// Waits for the end of a fiber, until a time; whether it has ended.
fn wait<T>(handle: &JoinHandle<T>, last: Mono) -> bool {
    while !handle.thread().has_ended() {
        if clock::mono() >= last {
            return false;
        }
        let _ = sleep_until((clock::mono() + Ns::from_us(200)).0);
    }
    true
}

fn measured(options: &Options) -> FiberRun {
    let Ok(report) = report() else { return FiberRun::default() };
    let (preemption, late) = match report.mechanism {
        Some(Mechanism::Timer) => ("a POSIX timer", report.measured.timer),
        Some(Mechanism::Helper) => ("a helper thread", report.measured.helper),
        None => ("nothing", None),
    };
    let process = report.process.unwrap_or_default();
    FiberRun {
        tid: sched::tid(),
        kernel_priority: options.fiber_priority,
        preemption: preemption.to_owned(),
        preemption_late_ns: late.map(|(median, _)| Ns(median)),
        away_total_ns: Ns(process.away),
        away_longest_ns: Ns(process.away_longest),
        late_longest_ns: Ns(process.late_longest),
        switches: report.switches,
    }
}
