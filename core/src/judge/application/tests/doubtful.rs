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
