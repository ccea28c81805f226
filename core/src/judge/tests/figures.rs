//! What is missed, too few, stolen, or of several quantities.

use super::*;

#[test]
fn a_weaker_claim_that_was_asked_for_and_shown_is_not_too_few_samples() {
    let reasons = |note: &str| {
        let spoil = |run: &mut Run| {
            run.series.iter_mut().for_each(|of| *of = series(of.cpu.unwrap().0, 2_000, Ns(60_000)));
            run.conditions.notes.push(note.to_owned());
        };
        let verdict = judged(spoil, Some(DEADLINE));
        assert_eq!(verdict.outcome, Some(Outcome::Inconclusive));
        verdict.reasons
    };
    let said = reasons("--until 1e-3@95%: 4000 samples, none above 60.0 µs");
    let expected = "--until 1e-3@95% was shown, but a PASS claims fewer than 1 late activation in 10000 with 95 % confidence: \
                    ask for --until 1e-4@95%";
    assert!(said.iter().any(|reason| reason == expected), "{said:?}");
    assert!(!said.iter().any(|reason| reason.contains("too few samples")), "{said:?}");
    let refuted = reasons("--until 1e-3@95%: ended after 2.0 s, by a latency above the deadline");
    assert!(refuted.iter().any(|reason| reason.contains("too few samples")), "{refuted:?}");
}

#[test]
fn without_a_deadline_there_is_no_answer_but_the_model_free_statement() {
    let verdict = judged(|run| run.conditions.load = Some("none".into()), None);
    assert_eq!((verdict.outcome, exit_code(&verdict)), (None, 0));
    assert!(verdict.reasons[0].contains("without load"));
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
fn round_trips_counted_from_when_they_were_due_are_said_to_be() {
    let verdict = |deadline: Option<Ns>| {
        let mut run = good_run();
        let mut trips = Series { quantity: Quantity::Roundtrip, ..series(0, 40_000, Ns(209_500)) };
        // Each stimulus was sent, 13 of them late.
        let mut due = series(0, 39_987, Ns(9)).histogram;
        (0..13).for_each(|_| due.record(Ns(212_000)));
        trips.replayed = Some(due);
        run.series = vec![trips];
        judge(&run, deadline, &Rules { quantity: Quantity::Roundtrip, ..Rules::hunt() })
    };
    let told = verdict(None).model_free.unwrap().sentence;
    assert!(told.contains(" 13 above 210 µs, counted from when each was due:"), "{told}");
    let reasons = verdict(Some(Ns(210_000))).reasons;
    let late = reasons.iter().find(|reason| reason.contains("up to 212 µs"));
    assert!(late.is_some_and(|late| late.contains("from when each was due")), "{reasons:?}");
    assert!(!reasons.iter().any(|reason| reason.contains("0 releases")), "{reasons:?}");
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
        assert!(doubtful.reasons[0].contains("the thread that carries the fibers"), "{:?}", doubtful.reasons);
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
