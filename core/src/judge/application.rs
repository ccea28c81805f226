//! Judges a recording of a running system: an application by its response times, a system by its wake-up latencies.
//!
//! [`Asked`] has the query; the run has everything else. Jobs without a response time are also judged here: those that
//! were overrun, were unfinished at the end, or have no recorded end.

mod chains;
mod coverage;
mod names;
mod pools;

use std::collections::BTreeMap;

use self::coverage::LISTED;
pub use self::pools::Pools;
use super::criteria::criteria;
use super::{judge, Rules};
use crate::application::{State, Task, OTHERS};
use crate::numbers::counted;
use crate::run::Run;
use crate::series::{Quantity, Series};
use crate::time::{Ns, Prio};
use crate::verdict::{badness, Outcome, Verdict};

/// Loss counters for activations that are missing in the figures of all threads.
const NOT_IN_TASKS: [&str; 3] = ["threads_beyond_limit", "activations_overwritten", "waking_not_remembered"];

/// The query of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// The tasks as a noun: `real-time tasks`, `tasks comm:control*`.
    pub tasks: String,
    /// Selected threads or a started program: judged by its response times.
    pub is_application: bool,
    /// The deadline.
    pub deadline: Option<Ns>,
    /// Patterns of thread names with a deadline, without effect on any thread.
    pub unused: Vec<String>,
    /// Patterns of selected thread names that no thread matched.
    pub absent: Vec<String>,
    /// Where jobs start, a pattern of places; `None`: it is inferred.
    pub activation: Option<String>,
    /// The program that was started for it.
    pub command: Option<String>,
    /// How it ended; `None`: it was still running.
    pub ending: Option<Ending>,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Exit code.
    Exited(i32),
    /// Killed by this signal.
    Killed(i32),
}

/// Judges a recording. A program that failed may not have done the work to measure: that precedes all other doubts.
#[must_use]
pub fn judge_recording(run: &Run, asked: &Asked) -> Verdict {
    let mut verdict = judge_tasks(run, asked);
    if let Some(quantity) = verdict.quantity {
        verdict.criteria = criteria(&[run], quantity);
    }
    let first = verdict.failures.min(verdict.reasons.len());
    if run.tasks.is_empty() {
        verdict
            .reasons
            .insert(first, format!("{}: none of these tasks woke up during the recording", asked.tasks));
    }
    if let Some(ending) = asked.ending.filter(|ending| *ending != Ending::Exited(0)) {
        let program = asked.command.as_deref().unwrap_or("the program");
        let how = match ending {
            Ending::Killed(signal) => format!("was killed by signal {signal}"),
            Ending::Exited(code) => format!("ended with exit code {code}"),
        };
        verdict.reasons.insert(first, format!("{program} {how}: its work may be incomplete"));
        if verdict.outcome != Some(Outcome::Fail) {
            verdict.outcome = Some(Outcome::Inconclusive);
        }
    }
    verdict
}

/// Judges an application by its response times, a system by its wake-up latencies.
fn judge_tasks(run: &Run, asked: &Asked) -> Verdict {
    if !asked.is_application {
        return judge_system(run, asked.deadline);
    }
    let (groups, without) = groups(run, asked);
    let is_asked = asked.deadline.is_some() || run.tasks.iter().any(|task| task.held_to.is_some());
    let of_groups = groups.iter().map(|(deadline, tasks)| judge_group(run, tasks, *deadline));
    let mut verdict = of_groups.reduce(together).unwrap_or_else(|| judge_group(run, &[], asked.deadline));
    if is_asked && verdict.deadline_ns.is_none() {
        verdict.outcome = Some(Outcome::Inconclusive);
        verdict.reasons.insert(0, "no recorded thread has a deadline".to_owned());
    }
    let waits_there = run.tasks.iter().any(|task| task.is_chosen);
    if let Some(place) = asked.activation.as_deref().filter(|_| !waits_there) {
        doubt(
            &mut verdict,
            format!("no recorded thread waits in '{place}', where jobs start (--activation)"),
        );
    }
    for reason in coverage::ordinary_threads(run) {
        doubt(&mut verdict, reason);
    }
    for task in run.tasks.iter().filter(|task| task.held_to.is_some_and(|held| held.lacks_period)) {
        doubt(&mut verdict, lacks_period(task));
    }
    for pattern in &asked.unused {
        doubt(
            &mut verdict,
            format!(
                "the deadline for '{pattern}' applies to no recorded thread: none has that name, or an earlier \
                 pattern matches it"
            ),
        );
    }
    for pattern in &asked.absent {
        doubt(&mut verdict, format!("no thread named '{pattern}' (--tasks) woke up during the recording"));
    }
    if verdict.deadline_ns.is_some() && run.tasks.iter().any(|task| task.held_to.is_some()) {
        verdict.reasons.push(held_to(&groups, without.as_deref().unwrap_or_default()));
    }
    if verdict.outcome == Some(Outcome::Pass) {
        let is_judged = |task: &&Task| task.held_to.map_or(asked.deadline, |held| held.deadline_ns).is_some();
        verdict.reasons.extend(coverage::covers(run.tasks.iter().filter(is_judged)));
        verdict.reasons.extend(run.tasks.iter().filter(is_judged).filter_map(chains::end_to_end));
    }
    if verdict.outcome == Some(Outcome::Fail) {
        let deadline = |task: &Task| task.held_to.map_or(asked.deadline, |held| held.deadline_ns);
        let busy = |task: &&Task| deadline(task).is_some_and(|deadline| coverage::is_busy(task, deadline));
        verdict.reasons.extend(coverage::measured_from(run.tasks.iter().filter(busy)));
    }
    verdict
}

/// Judges the wake-ups of a system. The deadline of a thread's response is not known here, but a PASS does not stand beside a
/// longer one.
#[must_use]
pub(super) fn judge_system(run: &Run, deadline: Option<Ns>) -> Verdict {
    let mut verdict = judge(run, deadline, &Rules::tasks(run));
    let Some(deadline) = deadline else { return verdict };
    let late = |task: &&Task| {
        let longest = task.of(Quantity::Response).and_then(|series| series.histogram.max());
        longest > Some(deadline) || (task.misses > 0 && task.deadline_ns == Some(deadline))
    };
    let mut late = run.tasks.iter().filter(late);
    if let Some(first) = late.next() {
        let others = match late.count() {
            0 => String::new(),
            more => format!(" and of {}", counted(more as u64, "other thread")),
        };
        doubt(
            &mut verdict,
            format!(
                "responses of {}{others} took longer than {deadline}, but only wake-ups are judged here. To judge responses, select \
                 threads (--tasks comm:GLOB, pid:N) or start a COMMAND",
                first.thread
            ),
        );
    }
    verdict
}

type Groups = BTreeMap<Option<Ns>, Vec<Task>>;

/// Threads by deadline, and those without one if others have one: they are not judged.
pub(super) fn groups(run: &Run, asked: &Asked) -> (Groups, Option<Vec<Task>>) {
    let mut groups = Groups::new();
    for task in &run.tasks {
        let deadline = task.held_to.map_or(asked.deadline, |held| held.deadline_ns);
        groups.entry(deadline).or_default().push(task.clone());
    }
    let without = if groups.len() > 1 { groups.remove(&None) } else { None };
    (groups, without)
}

fn lacks_period(task: &Task) -> String {
    let name = &task.thread;
    if task.thread.comm == OTHERS {
        return format!(
            "{name}: the deadline of some of the threads that are not tracked separately may be their period, which is not known. \
             Give the deadline as a time"
        );
    }
    match task.period {
        Some(_) => format!(
            "{name}: its deadline is its period, and the period changed during the recording: there is not a single deadline. \
             Give the deadline as a time"
        ),
        None => format!("{name}: its deadline is its period, but it was not released periodically. Give the deadline as a time"),
    }
}

/// Threads with the same deadline.
fn judge_group(run: &Run, tasks: &[Task], deadline: Option<Ns>) -> Verdict {
    let is_late = |series: &Series| deadline.is_some_and(|deadline| series.histogram.max() > Some(deadline));
    let late = tasks.iter().filter(|task| task.of(Quantity::Response).is_some_and(is_late));
    let pools = Pools::of(&run.tasks);
    let by_doubt = |task: &Task| deadline.is_some_and(|deadline| pools.leave_in_doubt(task, deadline));
    let (in_doubt, certain): (Vec<&Task>, Vec<&Task>) = late.partition(|task| by_doubt(task));
    // Late recorded jobs that may be several jobs are only a doubt.
    let judged = |task: &&Task| certain.is_empty() || !in_doubt.contains(task);
    let response = tasks.iter().filter(judged).filter_map(|task| task.of(Quantity::Response)).cloned();
    let mut of_tasks = Run { series: response.collect(), ..run.clone() };
    for loss in &mut of_tasks.losses {
        loss.evidence_only &= !NOT_IN_TASKS.contains(&loss.counter.as_str());
    }
    let mut verdict = judge(&of_tasks, deadline, &Rules::instrument(Quantity::Response));
    if certain.is_empty() && verdict.outcome == Some(Outcome::Fail) {
        verdict.reasons.drain(..verdict.failures);
        (verdict.failures, verdict.outcome) = (0, Some(Outcome::Inconclusive));
    }
    deadline.map_or(verdict.clone(), |deadline| with_turns(verdict, run, tasks, deadline, &pools))
}

/// The worse of two verdicts, with the reasons of both.
fn together(a: Verdict, b: Verdict) -> Verdict {
    let (worse, other) = if badness(b.outcome) > badness(a.outcome) { (b, a) } else { (a, b) };
    let passes_alone = other.outcome == Some(Outcome::Pass) && worse.outcome != Some(Outcome::Pass);
    let mut reasons: Vec<String> = worse.split().0.iter().chain(other.split().0).cloned().collect();
    let failures = reasons.len();
    let more = if passes_alone { &[][..] } else { other.split().1 };
    for reason in worse.split().1.iter().chain(more) {
        if !reasons.contains(reason) {
            reasons.push(reason.clone());
        }
    }
    Verdict { reasons, failures, ..worse }
}

/// `deadlines: control/7 (RT 80) 500 µs; not judged, without a deadline: logger/8 (nice 0)`.
fn held_to(groups: &Groups, without: &[Task]) -> String {
    let names = |tasks: &[Task]| {
        // A thread may have several figures.
        let mut known = std::collections::BTreeSet::new();
        let all = tasks.iter().map(|task| task.thread.to_string());
        let mut all: Vec<String> = all.filter(|name| known.insert(name.clone())).collect();
        let more = all.len().saturating_sub(LISTED);
        all.truncate(LISTED);
        all.extend((more > 0).then(|| format!("{more} more")));
        all.join(", ")
    };
    let held =
        groups.iter().filter_map(|(deadline, tasks)| Some(format!("{} for {}", (*deadline)?, names(tasks))));
    let held = held.collect::<Vec<_>>().join("; ");
    match without {
        [] => format!("deadlines: {held}"),
        without => format!("deadlines: {held}; not judged, without a deadline: {}", names(without)),
    }
}

/// Adds jobs without a response time: overrun ones, and threads of which no job has a recorded end.
fn with_turns(mut verdict: Verdict, run: &Run, tasks: &[Task], deadline: Ns, pools: &Pools) -> Verdict {
    let seen_late = |task: &Task| {
        let response = task.of(Quantity::Response).and_then(|series| series.histogram.max());
        response.is_some_and(|max| max > deadline)
    };
    let certain = |task: &&Task| {
        let counted = task.thread.comm == OTHERS || !task.is_late_by_doubt_alone(deadline);
        task.misses > 0 && pools.unties(task).is_none() && counted
    };
    let unsaid = |task: &&Task| {
        (!seen_late(task) && task.queued_beyond(deadline).is_none()) || task.thread.comm == OTHERS
    };
    for task in tasks.iter().filter(certain).filter(unsaid) {
        let most = task.miss_max_ns.map(|most| format!(", by {most} at most")).unwrap_or_default();
        let their = if task.misses == 1 { "its" } else { "their" };
        let jobs = counted(task.misses, "job");
        verdict.fails(format!("{}: {jobs} missed {their} deadline{most}", task.thread));
    }
    let tied = tasks.iter().filter(|task| pools.unties(task).is_none());
    for (task, waited) in tied.filter_map(|task| Some((task, task.waited_beyond(deadline)?))) {
        let (waited, deadline) = waited.told_apart(deadline);
        verdict
            .fails(format!("{}: a job started {waited} after its release, deadline {deadline}", task.thread));
    }
    let tied = tasks.iter().filter(|task| pools.unties(task).is_none());
    for (task, took) in tied.filter_map(|task| Some((task, task.took_beyond(deadline)?))) {
        let (took, deadline) = took.told_apart(deadline);
        verdict.fails(format!("{}: a job took at least {took}, deadline {deadline}", task.thread));
    }
    for (task, (late, least)) in tasks.iter().filter_map(|task| Some((task, task.queued_beyond(deadline)?))) {
        let (least, deadline) = least.told_apart(deadline);
        verdict.fails(format!(
            "{}: {} behind an earlier one missed the deadline of {deadline}, one of them by its end after at least {least}",
            task.thread,
            counted(late, "activation")
        ));
    }
    for (task, end) in tasks.iter().filter_map(|task| Some((task, task.late_end()?))) {
        let reason = format!("{}: {end}", task.thread);
        // A thread that waits elsewhere or has ended may have left its loop.
        let is_job = end.state == State::Waits || !task.is_release_in_doubt(deadline);
        if is_job && pools.unties(task).is_none() && !end.may_have_left(deadline) {
            verdict.fails(reason);
            continue;
        }
        doubt(&mut verdict, reason);
    }
    let woken = |task: &Task| task.of(Quantity::Wakeup).map_or(0, |series| series.histogram.count());
    let is_real_time = |task: &Task| task.thread.prio.is_some_and(Prio::is_realtime);
    for task in tasks.iter().filter(|task| task.activations == 0 && is_real_time(task) && woken(task) > 1) {
        doubt(&mut verdict, format!("{}: no complete job was recorded", task.thread));
    }
    for reason in pools.doubts(tasks, deadline) {
        doubt(&mut verdict, reason);
        // Before all others: the figures of its threads mean little.
        verdict.reasons[verdict.failures..].rotate_right(1);
    }
    let rounded = tasks.iter().filter_map(|task| rounded(task, deadline));
    let covered = coverage::doubts(run, tasks, deadline);
    let named = names::doubts(tasks, &run.tasks, deadline);
    rounded.chain(covered).chain(named).for_each(|reason| doubt(&mut verdict, reason));
    verdict
}

/// Doubt about a thread whose jobs met `deadline` from the release that the kernel keeps in ticks, but perhaps not from the time
/// that the program asked for.
fn rounded(task: &Task, deadline: Ns) -> Option<String> {
    let response = task.of(Quantity::Response)?.histogram.max().filter(|&response| response <= deadline)?;
    let longest = response + task.rounded_ns.filter(|&rounded| response + rounded > deadline)?;
    let wait = task.waits_in.as_deref().unwrap_or("its wait");
    Some(format!(
        "{}: the kernel counts timeouts of {wait} in ticks: a job may have taken up to {} since the time that the program asked \
         for. Use poll with a timeout, or a timerfd, which count in ns",
        task.thread,
        longest.told_apart(deadline).0
    ))
}

/// A doubt turns PASS into INCONCLUSIVE and replaces the claim as the reason; the claim itself stays in `model_free`.
fn doubt(verdict: &mut Verdict, reason: String) {
    if verdict.outcome == Some(Outcome::Pass) {
        verdict.outcome = Some(Outcome::Inconclusive);
        verdict.reasons.clear();
    }
    verdict.reasons.push(reason);
}

#[cfg(test)]
mod tests;
