//! Threads whose main wait may not be the release of their jobs (`assumed.c`): no failure without a late job, no PASS with one.

use lathunt_core::verdict::Outcome;

use super::hidden::{recorded, some, Told, DEADLINE};
use super::truths::build;
use super::*;

/// Without late jobs.
const IN_TIME: [&str; 5] = ["absspin", "semspin", "pollspin", "fromnow", "asks"];
/// With late jobs.
const LATE: [&str; 2] = ["always", "setup"];
/// Runs of one program at most.
const TRIES: usize = 4;

#[test]
#[ignore = "root: run by make test"]
fn a_wait_that_is_only_assumed_to_start_a_job_proves_no_late_one() {
    let one_cpu = || (std::thread::available_parallelism().unwrap().get() < 2).then_some("needs two CPUs");
    if !may_run("a_wait_that_is_only_assumed_to_start_a_job", lacks_bpf().or_else(one_cpu)) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let program = build(place.path(), "assumed");
    for mode in some(&IN_TIME, 2) {
        // On a busy machine, other threads may have been late.
        let failed = |told: &Told| told.outcome == Some(Outcome::Fail) && told.late == 0;
        let told = (0..TRIES).map(|_| recorded(&program, place.path(), &[mode]));
        let wrong: Vec<Told> = told.take_while(failed).collect();
        assert!(wrong.len() < TRIES, "{mode}: {wrong:#?}");
    }
    for mode in LATE {
        let told = recorded(&program, place.path(), &[mode]);
        assert!(told.late > 0 && told.max > DEADLINE, "{mode} itself was not late");
        assert_ne!(told.outcome, Some(Outcome::Pass), "{mode}: {:?}", told.reasons);
        let named = told.reasons.iter().any(|reason| reason.starts_with(&format!("{mode}/")));
        assert!(named, "{mode}: {:?}", told.reasons);
        // Work that always takes too long is the plainest failure.
        let failed = told.outcome == Some(Outcome::Fail);
        assert!(failed || mode != "always", "{mode}: {:?}", told.reasons);
    }
}
