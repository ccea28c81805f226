//! `lathunt npt`: the forms of its output, its errors, and its end by a signal.

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use lathunt_core::run::Run;
use lathunt_core::series::Quantity;
use lathunt_host::instrument::npt::probe::Kind;
use lathunt_host::testing::{lacks_bpf, may_run};
use lathunt_host::tracefs::Tracefs;

fn lathunt(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lathunt")).args(arguments).output().unwrap()
}

fn ok(arguments: &[&str]) -> String {
    let output = lathunt(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn bad_input_is_one_clear_line() {
    for (arguments, says) in [
        (vec!["-c", "7000"], "CPU 7000"),
        (vec!["--threshold", "10ns"], "at least 100 ns"),
        (vec!["-n", "0"], "whole number"),
        (vec!["-p", "100"], "100"),
        (vec!["--probe", "magic"], "possible values"),
        (vec!["--drain"], "--probe lathunt"),
        (vec!["--read-timer"], "--probe lttng"),
        (vec!["--pause", "1ms"], "--burst"),
        (vec!["--matrix", "--probe", "marker"], "--probe"),
        (vec!["--rounds", "2"], "--matrix"),
        (vec!["--work", "sort"], "memmove:64K"),
        (vec!["--work", "memmove:0"], "1 to 256M bytes"),
        (vec!["--work", "memmove:64K", "--probe", "marker"], "--probe"),
        (vec!["--work", "memmove:1M", "--threshold", "200ns"], "the work of an iteration takes"),
        // Before the measurement, which would take an hour.
        (vec!["-n", "1e11", "-p", "0", "--no-record", "-o", "/nowhere/x.json"], "does not exist"),
        (vec!["-n", "1e11", "-p", "0", "--no-record", "--gaps", "/nowhere/x.csv"], "does not exist"),
    ] {
        let output = lathunt(&[vec!["npt"], arguments.clone()].concat());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {stderr}");
        assert!(stderr.contains(says) && output.stdout.is_empty(), "{arguments:?}: {stderr}");
        assert_eq!(stderr.lines().filter(|line| line.starts_with("lathunt: ")).count(), 1, "{stderr}");
    }
}

#[test]
fn memory_is_copied_between_two_readings() {
    let fastest = |work: &str| {
        let text =
            ok(&["npt", "-n", "2e3", "-p", "0", "--no-record", "--work", work, "--worst", "0", "--json"]);
        let run = Run::from_json(&text).unwrap();
        let series = run.of(Quantity::Npt).next().unwrap().clone();
        (series.histogram.min().unwrap(), run.conditions.notes.join("; "))
    };
    let (alone, note) = fastest("none");
    assert!(!note.contains("copies"), "{note}");
    let (with_work, note) = fastest("memmove:1M");
    assert!(note.contains("each iteration copies 1048576 bytes, which usually takes "), "{note}");
    assert!(with_work.0 > 10 * alone.0, "{alone} alone, {with_work} with the work");
}

#[test]
fn the_run_is_one_that_plot_report_and_compare_take() {
    let place = tempfile::tempdir().unwrap();
    let file = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let (run, gaps) = (file("npt.lathunt.json"), file("gaps.csv"));
    let text = ok(&["npt", "-n", "2e5", "-p", "0", "--no-record", "-o", &run, "--gaps", &gaps]);
    assert!(text.contains("deviation") && text.contains("200 0"), "{text}");
    let read = Run::from_json(&std::fs::read_to_string(&run).unwrap()).unwrap();
    let series = read.of(Quantity::Npt).next().unwrap();
    assert!(series.histogram.count() >= 200_000);
    assert!(series.variance_ns2.is_some_and(|variance| variance > 0.0));
    assert!(std::fs::read_to_string(&gaps).unwrap().starts_with("cpu,begin_ns,gap_ns,part_ns,who\n"));
    ok(&["plot", &run, "-o", &file("npt.svg")]);
    ok(&["report", &run, "-o", &file("npt.html")]);
    assert!(ok(&["compare", &run, &run]).contains("npt"));
    let rows = ok(&["npt", "-n", "1e4", "-p", "0", "--no-record", "--histogram"]);
    let counts = rows.lines().filter(|line| line.contains(" ns ")).filter_map(|line| line.rsplit(' ').next());
    assert!(counts.filter_map(|count| count.parse::<u64>().ok()).sum::<u64>() >= 10_000, "{rows}");
    let json = ok(&["npt", "-n", "1e4", "-p", "0", "--no-record", "--clock", "gettime", "--json"]);
    assert!(Run::from_json(&json).is_ok());
}

#[test]
fn a_turn_beyond_the_deadline_is_exit_code_2() {
    let output = lathunt(&["npt", "-n", "1e4", "-p", "0", "--no-record", "--deadline", "1ns"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_signal_ends_it_with_the_whole_summary() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_lathunt"))
        .args(["npt", "-n", "1e12", "-p", "0", "--no-record"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    let signalled = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(signalled.success());
    let patience = std::time::Instant::now() + Duration::from_secs(20);
    while child.try_wait().unwrap().is_none() {
        assert!(std::time::Instant::now() < patience, "it goes on");
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(
        text.contains("note: stopped after ") && text.contains(" loops (SIGINT)") && text.contains("CPU "),
        "{text}"
    );
}

#[test]
#[ignore = "root: run by make test"]
fn every_event_of_the_tracers_own_probe_is_accounted_for() {
    if !may_run("the probe lathunt of npt", lacks_bpf()) {
        return;
    }
    for (mode, written) in [(&[][..], "overwritten"), (&["--drain"], "drained")] {
        let text = ok(&[&["npt", "-n", "500000", "--probe", "lathunt"], mode].concat());
        let line = text.lines().find(|line| line.contains("lathunt events")).unwrap_or_default();
        let numbers = line.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse::<u64>().ok());
        // 20,000 turns of warm-up go through the probe as well.
        assert_eq!(numbers.sum::<u64>(), 520_000, "{text}");
        assert!(line.contains(written), "{line}");
    }
    let left = std::fs::read_dir("/dev/shm").unwrap().flatten();
    let ours = left.filter(|entry| entry.file_name().to_string_lossy().starts_with("lathunt-npt-"));
    assert_eq!(ours.count(), 0, "nothing stays in memory");
}

#[test]
#[ignore = "root: run by make test"]
fn the_kernels_probes_leave_nothing_behind() {
    if !may_run("the probes marker, uprobe and kernel of npt", lacks_bpf()) {
        return;
    }
    for probe in ["marker", "uprobe", "kernel"] {
        let text = ok(&["npt", "-n", "2e4", "--probe", probe, "--burst", "20ms"]);
        assert!(text.contains(&format!("probe {probe}")), "{text}");
    }
    let tracefs = Tracefs::open().unwrap();
    for entry in std::fs::read_dir(tracefs.root().join("instances")).unwrap() {
        let name = entry.unwrap().file_name();
        assert!(!name.to_string_lossy().starts_with("lathunt-npt-"), "{name:?}");
    }
    let probes = std::fs::read_to_string(tracefs.root().join("uprobe_events")).unwrap();
    assert!(!probes.contains("lathunt_npt_"), "{probes}");
}

#[test]
#[ignore = "root: run by make test"]
fn the_matrix_has_a_row_for_each_tracer_and_files_that_hold_them() {
    if !may_run("npt --matrix", lacks_bpf()) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("matrix");
    let before = session_daemons();
    let text = ok(&["npt", "--matrix", "-q", "-n", "2e4", "--rounds", "1", "-o", out.to_str().unwrap()]);
    for row in
        ["none ", "kernel: lathunt", "user: lathunt", "both: lathunt + lathunt", "2012: LTTng-UST, original"]
    {
        assert!(text.lines().any(|line| line.starts_with(row)), "{row}: {text}");
    }
    // A peer that can be used here has its rows; another a line that says why not.
    let begins = |start: String| text.lines().any(|line| line.starts_with(&start));
    for (peer, kind) in [
        ("lttng", Kind::Lttng { read_timer: false }),
        ("lttng --read-timer", Kind::Lttng { read_timer: true }),
        ("marker", Kind::Marker),
        ("uprobe", Kind::Uprobe),
    ] {
        match kind.missing() {
            None => {
                assert!(begins(format!("user: {peer} ")), "{text}");
                let ftrace = Kind::Kernel.missing().is_none();
                assert!(!ftrace || begins(format!("both: {peer} + ftrace ")), "{text}");
            }
            Some(why) => {
                assert!(begins(format!("not measured: {peer}: ")), "{text}");
                if peer.starts_with("lttng") {
                    let _named = may_run(&format!("the rows of {peer} in npt --matrix"), Some(&why));
                }
            }
        }
    }
    assert_eq!(session_daemons(), before, "no daemon of LTTng outlives its row");
    let read = |name: &str| std::fs::read_to_string(out.join(name)).unwrap();
    assert!(read("matrix.csv").lines().count() > 8, "{}", read("matrix.csv"));
    let json: serde_json::Value = serde_json::from_str(&read("matrix.json")).unwrap();
    assert_eq!(
        (&json["format"], json["rows"][0]["loops"].as_u64() >= Some(20_000)),
        (&"lathunt-npt-matrix".into(), true)
    );
    assert!(read("matrix.svg").contains("user: lathunt") && read("matrix.html").contains("<svg"));
}

/// Session daemons of LTTng on this machine.
fn session_daemons() -> usize {
    let names = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path().join("comm"));
    names
        .filter(|path| std::fs::read_to_string(path).is_ok_and(|name| name.starts_with("lttng-sessiond")))
        .count()
}
