//! How long `lathunt bound` takes for a run of 10^9 samples on 64 CPUs, all gates and 999 bootstrap samples included, and how
//! much memory; beside the same procedure in Python with SciPy (Debian package python3-scipy) on the same file. And for 10^6
//! plain numbers in time order, beside reading and sorting them with sort(1): the cost of the tests of time order and of exact
//! values.
//!
//! The samples are drawn, not taken: 3 µs and an exponential tail of 10 µs, with the maximum of each second, at 1 kHz. The Python
//! program does fewer bootstrap samples, and its CPU time is scaled to 999.
//! `cargo bench -p lathunt --bench bound [-- ROUNDS]`

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Instant;

use lathunt_core::histogram::{Histogram, Layout};
use lathunt_core::run::Run;
use lathunt_core::series::{Quantity, SecondMax, Series};
use lathunt_core::time::{Cpu, Ns};

#[path = "../../core/tests/example/mod.rs"]
mod example;
#[path = "../../core/benches/figure/mod.rs"]
mod figure;

const CPUS: u32 = 64;
const SAMPLES: u64 = 1_000_000_000;
const A_SECOND: u64 = 1_000;
const REFERENCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/bound/reference.py");
/// Bootstrap samples of the Python program.
const FEW: u32 = 49;
const ALL: f64 = 999.0;
/// Plain numbers.
const VALUES: u32 = 1_000_000;

/// One CPU's samples, ns.
fn series(cpu: u32) -> Series {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64 ^ (u64::from(cpu) << 32 | 1);
    let mut histogram = Histogram::new(Layout::LATENCY);
    let seconds = (0..SAMPLES / u64::from(CPUS) / A_SECOND).map(|second| {
        let mut largest = 0;
        for _ in 0..A_SECOND {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let uniform = ((random >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
            let latency = 3_000 + (-uniform.ln() * 10_000.0) as u64;
            histogram.record(Ns(latency));
            largest = largest.max(latency);
        }
        SecondMax { second: second as u32, max_ns: Ns(largest) }
    });
    let seconds: Vec<SecondMax> = seconds.collect();
    let mut series = Series::new(Quantity::Cyclic, Some(Cpu(cpu)), histogram);
    series.set_seconds(seconds);
    series
}

/// What a program took.
struct Taken {
    /// s.
    wall: f64,
    /// s of CPU time: what else runs on the machine does not add to it.
    cpu: f64,
    /// The most memory it had, MB.
    memory: f64,
}

/// Runs a program, which may print any verdict.
fn measured(command: &mut Command) -> Result<Taken, String> {
    let begin = Instant::now();
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let child = child.map_err(|error| format!("{command:?}: {error}"))?;
    let mut status = 0;
    // SAFETY: rusage is plain integers, for which zeros are valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both are valid for writing; the child is not waited for elsewhere.
    unsafe { libc::wait4(child.id() as libc::pid_t, &mut status, 0, &mut usage) };
    match ExitStatus::from_raw(status).code() {
        Some(0 | 3) => Ok(Taken {
            wall: begin.elapsed().as_secs_f64(),
            cpu: seconds(usage.ru_utime) + seconds(usage.ru_stime),
            memory: usage.ru_maxrss as f64 / 1e3,
        }),
        code => Err(format!("{command:?} failed: exit status {code:?}")),
    }
}

fn seconds(time: libc::timeval) -> f64 {
    time.tv_sec as f64 + time.tv_usec as f64 / 1e6
}

/// The CPU time with all bootstrap samples, from a run with few and one with none.
fn reference(run: &Path) -> Result<f64, String> {
    let time = |samples: u32| {
        measured(Command::new("/usr/bin/python3").arg(REFERENCE).arg(run).arg(samples.to_string()))
    };
    let (none, few) = (time(0)?.cpu, time(FEW)?.cpu);
    Ok(none + (few - none).max(0.0) / f64::from(FEW) * ALL)
}

/// 10^6 plain numbers with an exponential tail.
fn plain_numbers(directory: &Path, rounds: usize) {
    let file = directory.join("values.txt");
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut text = String::new();
    for _ in 0..VALUES {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let uniform = ((random >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        text += &format!("{:.3}\n", 3_000.0 - uniform.ln() * 10_000.0);
    }
    std::fs::write(&file, text).expect("room for the numbers");
    let (mut ours, mut sorted) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let mut bound = Command::new(env!("CARGO_BIN_EXE_lathunt"));
        ours.push(measured(bound.args(["bound", "--json", "--values"]).arg(&file)).expect("lathunt bound"));
        let mut sort = Command::new("sort");
        let sort = sort.args(["--parallel=1", "-g"]).arg(&file).env("LC_ALL", "C");
        sorted.push(measured(sort).expect("sort").cpu);
    }
    let each = |what: fn(&Taken) -> f64| ours.iter().map(what).collect::<Vec<f64>>();
    let cpu = each(|taken| taken.cpu);
    figure::plain("CPU time of a bound of 10^6 plain numbers", figure::median(&cpu), "s");
    figure::plain("its memory", figure::median(&each(|taken| taken.memory)), "MB");
    figure::plain("its CPU time to that of sort -g", figure::median_ratio(&cpu, &sorted), "times");
}

fn main() {
    let rounds = figure::rounds(5);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("run.lathunt.json");
    let mut run = Run::new(example::run(2, 1_000).conditions);
    run.conditions.duration_s = Some((SAMPLES / u64::from(CPUS) / A_SECOND) as f64);
    run.series = (0..CPUS).map(series).collect();
    std::fs::write(&file, run.to_json()).expect("room for the run file");
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let mut why = None;
    for _ in 0..rounds {
        let mut bound = Command::new(env!("CARGO_BIN_EXE_lathunt"));
        let bound = bound.args(["bound", "--assume-no-new-mechanism", "--json"]).arg(&file);
        ours.push(measured(bound).expect("lathunt bound"));
        match reference(&file) {
            Ok(cpu) => theirs.push(cpu),
            Err(error) => why = Some(error),
        }
    }
    let each = |what: fn(&Taken) -> f64| ours.iter().map(what).collect::<Vec<f64>>();
    let cpu = each(|taken| taken.cpu);
    figure::below("bound of 10^9 samples on 64 CPUs", figure::median(&each(|taken| taken.wall)), "s", 2.0);
    figure::plain("its CPU time", figure::median(&cpu), "s");
    figure::below("its memory", figure::median(&each(|taken| taken.memory)), "MB", 100.0);
    plain_numbers(directory.path(), rounds);
    match why {
        None => {
            figure::plain(
                "CPU time of the same procedure in Python with SciPy",
                figure::median(&theirs),
                "s",
            );
            let ratio = figure::median_ratio(&theirs, &cpu);
            figure::at_least("how many times faster", ratio, "times", 20.0);
        }
        Some(error) => {
            figure::skipped("the same procedure in Python with SciPy", &format!("python3-scipy: {error}"))
        }
    }
}
