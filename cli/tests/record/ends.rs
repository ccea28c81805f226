//! Threads whose jobs end in more than one place: the size of a late job is right, or said to be an upper limit.

use lathunt_core::application::Task;
use lathunt_core::verdict::Outcome;

use super::truths::build;
use super::*;

/// Runs of one program at most: a kernel that hides switches may have hidden its late jobs.
const TRIES: usize = 4;

/// What is found of one run of `ends`.
#[derive(Debug)]
struct Found {
    outcome: Option<Outcome>,
    text: String,
    longest: Ns,
    of_other_end: Option<Ns>,
    max: Ns,
}

impl Found {
    fn is_size(&self, size: Ns) -> bool {
        size.0.abs_diff(self.max.0) * 20 <= self.max.0
    }

    fn is_upper_limit(&self) -> bool {
        self.text.contains("an upper limit: it is not known whether its wait in futex")
    }
}

fn found(program: &Path, place: &Path, mode: &str) -> Found {
    let output = place.join("run");
    let ended = command(&["record", "--deadline", "ends=40ms,*=none", "-o", output.to_str().unwrap(), "--"])
        .args([program.to_str().unwrap(), mode])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&ended.stdout).into_owned();
    let truth = text.lines().find_map(|line| line.strip_prefix("TRUTH ")).unwrap_or_else(|| panic!("{text}"));
    let max = Ns(truth.split_whitespace().last().unwrap().parse().unwrap());
    assert!(max > Ns::from_ms(40), "{mode} itself was not late");
    let run = read(&output);
    let own = || run.tasks.iter().filter(|task| task.thread.comm == "ends");
    let longest = |task: &Task| task.of(Quantity::Response).and_then(|series| series.histogram.max());
    Found {
        outcome: run.verdict.as_ref().unwrap().outcome,
        longest: own().filter_map(longest).max().unwrap_or_default(),
        of_other_end: own().find_map(|task| task.may_end_earlier().map(|end| end.longest_ns)),
        text: text.split_whitespace().collect::<Vec<_>>().join(" "),
        max,
    }
}

#[test]
#[ignore = "root: run by make test"]
fn the_size_of_a_job_that_may_end_elsewhere_is_right_or_an_upper_limit() {
    let one_cpu = || (std::thread::available_parallelism().unwrap().get() < 2).then_some("needs two CPUs");
    if !may_run("the_size_of_a_job_that_may_end_elsewhere", lacks_bpf().or_else(one_cpu)) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let program = build(place.path(), "ends");
    type IsRight = fn(&Found) -> bool;
    let right: [(&str, IsRight); 4] = [
        ("turns", |of| of.is_upper_limit() && of.of_other_end.is_some_and(|size| of.is_size(size))),
        ("queued", Found::is_upper_limit),
        ("asks", |of| of.is_size(of.longest) && !of.is_upper_limit()),
        ("moved", |of| of.is_size(of.longest) && of.text.contains("to which mover/")),
    ];
    for (mode, is_right) in right {
        let tries = (0..TRIES).map(|_| found(&program, place.path(), mode));
        let wrong: Vec<Found> =
            tries.take_while(|of| of.outcome != Some(Outcome::Fail) || !is_right(of)).collect();
        assert!(wrong.len() < TRIES, "{mode}: {wrong:#?}");
    }
}
