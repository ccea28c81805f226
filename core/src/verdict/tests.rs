//! One good run, and one way at a time in which it is spoilt.

use super::*;
use crate::conditions::{Conditions, CpuCount, CpuSteal};
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
        ["40000 samples, none above 60.0 µs: with 95 % confidence fewer than 1 in 13352, if late ones come \
          independently"]
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
            // Others, of the same size on another CPU, and lesser ones, are told of none of it.
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

const SPOILT: [Case; 26] = [
    (|run| run.complete = false, "cut off", true),
    (|run| run.calibration.clear(), "not calibrated", false),
    (
        |run| run.calibration.push(calibration(false, "seen as 3 µs")),
        "irqoff failed on CPU 1: seen as 3 µs",
        true,
    ),
    (|run| run.series.clear(), "no cyclic sample", true),
    (|run| run.series[1].histogram = Histogram::new(Layout::LATENCY), "CPU 1 was to be measured", true),
    (|run| drop(run.series.pop()), "CPU 1 was to be measured", true),
    (|run| run.series[0].lost = 3, "CPU 0: 3 samples were lost", true),
    (lose_records, "lost 4 ring_overrun: peaks without evidence", true),
    (|run| run.series = vec![series(0, 100, Ns(9)), series(1, 100, Ns(9))], "29956", false),
    (
        |run| run.series[1] = Series { missed: Some(10_001), ..series(1, 9_999, Ns(9)) },
        "CPU 1: 9999 samples where 20000 activations were due",
        false,
    ),
    (|run| run.series[0].thread.as_mut().unwrap().prio = Some(Prio(120)), "at nice 0", false),
    (|run| run.conditions.load = Some("none".into()), "without a load", false),
    (|run| run.conditions.load = None, "not known whether there was a load", false),
    (|run| run.conditions.during.load_ended_early = Some("exit status 3".into()), "exit status 3", false),
    (|run| stolen(run, Ns::from_ms(10)), "the host took 10.000 ms from CPU 1", false),
    (
        |run| run.conditions.during.thermal_throttle = Some(vec![CpuCount { cpu: Cpu(0), count: 2 }]),
        "too hot",
        false,
    ),
    (|run| run.conditions.during.kernel_messages = Some(vec!["RT throttling".into()]), "said during", false),
    (|run| run.series[1].missed = Some(12), "CPU 1: 12 releases were missed; their latencies are not known", false),
    (|run| run.series[1].missed = None, "CPU 1: the number of missed releases is not known", false),
    (|run| run.conditions.during.load_cpu_ns = Some(Ns::from_ms(3)), "used 3.000 ms of CPU time in 20.0 s", false),
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
    (|run| run.conditions.duration_s = Some(41.0), "where 41000 activations were due", false),
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
    let harmless: [fn(&mut Run); 5] = [
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
fn without_a_deadline_there_is_no_answer_but_the_model_free_statement() {
    let verdict = judged(|run| run.conditions.load = Some("none".into()), None);
    assert_eq!((verdict.outcome, exit_code(&verdict)), (None, 0));
    assert!(verdict.reasons[0].contains("without a load"));
    assert!(verdict.model_free.unwrap().sentence.starts_with("40000 samples, none above 60.0 µs"));
}

#[test]
fn activations_that_a_stall_swallowed_count_as_late_as_they_would_have_been() {
    let said = |spoil: fn(&mut Run)| judged(spoil, Some(DEADLINE)).model_free.unwrap();
    let stall = |run: &mut Run| {
        let series = &mut run.series[0];
        series.histogram.record(Ns::from_ms(20));
        series.missed = Some(19);
        let mut replayed = series.histogram.clone();
        (1..20).for_each(|ms| replayed.record(Ns::from_ms(ms)));
        series.replayed = Some(replayed);
    };
    let told = said(stall);
    assert_eq!((told.samples, told.above), (40_020, 20));
    assert!(told.sentence.starts_with("40020 activations (19 missed), 20 above 100 µs:"), "{told:?}");
    let told = said(|run| (run.series[0].missed, run.series[1].lost) = (Some(3), 2));
    assert_eq!((told.samples, told.above), (40_005, 5), "nobody knows how late they were");
    assert!(told.sentence.contains("5 above 60.0 µs or not known"), "{told:?}");
}

#[test]
fn the_least_number_of_samples_is_enough_and_one_less_is_not() {
    let of_both = |run: &mut Run, all: u64| {
        run.conditions.duration_s = Some(15.0);
        run.series = vec![series(0, 15_000, Ns(9)), series(1, all - 15_000, Ns(9))];
    };
    assert_eq!(judged(|run| of_both(run, 29_956), Some(DEADLINE)).outcome, Some(Outcome::Pass));
    assert_eq!(judged(|run| of_both(run, 29_955), Some(DEADLINE)).outcome, Some(Outcome::Inconclusive));
}

#[test]
fn time_that_the_host_took_is_held_against_the_worst_of_that_cpu() {
    let on = |cpu, steal_ns| {
        let steal = vec![CpuSteal { cpu: Cpu(cpu), steal_ns: Ns(steal_ns) }];
        judged(|run| run.conditions.during.steal = Some(steal), Some(DEADLINE)).outcome
    };
    // Their worst are 40 and 60 µs.
    assert_eq!([on(0, 39_999), on(1, 59_999)], [Some(Outcome::Pass); 2]);
    assert_eq!([on(0, 40_000), on(1, 60_000)], [Some(Outcome::Inconclusive); 2]);
}

#[test]
fn time_away_from_fibers_is_held_against_the_least_slack_of_the_run() {
    let with = |away: u64, late: u64, slack: Option<i64>| {
        let set = serde_json::json!({
            "cpus": "1", "speeds": [], "ns_per_loop": null, "begin": 0,
            "threads": [{
                "name": "t", "scheduling": "EDF 1 ms", "period_ns": null, "deadline_ns": null, "jobs": 1, "finished": 1,
                "not_started": 0, "misses": 0, "lateness_max_ns": null, "missed_releases": 0, "response_max_ns": null,
                "analysed_ns": null, "release": null, "end_jitter_ns": null, "slack_min_ns": slack, "execution": null,
                "budget_ns": null, "blocked": { "count": 0, "total_ns": 0, "max_ns": 0 }, "preemptions": 0,
                "migrations": 0
            }],
            "fibers": {
                "tid": 7, "kernel_priority": 90, "preemption": "a POSIX timer", "away_total_ns": away,
                "away_longest_ns": away, "late_longest_ns": late, "switches": 1
            }
        });
        let set = serde_json::from_value(set).unwrap();
        judged(|run| run.task_set = Some(set), Some(DEADLINE))
    };
    for met in [with(500, 500, Some(500)), with(0, 0, Some(0)), with(9_000, 9_000, None)] {
        assert_eq!(met.outcome, Some(Outcome::Pass), "{:?}", met.reasons);
    }
    for doubtful in [with(501, 0, Some(500)), with(0, 501, Some(500))] {
        assert_eq!(doubtful.outcome, Some(Outcome::Inconclusive));
        assert!(doubtful.reasons[0].contains("the thread of the fibers"), "{:?}", doubtful.reasons);
    }
}

#[test]
fn more_time_is_asked_for_at_the_pace_of_the_run() {
    let verdict = judged(
        |run| {
            run.conditions.duration_s = Some(2.0);
            run.series = vec![series(0, 2_000, Ns(9)), series(1, 2_000, Ns(9))];
        },
        Some(DEADLINE),
    );
    assert!(verdict.reasons[0].contains("measure longer (15 s at this pace)"), "{:?}", verdict.reasons);
}

/// A system: 20 000 wake-ups by timers within 60 µs, and one more of `quantity` at 5 ms.
fn system(quantity: Quantity, lost: u64) -> Run {
    let mut run = good_run();
    run.series.iter_mut().for_each(|series| series.quantity = Quantity::TimerWakeup);
    let mut other = series(1, 2, Ns::from_ms(5));
    (other.quantity, other.lost, other.interval_ns) = (quantity, lost, None);
    run.series.push(other);
    run
}

#[test]
fn whoever_was_woken_by_no_timer_or_waited_behind_an_equal_was_late_too() {
    for quantity in [Quantity::Wakeup, Quantity::SharedPrio] {
        let run = system(quantity, 0);
        let verdict = judge(&run, Some(DEADLINE), &Rules::tasks(&run));
        assert_eq!((verdict.outcome, verdict.quantity), (Some(Outcome::Fail), Some(quantity)));
        let which = format!("CPU 1, {}: ", quantity.name());
        assert!(verdict.reasons[0].starts_with(&which), "{:?}", verdict.reasons);
        assert!(verdict.reasons[0].contains("worst 5.000 ms"), "{:?}", verdict.reasons);
        let late = judge(&run, Some(Ns::from_ms(6)), &Rules::tasks(&run));
        assert_eq!((late.outcome, late.quantity), (Some(Outcome::Pass), Some(Quantity::TimerWakeup)));
    }
    let run = system(Quantity::Wakeup, 1);
    assert_eq!(judge(&run, Some(Ns::from_ms(6)), &Rules::tasks(&run)).outcome, Some(Outcome::Inconclusive));
    let mut run = system(Quantity::Wakeup, 1);
    run.series[1].lost = 1;
    let doubts = judge(&run, Some(Ns::from_ms(6)), &Rules::tasks(&run)).reasons;
    assert_eq!(doubts.iter().filter(|doubt| doubt.contains("lost")).count(), 1, "{doubts:?}");
    let mut idle = system(Quantity::Timer, 0);
    idle.conditions.machine.cpus_measured = Some("0-3".into());
    assert_eq!(
        judge(&idle, Some(DEADLINE), &Rules::tasks(&idle)).outcome,
        Some(Outcome::Pass),
        "no task there"
    );
    let run = system(Quantity::Timer, 0);
    assert_eq!(judge(&run, Some(DEADLINE), &Rules::tasks(&run)).outcome, Some(Outcome::Pass), "a part of it");
}
