//! Runs of many machines as one: what does the whole fleet show?
//!
//! Histograms of one quantity add exactly, class by class. Nothing else of different machines may be mixed: conditions that are
//! the same in all runs stay where they are, all of them stay listed per run, and a peak, a loss of time or a reason
//! carries the name of its run. Courses in time are dropped, because the runs did not begin together. The verdict is
//! that of the worst of them, never better.

use serde_json::Value;

use crate::conditions::Conditions;
use crate::histogram::NoSum;
use crate::peak::Peak;
use crate::run::{Interference, Loss, MergedRun, MergedSeries, Run};
use crate::series::{Quantity, Series, Thread};

mod verdict;

/// Worst cases kept of all runs, beside the worst one of each.
const PEAKS: usize = 64;

/// Why runs cannot be merged.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum CannotMerge {
    /// Classes of different widths.
    #[error("'{name}' counted {quantity} in other classes than the runs before it: {source}")]
    Layout {
        /// The run.
        name: String,
        /// The quantity.
        quantity: &'static str,
        /// The two layouts.
        source: NoSum,
    },
    /// A file that was saved on the way.
    #[error("'{0}' is not complete: its measurement was going on, or was killed")]
    Incomplete(String),
    /// What was measured once would count twice.
    #[error("'{0}' and '{1}' are the same run")]
    Twice(String, String),
    /// Counters at their end.
    #[error("'{0}' claims more samples than can be counted")]
    TooMany(String),
}

/// One run of all `runs` with their names.
///
/// # Errors
/// The first run that does not fit, and why.
pub fn merge(runs: &[(String, Run)]) -> Result<Run, CannotMerge> {
    if let Some((name, _)) = runs.iter().find(|(_, run)| run.is_unfinished()) {
        return Err(CannotMerge::Incomplete(name.clone()));
    }
    let mut merged = Run::new(conditions(runs));
    merged.complete = runs.iter().all(|(_, run)| run.complete);
    merged.peaks = worst_cases(runs);
    for (name, run) in runs {
        for series in all_series(run) {
            add(&mut merged.series, series, name)?;
        }
        merged.interference.extend(
            run.interference
                .iter()
                .map(|taken| Interference { source: format!("{name}: {}", taken.source), ..taken.clone() }),
        );
        run.losses.iter().for_each(|loss| lose(&mut merged.losses, loss));
        match run.merged.is_empty() {
            true => merged.merged.push(listed(name, run)),
            false => merged.merged.extend(run.merged.iter().cloned()), // merged before: its own runs stay listed
        }
    }
    if let Some((one, other)) = twice(&merged.merged) {
        return Err(CannotMerge::Twice(one.name.clone(), other.name.clone()));
    }
    merged.verdict = Some(verdict::of_all(runs, &merged));
    Ok(merged)
}

/// The largest of all; a machine that has many takes no other one's worst away.
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

/// `runs` in one file, with their series apart, each under the name of its run; complete when all of them are. What the
/// runs do not have in common is not known of the whole, and stays listed.
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

/// A CPU of one machine is none of another: the series is that of a thread with a name of its own.
fn series_of(name: &str, series: &Series) -> Series {
    let told = series.thread.clone().unwrap_or_default();
    let whose = series.cpu.map_or_else(|| told.comm.clone(), |cpu| format!("CPU {cpu}"));
    let thread = Thread { comm: format!("{name} {whose}"), ..told };
    Series { cpu: None, thread: Some(thread), ..series.clone() }
}

/// Those of CPUs, and the response times of threads, by which an application is judged.
fn all_series(run: &Run) -> impl Iterator<Item = &Series> {
    // A run of a task set has its responses in both places.
    let of_tasks = if run.task_set.is_some() { &[][..] } else { &run.tasks };
    run.series.iter().chain(of_tasks.iter().filter_map(|task| task.of(Quantity::Response)))
}

/// Two that have everything in common but the name.
fn twice(runs: &[MergedRun]) -> Option<(&MergedRun, &MergedRun)> {
    let same = |a: &MergedRun, b: &MergedRun| {
        a.series.iter().any(|series| series.samples > 0)
            && (&a.conditions, &a.series) == (&b.conditions, &b.series)
    };
    let after = |at: usize| runs[at + 1..].iter().find(move |other| same(&runs[at], other));
    (0..runs.len()).find_map(|at| Some((&runs[at], after(at)?)))
}

/// One series a quantity, of all CPUs, threads and machines.
fn add(all: &mut Vec<Series>, series: &Series, name: &str) -> Result<(), CannotMerge> {
    let Some(sum) = all.iter_mut().find(|sum| sum.quantity == series.quantity) else {
        let mut first = Series::new(series.quantity, None, series.histogram.clone());
        first.replayed.clone_from(&series.replayed);
        (first.interval_ns, first.missed, first.lost) = (series.interval_ns, series.missed, series.lost);
        first.counts = series.counts;
        (first.lost_below_max, first.lost_within_ns) = (series.lost_below_max, series.lost_within_ns);
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

fn lose(all: &mut Vec<Loss>, loss: &Loss) {
    match all.iter_mut().find(|sum| sum.counter == loss.counter && sum.evidence_only == loss.evidence_only) {
        Some(sum) => sum.count = sum.count.saturating_add(loss.count),
        None => all.push(loss.clone()),
    }
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
            None => series.push(MergedSeries { quantity: one.quantity, samples, max_ns }),
        }
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

/// What is the same in all runs; the rest is "not known" here and listed per run.
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
    conditions
}

/// Fields that are equal in both; of objects, their equal fields.
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
mod tests {
    use super::*;
    use crate::histogram::{Histogram, Layout};
    use crate::judge::{judge, Rules};
    use crate::time::{Cpu, Ns};
    use crate::verdict::{Outcome, Verdict};

    fn run(host: &str, us: &[u64], outcome: Option<Outcome>, deadline_us: Option<u64>) -> (String, Run) {
        let mut conditions = Conditions { host: Some(host.to_owned()), ..Conditions::default() };
        conditions.kernel.release = Some("6.1.0-rt".to_owned());
        conditions.kernel.hz = Some(if host == "a" { 250 } else { 1_000 });
        conditions.knobs.governors.insert("0-3".to_owned(), "performance".to_owned());
        let mut run = Run::new(conditions);
        for cpu in 0..2 {
            let mut histogram = Histogram::new(Layout::LATENCY);
            us.iter().for_each(|&us| histogram.record(Ns::from_us(us + cpu)));
            let mut series = Series::new(Quantity::Cyclic, Some(Cpu(cpu as u32)), histogram);
            (series.missed, series.lost) = (Some(1), 2);
            run.series.push(series);
        }
        run.verdict = Some(Verdict {
            outcome,
            deadline_ns: deadline_us.map(Ns::from_us),
            quantity: None,
            judged_by: None,
            failures: 0,
            reasons: vec![format!("because of {host}")],
            model_free: None,
            rule_of_thumb: None,
            criteria: Vec::new(),
            strict: false,
        });
        (host.to_owned(), run)
    }

    #[test]
    fn runs_side_by_side_keep_each_series_and_whose_it_is() {
        let [a, mut b] = [run("a", &[5, 90], None, None), run("b", &[7], None, None)];
        b.1.complete = false;
        b.1.conditions.notes.push("cut".to_owned());
        let all = side_by_side(&[a, b]);
        let labels: Vec<String> = all.series.iter().map(Series::label).collect();
        assert_eq!(labels, ["a CPU 0/0", "a CPU 1/0", "b CPU 0/0", "b CPU 1/0"]);
        assert_eq!(all.max_of(Quantity::Cyclic), Some(Ns::from_us(91)));
        assert_eq!((all.conditions.host.clone(), all.complete), (None, false));
        assert_eq!(all.merged[1].conditions.host.as_deref(), Some("b"));
        assert!(all.conditions.notes.contains(&"b: cut".to_owned()), "{:?}", all.conditions.notes);
    }

    #[test]
    fn histograms_add_exactly_and_conditions_stay_listed() {
        let runs = [run("a", &[5, 90], None, None), run("b", &[7, 7, 4_000], None, None)];
        let merged = merge(&runs).unwrap();
        let sum = &merged.series[0];
        assert_eq!((merged.series.len(), sum.histogram.count(), sum.missed, sum.lost), (1, 10, Some(4), 8));
        let mut by_hand = Histogram::new(Layout::LATENCY);
        runs.iter().flat_map(|(_, run)| &run.series).for_each(|s| by_hand.merge(&s.histogram).unwrap());
        assert_eq!(sum.histogram, by_hand);
        assert_eq!(merged.conditions.kernel.release.as_deref(), Some("6.1.0-rt"));
        assert_eq!((merged.conditions.kernel.hz, &merged.conditions.host), (None, &None));
        assert_eq!(merged.conditions.knobs.governors["0-3"], "performance");
        assert_eq!(merged.merged[1].conditions.kernel.hz, Some(1_000));
        assert_eq!(
            (merged.merged[1].series[0].samples, merged.merged[1].series[0].max_ns),
            (6, Some(Ns::from_us(4_001)))
        );
        assert_eq!(Run::from_json(&merged.to_json()).unwrap(), merged);
    }

    #[test]
    fn the_verdict_is_never_better_than_the_worst() {
        let of = |a, b| {
            merge(&[run("a", &[5], a, Some(100)), run("b", &[6], b, Some(100))]).unwrap().verdict.unwrap()
        };
        let (pass, fail, open) = (Some(Outcome::Pass), Some(Outcome::Fail), Some(Outcome::Inconclusive));
        assert_eq!(of(pass, pass).outcome, pass);
        assert!(of(pass, pass).model_free.is_some_and(|statement| statement.level_ns == Ns::from_us(100)));
        let unjudged = merge(&[run("a", &[5, 90], None, None), run("b", &[7], None, None)]).unwrap();
        let claim = unjudged.verdict.unwrap().model_free.unwrap();
        assert_eq!(claim.level_ns, Ns::from_us(91), "without a deadline the largest");
        assert_eq!(of(pass, open).outcome, open);
        assert_eq!(of(open, fail).outcome, fail);
        assert_eq!(of(pass, fail).reasons, ["b: because of b"]);
        let failed =
            [run("a", &[5], pass, Some(100)), run("b", &[6], fail, Some(200)), run("c", &[6], open, None)];
        assert_eq!(
            merge(&failed).unwrap().verdict.unwrap().outcome,
            fail,
            "whatever the others were held against"
        );
        let mixed = [run("a", &[5], pass, Some(100)), run("b", &[6], pass, Some(200))];
        let verdict = merge(&mixed).unwrap().verdict.unwrap();
        assert!(verdict.outcome.is_none() && verdict.reasons[0].contains("different deadlines"));
    }

    #[test]
    fn response_times_of_threads_are_merged_and_are_what_an_application_s_verdict_speaks_of() {
        let application = |host: &str, us: &[u64]| {
            let (name, mut run) = run(host, &[5], Some(Outcome::Pass), Some(5_000));
            run.series.iter_mut().for_each(|series| series.quantity = Quantity::TimerWakeup);
            let mut histogram = Histogram::new(Layout::new(1_000, 1_024).unwrap());
            us.iter().for_each(|&us| histogram.record(Ns::from_us(us)));
            let task = serde_json::json!({
                "thread": { "tid": 7, "comm": "control", "prio": null }, "process": 7, "policy": "SCHED_FIFO",
                "waits_in": null, "timer_driven": true, "activations": us.len(), "period": null, "series": [],
                "execution": null, "preemptions": 0, "page_faults": 0, "deadline_ns": null, "misses": 0
            });
            let mut task: crate::application::Task = serde_json::from_value(task).unwrap();
            task.series = vec![Series::new(Quantity::Response, None, histogram)];
            run.tasks = vec![task];
            let of_tasks = Run { series: run.tasks[0].series.clone(), ..run.clone() };
            let rules = Rules::instrument(Quantity::Response);
            run.verdict.as_mut().unwrap().model_free =
                judge(&of_tasks, Some(Ns::from_us(5_000)), &rules).model_free;
            (name, run)
        };
        let merged = merge(&[application("a", &[900, 4_000, 70]), application("b", &[70, 80])]).unwrap();
        let response = merged.of(Quantity::Response).next().expect("it is kept");
        assert_eq!((response.histogram.count(), response.histogram.max()), (5, Some(Ns::from_us(4_000))));
        assert_eq!(merged.verdict.unwrap().model_free.unwrap().samples, 5);
    }

    #[test]
    fn the_headline_is_that_of_the_run_that_failed() {
        let judged = |host: &str, us: &[u64], quantity: Quantity, deadline_us: Option<u64>| {
            let (name, mut run) = run(host, us, None, None);
            run.series.iter_mut().for_each(|series| (series.quantity, series.lost) = (quantity, 0));
            let deadline = deadline_us.map(Ns::from_us);
            run.verdict = Some(judge(&run, deadline, &Rules::instrument(quantity)));
            (name, run)
        };
        let headline = |runs: &[(String, Run)]| {
            let merged = merge(runs).unwrap();
            let read = Run::from_json(&merged.to_json()).unwrap();
            crate::report::text::summary(&read, &Default::default()).lines().next().unwrap().to_owned()
        };
        let calm = judged("calm", &[5], Quantity::Cyclic, None);
        let late = judged("late", &[5, 90], Quantity::TimerWakeup, Some(50));
        let later = judged("later", &[5, 70], Quantity::Npt, Some(60));
        let told = "FAIL  deadline 50.0 µs of late, largest timer+wakeup latency 91.0 µs";
        assert_eq!(headline(&[calm.clone(), late.clone()]), told);
        assert_eq!(headline(&[calm.clone(), later.clone(), late.clone()]), told);
        let both = merge(&[calm.clone(), late]).unwrap();
        assert_eq!(headline(&[("fleet".to_owned(), both), later]), told, "also of what was merged before");
        let named = judged("robot-in-hall-7.site-north.example.org", &[90], Quantity::TimerWakeup, Some(50));
        let told = headline(&[calm.clone(), named]);
        assert!(told.ends_with("robot-in-hall-7.sit…, largest timer+wakeup latency 91.0 µs"), "{told}");
        let open = judged("open", &[5], Quantity::Cyclic, Some(70));
        let told = headline(&[calm, open]);
        assert!(told.starts_with("INCONCLUSIVE  the runs have different deadlines"), "{told}");
    }

    #[test]
    fn losses_of_a_run_without_a_verdict_are_the_reason_for_none() {
        let (mut lossy, mut calm) = (run("a", &[5], None, None), run("b", &[7], None, None));
        (lossy.1.verdict, calm.1.verdict) = (None, None);
        calm.1.series.iter_mut().for_each(|series| series.lost = 0);
        let verdict = merge(&[calm.clone(), lossy]).unwrap().verdict.unwrap();
        assert_eq!(verdict.outcome, Some(Outcome::Inconclusive));
        assert_eq!(verdict.reasons[0], "a: CPU 0: 2 samples were lost; the worst may be among them");
        calm.1.conditions.host = Some("c".to_owned());
        let other = ("c".to_owned(), Run { conditions: Conditions::default(), ..calm.1.clone() });
        let verdict = merge(&[calm, other]).unwrap().verdict.unwrap();
        assert_eq!((verdict.outcome, verdict.reasons.len()), (None, 0));
    }

    #[test]
    fn the_worst_cases_of_all_runs_are_kept_with_the_name_of_theirs() {
        let with = |host: &str, ns: &[u64]| {
            let (name, mut run) = run(host, &[5], None, None);
            let peak = |&ns: &u64| Peak {
                quantity: Quantity::Cyclic,
                cpu: Cpu(0),
                begin: crate::time::Mono(0),
                total_ns: Ns(ns),
                victim: Thread::default(),
                culprit: None,
                explanation: None,
                no_evidence: None,
                context: None,
            };
            run.peaks = ns.iter().map(peak).collect();
            (name, run)
        };
        let many: Vec<u64> = (1..=PEAKS as u64).rev().map(|n| n * 1_000).collect();
        let merged = merge(&[with("a", &many), with("b", &[900_000, 500])]).unwrap();
        assert_eq!((merged.peaks.len(), merged.peaks[0].total_ns), (PEAKS, Ns(900_000)));
        assert_eq!(merged.peaks[0].no_evidence.as_deref(), Some("b: no evidence was recorded"));
        assert_eq!(merged.peaks[PEAKS - 1].total_ns, Ns(2_000), "the least two are left out");
        let merged = merge(&[with("a", &many), with("b", &[500, 700])]).unwrap();
        assert_eq!(
            (merged.peaks.len(), merged.peaks[PEAKS].total_ns),
            (PEAKS + 1, Ns(700)),
            "the worst of b"
        );
    }

    #[test]
    fn losses_are_bounded_only_where_those_of_all_runs_are_and_keep_what_they_touch() {
        let with = |host: &str, below_max: bool, evidence_only: bool| {
            let (name, mut run) = run(host, &[5], None, None);
            run.series.iter_mut().for_each(|series| series.lost_below_max = below_max);
            let counter = "ring_overrun".to_owned();
            run.losses = vec![Loss { counter, count: 3, meaning: String::new(), evidence_only }];
            (name, run)
        };
        let bounded =
            |a, b| merge(&[with("a", a, true), with("b", b, true)]).unwrap().series[0].lost_below_max;
        assert_eq!([bounded(true, true), bounded(true, false), bounded(false, true)], [true, false, false]);
        let counts = |a, b| {
            let merged = merge(&[with("a", true, a), with("b", true, b)]).unwrap();
            merged.losses.iter().map(|loss| (loss.count, loss.evidence_only)).collect::<Vec<_>>()
        };
        assert_eq!(counts(true, true), [(6, true)]);
        assert_eq!(counts(true, false), [(3, true), (3, false)], "one of them touches samples");
    }

    #[test]
    fn missed_activations_of_all_runs_count_in_the_statement() {
        let (mut a, mut b) = (run("a", &[5], None, None), run("b", &[7], None, None));
        for series in a.1.series.iter_mut().chain(&mut b.1.series) {
            (series.missed, series.lost) = (Some(0), 0);
        }
        let mut replayed = a.1.series[0].histogram.clone();
        replayed.record(Ns::from_us(4));
        (a.1.series[0].missed, a.1.series[0].replayed) = (Some(1), Some(replayed));
        let merged = merge(&[b, a]).unwrap();
        assert_eq!(merged.series[0].replayed.as_ref().unwrap().count(), 5);
        assert_eq!(merged.verdict.unwrap().model_free.unwrap().samples, 5);
    }

    #[test]
    fn the_same_run_counts_once_or_not_at_all() {
        let one = run("a", &[5], None, None);
        let twice = [one.clone(), run("b", &[7], None, None), ("copy".to_owned(), one.1.clone())];
        assert_eq!(merge(&twice).unwrap_err().to_string(), "'a' and 'copy' are the same run");
        let both = merge(&twice[..2]).unwrap();
        assert!(merge(&[("fleet".to_owned(), both), one]).is_err(), "also inside of what was merged before");
    }

    #[test]
    fn what_cannot_be_added_exactly_is_refused_by_name() {
        let mut other = run("b", &[7], None, None);
        other.1.series[0].histogram = Histogram::new(Layout::new(10, 1_000).unwrap());
        let error = merge(&[run("a", &[5], None, None), other]).unwrap_err().to_string();
        assert_eq!(
            error,
            "'b' counted cyclic in other classes than the runs before it: \
             classes of 1 µs (wider above 10.240 ms) and of 10 ns (wider above 10.0 µs) do not add up exactly"
        );
        let mut half = run("b", &[7], None, None);
        half.1.complete = false;
        assert_eq!(merge(&[half]).unwrap_err(), CannotMerge::Incomplete("b".to_owned()));
    }
}
