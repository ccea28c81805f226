//! Threads that end give their places to later ones.

use super::truths::build;
use super::*;

#[test]
#[ignore = "root: run by make test"]
fn a_late_job_after_more_threads_have_come_and_gone_than_are_kept_is_a_miss() {
    let what = "a_late_job_after_more_threads_have_come_and_gone_than_are_kept_is_a_miss";
    if !may_run(what, lacks_bpf()) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let (program, output) = (build(place.path(), "brief"), place.path().join("run"));
    let how = ["record", "-q", "--deadline", "control=5ms,*=none", "-o", output.to_str().unwrap(), "--"];
    let ended = command(&how).arg(program).output().unwrap();
    let run = read(&output);
    assert_eq!(ended.status.code(), Some(2), "{:?} {}", run.verdict, said(&ended));
    assert!(!run.losses.iter().any(|loss| loss.counter == "threads_beyond_limit"), "{:?}", run.losses);
    let control = run.tasks.iter().find(|task| task.thread.comm == "control").expect("it is kept apart");
    assert!(control.activations > 150 && control.misses > 0, "{control:?}");
    assert!(run.tasks.iter().any(|task| task.thread.comm == OTHERS), "those that ended are added up");
}
