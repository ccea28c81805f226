//! How fast recorded traces are read, beside the programs that read them too: `cargo bench -p lathunt --bench trace`.
//!
//! The trace is made here: `perf bench sched pipe` under `lathunt trace`, at least five million events, and the same as
//! CTF through `explain --ctf`; the perf.data is one of `perf sched record`. Compared is CPU time (user and system),
//! both sides in turn, the median of the rounds' ratios.

#[path = "../../core/benches/figure/mod.rs"]
mod figure;

use std::path::Path;
use std::process::{Command, Stdio};

use figure::{at_least, at_most, median, median_ratio, plain, rounds, skipped};

const LATHUNT: &str = env!("CARGO_BIN_EXE_lathunt");
/// A round trip of the pipe is some ten events.
const LOOPS: &str = "700000";
const ENOUGH: f64 = 5e6;

fn main() {
    if lathunt_host::testing::lacks_root().is_some() {
        skipped("reading traces", "recording needs root");
        return;
    }
    let Ok(place) = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")) else {
        skipped("reading traces", "no room for a trace");
        return;
    };
    let (long, ctf) = (place.path().join("long"), place.path().join("ctf"));
    let pipe = ["perf", "bench", "sched", "pipe", "-l", LOOPS];
    let recorded = run(&[&[LATHUNT, "trace", "--ring", "128M", "-o", text(&long), "--"][..], &pipe].concat());
    let Some(events) = recorded.and_then(|_| events(&long)) else {
        skipped("reading traces", "nothing could be recorded (perf is needed)");
        return;
    };
    plain("events in the trace", events, "");
    if events < ENOUGH {
        skipped("reading traces", "the trace is too short to tell");
        return;
    }
    let rounds = rounds(5);
    let summary = [LATHUNT, "explain", text(&long), "--summary"];
    let report = ["trace-cmd", "report", text(&long.join("trace.dat"))].map(str::to_owned);
    let report: Vec<&str> = report.iter().map(String::as_str).collect();
    if let Some(seconds) =
        beside("trace.dat: times faster than trace-cmd report", &summary, &report, 20.0, rounds)
    {
        at_least("trace.dat: events per CPU second", events / seconds / 1e6, "million/s", 10.0);
    }
    memory(&summary);
    let between = [LATHUNT, "explain", text(&long), "--between", "sys:998", "sys:999"];
    if let Some(seconds) = run(&between) {
        at_most("--between, per 5 million events", seconds * 5e6 / events, "s", 1.0);
    }
    if run(&[LATHUNT, "explain", text(&long), "--ctf", text(&ctf)]).is_some() {
        let ours = [LATHUNT, "explain", text(&ctf), "--summary"];
        let theirs = ["babeltrace2", text(&ctf), "-c", "sink.utils.dummy"];
        let _ = beside("CTF: times faster than babeltrace2 into nothing", &ours, &theirs, 5.0, rounds.min(3));
    }
    perf_data(place.path(), &pipe, rounds);
}

fn perf_data(place: &Path, pipe: &[&str], rounds: usize) {
    let what = "perf.data: times faster than perf sched timehist";
    let data = place.join("perf.data");
    let record = ["perf", "sched", "record", "-m", "32M", "-o", text(&data), "--"];
    if run(&[&record[..], &pipe[..5], &["400000"]].concat()).is_none() {
        skipped(what, "perf sched record does not work here");
        return;
    }
    let ours = [LATHUNT, "explain", text(&data), "--summary"];
    let _ = beside(what, &ours, &["perf", "sched", "timehist", "-i", text(&data)], 4.0, rounds.min(3));
}

/// Prints how many times less CPU time `ours` takes than `theirs`; gives the median of ours.
fn beside(what: &str, ours: &[&str], theirs: &[&str], goal: f64, rounds: usize) -> Option<f64> {
    let (mut our_times, mut their_times) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let (Some(our), Some(their)) = (run(ours), run(theirs)) else {
            skipped(what, "one of the two could not read it");
            return None;
        };
        our_times.push(our);
        their_times.push(their);
    }
    at_least(what, median_ratio(&their_times, &our_times), "times", goal);
    Some(median(&our_times))
}

/// CPU seconds of a command that succeeds.
fn run(command: &[&str]) -> Option<f64> {
    let before = children();
    let mut process = Command::new(command[0]);
    process.args(&command[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let status = process.status().ok()?;
    status.success().then(|| children() - before)
}

/// CPU seconds of all children that have ended.
fn children() -> f64 {
    // SAFETY: zeros are a valid rusage, which the call fills.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// The most private memory while the trace is read: mapped pages of the file are the page cache's.
fn memory(command: &[&str]) {
    let mut process = Command::new(command[0]);
    let Ok(mut child) = process.args(&command[1..]).stdout(Stdio::null()).spawn() else { return };
    let mut most = 0.0f64;
    while matches!(child.try_wait(), Ok(None)) {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let private = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let kib = private.and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok());
        most = most.max(kib.unwrap_or(0.0));
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    at_most("private memory of --summary", most / 1024.0, "MiB", 150.0);
}

fn events(directory: &Path) -> Option<f64> {
    let summary =
        Command::new(LATHUNT).args(["explain", text(directory), "--summary", "--json"]).output().ok()?;
    let summary: serde_json::Value = serde_json::from_slice(&summary.stdout).ok()?;
    summary["events"].as_f64()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap_or("")
}
