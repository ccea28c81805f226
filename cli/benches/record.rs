//! What `record -- COMMAND` costs at 10,000 jobs a second, each of them late, and whether it loses any without a word.
//!
//! The program ([extremes.c](../tests/jobs/extremes.c)) measures its own jobs. CPU time and memory of the recorder are read while
//! it records; the median job with and without recording is taken in turn. Then 500 threads with one late job each. `cargo bench
//! -p lathunt --bench record -- 30` records for 30 seconds, with a job of that length. Needs root.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

#[path = "../../core/benches/figure/mod.rs"]
mod figure;

use lathunt_core::application::Task;
use lathunt_core::run::Run;
use lathunt_core::series::Quantity;
use lathunt_core::time::Ns;

const USUAL_SECONDS: usize = 5;
const ROUNDS: usize = 5;
const CPU_GOAL_PERCENT: f64 = 10.0;
const EFFECT_GOAL: f64 = 1.1;
const MEMORY_GOAL_MB: f64 = 150.0;
const THREADS: &str = "500";

fn main() {
    let seconds = figure::rounds(USUAL_SECONDS);
    let what = format!("record -- COMMAND at 10,000 jobs/s for {seconds} s");
    let place = tempfile::tempdir().expect("a temporary directory");
    let program = place.path().join("extremes");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/jobs/extremes.c");
    let built = Command::new("cc").args(["-O2", "-pthread", "-o"]).arg(&program).arg(source).status();
    if !built.is_ok_and(|built| built.success()) {
        return figure::skipped(&what, "needs cc");
    }
    let Some(rate) = recorded(&program, place.path(), ["rate", &seconds.to_string()], "10us") else {
        return figure::skipped(&what, "it cannot be recorded here: run `lathunt record` to see why");
    };
    figure::below(
        "record's own CPU time at 10,000 late jobs/s, of one CPU",
        rate.percent,
        "%",
        CPU_GOAL_PERCENT,
    );
    figure::plain("its CPU time before that, until the program begins", rate.start, "s");
    figure::at_most("record's largest memory meanwhile", rate.megabytes, "MB", MEMORY_GOAL_MB);
    figure::plain("jobs that the program had", rate.jobs as f64, "");
    account(&rate, "fast");
    effect(&program, place.path());
    if let Some(crowd) = recorded(&program, place.path(), ["crowd", THREADS], "30ms") {
        let late = crowd.run.tasks.iter().filter(|task| task.misses > 0).count();
        figure::at_least("of 500 threads with one late job each: threads found late", late as f64, "", 500.0);
        let explained = crowd.run.tasks.iter().filter(|task| is_explained(&crowd.run, task)).count();
        figure::at_least("of these: worst job explained", explained as f64, "", 500.0);
        figure::plain("record's largest memory meanwhile", crowd.megabytes, "MB");
    }
    if seconds > USUAL_SECONDS {
        let held = "slow=100ms,*=none";
        if let Some(long) = recorded(&program, place.path(), ["long", &seconds.to_string()], held) {
            let slow = long.run.tasks.iter().find(|task| task.thread.comm == "slow");
            let explained = slow.is_some_and(|slow| is_explained(&long.run, slow));
            figure::at_least(
                &format!("a job of {seconds} s explained"),
                f64::from(u8::from(explained)),
                "",
                1.0,
            );
        }
    }
}

struct Recorded {
    run: Run,
    jobs: u64,
    median: f64,
    percent: f64,
    /// CPU time before the program began, s.
    start: f64,
    megabytes: f64,
}

fn recorded(program: &Path, place: &Path, mode: [&str; 2], deadline: &str) -> Option<Recorded> {
    let (output, log) = (place.join(format!("run-{}", mode[0])), place.join("log"));
    let mut child = Command::new(env!("CARGO_BIN_EXE_lathunt"))
        .args(["record", "-q", "--deadline", deadline, "-o"])
        .arg(&output)
        .arg("--")
        .arg(program)
        .args(mode)
        .stdout(fs::File::create(&log).ok()?)
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let (mut begun, mut ns, mut megabytes) = (None, 0, 0.0_f64);
    let mut last = Duration::ZERO;
    while child.try_wait().ok()?.is_none() {
        // Only while the program runs: before it the programs of the recorder are loaded, what follows is the report.
        let said = fs::read_to_string(&log).unwrap_or_default();
        if said.contains("begun") && !said.contains("jobs ") {
            ns = on_cpu(child.id()).unwrap_or(ns);
            last = begun.get_or_insert((Instant::now(), ns)).0.elapsed();
        }
        megabytes = megabytes.max(resident(child.id()).unwrap_or(0.0));
        sleep(Duration::from_millis(20));
    }
    let (text, before) = (fs::read_to_string(&log).ok()?, begun?.1);
    let words: Vec<&str> = text.lines().find_map(|line| line.strip_prefix("jobs "))?.split(' ').collect();
    let run = Run::from_json(&fs::read_to_string(output.join("run.lathunt.json")).ok()?).ok()?;
    Some(Recorded {
        run,
        jobs: words[0].parse().ok()?,
        median: words.get(4).and_then(|word| word.parse().ok()).unwrap_or(f64::NAN),
        percent: ns.saturating_sub(before) as f64 / last.as_nanos() as f64 * 100.0,
        start: before as f64 / 1e9,
        megabytes,
    })
}

/// On-CPU time of all threads, ns.
fn on_cpu(pid: u32) -> Option<u64> {
    let of = |task: std::io::Result<fs::DirEntry>| -> Option<u64> {
        let text = fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse().ok()
    };
    Some(fs::read_dir(format!("/proc/{pid}/task")).ok()?.filter_map(of).sum())
}

fn resident(pid: u32) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    kilobytes.trim().trim_end_matches(" kB").parse::<f64>().ok().map(|kilobytes| kilobytes / 1024.0)
}

/// Jobs of which nothing is known, not even that they are missing.
fn account(recorded: &Recorded, comm: &str) {
    let task = recorded.run.tasks.iter().find(|task| task.thread.comm == comm);
    let response = task.and_then(|task| task.of(Quantity::Response));
    let known = response.map_or(0, |response| response.histogram.count() + response.lost);
    let overrun = task.map_or(0, |task| task.late_sleeps);
    figure::plain("of them known to be lost", response.map_or(0, |response| response.lost) as f64, "");
    // The first begins before the first wait, and the last ends with the thread.
    let silent = recorded.jobs.saturating_sub(known + overrun + 2);
    figure::at_most("jobs missing without a word", silent as f64, "", 0.0);
    let explained = task.is_some_and(|task| is_explained(&recorded.run, task));
    figure::at_least("the worst of them explained", f64::from(u8::from(explained)), "", 1.0);
}

fn is_explained(run: &Run, task: &Task) -> bool {
    let max: Option<Ns> = task.of(Quantity::Response).and_then(|series| series.histogram.max());
    run.peaks.iter().any(|peak| {
        peak.quantity == Quantity::Response
            && peak.victim.tid == task.thread.tid
            && Some(peak.total_ns) == max
            && peak.explanation.is_some()
    })
}

/// The median job with recording beside that without, in turn.
fn effect(program: &PathBuf, place: &Path) {
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let bare = Command::new(program).args(["rate", "1"]).output().ok();
        let text = bare.map(|bare| String::from_utf8_lossy(&bare.stdout).into_owned()).unwrap_or_default();
        let median = text.trim().rsplit(' ').next().and_then(|word| word.parse::<f64>().ok());
        let recorded = recorded(program, place, ["rate", "1"], "10us");
        without.extend(median);
        with.extend(recorded.map(|recorded| recorded.median));
    }
    if with.len() != without.len() || with.is_empty() {
        return figure::skipped("median job while recorded, of that without", "a round failed");
    }
    figure::plain("median job without recording", figure::median(&without) / 1e3, "µs");
    let ratio = figure::median_ratio(&with, &without);
    figure::at_most("median job while recorded, of that without", ratio, "", EFFECT_GOAL);
}
