//! Recomputes a stored verdict when its file is read: it is never trusted.
//!
//! The samples are judged by the current rules. Other facts in the file (a program that failed, rules of an older
//! version) can only make the outcome worse: it is never better than the stored one. A file with contradicting parts
//! was altered or damaged, and is refused with the contradiction.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::application::{judge_system, Pools};
use super::{judge, judge_recording, Asked, Rules};
use crate::application::{Task, OTHERS};
use crate::numbers::counted;
use crate::run::{
    Contradiction, MergedRun, NotARun, Run, FORMAT, MOST_CLASSES, MOST_ELEMENTS, MOST_TEXTS, USUAL_CLASSES,
    VERSION,
};
use crate::series::{Quantity, Thread};
use crate::time::Ns;
use crate::verdict::{badness, JudgedBy, Outcome, Verdict};

mod possible;
mod series;
mod short;

use series::{agree, consistent};
use short::Short;

impl Run {
    /// Reads a run file, and recomputes its verdict from its samples: it is never taken from the file.
    ///
    /// # Errors
    /// It is damaged (with line and column), not a run file, or of a newer version.
    pub fn from_json(text: &str) -> Result<Run, NotARun> {
        #[derive(Deserialize)]
        struct Head {
            #[serde(default)]
            format: Short,
            #[serde(default)]
            version: Short,
        }
        sized(text)?;
        let head: Head = serde_json::from_str(text)?;
        if head.format != Short::Text(FORMAT.to_owned()) {
            return Err(NotARun::Format(head.format.to_string()));
        }
        match head.version {
            Short::Number(version) if !(1..=u64::from(VERSION)).contains(&version) => {
                Err(NotARun::Version(version))
            }
            _ => {
                let mut run: Run = serde_json::from_str(text)?;
                if classes(&run) > MOST_CLASSES {
                    return Err(NotARun::Classes);
                }
                again(&mut run)?;
                Ok(run)
            }
        }
    }
}

/// Refuses a file with more values than a run has.
fn sized(text: &str) -> Result<(), NotARun> {
    if text.len() < MOST_TEXTS {
        return Ok(());
    }
    let (mut separators, mut quotes, mut names) = (0, 0, 0);
    for pair in text.as_bytes().windows(2) {
        separators += usize::from(pair[0] == b',');
        quotes += usize::from(pair[0] == b'"');
        names += usize::from(pair == b"\":");
    }
    match separators > MOST_ELEMENTS || (quotes / 2usize).saturating_sub(names) > MOST_TEXTS {
        true => Err(NotARun::Elements),
        false => Ok(()),
    }
}

/// Classes of all histograms beyond the usual number of each. They take address space when they are read, and memory and
/// time when they are copied and added.
fn classes(run: &Run) -> usize {
    let all = run.series.iter().chain(run.tasks.iter().flat_map(|task| &task.series));
    let histograms = all.flat_map(|series| std::iter::once(&series.histogram).chain(&series.replayed));
    histograms.map(|histogram| histogram.layout().bins().saturating_sub(USUAL_CLASSES)).sum()
}

/// Judges `run`, as read from a file, again.
///
/// # Errors
/// Two parts of it contradict each other.
pub(super) fn again(run: &mut Run) -> Result<(), Contradiction> {
    run.series.iter().chain(run.tasks.iter().flat_map(|task| &task.series)).try_for_each(consistent)?;
    possible::possible(run)?;
    adds_up(run)?;
    let Some(stored) = run.verdict.take() else { return agree(run) };
    if stored.judged_by == Some(JudgedBy::Merged) && run.merged.is_empty() {
        return Err(Contradiction("its verdict is that of merged runs, and it names none".to_owned()));
    }
    if stored.judged_by == Some(JudgedBy::Application) && run.task_set.is_none() {
        run.tasks.iter().try_for_each(|task| agrees(task, &stored))?;
    }
    if let Some(reason) = passed_though_late(run, &stored) {
        return Err(Contradiction(reason));
    }
    let judged = rejudged(run, &stored);
    let judged = if stored.strict { judged.strictly() } else { judged };
    let never_late = stored.outcome == Some(Outcome::Fail) && judged.outcome != Some(Outcome::Fail);
    if never_late && matches!(stored.judged_by, Some(JudgedBy::Hunt | JudgedBy::Instrument | JudgedBy::Tasks))
    {
        return Err(Contradiction("its verdict is FAIL, but no sample is above the deadline".to_owned()));
    }
    agree(run)?;
    run.verdict = Some(if badness(judged.outcome) >= badness(stored.outcome) { judged } else { stored });
    Ok(())
}

/// By the rules named in the verdict; without any, by those of an instrument, the least strict ones.
fn rejudged(run: &Run, stored: &Verdict) -> Verdict {
    let quantity = stored.quantity.or_else(|| run.series.first().map(|series| series.quantity));
    let instrument = |quantity| judge(run, stored.deadline_ns, &Rules::instrument(quantity));
    match (stored.judged_by, quantity) {
        (Some(JudgedBy::Hunt), _) => judge(run, stored.deadline_ns, &Rules::hunt()),
        (Some(JudgedBy::Tasks), _) => judge_system(run, stored.deadline_ns),
        (Some(JudgedBy::Instrument), Some(quantity)) => instrument(quantity),
        (None, Some(quantity)) if run.merged.is_empty() && run.tasks.is_empty() => {
            Verdict { judged_by: None, ..instrument(quantity) }
        }
        (Some(JudgedBy::Application), _) => {
            let command = Some(String::new()); // only the stored outcome shows how it ended
            let asked =
                Asked { is_application: true, deadline: stored.deadline_ns, command, ..Asked::default() };
            judge_recording(run, &asked)
        }
        (Some(JudgedBy::Merged), _) => of_parts(run, stored),
        _ => stored.clone(),
    }
}

/// Not better than the worst of the merged runs, and not PASS if one of them was not measured as requested.
fn of_parts(run: &Run, stored: &Verdict) -> Verdict {
    let worst = run.merged.iter().map(|one| one.outcome).max_by_key(|&outcome| badness(outcome));
    let outcome = worst.flatten().filter(|_| badness(worst.flatten()) > badness(stored.outcome));
    let mut judged = Verdict { outcome: outcome.or(stored.outcome), ..stored.clone() };
    let doubts = run.merged.iter().flat_map(|MergedRun { name, conditions, .. }| {
        let during = &conditions.during;
        let left = during.left_cpu.iter().map(ToString::to_string);
        let others = during.neighbours.iter().map(ToString::to_string);
        let all = during.ended_early.iter().cloned().chain(left).chain(others);
        all.map(move |why| format!("{name}: {why}"))
    });
    let doubts: Vec<String> = doubts.collect();
    if judged.outcome == Some(Outcome::Pass) && !doubts.is_empty() {
        judged.outcome = Some(Outcome::Inconclusive);
        judged.reasons.splice(0..0, doubts);
    }
    judged
}

/// A sample or a worst case above the deadline, in a file whose verdict is not FAIL.
fn passed_though_late(run: &Run, stored: &Verdict) -> Option<String> {
    let deadline = stored.deadline_ns?;
    let said = stored.outcome.filter(|outcome| *outcome != Outcome::Fail)?.name();
    let first = run.series.first().map(|series| series.quantity);
    let quantity = stored.quantity.or(first)?;
    let limited = |one: Quantity| match stored.judged_by {
        // The quantity that the verdict names, too: these rules judge no response times.
        Some(JudgedBy::Tasks) => {
            one == quantity || Rules::tasks(run).limited(run).any(|series| series.quantity == one)
        }
        // Each of them was judged by the deadline, whatever the quantity of the whole verdict.
        Some(JudgedBy::Merged) => {
            one == quantity
                || run.merged.iter().any(|part| part.judged == Some(one) && part.deadline_ns.is_some())
        }
        _ => one == quantity,
    };
    let pools = Pools::of(&run.tasks);
    // A thread may have its own deadline, or none.
    let limit = |thread: Option<&Thread>| {
        let of_it = thread.and_then(|thread| run.task_of(thread));
        let held = of_it.and_then(|task| task.held_to).map_or(Some(deadline), |held| held.deadline_ns);
        held.filter(|&held| !of_it.is_some_and(|task| pools.leave_in_doubt(task, held)))
    };
    let of_tasks = run.tasks.iter().filter_map(|task| task.of(Quantity::Response));
    let series = run.series.iter().chain(of_tasks).filter(|series| limited(series.quantity));
    let late = series
        .filter_map(|series| Some((series.histogram.max()?, limit(series.thread.as_ref())?, series.label())));
    let peaks = run.peaks.iter().filter(|peak| limited(peak.quantity) && run.complete);
    let peaks = peaks.filter_map(|peak| {
        let thread = Some(&peak.victim).filter(|_| peak.quantity == Quantity::Response);
        Some((peak.total_ns, limit(thread)?, format!("one of its worst cases on CPU {}", peak.cpu)))
    });
    let (worst, deadline, whose) =
        late.chain(peaks).filter(|(worst, deadline, _)| worst > deadline).max_by_key(|(worst, ..)| *worst)?;
    let (worst, deadline) = worst.told_apart(deadline);
    Some(format!("its verdict is {said} with a deadline of {deadline}, but {whose} took {worst}"))
}

/// Checks the figures of a recorded thread against each other: what is said twice, and late jobs without a late response.
fn agrees(task: &Task, stored: &Verdict) -> Result<(), Contradiction> {
    let refuse = |what: String| Err(Contradiction(format!("{}: {what}", task.thread)));
    let Some(response) = task.of(Quantity::Response) else { return Ok(()) };
    let count = response.histogram.count();
    if task.activations != count {
        let jobs = counted(count, "response time");
        return refuse(format!("{}, but {jobs}", counted(task.activations, "activation")));
    }
    let missed = task.period.as_ref().map_or(0, |period| period.missed);
    let has_period = task.thread.comm != OTHERS; // they keep missed releases of theirs
    if has_period && response.missed.is_some_and(|same| same != missed) {
        return refuse(format!(
            "{} by its period, {} by its response times",
            counted(missed, "missed release"),
            response.missed.unwrap_or_default()
        ));
    }
    if stored.outcome != Some(Outcome::Pass) {
        return Ok(());
    }
    let held = task.held_to.map_or(stored.deadline_ns, |held| held.deadline_ns);
    let ran = task.execution.as_ref().map(|execution| execution.max_ns);
    let late = task.late_causes.iter().map(|cause| cause.worst_ns).chain(ran).max();
    match late.zip(held).filter(|(late, held)| late > held) {
        Some((late, held)) => {
            let (late, held) = late.told_apart(held);
            refuse(format!("its verdict is PASS with a deadline of {held}, but one of its jobs took {late}"))
        }
        None => Ok(()),
    }
}

/// The merged runs must together have the samples of the whole.
fn adds_up(run: &Run) -> Result<(), Contradiction> {
    if run.merged.is_empty() || run.series.iter().any(|series| series.thread.is_some()) {
        return Ok(()); // side by side, the series are separate
    }
    let mut parts: BTreeMap<Quantity, (u64, Option<Ns>)> = BTreeMap::new();
    for series in run.merged.iter().flat_map(|MergedRun { series, .. }| series) {
        let sum = parts.entry(series.quantity).or_default();
        *sum = (sum.0.saturating_add(series.samples), sum.1.max(series.max_ns));
    }
    for series in &run.series {
        let whole = (series.histogram.count(), series.histogram.max());
        let Some(&part) = parts.get(&series.quantity).filter(|&&part| part != whole) else { continue };
        let shown = |max: Option<Ns>| max.map_or("none".to_owned(), |max| max.to_string());
        return Err(Contradiction(format!(
            "{} of {}, the largest {}, but the merged runs have {}, the largest {}",
            counted(whole.0, "sample"),
            series.quantity.name(),
            shown(whole.1),
            part.0,
            shown(part.1)
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
