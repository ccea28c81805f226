//! Applications composed of a way to release jobs and of something in the middle of each: all pairs in turn.

use lathunt_core::verdict::Outcome;

use super::hidden::{recorded, some, Told};
use super::truths::build;
use super::*;

/// The thread does not wait there: its late jobs are seen whole.
const WHOLE: [&str; 6] = ["nothing", "yield", "look", "rename", "file", "trigger"];
/// Runs of one program at most: a kernel that hides switches may have hidden its late jobs.
const TRIES: usize = 4;

#[test]
#[ignore = "root: run by make test"]
fn no_composed_program_with_late_jobs_passes_and_none_in_time_fails() {
    let one_cpu = || (std::thread::available_parallelism().unwrap().get() < 2).then_some("needs two CPUs");
    if !may_run("no_composed_program_with_late_jobs_passes", lacks_bpf().or_else(one_cpu)) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let program = build(place.path(), "composed");
    let all = Command::new(&program).output().unwrap();
    let all = String::from_utf8(all.stdout).unwrap();
    let pairs: Vec<(&str, &str)> = all.lines().filter_map(|line| line.split_once(' ')).collect();
    assert!(pairs.len() > 150, "{all}");
    for (release, middle) in some(&pairs, 34) {
        let late = recorded(&program, place.path(), &[release, middle, "late"]);
        assert!(late.late > 0, "{release} {middle} was not late");
        assert_ne!(late.outcome, Some(Outcome::Pass), "{release} {middle}: {:?}", late.reasons);
        if WHOLE.contains(&middle) {
            let right = |told: &Told| {
                told.outcome == Some(Outcome::Fail) && told.judged.0.abs_diff(told.max.0) * 20 <= told.max.0
            };
            let tries = (1..TRIES).map(|_| recorded(&program, place.path(), &[release, middle, "late"]));
            let wrong: Vec<Told> =
                std::iter::once(late).chain(tries).take_while(|told| !right(told)).collect();
            assert!(wrong.len() < TRIES, "{release} {middle}: {wrong:#?}");
        }
        // On a busy machine a job may be late indeed, of this thread or another one.
        let good = (0..TRIES).map(|_| recorded(&program, place.path(), &[release, middle]));
        let failed: Vec<Told> =
            good.take_while(|told| told.late == 0 && told.outcome == Some(Outcome::Fail)).collect();
        assert!(failed.len() < TRIES, "{release} {middle} was in time: {failed:#?}");
    }
}
