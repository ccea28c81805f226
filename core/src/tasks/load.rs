//! Demand of a thread: the (C, T, D, J, B) of schedulability analysis, derived from a task's events.
//!
//! One job is the work between two waits for a timer (or two sleeps). If phases differ, the longest job and the
//! shortest period are used, so that the demand is never too low. A suspension inside a job counts as work
//! (suspension-oblivious), and after each the job may be blocked again. A thread without a known minimum inter-release
//! time has no period and is not analysed; nor is one that shares a mutex with another CPU, or is forked.

use std::collections::BTreeSet;

use super::reserved;
use super::set::{Event, Policy, Protocol, Task, TaskSet, Warning};
use crate::cpuset::CpuSet;
use crate::time::Ns;

/// The demand of one thread.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// Name of the thread: the task's, with its number where it has several.
    pub name: String,
    /// Longest execution of a job.
    pub wcet: Ns,
    /// Minimum inter-release time; `None`: unknown.
    pub period: Option<Ns>,
    /// Relative deadline; `None`: neither it nor a period is known.
    pub deadline: Option<Ns>,
    /// Release jitter.
    pub jitter: Ns,
    /// Blocking stated in the file, in addition to that of mutexes.
    pub blocking: Ns,
    /// Higher is more urgent. Real-time policies are above 0; fair ones at or below 0.
    pub level: i64,
    /// Others of its level may run while it is ready, without its consent (any policy but SCHED_FIFO).
    pub time_shares: bool,
    /// Sleeps inside a job, at most: after each it may be blocked again.
    pub suspensions: u64,
    /// Critical sections of a job, including nested ones.
    pub sections: Vec<Section>,
    /// Its affinity; `None`: any CPU.
    pub cpus: Option<CpuSet>,
    /// Why its waits make its demand unbounded or unknown.
    pub unknown: Option<String>,
    /// Why it may wait inside its `SCHED_DEADLINE` reservation: fixed priorities say nothing about it.
    pub waits_inside: Option<String>,
}

/// A critical section.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Section {
    /// Its mutex.
    pub mutex: String,
    /// Work of the job before the section.
    pub start: Ns,
    /// Work inside.
    pub length: Ns,
    /// Mutexes that the thread holds when it locks this one.
    pub within: Vec<String>,
    /// Why the section is unbounded: the thread waits or sleeps inside, or its work is unknown.
    pub unbounded: Option<String>,
}

/// All threads of a set with the protocol of each mutex in use.
#[derive(Clone, Debug, Default)]
pub struct Loads {
    /// Threads in file order.
    pub threads: Vec<Load>,
    /// Whether the levels are from the file (true) or deadline-monotonic because the file has none (false).
    pub given_priorities: bool,
    /// Assumptions.
    pub warnings: Vec<Warning>,
}

fn warning(name: &'static str, place: String, text: String) -> Warning {
    Warning { name, place, text }
}

/// The threads of `set`.
#[must_use]
pub fn loads(set: &TaskSet) -> Loads {
    let mut all = Loads::default();
    let forked = forked(set);
    for task in &set.tasks {
        let is_forked = forked.contains(task.name.as_str());
        // A template that is forked has one row.
        let threads = if is_forked { task.instances.max(1) } else { task.instances };
        if threads == 0 {
            continue;
        }
        let load = of_task(task, set, is_forked, &mut all.warnings);
        for instance in 0..threads {
            let name = match threads {
                1 => task.name.clone(),
                _ => format!("{}-{instance}", task.name),
            };
            all.threads.push(Load { name, ..load.clone() });
        }
    }
    levels(set, &mut all);
    all
}

/// Names of the tasks that are forked.
fn forked(set: &TaskSet) -> BTreeSet<&str> {
    let phases = set.tasks.iter().flat_map(|task| &task.phases);
    let mut names = BTreeSet::new();
    for event in phases.flat_map(|phase| &phase.events) {
        if let Event::Fork(name) = event {
            names.insert(name.as_str());
        }
    }
    names
}

fn of_task(task: &Task, set: &TaskSet, is_forked: bool, warnings: &mut Vec<Warning>) -> Load {
    let place = || format!("tasks.{}", task.name);
    let policy = policy(task, set);
    let jobs = Jobs::of(task);
    let wcet = task.wcet.unwrap_or(jobs.longest);
    if wcet < jobs.longest {
        let text = format!(
            "\"wcet\" {wcet} is less than the work of its events, {}: the analysis takes \"wcet\"",
            jobs.longest
        );
        warnings.push(warning("wcet-below-work", place(), text));
    }
    let unsized_work = jobs.unsized_work.clone().filter(|_| task.wcet.is_none());
    let many = is_forked.then(|| "it is forked: the number of its threads is not known".to_owned());
    let dl = &task.sched;
    let stated = task.period.or(dl.dl_period);
    // Without a timer, nothing but the sleep separates its jobs, whatever period is stated.
    let apart = jobs.inferred.into_iter().chain(stated).min();
    let period = jobs.period.or(apart);
    let is_reserved = policy == Policy::Deadline;
    let too_small = reserved::too_small(task, wcet, period).filter(|_| is_reserved);
    let unknown = jobs.waits.clone().or(many).or(unsized_work).or(too_small);
    let waits_inside = reserved::waits_inside(!jobs.sections.is_empty(), jobs.suspensions > 0);
    let waits_inside = waits_inside.filter(|_| is_reserved);
    if jobs.period.is_none() && jobs.inferred.is_some() && jobs.inferred == period {
        let text = "no timer: released at the earliest after its work and its sleep".to_owned();
        warnings.push(warning("period-inferred", place(), text));
    }
    if jobs.suspensions > 0 {
        let text =
            "it sleeps inside a job: the analysis counts that as work, and blocking after each sleep again";
        warnings.push(warning("suspension", place(), text.to_owned()));
    }
    if let Some(text) = unknown.as_ref().or(waits_inside.as_ref()) {
        warnings.push(warning("not-analysed", place(), text.clone()));
    } else if period.is_none() {
        let text =
            "no timer, sleep, \"period\" or \"dl-period\": the minimum distance of its releases is not known";
        warnings.push(warning("not-analysed", place(), text.to_owned()));
    }
    let deadline = task.deadline.or(dl.dl_deadline).or(stated).or(period);
    if let Some(deadline) = deadline.filter(|deadline| wcet > *deadline) {
        let text = format!("a job needs {wcet}, more than its deadline of {deadline}");
        warnings.push(warning("impossible", place(), text));
    }
    let fair = policy.is_fair();
    let priority = dl.priority.unwrap_or(if fair { 0 } else { 10 });
    let level = match policy {
        Policy::Deadline => 1_000,
        _ if fair => 0,
        _ => i64::from(priority) + 1,
    };
    let cpus = dl.cpus.clone();
    if task.phases.iter().any(|phase| {
        phase.sched.policy.is_some() || phase.sched.priority.is_some() || phase.sched.cpus.is_some()
    }) {
        let text = "a phase changes policy, priority or CPUs: the analysis takes the task's own".to_owned();
        warnings.push(warning("phase-scheduling", place(), text));
    }
    let (jitter, blocking) = (task.jitter, task.blocking);
    let (time_shares, suspensions) = (policy != Policy::Fifo, jobs.suspensions);
    let (name, sections) = (String::new(), jobs.sections);
    Load {
        name,
        wcet,
        period,
        deadline,
        jitter,
        blocking,
        level,
        time_shares,
        suspensions,
        sections,
        cpus,
        unknown,
        waits_inside,
    }
}

fn policy(task: &Task, set: &TaskSet) -> Policy {
    task.sched
        .policy
        .or(task.phases.first().and_then(|phase| phase.sched.policy))
        .unwrap_or(set.global.default_policy)
}

/// Fair tasks rank below all real-time ones. Without any real-time priority, levels are deadline-monotonic.
fn levels(set: &TaskSet, all: &mut Loads) {
    let rt = |task: &&Task| !policy(task, set).is_fair() && policy(task, set) != Policy::Deadline;
    let forked = forked(set);
    let runs = |task: &&Task| task.instances > 0 || forked.contains(task.name.as_str());
    let running: Vec<&Task> = set.tasks.iter().filter(runs).collect();
    let with = running.iter().filter(|task| rt(task) && task.sched.priority.is_some()).count();
    all.given_priorities = with > 0;
    let say = |all: &mut Loads, text: &str| {
        all.warnings.push(warning("priorities-assigned", String::new(), text.to_owned()));
    };
    if with == 0 {
        say(all, "no task has a real-time priority: the analysis assigns them deadline-monotonically");
        monotonic(&mut all.threads);
        return;
    }
    if running.iter().any(|task| rt(task) && task.sched.priority.is_none()) {
        say(all, "a real-time task without \"priority\" has 10, as in rt-app");
    }
    if running.iter().any(|task| !rt(task)) {
        // Each on one level, so that all delay each other.
        say(
            all,
            "SCHED_DEADLINE tasks are above, fair ones below the others; among themselves each delays each",
        );
    }
}

/// Distinct levels, shortest deadline first; ties in file order.
fn monotonic(threads: &mut [Load]) {
    let mut order: Vec<usize> = (0..threads.len()).collect();
    order.sort_by_key(|at| (threads[*at].deadline.map_or(u64::MAX, |deadline| deadline.0), *at));
    for (rank, at) in order.into_iter().enumerate() {
        threads[at].level = 1_000_000 - rank as i64;
    }
}

/// The jobs of a task, from its events.
#[derive(Default)]
struct Jobs {
    longest: Ns,
    /// The most sleeps inside one of them.
    suspensions: u64,
    /// Waits for a timer, or sleeps between two jobs.
    ended: u64,
    /// Period from timers.
    period: Option<Ns>,
    /// Period from sleeps.
    inferred: Option<Ns>,
    sections: Vec<Section>,
    seen: BTreeSet<Section>,
    /// A wait of unknown length, or none at all.
    waits: Option<String>,
    /// Work of unknown length.
    unsized_work: Option<String>,
    /// Its timer.
    timer: Option<String>,
}

/// What a job has done since its release.
#[derive(Clone, Copy, Default)]
struct Done {
    work: Ns,
    sleeps: u64,
}

impl Jobs {
    fn of(task: &Task) -> Jobs {
        let mut jobs = Jobs::default();
        let timed =
            task.phases.iter().flat_map(|phase| &phase.events).any(|event| matches!(event, Event::Timer(_)));
        let once = |jobs: &mut Jobs, done| {
            let phases = task.phases.iter();
            phases.fold(done, |done, phase| {
                jobs.repeat(phase.loops, done, |jobs, done| jobs.phase(&phase.events, timed, done))
            })
        };
        jobs.repeat(task.loops, Done::default(), once);
        jobs
    }

    /// Does `once` as many times as `loops` says (`None`: for ever), beginning with what the current job has `done`; returns
    /// what the last job has done.
    fn repeat(
        &mut self,
        loops: Option<u32>,
        done: Done,
        mut once: impl FnMut(&mut Jobs, Done) -> Done,
    ) -> Done {
        let ended = self.ended;
        let first = once(self, done);
        let again = loops.map_or(u64::MAX, |times| u64::from(times.saturating_sub(1)));
        if again == 0 {
            return first;
        }
        if self.ended > ended {
            // The second iteration starts with the remaining work of the first; all later ones do the same.
            return once(self, first);
        }
        if loops.is_none() {
            let text = "it never waits: nothing separates its jobs";
            self.waits.get_or_insert_with(|| text.to_owned());
        }
        // Nothing ends the job between the iterations.
        let work = first.work.saturating_sub(done.work).0.saturating_mul(again);
        let sleeps = (first.sleeps - done.sleeps).saturating_mul(again);
        let all =
            Done { work: Ns(first.work.0.saturating_add(work)), sleeps: first.sleeps.saturating_add(sleeps) };
        self.job(all);
        all
    }

    fn job(&mut self, done: Done) {
        self.longest = self.longest.max(done.work);
        self.suspensions = self.suspensions.max(done.sleeps);
    }

    /// Processes the events once; returns what was done since the last release.
    fn phase(&mut self, events: &[Event], timed: bool, mut done: Done) -> Done {
        let mut held: Vec<(&str, Ns, Option<String>, Vec<String>)> = Vec::new();
        for event in events {
            match event {
                Event::Timer(timer) => {
                    if self.timer.get_or_insert_with(|| timer.reference.clone()) != &timer.reference {
                        let text =
                            "it waits for more than one timer: how far apart its jobs are is not known";
                        self.waits = Some(text.to_owned());
                    }
                    self.period = Some(self.period.map_or(timer.period, |known| known.min(timer.period)));
                    self.end(&mut done);
                    for one in &mut held {
                        (one.1, one.2) = (Ns::ZERO, Some("waits for its timer".to_owned()));
                    }
                }
                Event::Sleep(time) if timed || !held.is_empty() => {
                    if *time > Ns::ZERO {
                        done.sleeps = done.sleeps.saturating_add(1);
                        held.iter_mut().for_each(|one| one.2 = Some("sleeps".to_owned()));
                    }
                    done.work = done.work + *time;
                }
                Event::Sleep(time) if *time > Ns::ZERO => {
                    let apart = done.work + *time;
                    self.inferred = Some(self.inferred.map_or(apart, |known| known.min(apart)));
                    self.end(&mut done);
                }
                Event::Lock(mutex) => {
                    let within = held.iter().map(|outer| outer.0.to_owned()).collect();
                    held.push((mutex, done.work, None, within));
                }
                Event::Unlock(mutex) => {
                    if let Some(at) = held.iter().rposition(|(name, ..)| name == mutex) {
                        let (name, start, unbounded, within) = held.remove(at);
                        let (mutex, length) = (name.to_owned(), done.work.saturating_sub(start));
                        self.section(Section { mutex, start, length, within, unbounded });
                    }
                }
                Event::Wait(..)
                | Event::Sync(..)
                | Event::Barrier(_)
                | Event::SemWait(_)
                | Event::Suspend(_) => {
                    let why = format!("waits by {}", event.key());
                    held.iter_mut().for_each(|one| one.2 = Some(why.clone()));
                    self.waits = Some(format!("it {why}: how long is not known to the analysis"));
                }
                other => match other.work() {
                    Some(time) => done.work = done.work + time,
                    None => {
                        let why = format!("does {}, whose time is not known", other.key());
                        held.iter_mut().for_each(|one| one.2 = Some(why.clone()));
                        self.unsized_work = Some(format!("it {why}: give \"wcet\""));
                    }
                },
            }
        }
        self.job(done);
        done
    }

    /// A job ends.
    fn end(&mut self, done: &mut Done) {
        self.job(std::mem::take(done));
        self.ended += 1;
    }

    fn section(&mut self, section: Section) {
        if self.seen.insert(section.clone()) {
            self.sections.push(section);
        }
    }
}

/// Protocol of each mutex that any thread uses.
#[must_use]
pub fn protocols(set: &TaskSet, threads: &[Load]) -> std::collections::BTreeMap<String, Protocol> {
    let used = threads.iter().flat_map(|thread| &thread.sections);
    used.map(|section| (section.mutex.clone(), set.protocol(&section.mutex))).collect()
}
