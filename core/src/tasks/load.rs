//! Demand of a thread: the (C, T, D, J, B) of schedulability analysis, derived from a task's events.
//!
//! One job is the work between two waits for a timer (or two sleeps). If phases differ, the longest job and the
//! shortest period are used, so that the demand is never too low. A suspension inside a job counts as work
//! (suspension-oblivious), and after each the job may be blocked again. A thread without a known minimum inter-release
//! time has no period and is not analysed; nor is one that shares a mutex with another CPU, or is forked.

use std::collections::{BTreeMap, BTreeSet};

use super::set::{Event, Policy, Protocol, Task, TaskSet, Warning};
use super::{phases, reserved};
use crate::cpuset::CpuSet;
use crate::time::Ns;

mod from_events;

use from_events::Jobs;

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
    /// Locks of a job, at most, that may have to wait: of a mutex of several threads, without a ceiling.
    pub locks: u64,
    /// Critical sections of a job, including nested ones.
    pub sections: Vec<Section>,
    /// Its affinity; `None`: any CPU.
    pub cpus: Option<CpuSet>,
    /// Why its waits make its demand unbounded or unknown.
    pub unknown: Option<String>,
    /// Why fixed priorities say nothing about it: it may wait inside its `SCHED_DEADLINE` reservation, or its phases differ
    /// in policy or priority (`level` is then the highest).
    pub not_fixed: Option<String>,
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
    /// Locks inside that may have to wait, as in [`Load::locks`].
    pub locks: u64,
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

/// Why a task whose phases differ has no response.
const CHANGES: &str =
    "its phases differ in policy or priority: which of its jobs run at which is not known to the analysis";

fn warning(name: &'static str, place: String, text: String) -> Warning {
    Warning { name, place, text }
}

/// The threads of `set`.
#[must_use]
pub fn loads(set: &TaskSet) -> Loads {
    let mut all = Loads::default();
    let forked = forked(set);
    let contended = contended(set, &forked);
    for task in &set.tasks {
        let is_forked = forked.contains(task.name.as_str());
        // A template that is forked has one row.
        let threads = if is_forked { task.instances.max(1) } else { task.instances };
        if threads == 0 {
            continue;
        }
        let load = of_task(task, set, (&contended, is_forked), &mut all.warnings);
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

/// Mutexes without a ceiling that more than one thread uses.
fn contended<'s>(set: &'s TaskSet, forked: &BTreeSet<&str>) -> BTreeSet<&'s str> {
    let mut by_one: BTreeMap<&str, usize> = BTreeMap::new();
    let mut found = BTreeSet::new();
    for (at, task) in set.tasks.iter().enumerate() {
        let is_several = task.instances > 1 || forked.contains(task.name.as_str());
        for event in task.phases.iter().flat_map(|phase| &phase.events) {
            let Event::Lock(mutex) = event else { continue };
            if (*by_one.entry(mutex.as_str()).or_insert(at) != at || is_several)
                && set.protocol(mutex) != Protocol::Ceiling
            {
                found.insert(mutex.as_str());
            }
        }
    }
    found
}

fn of_task(
    task: &Task,
    set: &TaskSet,
    (contended, is_forked): (&BTreeSet<&str>, bool),
    warnings: &mut Vec<Warning>,
) -> Load {
    let place = || format!("tasks.{}", task.name);
    let course = phases::course(task, set);
    let mut jobs = Jobs::of(task, contended);
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
    let dl = &course.sched;
    let stated = task.period.or(dl.dl_period);
    // Without a timer, nothing but the sleep separates its jobs, whatever period is stated.
    let apart = jobs.inferred.into_iter().chain(stated).min();
    let period = jobs.period.or(apart);
    let is_reserved = course.policy() == Policy::Deadline;
    let too_small = reserved::too_small(dl, task.period, wcet, period).filter(|_| is_reserved);
    let unknown = jobs.waits.clone().or(many).or(unsized_work).or(too_small);
    let waits_inside = reserved::waits_inside(!jobs.sections.is_empty(), jobs.suspensions > 0);
    let not_fixed = waits_inside.filter(|_| is_reserved);
    let not_fixed = not_fixed.or_else(|| course.changes.then(|| CHANGES.to_owned()));
    if course.changes {
        // At the lower priority, any thread between may prolong the section.
        let why = || "may run at the priority of another phase".to_owned();
        jobs.sections.iter_mut().for_each(|section| section.unbounded = Some(why()));
    }
    if jobs.period.is_none() && jobs.inferred.is_some() && jobs.inferred == period {
        let text = "no timer: released at the earliest after its work and its sleep".to_owned();
        warnings.push(warning("period-inferred", place(), text));
    }
    if jobs.suspensions > 0 {
        let text =
            "it sleeps inside a job: the analysis counts that as work, and blocking after each sleep again";
        warnings.push(warning("suspension", place(), text.to_owned()));
    }
    if let Some(text) = unknown.as_ref().or(not_fixed.as_ref()) {
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
    Load {
        name: String::new(),
        wcet,
        period,
        deadline,
        jitter: task.jitter,
        blocking: task.blocking,
        level: course.level,
        time_shares: course.time_shares,
        suspensions: jobs.suspensions,
        locks: jobs.locks,
        sections: jobs.sections,
        cpus: course.cpus,
        unknown,
        not_fixed,
    }
}

/// Fair tasks rank below all real-time ones. Without any real-time priority, levels are deadline-monotonic.
fn levels(set: &TaskSet, all: &mut Loads) {
    let forked = forked(set);
    let runs = |task: &&Task| task.instances > 0 || forked.contains(task.name.as_str());
    let running = set.tasks.iter().filter(runs);
    let running: Vec<phases::Course> = running.map(|task| phases::course(task, set)).collect();
    all.given_priorities = running.iter().any(|course| course.has_priority);
    let say = |all: &mut Loads, text: &str| {
        all.warnings.push(warning("priorities-assigned", String::new(), text.to_owned()));
    };
    if !all.given_priorities {
        say(all, "no task has a real-time priority: the analysis assigns them deadline-monotonically");
        monotonic(&mut all.threads);
        return;
    }
    if running.iter().any(|course| course.is_realtime && !course.has_priority) {
        say(all, "a real-time task without \"priority\" has 10, as in rt-app");
    }
    if running.iter().any(|course| !course.is_realtime) {
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

/// Protocol of each mutex that any thread uses.
#[must_use]
pub fn protocols(set: &TaskSet, threads: &[Load]) -> BTreeMap<String, Protocol> {
    let used = threads.iter().flat_map(|thread| &thread.sections);
    used.map(|section| (section.mutex.clone(), set.protocol(&section.mutex))).collect()
}
