//! How fast recorded traces are read, beside the programs that read them too: `cargo bench -p lathunt --bench trace`.
//!
//! The traces are made here: `perf bench sched pipe` under `lathunt trace`, at least five million events, and the same
//! as CTF through `explain --ctf`; the perf.data is one of `perf sched record`. Compared is CPU time (user and system)
//! for an event, both sides in turn, ours on one core, the median of the rounds' ratios; what two cores gain is a
//! ratio of durations. The others, which are slow, read a second trace of a tenth of the length: their time for an
//! event does not depend on it. It also shows what memory depends on.

#[path = "../../core/benches/figure/mod.rs"]
mod figure;

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use figure::{at_least, at_most, median, median_ratio, plain, rounds, skipped};

const LATHUNT: &str = env!("CARGO_BIN_EXE_lathunt");
/// A round trip of the pipe is six to eighteen events in `lathunt trace`, some six in `perf sched record`.
const LOOPS: u32 = 400_000;
const ENOUGH: f64 = 5e6;
/// System calls that mark an interval, and how often there is one.
const MARKS: [i64; 2] = [600, 601];
const BETWEEN_MARKS: Duration = Duration::from_millis(50);

fn main() {
    if lathunt_host::testing::lacks_root().is_some() {
        skipped("reading traces", "recording needs root");
        return;
    }
    let Ok(place) = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")) else {
        skipped("reading traces", "no room for a trace");
        return;
    };
    let place = place.path();
    let rounds = rounds(5);
    ftrace(place, rounds);
    perf_data(place, rounds);
}

/// A recording that is long enough, and one of a tenth; how many events are in them.
fn recordings(long: &Path, short: &Path, record: impl Fn(&Path, u32) -> Option<()>) -> Option<[f64; 2]> {
    let mut loops = LOOPS;
    record(long, loops)?;
    let mut found = events(long)?;
    if found < ENOUGH {
        loops = (f64::from(loops) * 1.2 * ENOUGH / found.max(1.0)) as u32;
        let removed = if long.is_dir() { std::fs::remove_dir_all(long) } else { std::fs::remove_file(long) };
        removed.ok()?;
        record(long, loops)?;
        found = events(long)?;
    }
    record(short, loops / 10)?;
    Some([found, events(short)?])
}

/// trace.dat, and the same as CTF.
fn ftrace(place: &Path, rounds: usize) {
    let (long, short) = (place.join("long"), place.join("short"));
    let Some([events, few]) = recordings(&long, &short, record) else {
        skipped("reading traces", "nothing could be recorded (perf is needed)");
        return;
    };
    plain("events in the trace", events, "");
    if events < ENOUGH {
        skipped("reading traces", "the trace is too short to tell");
        return;
    }
    let summary = ["explain", text(&long), "--summary"];
    let file = short.join("trace.dat");
    let report = ["trace-cmd", "report", text(&file)];
    let what = "trace.dat: times faster than trace-cmd report";
    if let Some(seconds) = beside(what, (&summary, events), (&report, few), 20.0, rounds) {
        at_least("trace.dat: events per second of one core", 1e-6 / seconds, "million/s", 10.0);
    }
    two_cores(&summary, rounds);
    memory("trace.dat", &short, &long);
    let between = ["explain", text(&long), "--between", "sys:600", "sys:601"];
    let durations: Vec<f64> = (0..rounds).filter_map(|_| duration(&ours(&between, true))).collect();
    at_most("--between, per 5 million events", median(&durations) * 5e6 / events, "s", 1.0);
    let (ctf, short_ctf) = (place.join("ctf"), place.join("short-ctf"));
    let convert = |from: &Path, to: &Path| run(&ours(&["explain", text(from), "--ctf", text(to)], false));
    if convert(&long, &ctf).and(convert(&short, &short_ctf)).is_some() {
        let theirs = ["babeltrace2", text(&short_ctf), "-c", "sink.utils.dummy"];
        let asked = ["explain", text(&ctf), "--summary"];
        let what = "CTF: times faster than babeltrace2 into nothing";
        if let Some(seconds) = beside(what, (&asked, events), (&theirs, few), 5.0, rounds) {
            plain("CTF: events per second of one core", 1e-6 / seconds, "million/s");
        }
        memory("CTF", &short_ctf, &ctf);
    }
}

/// The pipe under `lathunt trace`, with an interval between two marks now and then.
fn record(directory: &Path, loops: u32) -> Option<()> {
    let (loops, over) = (loops.to_string(), AtomicBool::new(false));
    let record = ["trace", "--ring", "128M", "-o", text(directory), "--"];
    let command = [&record[..], &["perf", "bench", "sched", "pipe", "-l", &loops]].concat();
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                for (number, rest) in MARKS.into_iter().zip([Duration::from_millis(1), BETWEEN_MARKS]) {
                    // SAFETY: there is no such system call: the kernel refuses it without looking at arguments.
                    unsafe { libc::syscall(number, 0) };
                    std::thread::sleep(rest);
                }
            }
        });
        let recorded = run(&ours(&command, false));
        over.store(true, Ordering::Relaxed);
        recorded.map(drop)
    })
}

fn perf_data(place: &Path, rounds: usize) {
    let what = "perf.data: times faster than perf sched timehist";
    let (long, short) = (place.join("long.data"), place.join("short.data"));
    let record = |data: &Path, loops: u32| {
        let loops = loops.to_string();
        let record = ["perf", "sched", "record", "-m", "32M", "-o", text(data), "--"];
        run(&[&record[..], &["perf", "bench", "sched", "pipe", "-l", &loops]].concat()).map(drop)
    };
    let Some([events, few]) = recordings(&long, &short, record) else {
        skipped(what, "perf sched record does not work here");
        return;
    };
    plain("events in the perf.data", events, "");
    let asked = ["explain", text(&long), "--summary"];
    let theirs = ["perf", "sched", "timehist", "-i", text(&short)];
    let _ = beside(what, (&asked, events), (&theirs, few), 4.0, rounds);
    memory("perf.data", &short, &long);
}

/// Our command, on one core or on all.
fn ours<'c>(arguments: &[&'c str], alone: bool) -> Vec<&'c str> {
    let one: &[&str] = if alone { &["taskset", "-c", "1"] } else { &[] };
    [one, &[LATHUNT], arguments].concat()
}

/// A command's arguments, and how many events it reads.
type Reading<'c> = (&'c [&'c str], f64);

/// Prints how many times less CPU time ours takes for an event on one core than `theirs`; gives the median of ours.
fn beside(what: &str, our: Reading<'_>, their: Reading<'_>, goal: f64, rounds: usize) -> Option<f64> {
    let (mut our_times, mut their_times) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let (Some(of_us), Some(of_them)) = (run(&ours(our.0, true)), run(their.0)) else {
            skipped(what, "one of the two could not read it");
            return None;
        };
        our_times.push(of_us / our.1);
        their_times.push(of_them / their.1);
    }
    at_least(what, median_ratio(&their_times, &our_times), "times", goal);
    Some(median(&our_times))
}

/// What a second core gains, beside what it gives two of us that have nothing to do with each other: virtual cores share
/// caches, memory and the host's patience, and no program gains more.
fn two_cores(arguments: &[&str], rounds: usize) {
    let what = "trace.dat: times faster on two cores than on one";
    let (mut one, mut two, mut apart) = (Vec::new(), Vec::new(), Vec::new());
    let on = |core: &'static str| [&["taskset", "-c", core][..], &ours(arguments, false)].concat();
    for _ in 0..2 * rounds {
        one.extend(duration(&on("1")));
        two.extend(duration(&on("0,1")));
        apart.extend(side_by_side(&on("0"), &on("1")).map(|both| both / 2.0));
    }
    at_least(what, median_ratio(&one, &two), "times", 1.7);
    plain("the same: what two processes gain, each on its core", median_ratio(&one, &apart), "times");
}

/// Seconds until both commands are over.
fn side_by_side(one: &[&str], other: &[&str]) -> Option<f64> {
    let begin = Instant::now();
    let both = [start(one)?, start(other)?];
    let succeeded = both.map(|mut process| process.wait().is_ok_and(|status| status.success()));
    (succeeded == [true; 2]).then(|| begin.elapsed().as_secs_f64())
}

/// CPU seconds of a command that succeeds.
fn run(command: &[&str]) -> Option<f64> {
    let before = children();
    let status = start(command)?.wait().ok()?;
    status.success().then(|| children() - before)
}

/// Seconds until it is over.
fn duration(command: &[&str]) -> Option<f64> {
    let begin = Instant::now();
    start(command)?.wait().ok()?.success().then(|| begin.elapsed().as_secs_f64())
}

fn start(command: &[&str]) -> Option<std::process::Child> {
    let mut process = Command::new(command[0]);
    process.args(&command[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    process.spawn().ok()
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

/// The most private memory of a summary of both traces: mapped pages of a file are the page cache's.
fn memory(format: &str, short: &Path, long: &Path) {
    let of = |trace: &Path| most_private(&ours(&["explain", text(trace), "--summary"], false));
    plain(&format!("{format}: private memory for a tenth of the trace"), of(short), "MiB");
    at_most(&format!("{format}: private memory for the whole trace"), of(long), "MiB", 150.0);
}

fn most_private(command: &[&str]) -> f64 {
    let Some(mut child) = start(command) else { return f64::NAN };
    let mut most = 0.0f64;
    while matches!(child.try_wait(), Ok(None)) {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let private = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let kib = private.and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok());
        most = most.max(kib.unwrap_or(0.0));
        std::thread::sleep(Duration::from_millis(1));
    }
    most / 1024.0
}

fn events(trace: &Path) -> Option<f64> {
    let summary =
        Command::new(LATHUNT).args(["explain", text(trace), "--summary", "--json"]).output().ok()?;
    let summary: serde_json::Value = serde_json::from_slice(&summary.stdout).ok()?;
    summary["events"].as_f64()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap_or("")
}
