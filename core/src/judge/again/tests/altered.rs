//! Run files with any one field altered: no panic, and no PASS with a late sample.

use serde_json::{json, Value};

use super::*;
use crate::application::{Task, OTHERS};
use crate::report;
use crate::run::{Interference, Loss};
use crate::time::{Prio, Tid};

/// One of this many altered files is also shown and merged.
const SHOWN: u32 = 64;

/// Path of each value in `of`, objects and lists included.
fn paths(of: &Value, at: &str, all: &mut Vec<String>) {
    match of {
        Value::Object(fields) => fields.iter().for_each(|(name, of)| paths(of, &format!("{at}/{name}"), all)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(nth, of)| paths(of, &format!("{at}/{nth}"), all));
        }
        _ => {}
    }
    all.push(at.to_owned());
}

/// Values in the place of `of`.
fn others(of: &Value) -> Vec<Value> {
    let mut others = vec![Value::Null];
    match of {
        Value::Number(_) => {
            others.extend([0, 1, 39_999, 100_000, 1 << 63, u64::MAX].map(|n| json!(n)));
            others.extend([json!(-1), json!(0.5), json!(1e308)]);
        }
        Value::Bool(is) => others.push(json!(!is)),
        Value::String(_) => {
            let words = [
                "",
                "PASS",
                "FAIL",
                "INCONCLUSIVE",
                "hunt",
                "tasks",
                "application",
                "merged",
                "instrument",
                "wakeup",
                "cyclic",
                "response",
            ];
            others.extend(words.map(|word| json!(word)));
        }
        Value::Array(items) => {
            others.push(json!([]));
            let twice: Vec<Value> = items.iter().chain(items).cloned().collect();
            others.extend([json!(twice), json!(&items[..items.len().saturating_sub(1)])]);
        }
        Value::Object(_) => others.push(json!({})),
        Value::Null => {
            others.extend([json!(0), json!(u64::MAX), json!(0.5), json!("PASS"), json!(true), json!([])])
        }
    }
    others
}

fn application(worst: Ns) -> Run {
    let thread = Thread { tid: Tid(7), comm: "control".to_owned(), prio: Some(Prio::from_rt(80)) };
    let of = |quantity, worst| Series {
        quantity,
        cpu: None,
        thread: Some(thread.clone()),
        ..series(40_000, worst)
    };
    let task: Task = serde_json::from_value(json!({
        "thread": thread, "process": 7, "policy": "SCHED_FIFO", "waits_in": "clock_nanosleep TIMER_ABSTIME",
        "timer_driven": true, "activations": 40_000,
        "period": {"median_ns": 900_000, "jitter_median_ns": 0, "jitter_max_ns": 9, "missed": 0},
        "series": [of(Quantity::Wakeup, Ns(30_000)), of(Quantity::Response, worst)],
        "execution": {"min_ns": 5_000, "mean_ns": 6_000.0, "max_ns": 7_000}, "preemptions": 3, "page_faults": 0,
        "deadline_ns": DEADLINE, "misses": u64::from(worst > DEADLINE), "off_cpu_ns": 400,
        "other_start": {"place": "read 3", "longest_ns": 900_000},
        "several_jobs": {"turns": 1, "longest_ns": 120_000, "certain_ns": 7, "late": 2},
        "held_to": {"deadline_ns": DEADLINE},
    }))
    .unwrap();
    let mut run = Run::new(Conditions { duration_s: Some(36.0), ..Conditions::default() });
    run.series = vec![Series { quantity: Quantity::Wakeup, ..series(40_000, Ns(30_000)) }];
    run.tasks = vec![task];
    let asked = Asked { is_application: true, deadline: Some(DEADLINE), ..Asked::default() };
    run.verdict = Some(judge_recording(&run, &asked));
    run
}

fn instrument(worst: Ns) -> Run {
    let mut run = judged(40_000, worst);
    run.conditions.duration_s = Some(2.0);
    run.series[0].interval_ns = Some(Ns(50_000));
    run.series[0].seconds = vec![SecondMax { second: 1, max_ns: worst }];
    run.peaks = vec![Peak { total_ns: worst, ..peak() }];
    run.losses = vec![Loss {
        counter: "records".to_owned(),
        count: 1,
        meaning: "none".to_owned(),
        evidence_only: true,
    }];
    let (cpu, source) = (Cpu(0), "NMI".to_owned());
    run.interference = vec![Interference { cpu, source, count: 2, total_ns: Ns(9), max_ns: Ns(5) }];
    run
}

fn merged(worst: Ns) -> Run {
    let mut b = judged(30_000, worst);
    b.conditions.host = Some("b".to_owned());
    crate::merge::merge(&[("a".to_owned(), judged(40_000, Ns(60_000))), ("b".to_owned(), b)]).unwrap()
}

/// Reads `text`, and shows and merges it if `all`. Returns the outcome.
fn used(text: &str, all: bool) -> Option<Outcome> {
    let run = Run::from_json(text).ok()?;
    let outcome = run.verdict.as_ref().and_then(|verdict| verdict.outcome);
    if !all {
        return outcome;
    }
    let again = Run::from_json(&run.to_json()).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(again.verdict.and_then(|verdict| verdict.outcome), outcome, "{text}");
    let _ = report::text::summary(&run, &report::text::Screen::default());
    let _ = report::html::report(&run);
    let _ = report::ci::junit("run", &run);
    let runs = [("a".to_owned(), run), ("b".to_owned(), instrument(Ns(60_000)))];
    if let Some(whole) = crate::merge::merge(&runs).ok().and_then(|whole| whole.verdict) {
        assert!(outcome != Some(Outcome::Fail) || whole.outcome == Some(Outcome::Fail), "{text}");
    }
    outcome
}

/// Alters each field of `run` in turn; `first` is altered before.
fn no_late_pass(run: &Run, first: impl Fn(&mut Value)) {
    let mut whole = serde_json::to_value(run).unwrap();
    first(&mut whole);
    let mut all = Vec::new();
    paths(&whole, "", &mut all);
    let mut number = 0_u32;
    for path in all {
        // A longer deadline is one that all met, and other samples are other samples.
        let is_deadline = path.ends_with("deadline_ns") || path.ends_with("others_ns");
        let old = whole.pointer(&path).cloned().unwrap();
        for new in others(&old) {
            number += 1;
            let mut altered = whole.clone();
            *altered.pointer_mut(&path).unwrap() = new.clone();
            let passes = used(&altered.to_string(), number.is_multiple_of(SHOWN)) == Some(Outcome::Pass);
            assert!(!passes || is_deadline, "{path}: {old} → {new} passes");
        }
    }
}

#[test]
fn no_field_of_a_failure_can_be_altered_so_that_it_passes() {
    let late = Ns(523_400);
    no_late_pass(&instrument(late), |_| ());
    for run in [instrument(late), application(late), merged(late)] {
        assert_eq!(used(&run.to_json(), true), Some(Outcome::Fail));
        no_late_pass(&run, |whole| whole["verdict"]["outcome"] = json!("PASS"));
    }
}

/// A program that starts at a time of yesterday, or at 0, and adds its period to it.
#[test]
fn a_latency_may_be_longer_than_the_measurement() {
    let day = Ns::from_ms(86_400_000);
    for run in [instrument(day), application(day)] {
        assert_eq!(used(&run.to_json(), true), Some(Outcome::Fail));
    }
}

#[test]
fn counts_and_times_that_no_measurement_of_that_length_has_are_refused() {
    let refused = |alter: fn(&mut Run), words: &str| {
        let mut run =
            if words.starts_with("control") { application(Ns(60_000)) } else { instrument(Ns(60_000)) };
        assert_ne!(used(&run.to_json(), true), None);
        alter(&mut run);
        let said = Run::from_json(&run.to_json()).expect_err(words).to_string();
        assert!(said.starts_with("the file contradicts itself: ") && said.contains(words), "{said}");
    };
    refused(
        |run| run.series[0].lost = 1 << 63,
        "CPU 0: 9223372036854815808 samples, missed and lost in 2.0 s",
    );
    refused(|run| run.series[0].missed = Some(1 << 40), "more than one per nanosecond");
    refused(|run| run.losses[0].count = 1 << 63, "records: 9223372036854775808 losses");
    refused(
        |run| run.series[0].seconds[0].second = 4_000,
        "CPU 0: a maximum of second 4000 in a measurement of 2.0 s",
    );
    refused(|run| run.peaks[0].total_ns = Ns(u64::MAX), "a worst case on CPU 0 took");
    refused(|run| run.conditions.duration_s = Some(-1.0), "a duration of -1 s");
    refused(|run| run.conditions.duration_s = Some(1e300), "a duration of 1");
    refused(|run| run.interference[0].max_ns = Ns(10), "NMI on CPU 0: 9 ns in total, but 10 ns once");
    refused(
        |run| run.tasks[0].not_recorded = 1 << 63,
        "control/7 (RT 80): 9223372036854775808 activations that",
    );
    refused(
        |run| run.tasks[0].several_jobs.as_mut().unwrap().turns = 3,
        "control/7 (RT 80): 3 of 2 late jobs",
    );
    refused(
        |run| run.tasks[0].miss_max_ns = Some(Ns(7)),
        "control/7 (RT 80): late by up to 7 ns, but no miss",
    );
}

#[test]
fn threads_added_up_keep_missed_releases_without_a_period_and_no_other_thread_does() {
    let read = |comm: &str| {
        let mut run = application(Ns(60_000));
        (run.tasks[0].thread.comm, run.tasks[0].period) = (comm.to_owned(), None);
        let thread = run.tasks[0].thread.clone();
        for series in &mut run.tasks[0].series {
            series.thread = Some(thread.clone());
            series.missed = (series.quantity == Quantity::Response).then_some(4);
        }
        Run::from_json(&run.to_json()).map(|run| run.verdict.unwrap().outcome)
    };
    assert_eq!(read(OTHERS).unwrap(), Some(Outcome::Inconclusive));
    assert!(read("control").unwrap_err().to_string().contains("4 by its response times"));
}
