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
