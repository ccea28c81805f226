//! Programs that change how they wait, whose timers are armed late by another thread, or whose sleeps are interrupted.

use super::truths::build;
use super::*;

#[test]
#[ignore = "root: run by make test"]
fn a_late_job_is_found_after_a_change_of_the_wait_and_after_a_late_arming_and_signals_are_no_jobs() {
    if !may_run("a_late_job_is_found_after_a_change_of_the_wait_and_after_a_late_arming", lacks_bpf()) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let (program, output) = (build(place.path(), "changes"), place.path().join("run"));
    let recorded = |what: &str| {
        let ended =
            command(&["record", "-q", "--force", "--deadline", "50ms", "-o", output.to_str().unwrap(), "--"])
                .args([program.as_os_str(), what.as_ref()])
                .output()
                .unwrap();
        let tasks: Vec<_> = read(&output).tasks.into_iter().filter(|task| task.thread.comm == what).collect();
        let longest = tasks.iter().filter_map(|task| task.of(Quantity::Response)?.histogram.max()).max();
        let lost: u64 = tasks.iter().map(|task| task.not_recorded).sum();
        (ended.status.code(), tasks, longest.unwrap(), lost)
    };
    for (what, least) in [("changes", Ns::from_ms(70)), ("rearm", Ns::from_ms(60))] {
        let (code, tasks, longest, lost) = recorded(what);
        assert!(matches!(code, Some(2 | 3)), "{what}: {code:?}");
        // The kernel may have hidden it.
        assert!(longest >= least || lost > 0, "{what}: {longest}: {tasks:?}");
    }
    for what in ["interrupted", "remaining"] {
        let (_, tasks, _, lost) = recorded(what);
        let jobs = tasks.iter().map(|task| task.activations).sum::<u64>();
        assert!(jobs <= 45 + lost, "{what}, {lost}: {tasks:?}");
    }
    // 100 more jobs would follow.
    let ended = command(&["record", "--force", "--stop-at", "50ms", "-o", output.to_str().unwrap(), "--"])
        .args([program.as_os_str(), "changes".as_ref()])
        .output()
        .unwrap();
    let said = [ended.stdout, ended.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let tasks = read(&output).tasks;
    let lost: u64 = tasks.iter().map(|task| task.not_recorded).sum();
    let is_said = said.contains("lathunt: ended by --stop-at: 7");
    // The kernel may have hidden the end of that job.
    let is_seen = tasks
        .iter()
        .any(|task| task.of(Quantity::Response).and_then(|all| all.histogram.max()) >= Some(Ns::from_ms(70)));
    assert!(is_said || (lost > 0 && !is_seen), "{said}");
}

/// A call sets the priority of the owner, and sets it back before the owner leaves the CPU: no switch shows it.
#[test]
#[ignore = "root: run by make test"]
fn the_owner_of_a_mutex_with_a_priority_ceiling_runs_by_right() {
    if !may_run("the_owner_of_a_mutex_with_a_priority_ceiling_runs_by_right", lacks_bpf()) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let (program, output) = (build(place.path(), "ceiling"), place.path().join("run"));
    let words = ["record", "-q", "--deadline", "1ms", "-o", output.to_str().unwrap(), "--"];
    let ended = command(&words).arg(&program).output().unwrap();
    let run = read(&output);
    let late =
        run.peaks.iter().filter(|peak| peak.victim.comm == "ctrl" && peak.total_ns > Ns::from_us(1_500));
    let causes: Vec<&str> = late.filter_map(|peak| Some(peak.explanation.as_ref()?.cause.as_str())).collect();
    assert!(
        causes.iter().filter(|cause| **cause == "thread: owner").count() >= 2,
        "{causes:?} {}",
        said(&ended)
    );
    assert!(!causes.iter().any(|cause| cause.contains("preemption off")), "{causes:?}");
    let sentences = run.peaks.iter().filter_map(|peak| Some(&peak.explanation.as_ref()?.sentence));
    assert!(
        sentences.clone().any(|sentence| sentence.contains("owner/") && sentence.contains("(RT 90)")),
        "{:#?}",
        sentences.collect::<Vec<_>>()
    );
}
