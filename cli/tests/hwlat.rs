//! `lathunt hwlat` and its `hwlatdetect` personality.

use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use lathunt_core::time::{Cpu, Tid};
use lathunt_host::sched;
use lathunt_host::testing::{lacks_bpf, may_run};

fn lathunt(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lathunt")).args(arguments).output().unwrap()
}

fn has_tracer() -> bool {
    lathunt_host::instrument::hwlat::tracer::missing().is_none()
}

#[test]
fn bad_input_is_one_clear_line() {
    for (arguments, says) in [
        (vec!["--width", "2s"], "--width must be shorter"),
        (vec!["-c", "7000"], "CPU 7000"),
        (vec!["--threshold", "0"], "above 0"),
        (vec!["--detector", "magic"], "possible values"),
        (vec!["--detector", "spin", "--per-cpu"], "--per-cpu belongs to the kernel's tracer"),
        (vec!["-o", "/nonexistent/run"], "the directory does not exist"),
    ] {
        let output = lathunt(&[vec!["hwlat"], arguments.clone()].concat());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {stderr}");
        assert!(stderr.contains(says) && output.stdout.is_empty(), "{arguments:?}: {stderr}");
    }
}

#[test]
fn hwlatdetect_refuses_bad_options_on_one_line_as_argparse_numbers_it() {
    let called = |argument: &str| {
        Command::new(env!("CARGO_BIN_EXE_lathunt")).arg0("hwlatdetect").arg(argument).output().unwrap()
    };
    for (argument, code, says) in [
        ("--nonsense", 2, "error: unexpected argument '--nonsense'"),
        ("--duration=soon", 2, "error: invalid value 'soon'"),
        ("--w=1", 2, "--w"),
        ("--report=/nonexistent/report", 1, "the directory does not exist"),
    ] {
        let output = called(argument);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), stderr.lines().count()), (Some(code), 1), "{argument}: {stderr}");
        assert!(stderr.starts_with("hwlatdetect: ") && stderr.contains(says), "{argument}: {stderr}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn without_the_tracer_both_names_say_what_is_missing() {
    if has_tracer() {
        return; // then the lab's scenario shows it at work
    }
    let output = lathunt(&["hwlat", "--detector", "tracer", "-D", "1s"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr.contains("cannot use the kernel's tracer") && stderr.contains("--detector spin"),
        "{stderr}"
    );
    let called = Command::new(env!("CARGO_BIN_EXE_lathunt"))
        .arg0("hwlatdetect")
        .arg("--duration=1s")
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&called.stderr);
    assert_eq!(called.status.code(), Some(1));
    assert!(stderr.starts_with("hwlatdetect: ") && stderr.lines().count() == 1, "{stderr}");
    let unknown =
        Command::new(env!("CARGO_BIN_EXE_lathunt")).arg0("hwlatdetect").arg("--nonsense").output().unwrap();
    assert_eq!(unknown.status.code(), Some(2), "as argparse does");
}

/// The strongest test: a known disturbance, made by software, must be found, blamed on it, and never on hardware.
#[test]
#[ignore = "root: run by make test"]
fn an_injected_disturbance_is_found_and_is_not_called_hardware() {
    if !may_run("hwlat: injected disturbance", lacks_bpf()) {
        return;
    }
    // The thread goes before the loop, which is FIFO there; with interrupts off it is injected by a thread that shares
    // the CPU with an ordinary loop, as the loops on all CPUs are.
    let all = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    for (kind, cpus) in [("thread", "0"), ("irqoff", all.trim())] {
        let mut injected = Command::new(env!("CARGO_BIN_EXE_lathunt"))
            .args(["inject", kind, "-c", "0", "--length", "30ms", "--every", "100ms", "-n", "30"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let output =
            lathunt(&["hwlat", "--detector", "spin", "-c", cpus, "-D", "2s", "--threshold", "1ms", "--json"]);
        assert!(injected.wait().unwrap().success());
        assert!(output.status.success(), "{output:?}");
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let worst = report["found"][0]["worst"].as_array().unwrap().clone();
        let ours: Vec<_> = worst
            .iter()
            .filter(|gap| gap["cpu"] == 0 && gap["gap_ns"].as_u64().unwrap() >= 29_000_000)
            .collect();
        assert!(!ours.is_empty(), "{kind}: an injected gap of 30 ms was not seen: {report}");
        for gap in &ours {
            let cause = &gap["judgement"]["cause"];
            let outside = ["hardware", "hardware_or_host", "smi", "clock"];
            assert!(outside.iter().all(|one| cause != one), "{kind}: {gap}");
        }
        let blamed = |gap: &&serde_json::Value| {
            gap["judgement"]["cause"] == "software"
                && gap["judgement"]["reasons"].to_string().contains("lathunt")
        };
        assert!(ours.iter().copied().any(|gap| blamed(&gap)), "{kind}: the record must show it: {ours:?}");
    }
}

#[test]
fn the_gaps_are_a_run_that_can_be_drawn() {
    let directory = tempfile::tempdir().unwrap();
    let run = directory.path().join("gaps.lathunt.json");
    let run = run.to_str().unwrap();
    let arguments = [
        "hwlat",
        "--detector",
        "spin",
        "-D",
        "500ms",
        "--window",
        "100ms",
        "--width",
        "50ms",
        "--threshold",
        "2us",
    ];
    let output = lathunt(&[&arguments[..], &["--histogram", "-o", run]].concat());
    assert!(output.status.success(), "{output:?}");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let kept = lathunt_core::run::Run::from_json(&std::fs::read_to_string(run).unwrap()).unwrap();
    let gaps: u64 =
        kept.of(lathunt_core::series::Quantity::Hardware).map(|series| series.histogram.count()).sum();
    assert!(gaps > 0, "half a second of a loop has gaps of 2 µs: {told}");
    assert!(told.contains(&format!("spin: {gaps} gaps")) && told.contains("Gaps on CPU 0, spin"), "{told}");
    let drawn = directory.path().join("gaps.svg");
    let drawn = drawn.to_str().unwrap();
    let plot = lathunt(&["plot", run, "-o", drawn]);
    assert!(plot.status.success(), "{plot:?}");
    assert!(std::fs::read_to_string(drawn).unwrap().contains("</svg>"));
}

#[test]
#[ignore = "root: run by make test"]
fn a_loop_that_was_moved_away_is_not_explained_by_its_former_cpu() {
    let last = sched::affinity().unwrap().iter().next_back().unwrap();
    let lacks = || (last == Cpu(0)).then_some("a second CPU");
    if !may_run("hwlat: a loop that was moved away", lacks_bpf().or_else(lacks)) {
        return;
    }
    // On CPU 0 a thread of higher priority takes 10 ms, again and again.
    let mut injected = Command::new(env!("CARGO_BIN_EXE_lathunt"))
        .args(["inject", "thread", "-c", "0", "--length", "10ms", "--every", "50ms", "-n", "100"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let running = Command::new(env!("CARGO_BIN_EXE_lathunt"))
        .args(["hwlat", "--detector", "spin", "-c", &last.to_string(), "-D", "3s", "--threshold", "1ms"])
        .args(["--hardlimit", "5ms", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let watching = loop {
        let threads = std::fs::read_dir(format!("/proc/{}/task", running.id())).unwrap().flatten();
        let mut tids = threads.filter_map(|thread| thread.file_name().to_str()?.parse().ok().map(Tid));
        // SAFETY: no pointers.
        let is_fifo = |tid: &Tid| unsafe { libc::sched_getscheduler(tid.0) } == libc::SCHED_FIFO;
        if let Some(tid) = tids.find(is_fifo) {
            break tid;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    sched::set_affinity_of(watching, &[Cpu(0)].into_iter().collect()).unwrap();
    let output = running.wait_with_output().unwrap();
    assert!(injected.wait().unwrap().success());
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let worst = report["found"][0]["worst"].as_array().unwrap();
    let ours: Vec<_> = worst.iter().filter(|gap| gap["gap_ns"].as_u64().unwrap() >= 9_000_000).collect();
    assert!(ours.len() >= 5, "{worst:?}");
    for gap in ours {
        let judgement = &gap["judgement"];
        assert_eq!(judgement["cause"], "cannot_tell", "{gap}");
        assert_eq!(judgement["reasons"][0], "the loop was on another CPU", "{gap}");
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains("cannot be identified"), "{stderr}");
}

#[test]
fn a_limit_that_was_kept_for_a_moment_is_no_pass() {
    let output = lathunt(&["hwlat", "--detector", "spin", "-c", "0", "-D", "2s", "--hardlimit", "1h"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains("s only: at least 30.0 s without a gap above the limit"), "{stderr}");
}
