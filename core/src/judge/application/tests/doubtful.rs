//! Responses that leave a PASS in doubt.

use super::*;

#[test]
fn a_system_does_not_pass_beside_a_response_above_the_deadline_of_its_wake_ups() {
    let judged = |task: Task| {
        let verdict = judge_recording(&run(task), &asked(false));
        (verdict.outcome, verdict.reasons.join("; "))
    };
    assert_eq!(judged(task(DEADLINE)).0, Some(Outcome::Pass));
    let overran = Task { misses: 1, deadline_ns: Some(DEADLINE), ..task(DEADLINE) };
    for late in [task(DEADLINE + Ns(1)), overran] {
        let (outcome, reasons) = judged(late);
        assert_eq!(outcome, Some(Outcome::Inconclusive), "{reasons}");
        assert!(
            reasons.contains("responses of control/7 (RT 80) took longer")
                && reasons.contains("--tasks comm:"),
            "{reasons}"
        );
    }
    let late_wakeup =
        Run { series: vec![series(Quantity::Wakeup, DEADLINE + Ns(1))], ..run(task(DEADLINE + Ns(1))) };
    assert_eq!(judge_recording(&late_wakeup, &asked(false)).outcome, Some(Outcome::Fail));
}

#[test]
fn jobs_released_by_timeouts_in_ticks_pass_only_if_they_are_in_time_from_whenever_they_were_asked_for() {
    let rounded = |response| {
        let task =
            Task { rounded_ns: Some(Ns(8_000)), waits_in: Some("recvfrom 3".to_owned()), ..task(response) };
        judged(task)
    };
    assert_eq!(rounded(Ns(DEADLINE.0 - 8_000)).0, Some(Outcome::Pass));
    let (outcome, reasons) = rounded(Ns(DEADLINE.0 - 7_999));
    assert_eq!(outcome, Some(Outcome::Inconclusive));
    assert!(reasons[0].contains("counts timeouts of recvfrom 3 in ticks"), "{reasons:?}");
    assert_eq!(rounded(DEADLINE + Ns(1)).0, Some(Outcome::Fail));
}

/// The thread is called `control` while it works, and `idle` while it waits.
#[test]
fn jobs_under_a_name_without_a_deadline_are_a_doubt_where_they_took_longer() {
    let named = |tid, comm: &str, longest| {
        let thread = Thread { tid: Tid(tid), comm: comm.to_owned(), ..task(longest).thread };
        Task { thread, deadline_ns: None, ..task(longest) }
    };
    let of = |other: Task| {
        let mut run = run(task(DEADLINE));
        run.tasks.push(other);
        names::doubts(&run.tasks[..1], &run.tasks, DEADLINE)
    };
    assert_eq!(of(named(7, "idle", DEADLINE)), Vec::<String>::new());
    assert_eq!(of(named(8, "idle", Ns::from_ms(40))), Vec::<String>::new(), "another thread");
    let doubts = of(named(7, "idle", Ns::from_ms(40)));
    assert!(doubts.len() == 1 && doubts[0].contains("jobs as 'idle' too"), "{doubts:?}");
}

/// The last thread waits for two others: the job that one of them ends is not the last.
#[test]
fn a_chain_has_the_doubts_of_its_threads_on_where_their_jobs_start() {
    let of = |stage: Task| {
        let chain = serde_json::json!({
            "broken": 0, "broken_before": [0], "cut_off": 0, "threads": [6, 7], "worst_ns": []
        });
        let thread = Thread { tid: Tid(0), comm: "a>control".to_owned(), prio: None };
        let chain = serde_json::from_value(chain).unwrap();
        let mut run = run(Task { thread, is_chosen: true, chain: Some(chain), ..task(DEADLINE) });
        run.tasks.push(Task { deadline_ns: None, ..stage });
        coverage::doubts(&run, &run.tasks[..1], DEADLINE)
    };
    let place = "read 5 (eventfd)".to_owned();
    let other = |longest_ns| {
        let place = place.clone();
        OtherSpans { place, after_timer: false, longest_ns, call: Some("00000001".to_owned()), source: None }
    };
    let stage = |longest| Task { other_turns: vec![other(longest)], ..task(DEADLINE) };
    assert_eq!(of(stage(DEADLINE)), Vec::<String>::new());
    assert_eq!(of(Task { is_chosen: true, ..stage(Ns::from_ms(13)) }), Vec::<String>::new());
    let doubts = of(stage(Ns::from_ms(13)));
    assert!(doubts.len() == 1 && doubts[0].contains("several call sites wait in read 5"), "{doubts:?}");
}
