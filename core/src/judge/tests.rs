//! One good run, and one way at a time in which it is spoilt.

#[path = "tests/figures.rs"]
mod figures;
#[path = "tests/rights.rs"]
mod rights;

use super::*;
use crate::conditions::{Conditions, CpuCount, CpuSteal, LoadOverTime};
use crate::explain::{Explanation, Kind, Segment};
use crate::histogram::{Histogram, Layout};
use crate::run::{Calibration, Loss};
use crate::series::Thread;
use crate::time::{Cpu, Mono, Prio, Tid};

const DEADLINE: Ns = Ns(100_000);

fn series(cpu: u32, samples: u64, worst: Ns) -> Series {
    let mut histogram = Histogram::new(Layout::LATENCY);
    (1..samples).for_each(|_| histogram.record(Ns(9_000)));
    histogram.record(worst);
    let mut series = Series::new(Quantity::Cyclic, Some(Cpu(cpu)), histogram);
    series.interval_ns = Some(Ns::from_ms(1));
    series.thread = Some(Thread { tid: Tid(7), comm: "cyclic".into(), prio: Some(Prio::from_rt(95)) });
    series
}

fn good_run() -> Run {
    let mut conditions =
        Conditions { duration_s: Some(20.0), load: Some("stress-ng".into()), ..Conditions::default() };
    conditions.machine.cpu_max_hz = Some(2_000_000_000);
    conditions.machine.cpus_measured = Some("0-1".into());
    let mut run = Run::new(conditions);
    run.calibration = vec![calibration(true, "")];
    run.series = vec![series(0, 20_000, Ns(40_000)), series(1, 20_000, Ns(60_000))];
    run
}

fn calibration(passed: bool, note: &str) -> Calibration {
    Calibration {
        cpu: Cpu(1),
        kind: "irqoff".into(),
        injected_ns: None,
        instrument_ns: None,
        recorder_ns: None,
        undisturbed_ns: None,
        passed,
        note: note.into(),
    }
}

fn judged(spoil: impl FnOnce(&mut Run), deadline: Option<Ns>) -> Verdict {
    let mut run = good_run();
    spoil(&mut run);
    judge(&run, deadline, &Rules::hunt())
}

#[test]
fn a_good_run_passes_and_says_what_it_rests_on() {
    let verdict = judged(|_| (), Some(DEADLINE));
    assert_eq!(verdict.outcome, Some(Outcome::Pass));
    assert_eq!(
        verdict.reasons,
        ["40000 samples, none above 60.0 µs: with 95 % confidence fewer than 1 in 13352, assuming independent \
          late activations"]
    );
    assert_eq!(exit_code(&verdict), 0);
    let rule = verdict.rule_of_thumb.unwrap();
    assert_eq!((rule.bound_ns, rule.met), (Ns::from_us(50), false));
}

#[test]
fn lost_samples_that_are_known_to_be_below_the_maximum_are_no_doubt() {
    let summary = |run: &mut Run| {
        for series in &mut run.series {
            *series = Series {
                lost: 20_000,
                lost_below_max: true,
                ..self::series(series.cpu.unwrap().0, 2, Ns(60_000))
            };
        }
    };
    let verdict = judged(summary, Some(DEADLINE));
    assert_eq!(verdict.outcome, Some(Outcome::Pass), "{:?}", verdict.reasons);
    let stated = verdict.model_free.unwrap();
    assert_eq!((stated.samples, stated.above), (40_004, 0));
    let late = judged(summary, Some(Ns(50_000)));
    assert!(
        late.outcome == Some(Outcome::Fail) && late.model_free.is_none_or(|stated| stated.above > 40_000)
    );
    let (mut one, other) = (good_run(), good_run());
    summary(&mut one);
    let merged = crate::merge::merge(&[("a".to_owned(), one), ("b".to_owned(), other)]).unwrap();
    assert_eq!((merged.series[0].lost, merged.series[0].lost_below_max), (40_000, true));
}

#[test]
fn a_latency_equal_to_the_deadline_is_in_time_and_one_nanosecond_more_is_late() {
    let at = |worst| judged(|run| run.series[0] = series(0, 20_000, worst), Some(DEADLINE)).outcome;
    assert_eq!(at(DEADLINE), Some(Outcome::Pass));
    assert_eq!(at(DEADLINE + Ns(1)), Some(Outcome::Fail));
}

#[test]
fn a_latency_just_above_the_deadline_is_not_shown_as_the_deadline() {
    let verdict = judged(|run| run.series[0] = series(0, 20_000, DEADLINE + Ns(400)), Some(DEADLINE));
    let reason = &verdict.reasons[0];
    assert!(reason.contains("above the deadline of 100.000 µs, worst 100.400 µs"), "{reason}");
    let mut run = good_run();
    run.series[0] = series(0, 20_000, DEADLINE + Ns(400));
    run.verdict = Some(verdict);
    let shown = crate::report::text::summary(&run, &crate::report::text::Screen::default());
    assert!(shown.starts_with("FAIL  deadline 100.000 µs, largest cyclic latency 100.400 µs\n"), "{shown}");
}

#[test]
fn one_late_sample_fails_with_cpu_size_and_cause_whatever_else_is_doubtful() {
    let verdict = judged(
        |run| {
            run.series[1] = series(1, 20_000, Ns(523_400));
            run.complete = false;
            // Others, of the same size on another CPU, and smaller ones, are unaffected.
            let other = |cpu, total_ns| Peak {
                cpu,
                total_ns,
                culprit: Some("other".into()),
                explanation: None,
                ..late_peak()
            };
            run.peaks = vec![other(Cpu(0), Ns(523_400)), other(Cpu(1), Ns(500_000)), late_peak()];
        },
        Some(DEADLINE),
    );
    assert_eq!(verdict.outcome, Some(Outcome::Fail));
    assert_eq!(
        verdict.reasons,
        [
            "CPU 1: 1 sample of 20000 above the deadline of 100 µs, worst 523 µs: vnd/812 kept interrupts off",
            "the measurement was cut off before its end"
        ]
    );
    assert_eq!(verdict.model_free.as_ref().unwrap().level_ns, DEADLINE);
    assert_eq!(exit_code(&verdict), 2);
}

#[test]
fn of_several_late_series_the_worst_is_told_first() {
    let late = |run: &mut Run| {
        (run.series[0], run.series[1]) = (series(0, 20_000, Ns(200_400)), series(1, 20_000, Ns(523_400)));
    };
    let reasons = judged(late, Some(DEADLINE)).reasons;
    assert!(reasons[0].starts_with("CPU 1: ") && reasons[1].starts_with("CPU 0: "), "{reasons:?}");
}

fn late_peak() -> Peak {
    let total = Ns(523_400);
    Peak {
        quantity: Quantity::Cyclic,
        cpu: Cpu(1),
        begin: Mono(5),
        total_ns: total,
        victim: Thread::default(),
        culprit: None,
        explanation: Some(Explanation {
            sentence: "vnd/812 kept interrupts off".into(),
            advice: String::new(),
            tree: Segment::leaf(Kind::IrqsOff, "irqs off", Mono(5), total),
            total_ns: total,
            unexplained_ns: Ns::ZERO,
            cause: "irqs off: vnd/812".into(),
            limits: Vec::new(),
        }),
        no_evidence: None,
        context: None,
        during_action: false,
        counted_as: None,
    }
}

#[test]
fn samples_in_the_deadlines_own_bin_are_counted_as_a_range() {
    let deadline = Ns(100_500);
    let spoil = |run: &mut Run| {
        let histogram = &mut run.series[0].histogram;
        [100_200, 100_700, 150_000].into_iter().for_each(|late| histogram.record(Ns(late)));
    };
    let verdict = judged(spoil, Some(deadline));
    assert!(verdict.reasons[0].starts_with("CPU 0: 1 to 3 samples of 20003 above"), "{:?}", verdict.reasons);
    assert_eq!(verdict.model_free.unwrap().above, 3, "what may be above counts as above");
    let spoil = |run: &mut Run| {
        let histogram = &mut run.series[0].histogram;
        [DEADLINE, Ns(150_000)].into_iter().for_each(|ns| histogram.record(ns));
    };
    let reasons = judged(spoil, Some(DEADLINE)).reasons;
    assert!(reasons[0].starts_with("CPU 0: 1 to 2 samples"), "one equals the deadline: {reasons:?}");
}

/// What spoils a run, words its reason must contain, and whether the measurement is void without a deadline too.
type Case = (fn(&mut Run), &'static str, bool);

const SPOILT: [Case; 28] = [
    (|run| run.complete = false, "cut off", true),
    (|run| run.calibration.clear(), "not calibrated", false),
    (
        |run| run.calibration.push(calibration(false, "seen as 3 µs")),
        "irqoff failed on CPU 1: seen as 3 µs",
        true,
    ),
    (|run| run.series.clear(), "no cyclic sample", true),
    (|run| run.series[1].histogram = Histogram::new(Layout::LATENCY), "CPU 1 was requested but has no sample", true),
    (|run| drop(run.series.pop()), "CPU 1 was requested but has no sample", true),
    (|run| run.series[0].lost = 3, "CPU 0: 3 samples were lost", true),
    (lose_records, "lost 4 ring_overrun: peaks without evidence", true),
    (|run| run.series = vec![series(0, 100, Ns(9)), series(1, 100, Ns(9))], "29956", false),
    (
        |run| run.series[1] = Series { missed: Some(10_001), ..series(1, 9_999, Ns(9)) },
        "CPU 1: 9999 samples of 20000 expected activations",
        false,
    ),
    (|run| run.series[0].thread.as_mut().unwrap().prio = Some(Prio(120)), "at nice 0", false),
    (|run| run.conditions.load = Some("none".into()), "without load", false),
    (|run| run.conditions.load = None, "unknown whether the machine was under load", false),
    (|run| run.conditions.during.load_ended_early = Some("exit status 3".into()), "exit status 3", false),
    (|run| stolen(run, Ns::from_ms(10)), "the host stole 10.000 ms from CPU 1", false),
    (
        |run| run.conditions.during.thermal_throttle = Some(vec![CpuCount { cpu: Cpu(0), count: 2 }]),
        "by overheating",
        false,
    ),
    (|run| run.conditions.during.kernel_messages = Some(vec!["RT throttling".into()]), "kernel message during the run", false),
    (|run| run.series[1].missed = Some(12), "CPU 1: 12 releases were missed; their latencies are not known", false),
    (|run| run.series[1].missed = None, "CPU 1: the number of missed releases is not known", false),
    (|run| run.conditions.during.load_cpu_ns = Some(Ns::from_ms(3)), "used 3.000 ms of CPU time in 20.0 s", false),
    (|run| paused(run, 10_200, 9_000, false), "the load ran during 10.2 of 20.0 s only", false),
    (|run| paused(run, 3_000, 9_800, true), "the load paused for 9.8 of 20.0 s at a stretch", false),
    (|run| run.conditions.during.ended_early = vec!["a thread ended".into()], "a thread ended", false),
    (|run| run.conditions.during.neighbours = vec![neighbour()], "another lathunt measures here since 2026", false),
    (|run| run.stopped("stopped after 3.3 s of 20 s".into()), "stopped after 3.3 s", true),
    (
        |run| run.conditions.during.left_cpu = vec![left(7)],
        "CPU 1: 7 samples were taken on other CPUs, the last on CPU 0 (its affinity was changed)",
        true,
    ),
    (
        |run| (run.series[0].lost, run.series[0].lost_below_max) = (3_009, false),
        "3009 above 60.0 µs or not known: with 95 % confidence fewer than 1 in 13: a PASS claims fewer than 1 in 10000",
        true,
    ),
    (|run| run.conditions.duration_s = Some(41.0), "of 41000 expected activations", false),
];

fn neighbour() -> crate::conditions::Neighbour {
    crate::conditions::Neighbour {
        process: 7,
        since: "2026-11-21T21:40:05+01:00".to_owned(),
        cpus: "0-1".to_owned(),
    }
}

fn left(samples: u64) -> crate::conditions::LeftCpu {
    let why = "its affinity was changed".to_owned();
    crate::conditions::LeftCpu { cpu: Cpu(1), samples: Some(samples), on: Some(Cpu(0)), why }
}

/// 12 releases in stalls, each with the latency that it would have had.
fn missed_within_the_deadline(run: &mut Run) {
    let mut replayed = run.series[0].histogram.clone();
    (0..12).for_each(|_| replayed.record(Ns(20_000)));
    (run.series[0].missed, run.series[0].replayed) = (Some(12), Some(replayed));
}

fn lose_records(run: &mut Run) {
    let meaning = "peaks without evidence".to_owned();
    run.losses.push(Loss { counter: "ring_overrun".into(), count: 4, meaning, evidence_only: false });
}

/// A load that ran for `ran` ms, and paused for up to `pause` ms.
fn paused(run: &mut Run, ran: u64, pause: u64, may_pause: bool) {
    let (ran_ns, longest_pause_ns) = (Ns::from_ms(ran), Ns::from_ms(pause));
    run.conditions.during.load_over_time = Some(LoadOverTime { ran_ns, longest_pause_ns, may_pause });
}

fn stolen(run: &mut Run, steal_ns: Ns) {
    run.conditions.during.steal = Some(vec![CpuSteal { cpu: Cpu(1), steal_ns }]);
}

#[test]
fn each_doubt_alone_makes_a_good_run_inconclusive_and_says_why() {
    for (spoil, words, voids) in SPOILT {
        let verdict = judged(spoil, Some(DEADLINE));
        assert_eq!(verdict.outcome, Some(Outcome::Inconclusive), "{words}");
        assert!(
            verdict.reasons.iter().any(|reason| reason.contains(words)),
            "{words}: {:?}",
            verdict.reasons
        );
        assert_eq!(exit_code(&verdict), 3);
        let without_deadline = judged(spoil, None).outcome;
        assert_eq!(without_deadline, voids.then_some(Outcome::Inconclusive), "{words}");
    }
}

#[test]
fn what_does_not_touch_the_result_is_no_doubt() {
    let harmless: [fn(&mut Run); 7] = [
        |run| paused(run, 18_100, 1_900, false), // a slow start
        |run| paused(run, 3_000, 6_000, true),   // three bursts
        |run| stolen(run, Ns(59_999)),
        |run| run.conditions.during.thermal_throttle = Some(vec![CpuCount { cpu: Cpu(0), count: 0 }]),
        missed_within_the_deadline,
        |run| {
            run.losses.push(Loss {
                counter: "ring_overrun".into(),
                count: 0,
                meaning: String::new(),
                evidence_only: false,
            })
        },
        |run| run.conditions.during.kernel_messages = Some(Vec::new()),
    ];
    for (index, spoil) in harmless.into_iter().enumerate() {
        let verdict = judged(spoil, Some(DEADLINE));
        assert_eq!(verdict.outcome, Some(Outcome::Pass), "case {index}: {:?}", verdict.reasons);
    }
}

#[test]
fn losses_that_a_rule_tolerates_and_a_load_that_nobody_asked_for_are_no_doubt() {
    let mut run = good_run();
    lose_records(&mut run);
    run.conditions.load = Some("none".into());
    run.calibration.clear();
    let rules =
        Rules { tolerated_losses: vec!["ring_overrun".into()], ..Rules::instrument(Quantity::Cyclic) };
    assert_eq!(judge(&run, Some(DEADLINE), &rules).outcome, Some(Outcome::Pass));
}

#[test]
fn an_order_of_preemption_that_was_violated_fails_and_voids_where_nothing_was_asked() {
    use crate::latency_box::Counts;
    let mut run = good_run();
    for series in &mut run.series {
        series.quantity = Quantity::Preemption;
        series.counts = Some(Counts { sent: 20_000, answered: 20_000, ..Counts::default() });
    }
    let rules = Rules::instrument(Quantity::Preemption);
    assert_eq!(judge(&run, Some(DEADLINE), &rules).outcome, Some(Outcome::Pass));
    run.series[1].counts.as_mut().unwrap().out_of_order = 1;
    let verdict = judge(&run, Some(DEADLINE), &rules);
    assert_eq!((verdict.outcome, verdict.failures), (Some(Outcome::Fail), 1));
    assert!(
        verdict.reasons[0].starts_with("CPU 1: order violated once in 20000 releases"),
        "{}",
        verdict.reasons[0]
    );
    assert_eq!(judge(&run, None, &rules).outcome, Some(Outcome::Inconclusive));
    // A PASS that a file claims in addition is ignored.
    run.verdict = Some(Verdict { outcome: Some(Outcome::Pass), failures: 0, ..verdict });
    let read = Run::from_json(&run.to_json()).unwrap();
    assert_eq!(read.verdict.unwrap().outcome, Some(Outcome::Fail));
}

#[test]
fn edges_that_cannot_be_told_apart_void_a_run_over_lines_only() {
    use crate::latency_box::Counts;
    let verdict = |channel: &str, counts: Counts, deadline| {
        let mut run = good_run();
        for series in &mut run.series {
            (series.quantity, series.channel, series.counts) =
                (Quantity::Roundtrip, Some(channel.to_owned()), Some(counts));
        }
        let judged = judge(&run, deadline, &Rules::instrument(Quantity::Roundtrip));
        (judged.outcome, judged.reasons.join("\n"))
    };
    let clean = Counts { sent: 20_000, answered: 20_000, ..Counts::default() };
    assert_eq!(verdict("gpio:/dev/gpiochip0:17,27", clean, Some(DEADLINE)).0, Some(Outcome::Pass));
    for (counts, says) in [
        (Counts { duplicated: 1, ..clean }, "1 stray edge: "),
        (Counts { foreign: 2, ..clean }, "2 stray edges: "),
        (Counts { damaged: 477, ..clean }, "dropped 477 edges of the line"),
    ] {
        for deadline in [Some(DEADLINE), None] {
            let (outcome, reasons) = verdict("gpio:/dev/gpiochip0:17,27", counts, deadline);
            assert_eq!(outcome, Some(Outcome::Inconclusive), "{counts:?}");
            assert!(reasons.contains(says), "{reasons}");
        }
        // A message carries its number: these counts make no sample of another stimulus.
        assert_eq!(verdict("udp:127.0.0.1:7", counts, Some(DEADLINE)).0, Some(Outcome::Pass), "{counts:?}");
    }
}
