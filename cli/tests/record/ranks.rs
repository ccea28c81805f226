//! A thread that loses its priority while it waits, and one that waits behind threads of its own and of higher priority.

use lathunt_core::peak::Peak;

use super::*;

/// A recording of all real-time threads beside `tests/record/ranks.c`, and the longest latency of its victim as it saw it.
fn recorded(what: &str) -> (Run, Ns) {
    let place = tempfile::tempdir().unwrap();
    let (program, output) = (truths::build(place.path(), "ranks"), place.path().join("run"));
    let mut beside = cyclic("0", "20"); // so that there is something to record
    let words = ["record", "--tasks", "rt", "-q", "--deadline", "3ms", "-o", output.to_str().unwrap()];
    let recording = command(&words)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    wait_until_it_records(&output);
    let said = Command::new(program).arg(what).output().unwrap();
    let pid = recording.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let ended = recording.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(2), "{}", String::from_utf8_lossy(&ended.stderr));
    beside.kill().unwrap();
    beside.wait().unwrap();
    (read(&output), Ns(String::from_utf8_lossy(&said.stdout).trim().parse().unwrap()))
}

fn of_victim(run: &Run) -> Vec<&Peak> {
    run.peaks.iter().filter(|peak| peak.victim.comm == "victim").collect()
}

#[test]
#[ignore = "root: run by make test"]
fn who_loses_its_priority_while_it_waits_is_late_all_the_same() {
    if !may_run("who_loses_its_priority_while_it_waits", lacks_bpf()) {
        return;
    }
    let (run, late) = recorded("demoted");
    assert!(late > Ns::from_ms(700), "{late}: it was not kept waiting");
    let max = run.max_of(Quantity::TimerWakeup).unwrap();
    assert!(max.0.abs_diff(late.0) * 20 <= late.0, "{late} late, at most {max} recorded");
    let peaks = of_victim(&run);
    let worst = peaks.iter().find(|peak| peak.total_ns == max).unwrap_or_else(|| panic!("{peaks:#?}"));
    assert!(worst.culprit.as_ref().is_some_and(|who| who.contains("hog")), "{worst:?}");
}

#[test]
#[ignore = "root: run by make test"]
fn a_wait_is_no_order_of_fifo_because_a_thread_of_its_priority_came_last() {
    if !may_run("a_wait_is_no_order_of_fifo", lacks_bpf()) {
        return;
    }
    let (run, late) = recorded("shared");
    assert!(late > Ns::from_ms(4), "{late}: it was not kept waiting");
    let peaks = of_victim(&run);
    assert!(!peaks.is_empty(), "{:?}", run.peaks);
    for peak in peaks {
        let told = peak.explanation.as_ref().map(|why| why.sentence.as_str()).unwrap_or_default();
        assert!(told.contains("hog/") || peak.no_evidence.is_some(), "{peak:?}");
        let blamed = peak.culprit.as_deref().unwrap_or_default();
        assert!(!blamed.contains("equal"), "{peak:?}");
    }
    let reasons = &run.verdict.as_ref().unwrap().reasons;
    assert!(!reasons.iter().any(|reason| reason.contains("order of SCHED_FIFO")), "{reasons:?}");
}
