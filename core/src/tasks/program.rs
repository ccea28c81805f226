//! A task set ready to run: names resolved to numbers, and a policy for each thread.
//!
//! Executors (`lathunt_host::tasks`), including the fiber scheduler, use only the [`Program`]. Without I/O: it can be
//! tested without execution. Refusals of the kernel are not known here.

mod scheduling;
mod steps;

use std::collections::BTreeMap;

use super::load::{loads, Load};
use super::set::{Event, Protocol, Task, TaskSet, Warning};
use crate::cpuset::CpuSet;
use crate::time::{Cpu, Ns};

pub use scheduling::{Rule, Scheduler};
pub use steps::{MemoryKind, MemoryWalk, Step};

/// Maximum number of threads. More real-time threads on a machine are a mistake or an attack.
pub const MOST_THREADS: usize = 1_000;

/// Why a set cannot be run under a scheduler.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum CannotRun {
    /// Too many threads.
    #[error("{0} threads: at most {MOST_THREADS} are run (tasks analyse takes more)")]
    TooMany(usize),
    /// A thread has no CPU.
    #[error("tasks.{0}: its \"cpus\" {1} and CPU {2}, where the set may run, have none in common")]
    NoCpu(String, String, String),
    /// A reservation that every kernel refuses.
    #[error("tasks.{0}: SCHED_DEADLINE needs 0 < runtime <= deadline <= period, this has {1}, {2}, {3}")]
    Reservation(String, Ns, Ns, Ns),
    /// Fibers have no common CPU.
    #[error(
        "fibers share one thread of the kernel, and so one CPU: the \"cpus\" of the tasks have none in common (tasks.{0} \
         may not run on CPU {1})"
    )]
    NoCommonCpu(String, String),
    /// A reservation that is not stated and cannot be derived.
    #[error("tasks.{0}: SCHED_DEADLINE needs \"dl-runtime\" and \"dl-period\", or work and a period to derive them from")]
    NoReservation(String),
}

/// An executable task set.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// Threads that start together, in file order.
    pub threads: Vec<Thread>,
    /// Threads started by `fork`, by task number.
    pub templates: BTreeMap<usize, Thread>,
    /// Mutexes by number.
    pub mutexes: Vec<Mutex>,
    /// Barriers, by number.
    pub barriers: Vec<Barrier>,
    /// Names of conditions, by number; those of suspended threads follow those of `wait`.
    pub conditions: Vec<String>,
    /// Names of semaphores, by number.
    pub semaphores: Vec<String>,
    /// Shared timers, by number.
    pub timers: Vec<SharedTimer>,
    /// Length of the run; `None`: until the threads end.
    pub duration: Option<Ns>,
    /// ns per loop of `run`, if stated in the file.
    pub ns_per_loop: Option<u32>,
    /// CPU on which the loops of `run` are calibrated, unless stated in the file.
    pub calibration_cpu: u32,
    /// Lock memory.
    pub lock_pages: bool,
    /// Device of `iorun`.
    pub io_device: String,
    /// Bytes of the buffer of `mem` and `iorun`.
    pub buffer_bytes: u32,
}

/// One thread.
#[derive(Clone, Debug, PartialEq)]
pub struct Thread {
    /// Its name, as in the analysis: the task's, with a number if it has several threads.
    pub name: String,
    /// Number of its task in the set.
    pub task: usize,
    /// Its policy.
    pub rule: Rule,
    /// CPUs; `None`: those of the set.
    pub cpus: Option<CpuSet>,
    /// First release after the common start.
    pub delay: Ns,
    /// Iterations over all phases; `None`: for ever.
    pub loops: Option<u32>,
    /// Its phases.
    pub phases: Vec<Phase>,
    /// What separates its jobs.
    pub boundary: Boundary,
    /// Relative deadline; `None`: the period of the timer that ends the job, if any.
    pub deadline: Option<Ns>,
    /// Inter-release time, if known.
    pub period: Option<Ns>,
    /// Stated CPU time of a job, if known from the events.
    pub budget: Option<Ns>,
}

impl Thread {
    /// Shortest and longest relative deadline of its jobs if they have those of timers with different periods; `None`: all have
    /// the same one, or none.
    #[must_use]
    pub fn deadlines_of_timers(&self) -> Option<(Ns, Ns)> {
        let steps = self.phases.iter().flat_map(|phase| &phase.steps);
        let periods = || {
            steps.clone().filter_map(|step| match step {
                Step::OwnTimer { period, .. } | Step::SharedTimer { period, .. } => Some(*period),
                _ => None,
            })
        };
        let both = periods().min().zip(periods().max());
        both.filter(|(shortest, longest)| shortest < longest && self.deadline.is_none())
    }
}

/// One phase.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// Repetitions; `None`: for ever.
    pub loops: Option<u32>,
    /// Its steps.
    pub steps: Vec<Step>,
    /// Policy from here on; `None`: no change.
    pub rule: Option<Rule>,
    /// CPUs from here on; `None`: those of the thread.
    pub cpus: Option<CpuSet>,
}

/// What separates two jobs of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boundary {
    /// Timers: a job is released at the timer's nominal time.
    Timer,
    /// Sleeps, without a timer: released at the nominal end of the sleep.
    Sleep,
    /// Waits for other threads, with neither: released by their signal.
    Signal,
    /// No waits: each repetition of a phase is a job, released at the end of the previous one.
    Repetition,
}

impl Boundary {
    /// The wait, for readers.
    #[must_use]
    pub fn wait_name(self) -> &'static str {
        match self {
            Boundary::Timer => "timer",
            Boundary::Sleep => "sleep",
            Boundary::Signal => "wait for another thread",
            Boundary::Repetition => "no wait",
        }
    }
}

/// A mutex.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutex {
    /// Its name.
    pub name: String,
    /// Its protocol against priority inversion.
    pub protocol: Protocol,
    /// Highest real-time priority of its users (priority ceiling).
    pub ceiling: i32,
    /// Shortest relative deadline of its users if they are EDF fibers (deadline floor).
    pub floor: Option<Ns>,
}

/// A barrier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Barrier {
    /// Its name.
    pub name: String,
    /// Number of threads that open it.
    pub users: u32,
}

/// A timer shared by all threads that name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedTimer {
    /// Its name.
    pub name: String,
    /// A late release does not shift later ones, for all its users.
    pub absolute: bool,
}

impl Program {
    /// Makes a set ready to run on `cpus`.
    ///
    /// # Errors
    /// Why it cannot be run under this scheduler or on these CPUs.
    pub fn new(
        set: &TaskSet,
        scheduler: Scheduler,
        cpus: &CpuSet,
    ) -> Result<(Program, Vec<Warning>), CannotRun> {
        let threads: usize = set.tasks.iter().map(|task| task.instances as usize).sum();
        if threads > MOST_THREADS {
            return Err(CannotRun::TooMany(threads));
        }
        let mut names = steps::Names::of(set);
        let mut program = Program {
            threads: Vec::with_capacity(threads),
            templates: BTreeMap::new(),
            mutexes: Vec::new(),
            barriers: Vec::new(),
            conditions: Vec::new(),
            semaphores: Vec::new(),
            timers: Vec::new(),
            duration: set.global.duration_s.map(|seconds| Ns(u64::from(seconds) * 1_000_000_000)),
            ns_per_loop: set.global.ns_per_loop,
            calibration_cpu: set.global.calibration_cpu,
            lock_pages: set.global.lock_pages,
            io_device: set.global.io_device.clone(),
            buffer_bytes: set.global.mem_buffer_size,
        };
        let mut warnings = Vec::new();
        let forked: Vec<&str> = forks(set).collect();
        let plan = scheduling::Plan::new(set, scheduler, &mut warnings);
        let found = loads(set).threads;
        for (at, task) in set.tasks.iter().enumerate() {
            let load = found.iter().find(|load| belongs(load, task));
            let thread = thread(at, task, load, &plan, &mut names, cpus)?;
            for instance in 0..task.instances {
                let name = match task.instances {
                    1 => task.name.clone(),
                    _ => format!("{}-{instance}", task.name),
                };
                // With assigned priorities, each instance has its own level.
                let own = found.iter().find(|load| load.name == name);
                let rule = plan.rule(at, task, own)?;
                program.threads.push(Thread { name, rule, ..thread.clone() });
            }
            let slice = task.sched.dl_runtime.is_some() && scheduler == Scheduler::File;
            let edf_period = matches!(thread.rule, Rule::FiberEdf(_)) && thread.deadline.is_none();
            if edf_period && thread.boundary == Boundary::Timer {
                let text = "timers of different periods and no \"deadline\": by EDF a job is as urgent as the period of the \
                            timer that released it"
                    .to_owned();
                warnings.push(Warning { name: "edf-deadline", place: format!("tasks.{}", task.name), text });
            }
            if scheduler.is_fibers() && task.sched.dl_runtime.is_some() {
                let text = "\"dl-runtime\" has no effect on fibers: a job that needs more delays the others"
                    .to_owned();
                warnings.push(Warning { name: "ignored-key", place: format!("tasks.{}", task.name), text });
            }
            if slice && matches!(thread.rule, Rule::Fair(..)) {
                let text =
                    "\"dl-runtime\" of an ordinary thread is its slice in rt-app, and has no effect here"
                        .to_owned();
                warnings.push(Warning { name: "ignored-key", place: format!("tasks.{}", task.name), text });
            }
            if forked.contains(&task.name.as_str()) {
                program.templates.insert(at, thread);
            }
        }
        let steps = program.threads.iter().flat_map(|thread| &thread.phases).flat_map(|phase| &phase.steps);
        if program.threads.len() > 1 && steps.into_iter().any(|step| matches!(step, Step::Runtime(_))) {
            let text = "\"runtime\" is wall-clock time: a preempted job does less work than the analysis counts, and ends \
                        earlier (\"run\" or \"cputime\" do all of it)";
            warnings.push(Warning { name: "wall-clock", place: String::new(), text: text.to_owned() });
        }
        names.finish(&mut program, set);
        scheduling::protocols(&mut program, &mut warnings);
        Ok((program, warnings))
    }

    /// The first CPU in the affinity of all threads; `default` for threads without one.
    ///
    /// # Errors
    /// [`CannotRun::NoCommonCpu`].
    pub fn common_cpu(&self, default: &CpuSet) -> Result<Cpu, CannotRun> {
        let mut common: Option<CpuSet> = None;
        for thread in self.threads.iter().chain(self.templates.values()) {
            let of_phases = thread.phases.iter().filter_map(|phase| phase.cpus.as_ref());
            for cpus in of_phases.chain([thread.cpus.as_ref().unwrap_or(default)]) {
                let before = common.clone().unwrap_or_else(|| cpus.clone());
                let both = before.within(cpus);
                if both.is_empty() {
                    return Err(CannotRun::NoCommonCpu(thread.name.clone(), before.to_string()));
                }
                common = Some(both);
            }
        }
        let first = common.as_ref().unwrap_or(default).iter().next();
        first.ok_or_else(|| CannotRun::NoCommonCpu(String::new(), default.to_string()))
    }
}

fn forks(set: &TaskSet) -> impl Iterator<Item = &str> {
    let events = set.tasks.iter().flat_map(|task| &task.phases).flat_map(|phase| &phase.events);
    events.filter_map(|event| match event {
        Event::Fork(name) => Some(name.as_str()),
        _ => None,
    })
}

fn belongs(load: &Load, task: &Task) -> bool {
    match task.instances {
        1 => load.name == task.name,
        _ => load.name == format!("{}-0", task.name),
    }
}

fn thread(
    at: usize,
    task: &Task,
    load: Option<&Load>,
    plan: &scheduling::Plan,
    names: &mut steps::Names,
    cpus: &CpuSet,
) -> Result<Thread, CannotRun> {
    let boundary = boundary(task);
    let rule = plan.rule(at, task, load)?;
    let placed = |wanted: &Option<CpuSet>| -> Result<Option<CpuSet>, CannotRun> {
        let Some(wanted) = wanted else { return Ok(None) };
        let both = wanted.within(cpus);
        match both.is_empty() {
            true => Err(CannotRun::NoCpu(task.name.clone(), wanted.to_string(), cpus.to_string())),
            false => Ok(Some(both)),
        }
    };
    let mut phases = Vec::with_capacity(task.phases.len());
    for phase in &task.phases {
        phases.push(Phase {
            loops: phase.loops,
            steps: phase.events.iter().map(|event| names.step(event)).collect(),
            rule: plan.of_phase(task, phase)?,
            cpus: placed(&phase.sched.cpus)?,
        });
    }
    let first = task.phases.first().map(|phase| &phase.sched.cpus).filter(|cpus| cpus.is_some());
    let periods = timer_periods(task);
    let stated = task.period.or(task.sched.dl_period);
    let stated_deadline = task.deadline.or(task.sched.dl_deadline);
    // Timers with different periods: each job has that of its timer.
    let one_period = periods.first().copied().filter(|first| periods.iter().all(|one| one == first));
    let timed = boundary == Boundary::Timer;
    Ok(Thread {
        name: task.name.clone(),
        task: at,
        rule,
        cpus: placed(first.unwrap_or(&task.sched.cpus))?,
        delay: task.delay,
        loops: task.loops,
        phases,
        boundary,
        deadline: stated_deadline.or(stated).or(one_period.filter(|_| timed)),
        period: one_period.filter(|_| timed).or(stated),
        budget: load.filter(|load| load.unknown.is_none()).map(|load| load.wcet),
    })
}

/// The shortest relative deadline that a job of the task may have.
fn shortest_deadline(task: &Task) -> Option<Ns> {
    let stated = task.deadline.or(task.sched.dl_deadline).or(task.period).or(task.sched.dl_period);
    stated.or_else(|| timer_periods(task).into_iter().min())
}

fn timer_periods(task: &Task) -> Vec<Ns> {
    let events = task.phases.iter().flat_map(|phase| &phase.events);
    events
        .filter_map(|event| match event {
            Event::Timer(timer) => Some(timer.period),
            _ => None,
        })
        .collect()
}

fn boundary(task: &Task) -> Boundary {
    let has = |wanted: fn(&Event) -> bool| task.phases.iter().flat_map(|phase| &phase.events).any(wanted);
    if has(|event| matches!(event, Event::Timer(_))) {
        Boundary::Timer
    } else if has(|event| matches!(event, Event::Sleep(time) if *time > Ns::ZERO)) {
        Boundary::Sleep
    } else if has(steps::waits_for_others) {
        Boundary::Signal
    } else {
        Boundary::Repetition
    }
}

#[cfg(test)]
mod tests;
