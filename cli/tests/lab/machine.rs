//! `check`, `hwlat` and `isolate` on a real-time kernel with cgroup v2.

use std::collections::BTreeMap;
use std::process::Command;

use crate::boot::Outcome;
use crate::freeze;

fn json(outcome: &Outcome, file: &str) -> serde_json::Value {
    let text = outcome.text(file);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{file}: {error}\n{text}"))
}

#[test]
#[ignore = "lab: run by make test"]
fn check_says_preempt_rt_in_the_guest_and_of_this_machine_what_its_kernel_says() {
    let Some(lab) = Outcome::of("check", "lab: check") else { return };
    let guest = lab.text("text");
    assert!(guest.contains(": a real-time kernel (PREEMPT_RT)"), "{guest}");
    let rule = |report: &serde_json::Value| {
        let findings = report["findings"].as_array().unwrap().clone();
        findings.iter().find(|one| one["id"] == "preempt-rt").unwrap()["outcome"].clone()
    };
    assert_eq!(rule(&json(&lab, "json")), "good");
    let host = Command::new(env!("CARGO_BIN_EXE_lathunt")).args(["check", "-D", "50ms"]).output().unwrap();
    let host = String::from_utf8_lossy(&host.stdout).into_owned();
    let version = std::fs::read_to_string("/proc/sys/kernel/version").unwrap();
    assert_eq!(
        host.contains(": NOT a real-time kernel"),
        !version.contains("PREEMPT_RT"),
        "{version}: {host}"
    );
}

#[test]
#[ignore = "lab: run by make test"]
fn hwlat_reports_what_the_kernels_tracer_printed_figure_by_figure() {
    let Some(lab) = Outcome::of("hwlat", "lab: hwlat") else { return };
    let report = json(&lab, "tracer.json");
    let found = &report["found"][0];
    assert_eq!(found["detector"], "kernel tracer");
    let samples: Vec<(u64, u64, String)> = found["samples"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            let timestamp = one["timestamp"].as_str().unwrap().to_owned();
            (one["inner_us"].as_u64().unwrap(), one["outer_us"].as_u64().unwrap(), timestamp)
        })
        .collect();
    // `#3     inner/outer(us):   12/11    ts:1790000000.123456789 count:2`
    let printed: Vec<(u64, u64, String)> = lab
        .text("raw")
        .lines()
        .filter_map(|line| {
            let (_, rest) = line.split_once("inner/outer(us):")?;
            let (figures, rest) = rest.split_once("ts:")?;
            let (inner, outer) = figures.trim().split_once('/')?;
            let timestamp = rest.split_ascii_whitespace().next()?.to_owned();
            Some((inner.trim().parse().ok()?, outer.trim().parse().ok()?, timestamp))
        })
        .collect();
    assert!(!printed.is_empty(), "the tracer printed nothing: {}", lab.text("raw"));
    for line in &printed {
        assert!(samples.contains(line), "{line:?} was printed and is not in {samples:?}");
    }
    let largest = samples.iter().map(|(inner, outer, _)| inner.max(outer)).max().unwrap();
    assert_eq!(found["max_ns"].as_u64(), Some(largest * 1000));
}

#[test]
#[ignore = "lab: run by make test"]
fn a_machine_that_is_stopped_from_outside_is_blamed_on_hardware_or_host() {
    let Some(lab) = Outcome::of("hwlat", "lab: frozen machine") else { return };
    let frozen = freeze::LENGTH.as_nanos() as u64 * 9 / 10;
    // The kernel's tracer samples: it can miss the moment. The spinner never stops looking.
    for (detector, must_see) in [("tracer", false), ("spin", true)] {
        let report = json(&lab, &format!("{detector}.json"));
        let worst = report["found"][0]["worst"].as_array().unwrap().clone();
        let seen: Vec<_> = worst.iter().filter(|gap| gap["gap_ns"].as_u64().unwrap() >= frozen).collect();
        assert!(!(must_see && seen.is_empty()), "{detector}: not seen: {report:#}");
        let blamed = |gap: &&&serde_json::Value| {
            ["hardware_or_host", "host"].iter().any(|cause| gap["judgement"]["cause"] == *cause)
        };
        // Of several freezes one may begin within a handler of the guest, whose time it then is as far as can be seen.
        assert!(seen.is_empty() || seen.iter().any(|gap| blamed(&gap)), "{detector}: {seen:#?}");
    }
}

#[test]
#[ignore = "lab: run by make test"]
fn hwlat_compares_the_tracer_on_all_cpus_with_the_loop_and_puts_its_mode_back() {
    let Some(lab) = Outcome::of("hwlat", "lab: hwlat, both detectors") else { return };
    let report = json(&lab, "both.json");
    for (index, detector) in ["kernel tracer", "spin"].into_iter().enumerate() {
        let found = &report["found"][index];
        assert_eq!(found["detector"], detector);
        assert!(
            found["watched_ns"].as_u64().unwrap() >= 200_000_000,
            "{detector}: a quarter of 2 s is 500 ms: {found}"
        );
        assert!(found["gaps"].as_u64().unwrap() > 0, "an emulated CPU is late by a microsecond: {found}");
    }
    let samples = report["found"][0]["samples"].as_array().unwrap().clone();
    for cpu in [0, 1] {
        assert!(samples.iter().any(|sample| sample["cpu"] == cpu), "the tracer on CPU {cpu}: {samples:?}");
    }
    assert!(lab.text("mode-during").contains("[per-cpu]"), "{}", lab.text("mode-during"));
    assert_eq!(lab.text("mode-before"), lab.text("mode-after"));
    assert_eq!(lab.text("instances-after"), "");
    let told = lab.text("both");
    assert!(told.contains("Compared: kernel tracer (no gap"), "no gap is longer than 10 s: {told}");
    assert!(told.contains("; spin (no gap"), "{told}");
}

#[test]
#[ignore = "lab: run by make test"]
fn called_hwlatdetect_it_prints_that_tools_report() {
    let Some(lab) = Outcome::of("hwlat", "lab: hwlatdetect") else { return };
    let told = lab.text("hwlatdetect");
    let head = "hwlatdetect:  test duration 3 seconds\n   detector: tracer\n   parameters:\n        CPU list:          None\n        \
                Latency threshold: 1us\n        Sample window:     200000us\n        Sample width:      100000us\n     \
                Non-sampling period:  100000us\n        Output File:       None\n\nStarting test\ntest finished\n";
    assert!(told.starts_with(head), "{told}");
    let figures = |line: &str| -> Vec<u64> {
        let words = line
            .split([',', ' '])
            .filter_map(|word| word.strip_prefix("inner:").or(word.strip_prefix("outer:")));
        words.map(|word| word.parse().unwrap()).collect()
    };
    let samples: Vec<u64> = told.lines().filter(|line| line.starts_with("ts: ")).flat_map(figures).collect();
    let (count, max) =
        (samples.len() / 2, samples.iter().max().expect("the emulator is late by a microsecond"));
    for line in [
        format!("Max Latency: {max}us"),
        format!("Samples recorded: {count}"),
        format!("Samples exceeding threshold: {count}"),
    ] {
        assert!(told.lines().any(|one| one == line), "{line}: {told}");
    }
    assert_eq!(lab.text("hwlatdetect-status").trim(), "1", "the maximum is above the hard limit");
}

/// What a snapshot of the scenario says: files, and CPUs of threads.
fn snapshot(text: &str) -> BTreeMap<String, String> {
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(a, b)| (a.to_owned(), b.trim().to_owned()))
        .collect()
}

/// What differs in things that are in both; threads come and go, and some the kernel moves itself.
fn differences(lab: &Outcome, after: &str) -> Vec<String> {
    let (before, after) = (snapshot(&lab.text("before")), snapshot(&lab.text(after)));
    let bound = lab.text("bound");
    let is_bound =
        |key: &str| bound.split_ascii_whitespace().any(|pid| key.starts_with(&format!("/proc/{pid}/")));
    let mut found: Vec<String> = before
        .iter()
        .filter(|(key, _)| !is_bound(key))
        .filter_map(|(key, was)| {
            let now = after.get(key)?;
            (now != was).then(|| format!("{key}: {was} -> {now}"))
        })
        .collect();
    found.extend(after.keys().filter(|key| key.contains("lathunt")).cloned());
    found
}

#[test]
#[ignore = "lab: run by make test"]
fn a_partition_of_cgroup_v2_isolates_and_everything_comes_back() {
    let Some(lab) = Outcome::of("isolate", "lab: isolate") else { return };
    assert!(lab.text("plan").contains("by an isolated partition of cgroup v2"), "{}", lab.text("plan"));
    assert_eq!(lab.text("partition").trim(), "isolated", "{}", lab.text("applied"));
    let inside = lab.text("inside");
    assert!(inside.contains("0::/lathunt-isolated") && inside.contains("Cpus_allowed_list:\t1"), "{inside}");
    let during = snapshot(&lab.text("during"));
    let sleepers = lab.text("sleepers");
    for pid in sleepers.split_ascii_whitespace() {
        let cpus = &during[&format!("/proc/{pid}/task/{pid}/status")];
        assert_eq!(cpus, "Cpus_allowed_list  0", "sleeper {pid}");
    }
    assert_eq!(during["/proc/irq/default_smp_affinity"].trim_start_matches('0'), "1");
    let left = differences(&lab, "after");
    assert!(left.is_empty(), "{left:#?}\n{}", lab.text("restored"));
}

#[test]
#[ignore = "lab: run by make test"]
fn killed_while_it_isolates_by_cgroup_v2_everything_comes_back() {
    let Some(lab) = Outcome::of("isolate", "lab: isolate and kill -9") else { return };
    let killed: Vec<u32> =
        lab.text("killed-after").lines().filter_map(|line| line.trim().parse().ok()).collect();
    // One that had written all its lines had ended before it was killed.
    let all = lab.text("lines-of-all").trim().parse().unwrap();
    let hit = killed.iter().filter(|&&lines| (1..all).contains(&lines)).count();
    assert!(hit >= 2, "too few kills hit: {killed:?} of {all} lines");
    for lines in [2, 4, 6, 9, 13, 18] {
        let left = differences(&lab, &format!("after-kill-{lines}"));
        assert!(left.is_empty(), "after {lines} lines: {left:#?}\n{}", lab.text("killed-restored"));
    }
}

#[test]
#[ignore = "lab: run by make test"]
fn a_cpu_that_goes_offline_in_between_is_a_clear_error_and_nothing_is_lost() {
    let Some(lab) = Outcome::of("isolate", "lab: isolate and CPU offline") else { return };
    assert!(
        lab.text("offline-apply").contains("cannot isolate CPU 1; online are 0"),
        "{}",
        lab.text("offline-apply")
    );
    assert_eq!(lab.text("offline-apply-status").trim(), "1");
    let traced = lab.text("offline-trace");
    assert!(traced.contains("trace.dat: ") && !traced.contains("failed"), "{traced}");
    for again in ["offline-restore", "offline-again"] {
        let told = lab.text(again);
        assert!(
            told.contains("lathunt-isolated: could not be restored: CPU 1 is offline"),
            "{again}: {told}"
        );
        assert!(told.contains("settings wait for /sys/fs/cgroup/lathunt-isolated"), "{again}: {told}");
        assert_eq!(lab.text(&format!("{again}-status")).trim(), "1");
    }
    assert_eq!(lab.text("status-at-end").trim(), "No CPU is isolated by lathunt.");
    // The programs have their CPUs back; per-CPU kernel threads were started anew with the CPU.
    let (before, after) = (snapshot(&lab.text("before")), snapshot(&lab.text("after-offline")));
    for pid in lab.text("sleepers").split_ascii_whitespace().chain(["1", "2"]) {
        let key = format!("/proc/{pid}/task/{pid}/status");
        assert_eq!(before[&key], after[&key], "process {pid}: {}", lab.text("online-restore"));
    }
    assert!(!after.keys().any(|key| key.contains("lathunt")), "{after:#?}");
}
