//! `lathunt clock` against a plain loop in C, and as a user calls it.

use std::path::Path;
use std::process::{Command, Output};

use lathunt_host::testing::may_run;

fn clock(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lathunt")).arg("clock").args(arguments).output().unwrap()
}

fn json(output: &Output) -> serde_json::Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn cost<'a>(clocks: &'a serde_json::Value, path: &str) -> &'a serde_json::Value {
    let costs = clocks["costs"].as_array().unwrap();
    costs.iter().find(|cost| cost["path"] == path).unwrap_or_else(|| panic!("no {path} in {clocks}"))
}

/// The minimum is what a read takes when nothing disturbs it: on a busy machine too, some of many pairs are not.
#[test]
fn the_minimum_is_that_of_a_plain_loop_in_c() {
    let test = "clock against C";
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("clock");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/clock.c");
    let built = Command::new("cc").arg("-O2").arg("-o").arg(&program).arg(source).status();
    if !may_run(test, built.is_err().then_some("no C compiler")) {
        return;
    }
    assert!(built.unwrap().success());
    // The debug build does not inline: its minimum is that of another program. The pair is taken in one run each, and
    // the better of three, because a shared machine may disturb a whole run.
    let mut best = [f64::INFINITY; 4];
    let mut tick_ns = f64::NAN;
    for _ in 0..3 {
        let ours = json(&clock(&["-n", "2e5", "--json", "-c", "0"]));
        let peer = Command::new(&program).arg("200000").output().unwrap();
        let peer: Vec<f64> = String::from_utf8(peer.stdout)
            .unwrap()
            .split_whitespace()
            .map(|word| word.parse().unwrap())
            .collect();
        tick_ns = 1e9 / ours["counter_hz"].as_f64().unwrap();
        let ns = |path: &str| cost(&ours, path)["min_ns"].as_f64().unwrap();
        best[0] = best[0].min(ns("clock_gettime MONOTONIC"));
        best[1] = best[1].min(peer[0]);
        if cfg!(target_arch = "x86_64") {
            best[2] = best[2].min(ns("rdtsc"));
            best[3] = best[3].min(peer[1] * tick_ns);
        }
    }
    let [ours, peer, ..] = best;
    // CLOCK_MONOTONIC counts whole ns: one of them is no disagreement.
    assert!((ours - peer).abs() <= (peer * 0.1).max(1.0), "MONOTONIC: {ours} ns, in C {peer} ns");
    if cfg!(target_arch = "x86_64") {
        let [.., ours, peer] = best;
        // Nor are two steps of the counter, which some processors advance by two ticks at once.
        let steps = 4.02 * tick_ns;
        assert!((ours - peer).abs() <= (peer * 0.1).max(steps), "rdtsc: {ours} ns, in C {peer} ns");
    }
}

#[test]
fn every_path_is_measured_and_the_kernel_is_entered_where_it_must_be() {
    let clocks = json(&clock(&["-n", "20000", "--json"]));
    assert_eq!((&clocks["format"], &clocks["version"]), (&"lathunt-clock".into(), &1.into()));
    assert!(clocks["costs"].as_array().unwrap().len() >= 16, "{clocks}");
    for name in [
        "clock_gettime MONOTONIC",
        "system call MONOTONIC",
        "gettimeofday",
        "Rust Instant::now",
        "Rust SystemTime::now",
        "crate quanta",
        "crate coarsetime",
        "crate rustix",
    ] {
        let cost = cost(&clocks, name);
        assert_eq!(cost["pairs"], 20000);
        assert_eq!(cost["backward"], 0);
        let (min, avg, max) = (&cost["min_ns"], &cost["avg_ns"], &cost["max_ns"]);
        assert!(min.as_f64() <= avg.as_f64() && avg.as_f64() <= max.as_f64(), "{cost}");
    }
    let gaps = &clocks["gaps"];
    // A gap's handling that was itself interrupted is one turn more.
    let (turns, count) = (gaps["turns"].as_u64().unwrap(), gaps["count"].as_u64().unwrap());
    assert!((20000..=20000 + count).contains(&turns) && gaps["sources"].is_array(), "{gaps}");
    assert_eq!(cost(&clocks, "clock_gettime PROCESS_CPUTIME_ID")["without_system_call"], false);
    // A crate over CLOCK_MONOTONIC costs what that costs; one over the clock of ticks has its step.
    let of = |path: &str, figure: &str| cost(&clocks, path)[figure].as_f64();
    let (rustix, libc) =
        (of("crate rustix", "min_ns").unwrap(), of("clock_gettime MONOTONIC", "min_ns").unwrap());
    assert!(rustix < 4.0 * libc + 20.0 && rustix > 0.0, "rustix {rustix} ns, the C library {libc} ns");
    assert!(of("crate coarsetime", "zero_share").unwrap() > 0.9, "{clocks}");
    // A read of a clock in whole µs is mostly 0, and its step shows that.
    let coarse = cost(&clocks, "gettimeofday");
    assert!(
        coarse["zero_share"].as_f64().unwrap() > 0.5 && coarse["step_ns"].as_f64().unwrap() >= 1000.0,
        "{coarse}"
    );
}

#[test]
fn bad_input_is_one_clear_line() {
    for (arguments, says) in [
        (["-n", "0"], "whole number"),
        (["-n", "many"], "not a number"),
        (["-c", "7000"], "CPU 7000"),
        (["-p", "100"], "1..=99"),
    ] {
        let output = clock(&arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {stderr}");
        assert!(stderr.contains(says) && output.stdout.is_empty(), "{arguments:?}: {stderr}");
    }
}

/// MaRTE's fibers paid ten times the vDSO's price, then nearly three times. The minimum is the same on a busy machine, too.
#[test]
fn a_fiber_pays_what_the_vdso_takes() {
    let clocks = json(&clock(&["-n", "1e5", "--json", "-c", "0", "--runtime"]));
    let ns = |path: &str| cost(&clocks, path)["min_ns"].as_f64().unwrap();
    let outside = ns("clock_gettime MONOTONIC");
    for path in ["lathunt-runtime now", "clock_gettime MONOTONIC, in a fiber"] {
        assert!(cost(&clocks, path)["backward"] == 0 && cost(&clocks, path)["pairs"] == 100_000);
        // A debug build inlines nothing: some calls more, and no system call, which takes several times as long.
        assert!(ns(path) < outside + 100.0, "{path}: {} ns, {outside} outside", ns(path));
    }
    let without = json(&clock(&["-n", "1e4", "--json", "-c", "0"]));
    assert!(!without.to_string().contains("lathunt-runtime"));
}
