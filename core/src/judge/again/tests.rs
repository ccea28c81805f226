//! One valid file, altered in one way at a time.

use super::*;
use crate::conditions::Conditions;
use crate::histogram::{Histogram, Layout};
use crate::peak::Peak;
use crate::run::NotARun;
use crate::series::{SecondMax, Series, Thread};
use crate::time::{Cpu, Mono};

mod altered;

const DEADLINE: Ns = Ns(100_000);

fn series(samples: u64, worst: Ns) -> Series {
    let mut histogram = Histogram::new(Layout::LATENCY);
    (1..samples).for_each(|_| histogram.record(Ns(9_000)));
    histogram.record(worst);
    Series::new(Quantity::Cyclic, Some(Cpu(0)), histogram)
}

fn judged(samples: u64, worst: Ns) -> Run {
    let mut run = Run::new(Conditions::default());
    run.series = vec![series(samples, worst)];
    run.verdict = Some(judge(&run, Some(DEADLINE), &Rules::instrument(Quantity::Cyclic)));
    run
}

fn read(alter: impl FnOnce(&mut Run), mut run: Run) -> Result<Option<Outcome>, String> {
    alter(&mut run);
    match Run::from_json(&run.to_json()) {
        Ok(run) => Ok(run.verdict.and_then(|verdict| verdict.outcome)),
        Err(NotARun::Contradiction(contradiction)) => Err(contradiction.to_string()),
        Err(other) => Err(format!("no contradiction, but: {other}")),
    }
}

fn verdict(run: &mut Run) -> &mut Verdict {
    run.verdict.as_mut().unwrap()
}

#[test]
fn what_was_judged_is_judged_the_same_when_it_is_read() {
    for run in [judged(40_000, Ns(60_000)), judged(40_000, Ns(523_400)), judged(3, Ns(60_000))] {
        assert_eq!(Run::from_json(&run.to_json()).unwrap(), run);
    }
}

#[test]
fn a_run_whose_histograms_would_fill_the_memory_is_refused_and_one_of_many_series_is_not() {
    let of = |layout: Layout, number: usize| {
        let mut run = Run::new(Conditions::default());
        let mut histogram = Histogram::new(layout);
        histogram.record(Ns(9_000));
        let series = |cpu| Series::new(Quantity::Cyclic, Some(Cpu(cpu)), histogram.clone());
        run.series = (0..number as u32).map(series).collect();
        Run::from_json(&run.to_json()).map(|run| run.series.len())
    };
    let wide = Layout::new(1_000, 1 << 20).unwrap();
    assert_eq!(of(wide, 8).unwrap(), 8);
    assert!(matches!(of(wide, 33), Err(NotARun::Classes)));
    assert_eq!(of(Layout::LATENCY, 500).unwrap(), 500);
}

#[test]
fn a_pass_that_the_samples_do_not_carry_is_none() {
    let pass = |run: &mut Run| verdict(run).outcome = Some(Outcome::Pass);
    assert_eq!(read(pass, judged(3, Ns(60_000))), Ok(Some(Outcome::Inconclusive)));
    let lost = |run: &mut Run| run.series[0].lost = 1;
    assert_eq!(read(lost, judged(40_000, Ns(60_000))), Ok(Some(Outcome::Inconclusive)));
    let old = |run: &mut Run| (verdict(run).judged_by, verdict(run).outcome) = (None, Some(Outcome::Pass));
    assert_eq!(
        read(old, judged(3, Ns(60_000))),
        Ok(Some(Outcome::Inconclusive)),
        "written by an old version"
    );
    let cut = |run: &mut Run| run.complete = false;
    assert_eq!(read(cut, judged(40_000, Ns(60_000))), Ok(Some(Outcome::Inconclusive)));
}

#[test]
fn an_answer_that_is_worse_for_reasons_beyond_the_samples_stays() {
    let open = |run: &mut Run| {
        verdict(run).outcome = Some(Outcome::Inconclusive);
        verdict(run).reasons = vec!["./app ended with exit code 3".to_owned()];
    };
    let mut run = judged(40_000, Ns(60_000));
    open(&mut run);
    let read = Run::from_json(&run.to_json()).unwrap().verdict.unwrap();
    assert_eq!((read.outcome, read.reasons.len()), (Some(Outcome::Inconclusive), 1));
}

#[test]
fn a_file_that_contradicts_itself_is_refused_with_the_contradiction() {
    let late = || judged(40_000, Ns(523_400));
    let in_time = || judged(40_000, Ns(60_000));
    let refused = |alter: fn(&mut Run), run: Run, words: &str| {
        let said = read(alter, run).expect_err(words);
        assert!(said.starts_with("the file contradicts itself: ") && said.contains(words), "{said}");
    };
    let words = "verdict is PASS with a deadline of 100 µs, but CPU 0 took 523 µs";
    refused(|run| verdict(run).outcome = Some(Outcome::Pass), late(), words);
    let words = "verdict is INCONCLUSIVE with a deadline of 100 µs";
    refused(|run| verdict(run).outcome = Some(Outcome::Inconclusive), late(), words);
    refused(|run| run.series[0] = series(40_000, Ns(60_000)), late(), "FAIL, but no sample is above");
    refused(|run| run.peaks = vec![peak()], in_time(), "one of its worst cases on CPU 0 took 900 µs");
    let second = |run: &mut Run| run.series[0].seconds = vec![SecondMax { second: 7, max_ns: Ns(90_000) }];
    refused(second, in_time(), "the largest latency is 60.0 µs, but that of second 7 is 90.0 µs");
    let replayed = |run: &mut Run| run.series[0].replayed = Some(series(7, Ns(60_000)).histogram);
    refused(replayed, in_time(), "40000 samples up to 60.0 µs, but 7 activations");
    let missed = |run: &mut Run| {
        (run.series[0].missed, run.series[0].replayed) =
            (Some(1 << 63), Some(run.series[0].histogram.clone()));
    };
    let words =
        "40000 samples and 9223372036854775808 missed releases, but 40000 activations with the missed ones";
    refused(missed, in_time(), words);
    let second = |run: &mut Run| run.series[0].seconds = vec![SecondMax { second: 7, max_ns: Ns(1) }];
    refused(second, in_time(), "the smallest latency is 9.0 µs, but that of second 7 is 1 ns");
}

#[test]
fn a_sum_of_samples_that_is_not_between_their_extremes_is_refused() {
    let run = judged(40_000, Ns::from_ms(50));
    let right = format!("\"sum_ns\":{}", run.series[0].histogram.sum_ns());
    let text = run.to_json().replace("\"sum_ns\": ", "\"sum_ns\":");
    assert!(text.contains(&right) && Run::from_json(&text).is_ok(), "{text}");
    for wrong in [0, 1 << 63, u64::MAX] {
        let edited = text.replace(&right, &format!("\"sum_ns\":{wrong}"));
        let said = Run::from_json(&edited).unwrap_err().to_string();
        assert!(said.contains("latencies from 9.0 µs to 50.000 ms, but by their sum a mean of"), "{said}");
    }
}

fn peak() -> Peak {
    Peak {
        quantity: Quantity::Cyclic,
        cpu: Cpu(0),
        begin: Mono(5),
        total_ns: Ns(900_000),
        victim: Thread::default(),
        culprit: None,
        explanation: None,
        no_evidence: None,
        context: None,
        during_action: false,
        counted_as: None,
    }
}

#[test]
fn a_merged_file_has_the_samples_and_the_worst_answer_of_its_parts() {
    let merged = |worst| {
        let runs = [judged(40_000, Ns(60_000)), judged(30_000, worst)];
        let [a, b] = runs;
        let mut b = b;
        b.conditions.host = Some("b".to_owned());
        crate::merge::merge(&[("a".to_owned(), a), ("b".to_owned(), b)]).unwrap()
    };
    assert_eq!(read(|_| (), merged(Ns(60_000))), Ok(Some(Outcome::Pass)));
    assert_eq!(read(|_| (), merged(Ns(523_400))), Ok(Some(Outcome::Fail)));
    let said = read(|run| verdict(run).outcome = Some(Outcome::Pass), merged(Ns(523_400))).unwrap_err();
    assert!(said.contains("verdict is PASS"), "{said}");
    let part = |run: &mut Run| run.merged[1].outcome = Some(Outcome::Inconclusive);
    assert_eq!(read(part, merged(Ns(60_000))), Ok(Some(Outcome::Inconclusive)));
    let doubted = |run: &mut Run| run.merged[1].conditions.during.ended_early.push("rescheduled".to_owned());
    assert_eq!(read(doubted, merged(Ns(60_000))), Ok(Some(Outcome::Inconclusive)));
    // An altered verdict is refused with any quantity.
    for quantity in [None, Some(Quantity::Wakeup)] {
        let other = |run: &mut Run| {
            let altered = verdict(run);
            (altered.outcome, altered.quantity) = (Some(Outcome::Pass), quantity);
        };
        let said = read(other, merged(Ns(523_400))).unwrap_err();
        assert!(said.contains("verdict is PASS"), "{said}");
    }
    let said = read(|run| run.merged.clear(), merged(Ns(60_000))).unwrap_err();
    assert!(said.contains("merged runs, and it names none"), "{said}");
    let fewer = |run: &mut Run| run.merged[1].series[0].samples = 1;
    let said = read(fewer, merged(Ns(60_000))).unwrap_err();
    assert!(
        said.contains("70000 samples of cyclic, the largest 60.0 µs, but the merged runs have 40001"),
        "{said}"
    );
}

#[test]
fn a_series_that_is_there_twice_and_a_worst_case_above_the_largest_sample_are_refused() {
    let twice = |run: &mut Run| run.series.push(series(4, Ns(9_000)));
    let said = read(twice, judged(40_000, Ns(60_000))).unwrap_err();
    assert!(said.contains("CPU 0: it has two series of cyclic latencies"), "{said}");
    let another = |run: &mut Run| {
        run.series.push(Series { cpu: Some(Cpu(1)), ..series(40_000, Ns(9_000)) });
    };
    assert!(read(another, judged(40_000, Ns(60_000))).is_ok());
    let with_peak = |total_ns: u64| {
        move |run: &mut Run| {
            let victim = Thread { tid: crate::time::Tid(7), comm: "cyclic".into(), prio: None };
            let peak = serde_json::json!({
                "quantity": "cyclic", "cpu": 0, "begin": 0, "total_ns": total_ns, "victim": victim, "culprit": null,
                "explanation": null
            });
            run.peaks.push(serde_json::from_value(peak).unwrap());
        }
    };
    assert!(read(with_peak(60_000), judged(40_000, Ns(60_000))).is_ok());
    let said = read(with_peak(60_001), judged(40_000, Ns(60_000))).unwrap_err();
    assert!(
        said.contains("its largest sample is 60.000 µs, but one of its worst cases took 60.001 µs"),
        "{said}"
    );
}
