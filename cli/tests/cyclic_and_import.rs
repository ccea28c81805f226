//! `lathunt cyclic` and `lathunt import` from the command line to the run file.

use std::process::{Command, Output};

use lathunt_core::run::Run;
use lathunt_core::series::Quantity;
use lathunt_core::time::Ns;

fn lathunt(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lathunt")).args(arguments).output().unwrap()
}

fn golden(name: &str) -> String {
    format!("{}/../core/tests/golden/cyclictest/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_measurement_ends_in_a_run_file_with_series_and_worst_samples() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let output =
        lathunt(&["cyclic", "-p0", "--no-mlock", "-l", "50", "-i", "500us", "--worst", "3", "-o", path]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = std::fs::read_to_string(directory.path().join("run.lathunt.json")).unwrap();
    let run = Run::from_json(&text).unwrap();
    assert!(run
        .series
        .iter()
        .all(|series| series.quantity == Quantity::Cyclic && series.histogram.count() == 50));
    assert_eq!(run.peaks.len(), 3 * run.series.len());
    assert_eq!(Some(run.peaks[0].total_ns), run.max_of(Quantity::Cyclic));
    assert!(String::from_utf8_lossy(&output.stdout).contains("CPU 0"));
    let json = lathunt(&["cyclic", "-p0", "--no-mlock", "-l", "5", "--json"]);
    Run::from_json(&String::from_utf8(json.stdout).unwrap()).unwrap();
}

#[test]
fn what_was_measured_is_saved_also_when_nobody_can_read_stdout() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    for (name, stdout, code) in [("full.json", "/dev/full", 1), ("null.json", "/dev/null", 0)] {
        let file = format!("{path}/{name}");
        let output = Command::new(env!("CARGO_BIN_EXE_lathunt"))
            .args(["cyclic", "-p0", "--no-mlock", "-l", "20", "-q", "-o", &file])
            .stdout(std::fs::OpenOptions::new().write(true).open(stdout).unwrap())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        assert_eq!(stderr(&output).contains("cannot write to stdout"), code == 1);
        Run::from_json(&std::fs::read_to_string(file).unwrap()).unwrap();
    }
}

#[test]
fn what_is_told_to_nobody_ends_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("run.json");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = Command::new(env!("CARGO_BIN_EXE_lathunt"))
        .args(["import", &golden("ct_h400_q.stdout"), "-o"])
        .arg(&target)
        .stderr(writer)
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(0), "it tells what it has read");
    Run::from_json(&std::fs::read_to_string(target).unwrap()).unwrap();
}

#[test]
fn exit_codes_tell_a_missed_deadline_from_an_error() {
    let measure = |extra: &[&str]| {
        let words = [&["cyclic", "-p0", "--no-mlock", "-l", "20", "-q"][..], extra].concat();
        lathunt(&words).status.code()
    };
    assert_eq!(measure(&[]), Some(0), "without a deadline nothing is claimed");
    assert_eq!(measure(&["--deadline", "1h"]), Some(3), "20 samples at nice 0 carry no PASS");
    assert_eq!(measure(&["--deadline", "1ns"]), Some(2));
    assert_eq!(measure(&["--break-at", "1ns"]), Some(2));
    assert_eq!(measure(&["-c", "8000"]), Some(1));
    assert_eq!(measure(&["-i", "1us"]), Some(1));
    assert_eq!(measure(&["-o", "/nonexistent/run.json"]), Some(1));
}

#[test]
fn a_claim_is_measured_as_long_as_it_takes_and_what_ends_it_before_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run.lathunt.json");
    let measure = |arguments: &[&str]| {
        let words =
            [&["cyclic", "-p0", "--no-mlock", "-q", "-o", file.to_str().unwrap(), "--until"], arguments]
                .concat();
        let output = lathunt(&words);
        let run = Run::from_json(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let taken: u64 =
            run.series.iter().map(|series| series.histogram.count() + series.missed.unwrap_or(0)).sum();
        (output.status.code(), stderr(&output), run, taken)
    };
    let (code, said, run, taken) = measure(&["1e-2@95%"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(run.complete && taken >= 299, "{taken}");
    assert!(
        run.conditions.notes.iter().any(|note| note.starts_with("--until 1e-2@95%: ")),
        "{:?}",
        run.conditions.notes
    );
    let (code, _, _, taken) = measure(&["1e-7@95%", "--deadline", "1ns"]);
    assert!(code == Some(2) && taken < 100_000, "{code:?}, {taken}");
    let (code, said, run, _) = measure(&["1e-7@95%", "-D", "300ms"]);
    assert!(code == Some(3) && !run.complete && said.contains("before --until 1e-7@95% was shown"), "{said}");
}

#[test]
fn a_deadline_and_what_came_of_it_are_in_the_run_file() {
    let directory = tempfile::tempdir().unwrap();
    let [late, open] = ["late.json", "open.json"].map(|name| directory.path().join(name));
    let measure = |deadline: &str, file: &std::path::Path| {
        let file = file.to_str().unwrap();
        let output =
            lathunt(&["cyclic", "-p0", "--no-mlock", "-l", "20", "-q", "--deadline", deadline, "-o", file]);
        (output.status.code(), stderr(&output))
    };
    assert_eq!(measure("1ns", &late).0, Some(2));
    let (code, said) = measure("1h", &open);
    assert!(code == Some(3) && said.contains("inconclusive: "), "{said}");
    let told = |run: &std::path::Path| {
        String::from_utf8(lathunt(&["report", "-q", run.to_str().unwrap()]).stdout).unwrap()
    };
    assert!(told(&late).starts_with("FAIL  deadline 1 ns, largest cyclic latency"), "{}", told(&late));
    assert!(told(&open).starts_with("INCONCLUSIVE  deadline 3600.000 s"), "{}", told(&open));
    assert!(told(&open).contains("too few samples"), "{}", told(&open));
    let merged = directory.path().join("merged.json");
    let [late, open, merged] = [&late, &open, &merged].map(|path| path.to_str().unwrap());
    let output = lathunt(&["merge", "-q", late, open, "-o", merged]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}

#[test]
fn cyclictest_output_becomes_a_run_file_and_anything_else_does_not() {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("run.lathunt.json");
    let target = target.to_str().unwrap();
    let output = lathunt(&["import", &golden("ct_h400_q.stdout"), &golden("ct_json.json"), "-o", target]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let before = std::fs::read_to_string(target).unwrap();
    let run = Run::from_json(&before).unwrap();
    assert_eq!((run.series.len(), run.merged.len(), &run.conditions.host), (4, 2, &None));
    let labels: Vec<String> = run.series.iter().map(|series| series.label()).collect();
    assert!(labels[0] == "ct_h400_q.stdout thread 0" && labels[2].starts_with("vm CPU 0"), "{labels:?}");
    assert!(run.conditions.notes.iter().any(|note| note.starts_with("ct_h400_q.stdout: imported")));
    let twice = lathunt(&["import", &golden("ct_json.json"), &golden("ct_json.json"), "-o", target]);
    assert!(twice.status.code() == Some(1) && stderr(&twice).contains("would count twice"), "{twice:?}");
    let other = tempfile::tempdir().unwrap();
    let tail = other.path().join("tail.txt");
    std::fs::write(&tail, "       0:     999:       5\n").unwrap();
    let both = other.path().join("both.json");
    let [tail, both] = [&tail, &both].map(|path| path.to_str().unwrap());
    let added = lathunt(&["import", &golden("ct_h400_q.stdout"), tail, "-o", both]);
    assert_eq!(added.status.code(), Some(0), "{}", stderr(&added));
    let run_of_both = Run::from_json(&std::fs::read_to_string(both).unwrap()).unwrap();
    assert!(!run_of_both.complete && stderr(&added).contains("nor is their maximum"), "{}", stderr(&added));
    assert_eq!(run.max_of(Quantity::Cyclic), Some(Ns::from_us(3_595)));
    for bad in
        [env!("CARGO_MANIFEST_DIR"), "/nonexistent", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")]
    {
        let output = lathunt(&["import", bad, "-o", target]);
        assert_eq!(output.status.code(), Some(1), "{bad}");
        assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
        let known = ["cyclictest", "rtla", "jitterdebugger", "Xenomai", "rteval", "latency box"];
        let told = known.iter().all(|program| stderr(&output).contains(program));
        assert!(told || !bad.ends_with(".toml"), "the formats are named: {}", stderr(&output));
    }
    assert_eq!(std::fs::read_to_string(target).unwrap(), before, "a refused file leaves the old one");
    let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "nothing half-written stays");
}

/// Imports `text`: the largest of `quantity`, and the samples, those whose values are not known included.
fn imported(text: &str, quantity: Quantity) -> (Vec<Ns>, u64) {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(at("result"), text).unwrap();
    let output = lathunt(&["import", &at("result"), "-o", &at("run")]);
    assert_eq!(output.status.code(), Some(0), "{}{text}", stderr(&output));
    let run = Run::from_json(&std::fs::read_to_string(at("run")).unwrap()).unwrap();
    let largest = run.of(quantity).filter_map(|series| series.histogram.max()).collect();
    let count = run.of(quantity).map(|series| series.histogram.count() + series.lost).sum();
    (largest, count)
}

/// Text and JSON of `program` (rt-tests), of one run.
fn both_results(program: &str, arguments: &[&str]) -> Option<(String, serde_json::Value)> {
    let place = tempfile::tempdir().unwrap();
    let json = place.path().join("result.json");
    let output = Command::new(program).args(arguments).arg(format!("--json={}", json.display())).output();
    let text = String::from_utf8(output.ok()?.stdout).unwrap();
    Some((text, serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap()))
}

#[test]
fn results_of_rt_tests_keep_the_largest_that_each_program_told() {
    let lacks = Command::new("oslat").arg("--help").output().is_err().then_some("no oslat (rt-tests)");
    let name = "results_of_rt_tests_keep_the_largest_that_each_program_told";
    if !lathunt_host::testing::may_run(name, lacks) {
        return;
    }
    let us = |value: &serde_json::Value| Ns::from_us(value.as_u64().unwrap());
    let (text, json) = both_results("oslat", &["-D", "1", "-c", "1"]).unwrap();
    let told = &json["thread"]["0"];
    let counted: u64 = told["histogram"].as_object().unwrap().values().filter_map(|n| n.as_u64()).sum();
    for result in [text, json.to_string()] {
        assert_eq!(imported(&result, Quantity::Npt), (vec![us(&told["max"])], counted));
    }
    for program in ["ptsematest", "svsematest", "pmqtest"] {
        let (text, json) = both_results(program, &["-a", "-t1", "-i", "500", "-l", "300", "-q"]).unwrap();
        let told = &json["thread"]["0"];
        let samples = told["sender"]["samples"].as_u64().unwrap();
        for result in [text, json.to_string()] {
            assert_eq!(
                imported(&result, Quantity::Wakeup),
                (vec![us(&told["receiver"]["max"])], samples),
                "{result}"
            );
        }
    }
}
