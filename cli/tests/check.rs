//! `lathunt check` as a user calls it: on this machine, on a snapshot, on a tree, on a configuration, and with bad input.

use std::path::Path;
use std::process::{Command, Output};

const MACHINES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../core/tests/check/machines");

fn check(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lathunt")).arg("check").args(arguments).output().unwrap()
}

fn said(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

fn machine(name: &str) -> String {
    format!("{MACHINES}/{name}")
}

#[test]
fn this_machine_is_judged_and_its_snapshot_gives_the_same_findings() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("snapshot.json");
    let file = file.to_str().unwrap();
    let taken = check(&["--snapshot", file, "-D", "50ms"]);
    assert!(taken.status.success(), "{taken:?}");
    let kept: serde_json::Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    assert!(kept["taken"].as_str().is_some_and(|taken| taken.starts_with("20")), "{}", kept["taken"]);
    let (live, _) = said(&check(&["-D", "50ms", "--json"]));
    let (read, _) = said(&check(&["--root", file, "--json"]));
    let outcomes = |text: &str| -> Vec<(String, String)> {
        let value: serde_json::Value = serde_json::from_str(text).unwrap();
        let findings = value["findings"].as_array().unwrap().clone();
        findings.iter().map(|one| (one["id"].to_string(), one["outcome"].to_string())).collect()
    };
    // What moves between the two readings may differ: counters, other programs and their BPF links.
    let moving = [
        "steal",
        "nmi",
        "smi",
        "page-faults",
        "bpf-and-perf",
        "higher-priority",
        "tracing",
        "hotplug",
        "throttl",
    ];
    let steady = |text: &str| -> Vec<(String, String)> {
        let mut all = outcomes(text);
        all.retain(|(id, _)| !moving.iter().any(|word| id.contains(word)));
        all.sort();
        all
    };
    assert!(steady(&live).len() > 70, "{live}");
    assert_eq!(steady(&live), steady(&read));
}

#[test]
fn what_is_bad_enough_makes_the_exit_code_2() {
    let wrong = machine("everything-wrong.json");
    let good = machine("rt-box.json");
    for (arguments, code) in [
        (vec!["--root", &wrong], 0),
        (vec!["--root", &wrong, "--fail-on", "fatal"], 2),
        (vec!["--root", &good, "--profile", "busy-poll", "--fail-on", "info"], 0),
        (vec!["--root", &wrong, "--fail-on", "info", "--json"], 2),
    ] {
        assert_eq!(check(&arguments).status.code(), Some(code), "{arguments:?}");
    }
}

#[test]
fn a_configuration_says_whether_it_is_real_time_and_what_to_add() {
    let (plain, _) = said(&check(&["--kconfig", &machine("debian-6.1.0-56-amd64.config")]));
    assert!(plain.starts_with("Kernel 6.1.192: NOT a real-time kernel"), "{plain}");
    assert!(plain.contains("\nCONFIG_PREEMPT_RT=y\n"), "{plain}");
    let (rt, _) = said(&check(&["--kconfig", &machine("debian-6.1.0-56-rt-amd64.config")]));
    assert!(rt.starts_with("Kernel 6.1.192: a real-time kernel (PREEMPT_RT)"), "{rt}");
}

#[test]
fn what_a_fragment_of_a_configuration_does_not_set_is_not_judged() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("rt.cfg");
    let fragment = "CONFIG_PREEMPT_RT=y\nCONFIG_CPU_FREQ=n\n# CONFIG_RCU_BOOST=n\nCONFIG_DEBUG_VM=y\n";
    std::fs::write(&path, fragment).unwrap();
    let (text, _) = said(&check(&["--kconfig", path.to_str().unwrap()]));
    assert!(text.starts_with("A part of a kernel configuration") && text.contains("PREEMPT_RT"), "{text}");
    for absent in ["HIGH_RES_TIMERS", "HWLAT_TRACER", "Timer tick", "FATAL"] {
        assert!(!text.contains(absent), "{absent} is not in it:\n{text}");
    }
    for set in ["CONFIG_CPU_FREQ=n", "built in: DEBUG_VM"] {
        assert!(text.contains(set), "{set} is in it:\n{text}");
    }
}

#[test]
fn a_kernel_is_known_by_proc_version_where_nothing_else_is_there() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("proc")).unwrap();
    let version = "Linux version 6.1.0-50-rt-amd64 (debian-kernel@lists.debian.org) (gcc-12 12.2.0) #1 SMP PREEMPT_RT Debian 6.1.176-1\n";
    std::fs::write(directory.path().join("proc/version"), version).unwrap();
    let (text, _) = said(&check(&["--root", directory.path().to_str().unwrap()]));
    assert!(text.contains("6.1.0-50-rt-amd64: a real-time kernel (PREEMPT_RT)"), "{text}");
}

#[test]
fn the_script_is_accepted_by_a_shell_and_nothing_of_it_was_run() {
    let before = std::fs::read_to_string("/proc/sys/vm/stat_interval").unwrap_or_default();
    let output = check(&["--root", &machine("everything-wrong.json"), "-c", "2-3", "--fix-script"]);
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("fix.sh");
    std::fs::write(&script, &output.stdout).unwrap();
    let parsed = Command::new("sh").arg("-n").arg(&script).output().unwrap();
    assert!(parsed.status.success(), "{parsed:?}");
    assert_eq!(std::fs::read_to_string("/proc/sys/vm/stat_interval").unwrap_or_default(), before);
}

#[test]
fn bad_input_is_one_clear_line_and_exit_code_1() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(at("text"), "just text\n").unwrap();
    std::fs::write(at("run"), r#"{"format":"lathunt-run","version":1}"#).unwrap();
    std::fs::write(at("bytes"), [0xff, 0xfe, 0]).unwrap();
    std::fs::create_dir(at("empty")).unwrap();
    let box_ = machine("rt-box.json");
    for (arguments, says) in [
        (vec!["--root".to_owned(), at("absent")], "absent"),
        (vec!["--root".to_owned(), at("text")], "not a snapshot"),
        (vec!["--root".to_owned(), at("run")], "lathunt-run"),
        (vec!["--root".to_owned(), at("bytes")], "not text"),
        (vec!["--root".to_owned(), at("empty")], "neither /proc nor /sys"),
        (vec!["--kconfig".to_owned(), at("text")], "not a kernel configuration"),
        (
            vec!["--root".to_owned(), box_.clone(), "-c".to_owned(), "2,9".to_owned()],
            "CPU 9: it is not online; online are 0-3",
        ),
        (vec!["-c".to_owned(), "x".to_owned()], "not a CPU list"),
        (vec!["-c".to_owned(), String::new()], "an empty list of CPUs"),
        (vec!["--profile".to_owned(), "fast".to_owned()], "not a profile"),
        (vec!["--fail-on".to_owned(), "grave".to_owned()], "not a severity"),
        (vec!["--snapshot".to_owned(), at("empty"), "-D".to_owned(), "1ms".to_owned()], "is a directory"),
    ] {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output = check(&arguments);
        let (stdout, stderr) = said(&output);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {stderr}");
        assert!(stderr.contains(says) && stdout.is_empty(), "{arguments:?}: {stderr}");
        assert!(!stderr.contains("panicked"), "{stderr}");
    }
}

#[test]
fn a_tree_of_another_machine_is_read_as_it_lies() {
    let root = tempfile::tempdir().unwrap();
    for (name, content) in [
        ("proc/sys/kernel/osrelease", "5.3.18-lp152\n"),
        ("proc/sys/kernel/version", "#1 SMP PREEMPT Mon\n"),
        ("proc/cmdline", "quiet\n"),
        ("sys/devices/system/cpu/online", "0-7\n"),
    ] {
        let path = root.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).unwrap();
        std::fs::write(path, content).unwrap();
    }
    let (text, _) = said(&check(&["--root", root.path().to_str().unwrap()]));
    assert!(text.starts_with("Kernel 5.3.18-lp152: NOT a real-time kernel; preemption: PREEMPT."), "{text}");
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("go back to Linux 5.2, the nearest series below 5.3"), "{text}");
    assert!(text.contains("@pm_qos_us can be read on the running machine only"), "{text}");
}
