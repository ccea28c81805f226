//! Jobs that are released while the one before them runs: their wait returns at once, and they are jobs all the same.

use lathunt_core::verdict::Outcome;

use super::hidden::{recorded, some, DEADLINE};
use super::truths::build;
use super::*;

/// The recorder sees each release: where a timer brings it.
const EXACT: [&str; 3] = ["timerfd", "sigwaits", "slept"];
/// It does not, or not to which wait it belongs.
const IN_DOUBT: [&str; 4] = ["epolled", "polled", "semaphore", "piped"];

#[test]
#[ignore = "root: run by make test"]
fn jobs_without_a_wait_between_them_are_neither_one_late_job_nor_in_time_without_evidence() {
    let one_cpu = || (std::thread::available_parallelism().unwrap().get() < 2).then_some("needs two CPUs");
    if !may_run("jobs_without_a_wait_between_them", lacks_bpf().or_else(one_cpu)) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let program = build(place.path(), "backlog");
    for mode in some(&EXACT, 2).chain(some(&IN_DOUBT, 2)) {
        let told = recorded(&program, place.path(), &[mode]);
        // On a busy machine a job may be late indeed.
        if told.late == 0 {
            assert_ne!(told.outcome, Some(Outcome::Fail), "{mode}: {:?}", told.reasons);
            let off = told.longest.0.abs_diff(told.max.0);
            assert!(
                !EXACT.contains(&mode) || off * 20 <= told.max.0,
                "{mode}: {} of {}",
                told.longest,
                told.max
            );
        }
        let late = recorded(&program, place.path(), &[mode, "late"]);
        assert!(late.late > 0 && late.max > DEADLINE, "{mode} itself was not late");
        assert_ne!(late.outcome, Some(Outcome::Pass), "{mode}: {:?}", late.reasons);
        if EXACT.contains(&mode) {
            assert_eq!(late.outcome, Some(Outcome::Fail), "{mode}: {:?}", late.reasons);
            let off = late.longest.0.abs_diff(late.max.0);
            assert!(off * 20 <= late.max.0, "{mode}: {} of {}", late.longest, late.max);
        }
    }
}
