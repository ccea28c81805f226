//! A task set ready to run: names resolved to numbers, each thread with the policy that it gets.
//!
//! The executor (`lathunt_host::tasks`) takes a [`Program`] and nothing else of the set; one that schedules threads itself
//! takes the same. Pure: what a set would do can be tested without running it. What the kernel refuses is not known here.

mod scheduling;
mod steps;

use std::collections::BTreeMap;

use super::load::{loads, Load};
use super::set::{Event, Protocol, Task, TaskSet, Warning};
use crate::cpuset::CpuSet;
use crate::time::{Cpu, Ns};

pub use scheduling::{Rule, Scheduler};
pub use steps::{MemoryKind, MemoryWalk, Step};

/// Most threads that are run. More than so many real-time threads on a machine are a mistake, or an attack.
pub const MOST_THREADS: usize = 1_000;

/// Why a set cannot be run under a scheduler.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum CannotRun {
    /// Too many threads.
    #[error("{0} threads: at most {MOST_THREADS} are run (tasks analyse takes more)")]
    TooMany(usize),
    /// A thread would run nowhere.
    #[error("tasks.{0}: its \"cpus\" {1} and CPU {2}, where the set may run, have none in common")]
    NoCpu(String, String, String),
    /// A reservation that no kernel takes.
    #[error("tasks.{0}: SCHED_DEADLINE needs 0 < runtime <= deadline <= period, this has {1}, {2}, {3}")]
    Reservation(String, Ns, Ns, Ns),
    /// Fibers are all on one CPU.
    #[error(
        "fibers share one thread of the kernel, and so one CPU: the \"cpus\" of the tasks have none in common (tasks.{0} \
         may not run on CPU {1})"
    )]
    NoCommonCpu(String, String),
    /// A reservation that is not stated and cannot be derived.
    #[error("tasks.{0}: SCHED_DEADLINE needs \"dl-runtime\" and \"dl-period\", or work and a period to derive them from")]
    NoReservation(String),
}

/// What is to be run.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// Threads that start together, in file order.
    pub threads: Vec<Thread>,
    /// Threads that `fork` starts, by the number of their task.
    pub templates: BTreeMap<usize, Thread>,
    /// Mutexes by number.
    pub mutexes: Vec<Mutex>,
    /// Threads that open each barrier, by number.
    pub barriers: Vec<Barrier>,
    /// Names of conditions, by number; those of suspended threads come after those of `wait`.
    pub conditions: Vec<String>,
    /// Names of semaphores, by number.
    pub semaphores: Vec<String>,
    /// Timers that threads share, by number.
    pub timers: Vec<SharedTimer>,
    /// Length of the run; `None`: until the threads end.
    pub duration: Option<Ns>,
    /// Loops of `run`: ns per loop, where the file states them.
    pub ns_per_loop: Option<u32>,
    /// CPU whose speed decides the loops of `run`, where the file does not state it.
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
    /// Its name, that of the analysis: the task's, with its number where that has several.
    pub name: String,
    /// Number of its task in the set.
    pub task: usize,
    /// Its policy.
    pub rule: Rule,
    /// CPUs; `None`: where the set may run.
    pub cpus: Option<CpuSet>,
    /// First release after the common start.
    pub delay: Ns,
    /// Rounds through all phases; `None`: for ever.
    pub loops: Option<u32>,
    /// Its phases.
    pub phases: Vec<Phase>,
    /// What separates its jobs.
    pub boundary: Boundary,
    /// Relative deadline; `None`: the period of the timer that ends the job, if one does.
    pub deadline: Option<Ns>,
    /// Distance of two releases, where one is known.
    pub period: Option<Ns>,
    /// CPU time that a job should need, where the events state it.
    pub budget: Option<Ns>,
}

/// One phase.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// Repetitions; `None`: for ever.
    pub loops: Option<u32>,
    /// What is done.
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
    /// Sleeps, without a timer: released when the sleep should end.
    Sleep,
    /// Waits for other threads, with neither: released when these signal.
    Signal,
    /// It never waits: each repetition of a phase is a job, released when the one before it ends.
    Repetition,
}

/// A mutex.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutex {
    /// Its name.
    pub name: String,
    /// What it does against priority inversion.
    pub protocol: Protocol,
    /// Highest real-time priority of its users, for the ceiling.
    pub ceiling: i32,
    /// Shortest relative deadline of its users where they are fibers by deadline: the floor.
    pub floor: Option<Ns>,
}

/// A barrier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Barrier {
    /// Its name.
    pub name: String,
    /// Threads that open it.
    pub users: u32,
}

/// A timer that all threads that name it share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedTimer {
    /// Its name.
    pub name: String,
    /// A late release keeps the grid, for all of its users.
    pub absolute: bool,
}

impl Program {
    /// Makes a set ready to run on `cpus`.
    ///
    /// # Errors
    /// Why it cannot be run under this scheduler, or there.
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
                // Instances have levels of their own where these are assigned.
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
        names.finish(&mut program, set);
        scheduling::protocols(&mut program, &mut warnings);
        Ok((program, warnings))
    }

    /// The CPU on which all threads may run, where those that name none may use `default`; its first one that all may.
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
    let periods = timer_periods(task);
    let stated = task.period.or(task.sched.dl_period);
    let stated_deadline = task.deadline.or(task.sched.dl_deadline);
    // Timers of different periods: each job has that of its own timer.
    let one_period = periods.first().copied().filter(|first| periods.iter().all(|one| one == first));
    let timed = boundary == Boundary::Timer;
    Ok(Thread {
        name: task.name.clone(),
        task: at,
        rule,
        cpus: placed(&task.sched.cpus)?,
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
