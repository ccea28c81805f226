//! Applications with late work in hiding there, on a kernel that shows every switch: they fail, and their late jobs have
//! their number and size.

use lathunt_core::application::Task;
use lathunt_core::run::Run;
use lathunt_core::series::Quantity;
use lathunt_core::verdict::Outcome as Verdict;

use crate::boot::Outcome;

/// Modes of cli/tests/record/hidden.c in lab/scenarios/hidden.sh, each with the thread that is late there.
const MODES: [(&str, &str); 2] = [("plain", "plain"), ("threadjob", "spawner")];

#[test]
#[ignore = "lab: run by make test"]
fn late_jobs_have_their_number_and_size_where_the_kernel_shows_every_switch() {
    let Some(outcome) = Outcome::of("hidden", "lab: late work in hiding") else { return };
    late_jobs_are_counted_and_sized(&outcome, &MODES);
}

/// In each of these modes, with the thread that is late there.
pub fn late_jobs_are_counted_and_sized(outcome: &Outcome, modes: &[(&str, &str)]) {
    for &(mode, thread) in modes {
        let talk = outcome.text(&format!("{mode}.talk"));
        let truth =
            talk.lines().find_map(|line| line.strip_prefix("TRUTH ")).unwrap_or_else(|| panic!("{talk}"));
        let truth: Vec<u64> = truth.split_whitespace().map(|number| number.parse().unwrap()).collect();
        let (late, max) = (truth[1], truth[2]);
        let run = Run::from_json(&outcome.text(&format!("{mode}.json")))
            .unwrap_or_else(|error| panic!("{mode}: {error}\n{talk}"));
        let verdict = run.verdict.unwrap();
        println!("{mode}: {late} late, {max} ns at most; {:?} {:?}", verdict.outcome, verdict.reasons);
        assert!(late > 0, "{mode} itself was not late");
        assert_eq!(verdict.outcome, Some(Verdict::Fail), "{mode}: {:?}", verdict.reasons);
        let longest = |task: &Task| task.of(Quantity::Response)?.histogram.max();
        let of_it = || run.tasks.iter().filter(|task| task.thread.comm == thread);
        let longest = of_it().filter_map(longest).max().unwrap_or_default();
        let misses: u64 = of_it().map(|task| task.misses).sum();
        // The guest shares its CPUs with whatever else its host does: milliseconds lie between two readings of a clock there.
        let apart = longest.0.abs_diff(max);
        assert!(
            apart * 20 <= max || apart <= 5_000_000,
            "{mode}: {longest} of {max} ns: {:?}",
            verdict.reasons
        );
        assert!(misses.abs_diff(late) <= 1, "{mode}: {misses} of {late}: {:?}", verdict.reasons);
    }
}
