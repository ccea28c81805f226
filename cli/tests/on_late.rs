//! Actions on late cases, from outside: who runs where, with what on stdin, how often, and that nothing stays.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use lathunt_core::cpuset::CpuSet;
use lathunt_core::peak::Peak;
use lathunt_core::run::Run;
use lathunt_core::time::Ns;
use lathunt_host::sched;
use lathunt_host::testing::{lacks_bpf, lacks_root, may_run};

fn lathunt(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lathunt"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Every sample of the last CPU is late.
const ALL_LATE: [&str; 6] = ["cyclic", "-p0", "--no-mlock", "-q", "--deadline=1ns", "--worst=4"];

fn last_cpu() -> String {
    sched::affinity().unwrap().iter().last().unwrap().to_string()
}

fn run_in(directory: &Path) -> Run {
    Run::from_json(&fs::read_to_string(directory.join("run.lathunt.json")).unwrap()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_command_reads_the_late_case_away_from_the_measured_cpu_and_not_too_often() {
    let place = tempfile::tempdir().unwrap();
    let (seen, cpu) = (place.path().join("seen"), last_cpu());
    let action = format!(
        "(cat; echo; grep Cpus_allowed_list /proc/self/status; echo $LATHUNT_LIMIT_NS) >> {}",
        seen.display()
    );
    let output = lathunt(&ALL_LATE)
        .args(["-D2s", "-c", &cpu, "--on-late", &action, "--on-late-limit", "2", "-o"])
        .arg(place.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    let run = run_in(place.path());
    let done = run.on_late.unwrap();
    let samples = run.series[0].histogram.count();
    assert_eq!((done.above_ns, done.cases), (Some(Ns(1)), samples), "all samples are late");
    assert_eq!((done.actions.len(), done.withheld), (2, samples - 2));
    let seen = fs::read_to_string(seen).unwrap();
    let lines: Vec<&str> = seen.lines().collect();
    assert_eq!(lines.len(), 6, "{seen}");
    for (lines, action) in lines.chunks(3).zip(&done.actions) {
        let peak: Peak = serde_json::from_str(lines[0]).unwrap();
        assert_eq!((peak.begin, peak.total_ns), (action.case, action.total_ns));
        let allowed: CpuSet = lines[1].split_once(':').unwrap().1.trim().parse().unwrap();
        let measured: CpuSet = cpu.parse().unwrap();
        assert!(done.on_measured || !allowed.meets(&measured), "{allowed} is not away from {cpu}");
        assert_eq!(lines[2], "1");
        assert!(action.did[0].ends_with(": exit status 0") && action.begin > action.case, "{action:?}");
    }
    let overlaps = |peak: &&Peak| {
        let end = peak.begin + peak.total_ns;
        done.actions.iter().any(|one| one.begin < end && one.end.is_none_or(|until| peak.begin < until))
    };
    assert!(run.peaks.iter().all(|peak| peak.during_action == overlaps(&peak)));
}

#[test]
fn nothing_of_an_action_outlives_a_measurement_that_is_killed() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("pids");
    let action = format!("setsid sleep 91 & echo $! > {0}; sleep 92 & echo $! >> {0}; wait", file.display());
    let never = place.path().join("never");
    let after = format!("touch {}", never.display());
    let mut child = lathunt(&ALL_LATE)
        .args([
            "-D60s",
            "-c",
            &last_cpu(),
            "--on-late",
            &action,
            "--on-late",
            &after,
            "--on-late-timeout",
            "60s",
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let pids = || -> Vec<String> {
        fs::read_to_string(&file).unwrap_or_default().lines().map(str::to_owned).collect()
    };
    let is_asleep = |pid: &String| {
        let comm = fs::read_to_string(format!("/proc/{pid}/comm"));
        comm.is_ok_and(|comm| comm.trim_end() == "sleep")
    };
    let await_it = |what: &str, is_so: &dyn Fn() -> bool| {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < Duration::from_secs(20), "waited for {what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    await_it("both programs", &|| pids().len() == 2 && pids().iter().all(is_asleep));
    child.kill().unwrap();
    child.wait().unwrap();
    await_it("their end", &|| !pids().iter().any(is_asleep));
    std::thread::sleep(Duration::from_millis(200));
    assert!(!never.exists(), "an action began after the measurement was gone");
}

#[test]
fn what_cannot_be_done_is_refused_in_one_line_before_anything_is_measured() {
    let place = tempfile::tempdir().unwrap();
    let never = place.path().join("never");
    for (arguments, named) in [
        (&["cyclic", "--on-late", "true"][..], "no limit for late cases"),
        (&["cyclic", "--deadline", "1ms", "--on-late", "trace"], "hunt does"),
        (&["cyclic", "--deadline", "1ms", "--on-late", " "], "it is empty"),
        (&["cyclic", "--deadline", "1ms", "--on-late", "signal:1"], "PID above 1"),
        (&["hunt", "--deadline", "1ms", "--on-late", "signal:4194304"], "no process has this id"),
        (&["record", "--deadline", "1ms", "--on-late", "x", "--on-late-user", "no.such"], "no such user"),
        (&["record", "--deadline", "1ms", "--on-late", "x", "--on-late-limit", "0"], "not in 1..=600"),
        (&["hunt", "--on-late-above", "1ms"], "--on-late"),
        (&["npt", "--on-late", "x", "--on-late-above", "200ns"], "--threshold"),
    ] {
        let output = lathunt(arguments).args(["-o"]).arg(&never).output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.trim_end().lines().count() == 1 && said.contains(named), "{arguments:?}: {said}");
        assert!(!never.exists(), "{arguments:?}");
    }
}

#[test]
fn the_first_latency_above_the_limit_ends_a_measurement_with_exit_code_2() {
    let begun = Instant::now();
    let output = lathunt(&["cyclic", "-p0", "--no-mlock", "-q", "-D60s", "--stop-at=1ns"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    // What was not due any more is not missing.
    let place = tempfile::tempdir().unwrap();
    let shown = place.path().display().to_string();
    let output =
        lathunt(&["hunt", "-D60s", "--load", "none", "--stop-at=1ns", "-o", &shown]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("ended by --stop-at") && !said.contains("expected activation"), "{said}");
    let output = lathunt(&["npt", "-p0", "-n1e12", "--no-record", "-q", "--stop-at=1us"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("ended by --stop-at"), "{}", stderr(&output));
    assert!(begun.elapsed() < Duration::from_secs(30));
}

#[test]
#[ignore = "root"]
fn a_trace_that_was_kept_on_a_late_case_of_hunt_and_record_can_be_explained() {
    if !may_run("traces on late cases", lacks_root().or_else(lacks_bpf)) {
        return;
    }
    for command in [&["hunt", "--load=none", "-p50"][..], &["record", "--tasks=all"]] {
        let place = tempfile::tempdir().unwrap();
        let output = lathunt(command)
            .args(["-D4s", "-q", "--deadline=1us", "--on-late=trace", "--on-late-limit=1", "-o"])
            .arg(place.path())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{command:?}: {}", stderr(&output));
        let late = place.path().join("late-1");
        let case: Peak = serde_json::from_str(&fs::read_to_string(late.join("case.json")).unwrap()).unwrap();
        let done = run_in(place.path()).on_late.unwrap();
        assert_eq!((done.actions.len(), done.actions[0].case), (1, case.begin), "{done:?}");
        let explained = lathunt(&["explain"]).arg(&late).output().unwrap();
        let text = String::from_utf8_lossy(&explained.stdout).into_owned();
        assert!(explained.status.success() && text.contains(" events in "), "{text}{}", stderr(&explained));
    }
}

#[test]
#[ignore = "root"]
fn a_monitor_acts_on_late_wake_ups_of_others_and_says_how_many_there_were() {
    if !may_run("actions of a monitor", lacks_root().or_else(lacks_bpf)) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let seen = place.path().join("seen");
    let action = format!("(cat; echo) >> {}", seen.display());
    let mut child =
        lathunt(&["monitor", "--window=1s", "--listen=off", "--tasks=all", "--latency-deadline=1us"])
            .args(["--on-late", &action, "--on-late-limit=2", "--database"])
            .arg(place.path().join("monitor.sqlite"))
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
    let lines = || fs::read_to_string(&seen).unwrap_or_default().lines().count();
    let begun = Instant::now();
    while lines() < 2 && begun.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(50));
    }
    // SAFETY: a child of ours that was not waited for.
    unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGTERM) };
    let mut said = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut said).unwrap();
    assert!(child.wait().unwrap().success(), "{said}");
    let text = fs::read_to_string(&seen).unwrap();
    let cases: Vec<Peak> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(cases.len(), 2, "{said}");
    assert!(cases.iter().all(|case| case.total_ns > Ns(1_000) && case.victim.comm != "lathunt/on-late"));
    assert!(said.contains("late cases above 1.0 µs: 2 were acted on"), "{said}");
}
