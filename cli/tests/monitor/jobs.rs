//! Jobs of a program that knows how many of its jobs were late, and for what: the monitor says the same, through a kill and a
//! restart.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use lathunt_host::testing::{lacks_bpf, may_run};
use serde_json::Value;

use super::{history, history_json, http, wait_for, Monitor};

/// Between the 3 ms of the late jobs and all others.
const DEADLINE_NS: u64 = 1_500_000;
/// The program wakes up 500 times a second, from a second after its start on.
const CYCLES: &str = "600";

/// Runs the program: how many of its jobs were late by its own log, surely and perhaps, and how long the worst took.
fn run(program: &Path) -> (u64, u64, u64) {
    let ended = Command::new(program).args(["compute", CYCLES]).output().unwrap();
    let log = String::from_utf8(ended.stdout).unwrap();
    let took: Vec<u64> = log.lines().map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect();
    // Its own clock is read a little before the job ends.
    let late = |margin: u64| took.iter().filter(|&&took| took + margin > DEADLINE_NS).count() as u64;
    (late(0), late(200_000), took.into_iter().max().expect("some job was late"))
}

fn rows(history: &Value) -> Vec<Value> {
    let rows = history["rows"].as_array().unwrap();
    rows.iter().filter(|row| row["quantity"] == "response").cloned().collect()
}

fn sum(rows: &[Value], field: &str) -> u64 {
    rows.iter().filter_map(|row| row[field].as_u64()).sum()
}

/// Facts about single response times.
fn exemplars(page: &str) -> Vec<&str> {
    let buckets = page.lines().filter(|line| line.starts_with("lathunt_response_seconds_bucket"));
    buckets.filter_map(|line| line.split_once(" # ")).map(|(_, told)| told).collect()
}

/// The upper limit for jobs by the history and by the metrics, of one moment; `None`: activations were lost, so neither says one.
fn exceedance(monitor: &Monitor) -> (Option<f64>, Option<f64>) {
    let told = || {
        let history = history_json(&monitor.database);
        let limits = history["exceedance"].as_array().unwrap().clone();
        limits
            .iter()
            .find(|one| one["quantity"] == "response")
            .map(|one| one["probability_upper"].as_f64().unwrap())
    };
    loop {
        let before = told();
        let page = http::text(monitor.port, "/metrics", "application/openmetrics-text").unwrap();
        let name =
            "lathunt_exceedance_probability_upper{task=\"control\",kind=\"response\",deadline=\"0.0015\",\
                    span=\"24h\",confidence=\"0.95\"} ";
        let metric = page.lines().find_map(|line| line.strip_prefix(name)).map(|text| text.parse().unwrap());
        if before == told() {
            return (before, metric);
        }
    }
}

#[test]
#[ignore = "root: run by make test"]
fn late_jobs_are_counted_and_explained_through_a_kill_and_a_restart() {
    if !may_run("late_jobs_are_counted_and_explained_through_a_kill_and_a_restart", lacks_bpf()) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let (program, deadlines) = (place.path().join("truth"), place.path().join("deadlines"));
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/jobs/truth.c");
    let built =
        Command::new("cc").args(["-O2", "-pthread", "-o"]).arg(&program).arg(source).status().unwrap();
    assert!(built.success());
    fs::write(&deadlines, "# the loop\ncontrol = 1500us\n* = none\n").unwrap();
    let held = ["--deadlines", deadlines.to_str().unwrap()];
    let (mut surely, mut perhaps, mut longest) = (0, 0, 0);
    for start in 0..2 {
        let mut monitor = Monitor::with(place.path(), "1s", &held);
        let mut page = String::new();
        // A window tells its worst job, which may be one that something else disturbed: then once more.
        for _ in 0..6 {
            let (late, at_most, worst) = run(&program);
            (surely, perhaps, longest) = (surely + late, perhaps + at_most, longest.max(worst));
            // A kill takes the window that runs; the one with the last job is closed by then.
            let end = lathunt_host::monitor::clocks::wall().0;
            wait_for("the last window", Duration::from_secs(20), || {
                let history = history_json(&monitor.database);
                history["windows"].as_array().unwrap().last().is_some_and(|of| of[1].as_i64() > Some(end))
            });
            page = http::text(monitor.port, "/metrics", "application/openmetrics-text").unwrap();
            if exemplars(&page).iter().any(|told| told.contains("its own ")) {
                break;
            }
        }
        if start == 0 {
            monitor.child.kill().unwrap();
            monitor.child.wait().unwrap();
            continue;
        }
        let has = |line: &str| page.lines().any(|found| found == line);
        assert!(has("lathunt_deadline_seconds{task=\"control\"} 0.0015"), "{page}");
        assert!(page.contains("lathunt_deadline_misses_total{task=\"control\"} "), "{page}");
        let told = exemplars(&page);
        assert!(told.iter().any(|told| told.contains("its own ")), "{told:?}");
        assert!(!page.contains("task=\"innocent\",le="), "it has no deadline");
        let (told, metric) = exceedance(&monitor);
        // Of a number in JSON the last bit may be read differently.
        let [told, metric] = [told, metric].map(|value| value.expect("a limit"));
        let what = "what the windows before the kill and after it say";
        assert!((told - metric).abs() <= told * 1e-12, "{what}: {told} {metric}");
        monitor.signal(libc::SIGTERM);
        monitor.child.wait().unwrap();
    }
    let history_of = history_json(&place.path().join("monitor.sqlite"));
    let rows = rows(&history_of);
    assert!(rows.iter().all(|row| row["task"] == "control" && row["deadline_ns"] == DEADLINE_NS), "{rows:?}");
    // What was lost, of which this kernel may hide switches, is on record, and no more than that is missing.
    let (misses, lost) = (sum(&rows, "misses"), sum(&rows, "lost"));
    assert!(
        misses <= perhaps && misses + lost >= surely,
        "{misses} and {lost} lost, of {surely} to {perhaps}"
    );
    let peaks: Vec<&Value> = rows.iter().map(|row| &row["peak"]).filter(|peak| peak.is_object()).collect();
    let worst = peaks.iter().max_by_key(|peak| peak["total_ns"].as_u64()).expect("jobs are explained");
    let total = worst["total_ns"].as_u64().unwrap();
    assert!(total.abs_diff(longest) * 20 <= longest || lost > 0, "{total} ns, by its own clock {longest}");
    // The limit is that of the jobs that were late by the program's own log, as far as nothing was lost.
    if let Some(one) =
        history_of["exceedance"].as_array().unwrap().iter().find(|one| one["task"] == "control")
    {
        let (samples, above) = (one["samples"].as_u64().unwrap(), one["above"].as_u64().unwrap());
        assert!(
            above >= surely && above <= perhaps + 2 * lost,
            "{above}, by its own log {surely} to {perhaps}"
        );
        let share = above as f64 / samples as f64;
        let upper = one["probability_upper"].as_f64().unwrap();
        assert!(upper > share && upper < share + 3.0 * (above as f64 + 3.0).sqrt() / samples as f64, "{one}");
    }
    let shown = history(&place.path().join("monitor.sqlite"), &["--series", "response"]);
    let text = String::from_utf8(shown.stdout).unwrap();
    let jobs = text.lines().find(|line| line.starts_with("control ")).unwrap();
    assert!(jobs.contains("1.500 ms"), "{text}");
    let sentences = peaks.iter().filter_map(|peak| peak["explanation"]["sentence"].as_str());
    assert!(sentences.into_iter().any(|told| told.contains(" itself")), "{peaks:?}");
    let svg = place.path().join("jobs.svg");
    let drawn = history(
        &place.path().join("monitor.sqlite"),
        &["--series", "response", "--plot", svg.to_str().unwrap()],
    );
    assert!(drawn.status.success(), "{}", String::from_utf8_lossy(&drawn.stderr));
    assert!(fs::read_to_string(&svg).unwrap().contains("deadline 1.500 ms"), "the deadline is drawn");
}
