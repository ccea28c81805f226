//! Merges runs of many machines into one.
//!
//! Histograms of one quantity add exactly, class by class. Everything else is kept per machine: only conditions that
//! are the same in all runs are conditions of the whole, all are listed per run, and a peak, interference or reason has
//! the name of its run. Maxima over time are dropped, because the runs did not start together, and so are path
//! analyses. The verdict is the worst of all, never better.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::conditions::Conditions;
use crate::histogram::NoSum;
use crate::peak::Peak;
use crate::run::{Interference, Loss, MergedRun, MergedSeries, Run};
use crate::series::{longest_stretch, maxima_in_time, Quantity, Series, Thread};
use crate::time::Ns;

pub mod pair;
mod verdict;

/// Maximum number of worst cases of all runs, in addition to the worst one of each.
const PEAKS: usize = 64;

/// Why runs cannot be merged.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum CannotMerge {
    /// Classes of different widths.
    #[error("'{name}' has different histogram classes of {quantity} than the runs before it: {source}")]
    Layout {
        /// The run.
        name: String,
        /// The quantity.
        quantity: &'static str,
        /// The two layouts.
        source: NoSum,
    },
    /// A file saved during the measurement.
    #[error("'{0}' is incomplete: its measurement was still running, or was killed")]
    Incomplete(String),
    /// The same run twice.
    #[error("'{0}' and '{1}' are the same run")]
    Twice(String, String),
    /// The counts overflow.
    #[error("'{0}' claims more samples than can be counted")]
    TooMany(String),
}

/// Merges all `runs` (name, run).
///
/// # Errors
/// The first run that cannot be merged, and why.
pub fn merge(runs: &[(String, Run)]) -> Result<Run, CannotMerge> {
    if let Some((name, _)) = runs.iter().find(|(_, run)| run.is_unfinished()) {
        return Err(CannotMerge::Incomplete(name.clone()));
    }
    let mut merged = Run::new(conditions(runs));
    merged.complete = runs.iter().all(|(_, run)| run.complete);
    merged.peaks = worst_cases(runs);
    merged.losses = losses(runs);
    for (name, run) in runs {
        for series in all_series(run) {
            add(&mut merged.series, series, name)?;
        }
        merged.interference.extend(
            run.interference
                .iter()
                .map(|taken| Interference { source: format!("{name}: {}", taken.source), ..taken.clone() }),
        );
        match run.merged.is_empty() {
            true => merged.merged.push(listed(name, run)),
            false => merged.merged.extend(run.merged.iter().cloned()), // already a merge: its runs stay listed
        }
    }
    if let Some((one, other)) = twice(&merged.merged) {
        return Err(CannotMerge::Twice(one.name.clone(), other.name.clone()));
    }
    merged.verdict = Some(verdict::of_all(runs, &merged));
    Ok(merged)
}

/// The largest of all, and the worst of each machine.
fn worst_cases(runs: &[(String, Run)]) -> Vec<Peak> {
    let mut all: Vec<(bool, Peak)> = Vec::new();
    for (name, run) in runs {
        let worst = run.peaks.iter().map(|peak| peak.total_ns).max();
        all.extend(run.peaks.iter().map(|peak| (Some(peak.total_ns) == worst, named(peak, name))));
    }
    all.sort_by_key(|(_, peak)| std::cmp::Reverse(peak.total_ns));
    let mut place = 0..;
    all.retain(|(is_worst, _)| place.next().is_some_and(|place| place < PEAKS) || *is_worst);
    all.into_iter().map(|(_, peak)| peak).collect()
}

/// `runs` in one file with separate series, each with the name of its run; complete if all of them are. Conditions that
/// differ are unknown for the whole, and stay listed per run.
#[must_use]
pub fn side_by_side(runs: &[(String, Run)]) -> Run {
    let mut all = Run::new(conditions(runs));
    all.complete = runs.iter().all(|(_, run)| run.complete);
    for (name, run) in runs {
        all.series.extend(run.series.iter().map(|series| series_of(name, series)));
        all.merged.push(listed(name, run));
        all.conditions.notes.extend(run.conditions.notes.iter().map(|note| format!("{name}: {note}")));
    }
    all
}

/// CPUs of different machines differ: the series becomes that of a thread with a unique name.
fn series_of(name: &str, series: &Series) -> Series {
    let told = series.thread.clone().unwrap_or_default();
    let whose = series.cpu.map_or_else(|| told.comm.clone(), |cpu| format!("CPU {cpu}"));
    let thread = Thread { comm: format!("{name} {whose}"), ..told };
    Series { cpu: None, thread: Some(thread), ..series.clone() }
}

/// The series of CPUs, and the response times of threads, by which an application is judged.
fn all_series(run: &Run) -> impl Iterator<Item = &Series> {
    // A run of a task set has its response times in both places.
    let of_tasks = if run.task_set.is_some() { &[][..] } else { &run.tasks };
    run.series.iter().chain(of_tasks.iter().filter_map(|task| task.of(Quantity::Response)))
}

/// Two runs that differ only in the name.
fn twice(runs: &[MergedRun]) -> Option<(&MergedRun, &MergedRun)> {
    let same = |a: &MergedRun, b: &MergedRun| {
        a.series.iter().any(|series| series.samples > 0)
            && (&a.conditions, &a.series) == (&b.conditions, &b.series)
    };
    let after = |at: usize| runs[at + 1..].iter().find(move |other| same(&runs[at], other));
    (0..runs.len()).find_map(|at| Some((&runs[at], after(at)?)))
}

/// Adds to the one series per quantity, of all CPUs, threads and machines.
fn add(all: &mut Vec<Series>, series: &Series, name: &str) -> Result<(), CannotMerge> {
    let Some(sum) = all.iter_mut().find(|sum| sum.quantity == series.quantity) else {
        let mut first = Series::new(series.quantity, None, series.histogram.clone());
        first.replayed.clone_from(&series.replayed);
        (first.interval_ns, first.missed, first.lost) = (series.interval_ns, series.missed, series.lost);
        first.counts = series.counts;
        (first.lost_below_max, first.lost_within_ns) = (series.lost_below_max, series.lost_within_ns);
        first.rounded_down_ns = series.rounded_down_ns;
        all.push(first);
        return Ok(());
    };
    if sum.histogram.count().checked_add(series.histogram.count()).is_none() {
        return Err(CannotMerge::TooMany(name.to_owned()));
    }
    let quantity = series.quantity.name();
    let misfit = |source| CannotMerge::Layout { name: name.to_owned(), quantity, source };
    sum.add_samples(series).map_err(misfit)?;
    sum.interval_ns = sum.interval_ns.filter(|interval| series.interval_ns == Some(*interval));
    sum.counts = match (sum.counts, series.counts) {
        (Some(mut all), Some(one)) => {
            all.add(&one);
            Some(all)
        }
        (all, one) => all.or(one),
    };
    Ok(())
}

fn named(peak: &Peak, name: &str) -> Peak {
    let mut peak = peak.clone();
    let prefix = |text: &mut String| text.insert_str(0, &format!("{name}: "));
    if let Some(explanation) = &mut peak.explanation {
        prefix(&mut explanation.sentence);
    }
    match &mut peak.no_evidence {
        Some(reason) => prefix(reason),
        None if peak.explanation.is_none() => {
            peak.no_evidence = Some(format!("{name}: no evidence was recorded"))
        }
        None => {}
    }
    peak
}

/// The losses of all runs, in the order of their first appearance.
fn losses(runs: &[(String, Run)]) -> Vec<Loss> {
    let (mut all, mut places) = (Vec::<Loss>::new(), BTreeMap::new());
    for loss in runs.iter().flat_map(|(_, run)| &run.losses) {
        let place = *places.entry((&loss.counter, loss.evidence_only)).or_insert(all.len());
        match all.get_mut(place) {
            Some(sum) => sum.count = sum.count.saturating_add(loss.count),
            None => all.push(loss.clone()),
        }
    }
    all
}

fn listed(name: &str, run: &Run) -> MergedRun {
    let mut series: Vec<MergedSeries> = Vec::new();
    for one in all_series(run) {
        let (samples, max_ns) = (one.histogram.count(), one.histogram.max());
        match series.iter_mut().find(|sum| sum.quantity == one.quantity) {
            Some(sum) => {
                sum.samples = sum.samples.saturating_add(samples);
                sum.max_ns = sum.max_ns.max(max_ns);
            }
            None => series.push(MergedSeries {
                quantity: one.quantity,
                samples,
                max_ns,
                maxima_ns: Vec::new(),
                maxima_stretch: 0,
            }),
        }
    }
    let main = verdict::judged(run);
    for one in series.iter_mut().filter(|one| Some(one.quantity) == main) {
        let of_it: Vec<&Series> = all_series(run).filter(|series| series.quantity == one.quantity).collect();
        let stretch = longest_stretch(of_it.iter().copied());
        let Ok(maxima) = maxima_in_time(&of_it, stretch) else { continue };
        one.maxima_stretch = stretch;
        one.maxima_ns = maxima.into_iter().map(|max| Ns(max as u64)).collect();
    }
    MergedRun {
        name: name.to_owned(),
        conditions: run.conditions.clone(),
        calibration: run.calibration.clone(),
        outcome: run.verdict.as_ref().and_then(|verdict| verdict.outcome),
        deadline_ns: run.verdict.as_ref().and_then(|verdict| verdict.deadline_ns),
        judged: run.verdict.as_ref().and_then(|_| verdict::judged(run)),
        series,
    }
}

/// The conditions that are the same in all runs; the rest is unknown here and listed per run.
fn conditions(runs: &[(String, Run)]) -> Conditions {
    let value = |conditions: &Conditions| serde_json::to_value(conditions).unwrap_or(Value::Null);
    let mut all = runs.iter().map(|(_, run)| value(&run.conditions));
    let first = all.next().unwrap_or(Value::Null);
    let common = all.fold(first, |common, other| intersection(&common, &other));
    let mut whole = value(&Conditions::default());
    overlay(&mut whole, common);
    let mut conditions: Conditions = serde_json::from_value(whole).unwrap_or_default();
    let names: Vec<&str> = runs.iter().map(|(name, _)| name.as_str()).collect();
    conditions.started = runs.iter().filter_map(|(_, run)| run.conditions.started.clone()).min();
    conditions.notes = vec![format!("merged from {} runs: {}", names.len(), names.join(", "))];
    let short = |(name, run): &(String, Run)| {
        let c = &run.conditions;
        let said = [&c.host, &c.machine.cpu_model, &c.kernel.release, &c.load, &c.started];
        let said: Vec<&str> = said.into_iter().flatten().map(String::as_str).collect();
        format!("{name}: {}", if said.is_empty() { "conditions unknown".to_owned() } else { said.join(", ") })
    };
    conditions.notes.extend(runs.iter().map(short));
    let without = |(name, run): &(String, Run)| {
        let parts = left_out(run);
        (!parts.is_empty())
            .then(|| format!("{name}: not in the merged run, only in its own: {}", parts.join(", ")))
    };
    conditions.notes.extend(runs.iter().filter_map(without));
    conditions
}

/// The parts of `run` that a merge leaves out: they are of one machine or one measurement.
fn left_out(run: &Run) -> Vec<&'static str> {
    let parts = [
        (!run.path_analysis.is_empty(), "path analysis (for lathunt bound)"),
        (!run.tasks.is_empty(), "figures of its threads"),
        (run.task_set.is_some(), "task set"),
        (run.idle.is_some(), "comparison of idle states"),
        (run.warm_up.is_some(), "warm-up"),
        (run.on_late.is_some(), "actions on late cases"),
        (run.penalty.is_some(), "cost of the recorder"),
    ];
    parts.into_iter().filter(|(is_there, _)| *is_there).map(|(_, part)| part).collect()
}

/// Fields that are equal in both, recursively for objects.
fn intersection(a: &Value, b: &Value) -> Value {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let both = a.iter().filter_map(|(key, value)| Some((key, value, b.get(key)?)));
            let kept = both.filter(|(_, a, b)| a == b || (a.is_object() && b.is_object()));
            Value::Object(kept.map(|(key, a, b)| (key.clone(), intersection(a, b))).collect())
        }
        (a, b) if a == b => a.clone(),
        _ => Value::Null,
    }
}

fn overlay(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            over.into_iter().for_each(|(key, value)| match base.get_mut(&key) {
                Some(below) => overlay(below, value),
                None => drop(base.insert(key, value)),
            });
        }
        (base, over) => *base = over,
    }
}

#[cfg(test)]
mod tests;
