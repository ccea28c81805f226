//! The policy of each thread: from the file, or one scheduler for the whole set.

use super::{CannotRun, Program, Step, Thread};
use crate::tasks::load::{loads, Load};
use crate::tasks::phases;
use crate::tasks::set::{Phase, Policy, Protocol, Sched, Task, TaskSet, Warning};
use crate::time::Ns;

/// Scheduler of the set. A new one needs a variant here and an executor in `host`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduler {
    /// Each thread as in the file.
    File,
    /// All under `SCHED_FIFO`.
    Fifo,
    /// All under `SCHED_RR`.
    RoundRobin,
    /// All under `SCHED_DEADLINE`.
    Deadline,
    /// All under `SCHED_OTHER`.
    Other,
    /// Fibers in one OS thread, by fixed priorities, in user space.
    FiberFixed,
    /// The same, by EDF.
    FiberEdf,
}

impl Scheduler {
    /// All of them.
    pub const ALL: [Scheduler; 7] = [
        Scheduler::File,
        Scheduler::Fifo,
        Scheduler::RoundRobin,
        Scheduler::Deadline,
        Scheduler::Other,
        Scheduler::FiberFixed,
        Scheduler::FiberEdf,
    ];

    /// The name on the command line and in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Scheduler::File => "file",
            Scheduler::Fifo => "fifo",
            Scheduler::RoundRobin => "rr",
            Scheduler::Deadline => "deadline",
            Scheduler::Other => "other",
            Scheduler::FiberFixed => "fiber-fp",
            Scheduler::FiberEdf => "fiber-edf",
        }
    }

    /// Whether threads are fibers of one OS thread.
    #[must_use]
    pub fn is_fibers(self) -> bool {
        matches!(self, Scheduler::FiberFixed | Scheduler::FiberEdf)
    }

    /// Whether each thread has a fixed priority, assigned if the file has none.
    fn assigns_priorities(self) -> bool {
        matches!(self, Scheduler::Fifo | Scheduler::RoundRobin | Scheduler::FiberFixed)
    }
}

/// The policy of a thread with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A fair policy with a nice value (−20 to 19).
    Fair(Policy, i32),
    /// `SCHED_FIFO` with a priority (1 to 99).
    Fifo(i32),
    /// `SCHED_RR` with a priority (1 to 99).
    RoundRobin(i32),
    /// `SCHED_DEADLINE`.
    Deadline {
        /// CPU time in each period.
        runtime: Ns,
        /// Relative deadline of the reservation.
        deadline: Ns,
        /// Period of replenishment.
        period: Ns,
    },
    /// A fiber with a priority (1 to 99).
    FiberFixed(i32),
    /// A fiber with a deadline relative to each release; `None`: none, and it runs after all fibers with one.
    FiberEdf(Option<Ns>),
}

impl Rule {
    /// The real-time priority; 0: none.
    #[must_use]
    pub fn priority(self) -> i32 {
        match self {
            Rule::Fifo(priority) | Rule::RoundRobin(priority) | Rule::FiberFixed(priority) => priority,
            Rule::Fair(..) | Rule::Deadline { .. } | Rule::FiberEdf(_) => 0,
        }
    }

    /// The name of the policy, of the kernel or of the fiber scheduler.
    #[must_use]
    pub fn policy_name(self) -> &'static str {
        match self {
            Rule::Fair(policy, _) => policy.name(),
            Rule::Fifo(_) => Policy::Fifo.name(),
            Rule::RoundRobin(_) => Policy::Rr.name(),
            Rule::Deadline { .. } => Policy::Deadline.name(),
            Rule::FiberFixed(_) => Scheduler::FiberFixed.name(),
            Rule::FiberEdf(_) => Scheduler::FiberEdf.name(),
        }
    }
}

/// Highest assigned priority; higher ones are for the supervisor that ends the run.
const HIGHEST: i32 = 97;

/// Policies of all tasks.
pub(super) struct Plan<'a> {
    set: &'a TaskSet,
    scheduler: Scheduler,
    /// Priority by level; empty: as in the file.
    priorities: Vec<(i64, i32)>,
}

impl<'a> Plan<'a> {
    pub fn new(set: &'a TaskSet, scheduler: Scheduler, warnings: &mut Vec<Warning>) -> Plan<'a> {
        let mut plan = Plan { set, scheduler, priorities: Vec::new() };
        if !scheduler.assigns_priorities() {
            return plan;
        }
        let mut levels: Vec<i64> = loads(set).threads.iter().map(|load| load.level).collect();
        levels.sort_unstable();
        levels.dedup();
        if levels.iter().all(|level| (1..=100).contains(level)) {
            return plan; // every thread has a distinct priority in the file
        }
        let count = i64::try_from(levels.len()).unwrap_or(i64::MAX).max(1);
        if count > i64::from(HIGHEST) {
            let text = format!("{count} levels for {HIGHEST} priorities: neighbours share one");
            warnings.push(Warning { name: "priorities-shared", place: String::new(), text });
        }
        let most = count.min(i64::from(HIGHEST));
        let priority = |rank: i64| (rank * most / count) as i32 + 1;
        plan.priorities = (0..).zip(&levels).map(|(rank, level)| (*level, priority(rank))).collect();
        plan
    }

    /// The policy of a task.
    pub fn rule(&self, at: usize, task: &Task, load: Option<&Load>) -> Result<Rule, CannotRun> {
        let course = phases::course(task, self.set);
        // A scheduler of the whole set ignores the phases: one priority, the highest, is that of all of them.
        let sched = if self.scheduler == Scheduler::File { &course.first } else { &course.sched };
        let rule = self.by_file(task, sched)?;
        let level = load.map(|load| load.level);
        let assigned = level.and_then(|level| self.priorities.iter().find(|(known, _)| *known == level));
        // A template of `fork` has no level: it ranks below all others.
        let priority = assigned.map_or(rule.priority().max(1), |(_, priority)| *priority);
        match self.scheduler {
            Scheduler::File => Ok(rule),
            Scheduler::Other => Ok(Rule::Fair(Policy::Other, nice(rule))),
            Scheduler::Fifo => Ok(Rule::Fifo(priority)),
            Scheduler::RoundRobin => Ok(Rule::RoundRobin(priority)),
            Scheduler::FiberFixed => Ok(Rule::FiberFixed(priority)),
            Scheduler::FiberEdf => Ok(Rule::FiberEdf(super::shortest_deadline(task))),
            Scheduler::Deadline => {
                let load = load.ok_or_else(|| CannotRun::NoReservation(self.set.tasks[at].name.clone()))?;
                derived(task, load)
            }
        }
    }

    /// The policy from a phase on; with one scheduler for the whole set, phases do not change it.
    pub fn of_phase(&self, task: &Task, phase: &Phase) -> Result<Option<Rule>, CannotRun> {
        let merged = phases::merged(task, &phase.sched).filter(|_| self.scheduler == Scheduler::File);
        merged.map(|sched| self.by_file(task, &sched)).transpose()
    }

    fn by_file(&self, task: &Task, sched: &Sched) -> Result<Rule, CannotRun> {
        let policy = sched.policy.unwrap_or(self.set.global.default_policy);
        let realtime = sched.priority.unwrap_or(10).clamp(1, 99);
        match policy {
            Policy::Fifo => Ok(Rule::Fifo(realtime)),
            Policy::Rr => Ok(Rule::RoundRobin(realtime)),
            Policy::Deadline => {
                // As in rt-app: the period defaults to the runtime, the deadline to the period.
                let runtime = sched.dl_runtime.ok_or_else(|| CannotRun::NoReservation(task.name.clone()));
                let runtime = match self.scheduler {
                    Scheduler::File => runtime?,
                    _ => return Ok(Rule::Fair(Policy::Other, 0)), // replaced by the scheduler's policy
                };
                let period = sched.dl_period.or(task.period).unwrap_or(runtime);
                reservation(task, runtime, sched.dl_deadline.or(task.deadline).unwrap_or(period), period)
            }
            fair => Ok(Rule::Fair(fair, sched.priority.unwrap_or(0).clamp(-20, 19))),
        }
    }
}

fn nice(rule: Rule) -> i32 {
    match rule {
        Rule::Fair(_, nice) => nice,
        _ => 0,
    }
}

/// Margin of a derived reservation above the stated work: the budget also covers wake-ups, locks and clock reads.
const MARGIN: Ns = Ns::from_us(100);

fn derived(task: &Task, load: &Load) -> Result<Rule, CannotRun> {
    let none = || CannotRun::NoReservation(task.name.clone());
    let period = load.period.ok_or_else(none)?;
    let deadline = load.deadline.unwrap_or(period).min(period);
    let runtime = match task.sched.dl_runtime {
        Some(stated) => stated,
        None if load.unknown.is_some() || load.wcet == Ns::ZERO => return Err(none()),
        // Work beyond the deadline is not hidden.
        None if load.wcet > deadline => load.wcet,
        None => (load.wcet + Ns(load.wcet.0 / 50) + MARGIN).min(deadline),
    };
    reservation(task, runtime, deadline, period)
}

fn reservation(task: &Task, runtime: Ns, deadline: Ns, period: Ns) -> Result<Rule, CannotRun> {
    match runtime > Ns::ZERO && runtime <= deadline && deadline <= period {
        true => Ok(Rule::Deadline { runtime, deadline, period }),
        false => Err(CannotRun::Reservation(task.name.clone(), runtime, deadline, period)),
    }
}

/// Sets the ceilings; a mutex uses inheritance unless all its users have fixed priorities, or all are EDF fibers.
pub(super) fn protocols(program: &mut Program, warnings: &mut Vec<Warning>) {
    let threads: Vec<Thread> = program.threads.iter().chain(program.templates.values()).cloned().collect();
    for (at, mutex) in program.mutexes.iter_mut().enumerate() {
        let uses = |thread: &&Thread| {
            let mut steps = thread.phases.iter().flat_map(|phase| &phase.steps);
            steps.any(|step| matches!(step, Step::Lock(of) if *of == at))
        };
        let rules = |thread: &Thread| {
            let later = thread.phases.iter().filter_map(|phase| phase.rule);
            later.chain([thread.rule]).map(Rule::priority).collect::<Vec<i32>>()
        };
        let priorities: Vec<i32> = threads.iter().filter(uses).flat_map(rules).collect();
        mutex.ceiling = priorities.iter().copied().max().unwrap_or(0);
        let floors: Vec<Option<Ns>> = threads
            .iter()
            .filter(uses)
            .filter_map(|thread| match thread.rule {
                Rule::FiberEdf(deadline) => Some(deadline),
                _ => None,
            })
            .collect();
        mutex.floor = floors.iter().copied().flatten().min();
        let has_floor = !floors.is_empty() && floors.iter().all(Option::is_some);
        if mutex.protocol == Protocol::Ceiling && priorities.contains(&0) && !has_floor {
            mutex.protocol = Protocol::Inherit;
            let why = match floors.is_empty() {
                true => "its users do not all have fixed priorities; it inherits (the kernel has no ceilings or SRP for the others)",
                false => "its users do not all have deadlines; it inherits",
            };
            let text = format!("mutex \"{}\": {why}", mutex.name);
            warnings.push(Warning { name: "ceiling-inherits", place: String::new(), text });
        }
    }
}
