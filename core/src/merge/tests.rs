//! Runs with a known merge result.

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
    assert_eq!(labels, ["a CPU 0", "a CPU 1", "b CPU 0", "b CPU 1"]);
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
    let of =
        |a, b| merge(&[run("a", &[5], a, Some(100)), run("b", &[6], b, Some(100))]).unwrap().verdict.unwrap();
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
fn a_fail_names_the_misses_of_all_runs_first_and_counts_them() {
    let failed = |host: &str, deadline_us| {
        let (name, mut run) = run(host, &[6], None, None);
        run.series.iter_mut().for_each(|series| series.lost = 0);
        run.verdict = Some(judge(&run, Some(Ns::from_us(deadline_us)), &Rules::instrument(Quantity::Cyclic)));
        (name, run)
    };
    let of = |runs: &[(String, Run)]| merge(runs).unwrap().verdict.unwrap();
    let verdict = of(&[failed("a", 4), run("b", &[3], Some(Outcome::Pass), Some(5)), failed("c", 5)]);
    assert_eq!((verdict.outcome, verdict.failures), (Some(Outcome::Fail), 4), "{verdict:?}");
    let (misses, caveats) = verdict.split();
    assert!(misses.iter().all(|reason| reason.contains("1 sample of 1 above")), "{misses:?}");
    assert!(caveats[0].contains("different deadlines"), "{caveats:?}");
    let again = of(&[("x".to_owned(), merge(&[failed("a", 4), failed("c", 4)]).unwrap()), failed("d", 4)]);
    assert_eq!(again.failures, 6, "{again:?}");
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
            during_action: false,
            counted_as: None,
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
    assert_eq!((merged.peaks.len(), merged.peaks[PEAKS].total_ns), (PEAKS + 1, Ns(700)), "the worst of b");
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
    let bounded = |a, b| merge(&[with("a", a, true), with("b", b, true)]).unwrap().series[0].lost_below_max;
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
fn what_a_merge_leaves_out_is_named() {
    let [mut a, b] = [run("a", &[5, 90], None, None), run("b", &[7], None, None)];
    let path = serde_json::json!([
        {"cpu": 0, "poid": null, "paie": null, "psd": null, "dst": null, "interrupts": [], "lost": 0}
    ]);
    a.1.path_analysis = serde_json::from_value(path).unwrap();
    let merged = merge(&[a, b]).unwrap();
    let notes = &merged.conditions.notes;
    let left_out: Vec<&String> = notes.iter().filter(|note| note.contains("not in the merged run")).collect();
    assert_eq!(left_out, ["a: not in the merged run, only in its own: path analysis (for lathunt bound)"]);
    let request = crate::bound::analyse::Request::default();
    let input = crate::bound::of_run::input(&[&merged], Quantity::Cyclic, None).unwrap();
    let mut answer = crate::bound::analyse::analyse(&input, &request);
    crate::bound::of_run::complete(&mut answer, &[&merged], Quantity::Cyclic, None);
    assert!(answer.bound.reason.contains("give the runs themselves"), "{}", answer.bound.reason);
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
        "'b' has different histogram classes of cyclic than the runs before it: \
         classes of 1 µs (wider above 10.240 ms) and of 10 ns (wider above 10.0 µs) do not add up exactly"
    );
    let mut half = run("b", &[7], None, None);
    half.1.complete = false;
    assert_eq!(merge(&[half]).unwrap_err(), CannotMerge::Incomplete("b".to_owned()));
}

/// Twenty seconds of 1000 samples; in each fourth second `length` late ones in a row.
fn short_run(host: &str, length: u64) -> (String, Run) {
    let mut histogram = Histogram::new(Layout::LATENCY);
    let mut seconds = Vec::new();
    for second in 0..20 {
        let late = if second % 4 == 0 { length } else { 0 };
        (0..1_000 - late).for_each(|n| histogram.record(Ns::from_us(5 + n % 10)));
        (0..late).for_each(|_| histogram.record(Ns::from_us(300)));
        let max_ns = Ns::from_us(if late > 0 { 300 } else { 14 });
        seconds.push(crate::series::SecondMax { second, max_ns });
    }
    let mut series = Series::new(Quantity::Cyclic, Some(Cpu(0)), histogram);
    series.missed = Some(0);
    series.set_seconds(seconds);
    let mut run = Run::new(Conditions { host: Some(host.to_owned()), ..Conditions::default() });
    run.series.push(series);
    run.verdict = Some(judge(&run, Some(Ns::from_ms(1)), &Rules::instrument(Quantity::Cyclic)));
    (host.to_owned(), run)
}

#[test]
fn late_samples_that_come_together_count_once_in_merged_runs_also_when_merged_step_by_step() {
    let hosts: Vec<String> = (0..10).map(|n| format!("host{n}")).collect();
    let fleet = |length| hosts.iter().map(|host| short_run(host, length)).collect::<Vec<_>>();
    let said = |run: &Run| run.verdict.as_ref().unwrap().model_free.clone().unwrap();
    let clustered = merge(&fleet(20)).unwrap();
    let theta = said(&clustered).theta.unwrap();
    assert!((0.03..0.08).contains(&theta), "{theta}: one part of 20");
    assert!(said(&clustered).effective_samples.unwrap() < 20_000);
    assert!(said(&merge(&fleet(1)).unwrap()).theta.unwrap() > 0.7);
    let [first, second] = [&fleet(20)[..4], &fleet(20)[4..]].map(|part| merge(part).unwrap());
    let stored = Run::from_json(&first.to_json()).unwrap();
    let stepwise = merge(&[("a".to_owned(), stored), ("b".to_owned(), second)]).unwrap();
    assert_eq!(said(&stepwise), said(&clustered));
    let mut lacking = fleet(20);
    lacking[3].1.series[0].seconds.clear();
    assert_eq!(said(&merge(&lacking).unwrap()).theta, None);
}
