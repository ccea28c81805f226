//! What a recording leaves in its directory and on the machine.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lathunt_host::testing::may_run;
use lathunt_host::tracefs::Tracefs;
use serde_json::Value;

use super::{directory, instances, lathunt, lathunt_ok, may_trace, shown};

fn conditions(directory: &Path) -> Value {
    let text = std::fs::read_to_string(directory.join("conditions.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// What of the top-level buffer could have been touched.
fn top_level() -> Vec<String> {
    let files =
        ["tracing_on", "current_tracer", "set_event", "trace_clock", "buffer_size_kb", "set_ftrace_filter"];
    let tracefs = Tracefs::open().expect("the test may trace");
    files.iter().map(|file| std::fs::read_to_string(tracefs.root().join(file)).unwrap_or_default()).collect()
}

#[test]
#[ignore = "root: run by make test"]
fn trace_cmd_reads_every_event_of_our_trace_without_a_warning() {
    if !may_trace("trace_cmd_reads_every_event_of_our_trace_without_a_warning") {
        return;
    }
    let peer = Command::new("trace-cmd").arg("--version").output();
    let absent = peer.is_err().then_some("trace-cmd is not installed");
    if !may_run("trace_cmd_reads_every_event_of_our_trace_without_a_warning", absent) {
        return;
    }
    let (top, out) = (top_level(), directory());
    lathunt_ok(&["trace", "-o", shown(out.path()), "--", "sh", "-c", "sleep 0.2; cat /proc/stat >/dev/null"]);
    assert_eq!((top_level(), instances().len()), (top, 0), "the machine's own tracing is as it was");
    let report = Command::new("trace-cmd").arg("report").arg(out.path().join("trace.dat")).output().unwrap();
    let said = String::from_utf8_lossy(&report.stderr);
    assert!(report.status.success() && said.is_empty(), "{said}");
    let text = String::from_utf8_lossy(&report.stdout);
    let lines = text.lines().filter(|line| !line.starts_with("cpus=")).count();
    assert!(text.contains("sched_switch:") && text.contains("sched_waking:"));
    let summary: Value =
        serde_json::from_str(&lathunt_ok(&["explain", shown(out.path()), "--summary", "--json"])).unwrap();
    assert_eq!(summary["events"].as_u64(), Some(lines as u64), "as many as trace-cmd shows");
    let conditions = conditions(out.path());
    assert_eq!(conditions["recording"]["overwritten"], 0);
    assert!(conditions["conditions"]["kernel"]["release"].is_string());
    let maps = std::fs::read_to_string(out.path().join("maps")).unwrap();
    assert!(maps.starts_with("# ") && maps.contains(" /"), "{maps}");
}

#[test]
#[ignore = "root: run by make test"]
fn what_a_killed_recording_leaves_is_removed_by_restore() {
    if !may_trace("what_a_killed_recording_leaves_is_removed_by_restore") {
        return;
    }
    let out = directory();
    let mut recording = Command::new(env!("CARGO_BIN_EXE_lathunt"))
        .args(["trace", "-o", shown(out.path())])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let begin = Instant::now();
    while instances().is_empty() && begin.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let left = instances();
    recording.kill().unwrap();
    recording.wait().unwrap();
    assert_eq!((left.len(), instances()), (1, left.clone()), "nobody could remove it");
    let listed = lathunt_ok(&["restore", "--list"]);
    assert!(listed.contains(&left[0]), "{listed}");
    lathunt_ok(&["restore"]);
    assert_eq!(instances(), Vec::<String>::new());
}

/// A recording into `out` that has begun, with its instance.
fn begun(out: &Path, arguments: &[&str]) -> (Child, String) {
    let mut recording = Command::new(env!("CARGO_BIN_EXE_lathunt"));
    recording.args(["trace", "-o", shown(out)]).args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
    let mut recording = recording.spawn().unwrap();
    let (tracefs, begin) = (Tracefs::open().expect("the test may trace"), Instant::now());
    let on = |name: &String| {
        let path = tracefs.root().join("instances").join(name).join("tracing_on");
        std::fs::read_to_string(path).is_ok_and(|text| text.trim() == "1")
    };
    let instance = loop {
        // A new instance is on until its settings are made.
        let has_begun = out.join("trace.dat.head").exists();
        if let Some(instance) = instances().into_iter().find(on).filter(|_| has_begun) {
            break instance;
        }
        if begin.elapsed() > Duration::from_secs(20) {
            recording.kill().unwrap();
            panic!("no recording began: {:?}", recording.wait());
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    (recording, instance)
}

/// A container with the right to trace: its processes do not see that of the recording.
#[test]
#[ignore = "root: run by make test"]
fn a_recording_is_left_alone_by_lathunt_in_another_pid_namespace() {
    if !may_trace("a_recording_is_left_alone_by_lathunt_in_another_pid_namespace") {
        return;
    }
    let (out, inner) = (directory(), directory());
    let (mut recording, instance) = begun(out.path(), &["--", "sleep", "3"]);
    let inside = |arguments: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--mount-proc", env!("CARGO_BIN_EXE_lathunt")]).args(arguments);
        command.output().unwrap()
    };
    let listed = inside(&["restore", "--list"]);
    assert!(!String::from_utf8_lossy(&listed.stdout).contains(&instance), "{listed:?}");
    let other = inside(&["trace", "-o", shown(inner.path()), "-D", "0.1"]);
    assert!(other.status.success(), "{other:?}");
    assert!(instances().contains(&instance));
    assert_eq!(recording.wait().unwrap().code(), Some(0));
    assert_eq!(conditions(out.path())["recording"]["switched_off"], false);
}

#[test]
#[ignore = "root: run by make test"]
fn a_recording_that_another_program_switches_off_is_not_whole() {
    if !may_trace("a_recording_that_another_program_switches_off_is_not_whole") {
        return;
    }
    let tracefs = Tracefs::open().expect("the test may trace");
    for (file, arguments) in [
        ("tracing_on", &["-D", "60"][..]),
        ("events/enable", &["-D", "60"]),
        ("tracing_on", &["--", "sleep", "2"]),
    ] {
        let out = directory();
        let (mut recording, instance) = begun(out.path(), arguments);
        std::fs::write(tracefs.root().join("instances").join(instance).join(file), "0").unwrap();
        let begin = Instant::now();
        assert_eq!(recording.wait().unwrap().code(), Some(3), "{file} {arguments:?}");
        assert!(begin.elapsed() < Duration::from_secs(30), "it ends, as nothing is left to wait for");
        let conditions = conditions(out.path());
        assert_eq!(conditions["recording"]["switched_off"], true, "{file} {arguments:?}");
        let notes = conditions["recording"]["notes"].to_string();
        assert!(notes.contains("another program switched off"), "{notes}");
    }
}

#[test]
#[ignore = "root: run by make test"]
fn what_was_written_before_a_recording_was_killed_is_explained() {
    if !may_trace("what_was_written_before_a_recording_was_killed_is_explained") {
        return;
    }
    let out = directory();
    let mut recording = Command::new(env!("CARGO_BIN_EXE_lathunt"))
        .args(["trace", "--events", "full", "-o", shown(out.path())])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let pages = || {
        let size = |cpu| std::fs::metadata(out.path().join(format!("trace.dat.cpu{cpu}"))).map(|m| m.len());
        (0..2).map(|cpu| size(cpu).unwrap_or(0)).sum::<u64>()
    };
    let begin = Instant::now();
    while pages() < 1 << 20 && begin.elapsed() < Duration::from_secs(60) {
        // Something to record: system calls, and a process now and then.
        let _ = Command::new("true").status();
    }
    recording.kill().unwrap();
    recording.wait().unwrap();
    let maps = std::fs::read_to_string(out.path().join("maps")).unwrap();
    assert!(maps.contains(&format!("# {} ", std::process::id())), "what ran at the begin: {maps}");
    lathunt_ok(&["restore"]);
    let ask = |question: &str, status: i32| -> Value {
        let said = lathunt(&["explain", shown(out.path()), question, "--json"]);
        assert_eq!(said.status.code(), Some(status), "{question}");
        serde_json::from_slice(&said.stdout).unwrap()
    };
    assert!(ask("--summary", 3)["events"].as_u64().unwrap() > 1000);
    let answers = ask("--wakeups", 3);
    assert!(answers["passages"][0]["sentence"].as_str().is_some_and(|sentence| !sentence.is_empty()));
    let limits = answers["limits"].to_string();
    assert!(limits.contains("did not come to its end"), "{limits}");
    // The next recording into the same directory takes its place.
    lathunt_ok(&["trace", "-o", shown(out.path()), "-D", "0.1"]);
    assert!(out.path().join("trace.dat").is_file() && !out.path().join("trace.dat.head").exists());
    assert_eq!(pages(), 0);
    assert!(!ask("--wakeups", 0)["limits"].to_string().contains("did not come to its end"));
}

#[test]
#[ignore = "root: run by make test"]
fn what_a_small_ring_loses_is_counted_and_shown_where_it_was_lost() {
    if !may_trace("what_a_small_ring_loses_is_counted_and_shown_where_it_was_lost") {
        return;
    }
    let out = directory();
    let load = ["dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=300000", "status=none"];
    let mut arguments = vec!["trace", "--events", "full", "--ring", "64K", "-o", shown(out.path()), "--"];
    arguments.extend(load);
    let recorded = lathunt(&arguments);
    assert_eq!(recorded.status.code(), Some(3), "{recorded:?}");
    let overwritten = conditions(out.path())["recording"]["overwritten"].as_u64().unwrap();
    assert!(overwritten > 10_000, "{overwritten}");
    let summary: Value =
        serde_json::from_str(&lathunt_ok(&["explain", shown(out.path()), "--summary", "--json"])).unwrap();
    let lost: u64 = summary["cpus"].as_array().unwrap().iter().map(|cpu| cpu["lost"].as_u64().unwrap()).sum();
    // Where the last page before a gap is full to its end, the kernel marks the gap without a number.
    assert!(lost > 0, "{overwritten} are lost, and none of them is marked in the trace");
}

#[test]
#[ignore = "root: run by make test"]
fn the_newest_events_are_kept_by_bpf_and_explained_like_any_other() {
    if !may_run(
        "the_newest_events_are_kept_by_bpf_and_explained_like_any_other",
        lathunt_host::testing::lacks_bpf(),
    ) {
        return;
    }
    let out = directory();
    lathunt_ok(&["trace", "--flight", "-o", shown(out.path()), "--", "sh", "-c", "sleep 0.1; sleep 0.123"]);
    for file in ["flight.bin", "kallsyms", "interrupts", "maps", "conditions.json"] {
        assert!(out.path().join(file).is_file(), "{file}");
    }
    let asked = ["explain", shown(out.path()), "--wakeups", "--comm", "sleep", "--json"];
    let answers: Value = serde_json::from_str(&lathunt_ok(&asked)).unwrap();
    let worst = &answers["passages"][0];
    assert!(worst["sentence"].as_str().is_some_and(|sentence| !sentence.is_empty()), "{answers:#}");
    assert!(lathunt_ok(&["explain", shown(out.path()), "--summary"]).contains("sleep/"));
}

#[test]
#[ignore = "root: run by make test"]
fn events_that_a_flight_ring_did_not_keep_are_counted_and_its_size_is_not_an_option() {
    const TEST: &str = "events_that_a_flight_ring_did_not_keep_are_counted_and_its_size_is_not_an_option";
    if !may_run(TEST, lathunt_host::testing::lacks_bpf()) {
        return;
    }
    let out = directory();
    // Each program is a fork, wake-ups and switches on one CPU: more than 4096 events.
    let programs = "i=0; while [ $i -lt 1500 ]; do /bin/true; i=$((i+1)); done";
    let arguments = [
        "trace",
        "--flight",
        "--ring",
        "64K",
        "-o",
        shown(out.path()),
        "--",
        "taskset",
        "-c",
        "0",
        "sh",
        "-c",
        programs,
    ];
    let recorded = lathunt(&arguments);
    let said = String::from_utf8_lossy(&recorded.stderr);
    assert!(recorded.status.success() && said.contains("--ring has no effect"), "{recorded:?}");
    let recording = &conditions(out.path())["recording"];
    assert!(recording["overwritten"].as_u64().unwrap() > 0, "{recording}");
    assert!(recording["notes"].to_string().contains("--ring has no effect"), "{recording}");
    assert!(String::from_utf8_lossy(&recorded.stdout).contains("overwritten as requested"));
}

#[test]
#[ignore = "root: run by make test"]
fn functions_are_recorded_or_it_is_said_in_one_line_why_not() {
    if !may_trace("functions_are_recorded_or_it_is_said_in_one_line_why_not") {
        return;
    }
    let out = directory();
    let output = lathunt(&["trace", "--function", "--events", "min", "-D", "0.1", "-o", shown(out.path())]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("4 times slower"), "the cost is said: {said}");
    match output.status.code() {
        Some(1) => assert_eq!(said.lines().count(), 2, "the warning and the reason: {said}"),
        _ => {
            let report = lathunt_ok(&["explain", shown(out.path()), "--summary", "--json"]);
            let summary: Value = serde_json::from_str(&report).unwrap();
            assert!(summary["events"].as_u64().unwrap() > 1000, "{said}");
        }
    }
    assert_eq!(instances().len(), 0);
}
