//! Late jobs behind many interfaces of the kernel (`sources.c`): none of them passes, and a job that the kernel shows whole
//! has its size.

use lathunt_core::verdict::Outcome;

use super::hidden::{recorded, some, Told, DEADLINE};
use super::truths::build;
use super::*;

/// Runs of one program at most.
const TRIES: usize = 4;
/// Jobs between two waits of one thread.
const SEEN: [&str; 12] = [
    "semlate",
    "inolate",
    "threadid",
    "pidfdlate",
    "faultlate",
    "supervised",
    "onboottime",
    "onrealtime",
    "ontai",
    "throttled",
    "lathunt",
    "oddname",
];
/// Jobs of two halves with a wait between them, or of several threads; and the thread that a doubt or a failure names.
const UNSEEN: [(&str, &str); 13] = [
    ("sysvhalf", "sysvhalf"),
    ("efdhalf", "efdhalf"),
    ("pollmany", "pollmany"),
    ("nested", "nested"),
    ("oneshot", "oneshot"),
    ("linkhalf", "linkhalf"),
    ("flocklate", "flocklate"),
    ("fanhalf", "fanhalf"),
    ("robustlate", "robustlate"),
    ("sqpoll", "sqpoll"),
    ("signalmix", "signalmix"),
    ("twins", "twin"),
    ("stealing", "steals"),
];

#[test]
#[ignore = "root: run by make test"]
fn late_jobs_behind_any_interface_of_the_kernel_do_not_pass() {
    let one_cpu = || (std::thread::available_parallelism().unwrap().get() < 2).then_some("needs two CPUs");
    if !may_run("late_jobs_behind_any_interface", lacks_bpf().or_else(one_cpu)) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let program = build(place.path(), "sources");
    let seen = SEEN.map(|mode| (mode, mode));
    for (mode, thread) in some(&UNSEEN, 3).chain(some(&seen, 3)) {
        let right = |told: &Told| {
            assert!(told.late > 0 && told.max > DEADLINE, "{mode} itself was not late");
            assert_ne!(told.outcome, Some(Outcome::Pass), "{mode}: {:?}", told.reasons);
            // Whatever else a busy machine makes doubtful.
            let named = told.reasons.iter().any(|reason| reason.starts_with(&format!("{thread}/")));
            let is_seen = SEEN.contains(&mode);
            assert!(named || is_seen, "{mode}: {:?}", told.reasons);
            let off = told.longest.0.abs_diff(told.max.0);
            !is_seen || told.outcome == Some(Outcome::Fail) && off * 20 <= told.max.0
        };
        // A busy machine may have hidden the worst job.
        let told = (0..TRIES).map(|_| recorded(&program, place.path(), &[mode]));
        let wrong: Vec<Told> = told.take_while(|told| !right(told)).collect();
        assert!(wrong.len() < TRIES, "{mode}: {wrong:#?}");
    }
}
