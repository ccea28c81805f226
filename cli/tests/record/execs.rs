//! A program that a thread other than the first one of its process executes.

use lathunt_core::application::Task;
use lathunt_core::verdict::Outcome;

use super::truths::build;
use super::*;

#[test]
#[ignore = "root: run by make test"]
fn what_a_thread_does_after_an_exec_until_its_first_wait_is_in_a_figure() {
    if !may_run("what_a_thread_does_after_an_exec_until_its_first_wait", lacks_bpf()) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let (program, output) = (build(place.path(), "execs"), place.path().join("run"));
    let recorded = ["record", "-q", "--force", "--deadline", "50ms", "-o", output.to_str().unwrap()];
    for by_name in [false, true] {
        let ended = if by_name {
            let mut named = command(&recorded);
            named.args(["-D", "5s", "--tasks", "comm:execs"]).stderr(std::process::Stdio::piped());
            fs::remove_dir_all(&output).unwrap();
            let mut recording = named.stdout(std::process::Stdio::piped()).spawn().unwrap();
            while recording.try_wait().unwrap().is_none() {
                assert!(Command::new(&program).status().unwrap().success());
            }
            recording.wait_with_output().unwrap()
        } else {
            command(&recorded).arg("--").arg(&program).output().unwrap()
        };
        assert!(output.join("run.lathunt.json").exists(), "by name: {by_name}: {}", said(&ended));
        let run = read(&output);
        let longest = |task: &Task| {
            let response = task.of(Quantity::Response).and_then(|series| series.histogram.max());
            response.max(task.outside_ns)
        };
        // The first thread of the process has ended; the one that executes has its id from then on.
        let (new, old): (Vec<_>, Vec<_>) = run.tasks.iter().partition(|task| task.thread.tid == task.process);
        let worked = new.iter().filter_map(|task| longest(task)).max();
        assert!(worked >= Some(Ns::from_ms(190)), "by name: {by_name}: {worked:?} {}", said(&ended));
        assert!(
            old.iter().all(|task| longest(task) < Some(Ns::from_ms(100))),
            "by name: {by_name}: {}",
            said(&ended)
        );
        assert_ne!(run.verdict.unwrap().outcome, Some(Outcome::Pass), "by name: {by_name}");
    }
}
