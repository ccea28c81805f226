//! Jobs that are released while the one before them runs: their wait returns at once, and they are jobs all the same.

use lathunt_core::verdict::Outcome;

use super::hidden::{recorded, some, Told, DEADLINE};
use super::truths::build;
use super::*;

/// The recorder sees each release: where a timer brings it.
const EXACT: [&str; 3] = ["timerfd", "sigwaits", "slept"];
/// It does not, or not to which wait it belongs.
const IN_DOUBT: [&str; 4] = ["epolled", "polled", "semaphore", "piped"];
/// Runs of one program at most: a host may take the CPU between its look at the clock and its wait.
const TRIES: usize = 4;

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
        let is_exact = EXACT.contains(&mode);
        let is_size = |told: &Told| told.longest.0.abs_diff(told.max.0) * 20 <= told.max.0;
        let in_time = |told: &Told| {
            // On a busy machine a job may be late indeed.
            let failed = told.late == 0 && told.outcome == Some(Outcome::Fail);
            assert!(!failed, "{mode}: {:?}", told.reasons);
            told.late > 0 || !is_exact || is_size(told)
        };
        let tries = (0..TRIES).map(|_| recorded(&program, place.path(), &[mode]));
        let wrong: Vec<Told> = tries.take_while(|told| !in_time(told)).collect();
        assert!(wrong.len() < TRIES, "{mode}: {wrong:#?}");
        let late = |told: &Told| {
            assert!(told.late > 0 && told.max > DEADLINE, "{mode} itself was not late");
            assert_ne!(told.outcome, Some(Outcome::Pass), "{mode}: {:?}", told.reasons);
            !is_exact || (told.outcome == Some(Outcome::Fail) && is_size(told))
        };
        let tries = (0..TRIES).map(|_| recorded(&program, place.path(), &[mode, "late"]));
        let wrong: Vec<Told> = tries.take_while(|told| !late(told)).collect();
        assert!(wrong.len() < TRIES, "{mode}: {wrong:#?}");
    }
}
