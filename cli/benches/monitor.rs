//! What a running monitor costs, and what it does when 10,000 real-time wake-ups a second hit each CPU.
//!
//! One measuring thread a CPU wakes every 100 µs and counts its own activations; the monitor counts them in the kernel.
//! Printed: the monitor's CPU time as a share of one CPU (before that, the same at the usual 1 ms), its memory at start and
//! end, whether that is flat (it swings within a window, with the evidence of the worst so far, so the largest of both
//! halves are compared), and whether every wake-up that it did not count is on record as missing. Windows are those of the default, five
//! minutes. 20 s; ten minutes: `cargo bench -p lathunt --bench monitor -- 600`. Needs root.

use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

#[path = "daemon/mod.rs"]
mod daemon;
#[path = "../../core/benches/figure/mod.rs"]
mod figure;

use daemon::Daemon;

use lathunt_core::run::Run;
use lathunt_core::series::Quantity;

const USUAL_SECONDS: usize = 20;
/// At first every wake-up is among the worst so far, and its evidence is read.
const SETTLE: Duration = Duration::from_secs(5);
const CPU_GOAL_PERCENT: f64 = 0.5;
/// Beyond this much more memory in the second half it is not called flat.
const MEMORY_GOAL_MB: f64 = 2.0;

fn main() {
    let seconds = figure::rounds(USUAL_SECONDS);
    let what = format!("monitor under 10,000 wake-ups/s a CPU for {seconds} s");
    let directory = tempfile::tempdir().expect("a temporary directory");
    let database = directory.path().join("monitor.sqlite");
    let Some(monitor) = Daemon::start(&database) else {
        return figure::skipped(&what, "no recorder here: run `lathunt monitor` to see why");
    };
    let loads = under(&monitor, 1_000, USUAL_SECONDS).zip(under(&monitor, 100, seconds));
    let _ = monitor.end();
    let Some((few, many)) = loads else {
        return figure::skipped(
            &what,
            "the load or the monitor ended early: run `lathunt monitor` to see why",
        );
    };
    let (memory, largest) = (&many.megabytes, |part: &[f64]| part.iter().copied().fold(0.0, f64::max));
    let (begun, ended) = memory.split_at(memory.len() / 2);
    figure::plain("monitor's memory at the start", memory[0], "MB");
    figure::plain("monitor's memory at the end", memory[memory.len() - 1], "MB");
    figure::at_most(
        "monitor's largest memory in the second half, more than in the first",
        largest(ended) - largest(begun),
        "MB",
        MEMORY_GOAL_MB,
    );
    account(few.made + many.made, &database);
}

/// What came of one load.
struct Load {
    /// Wake-ups.
    made: u64,
    /// The monitor's memory in each second from the time that it had settled, at least one.
    megabytes: Vec<f64>,
}

/// The monitor's CPU time while threads wake every `interval` µs on each CPU.
fn under(monitor: &Daemon, interval: u64, seconds: usize) -> Option<Load> {
    let load = Command::new(env!("CARGO_BIN_EXE_lathunt"))
        .args([
            "cyclic",
            "-q",
            "--json",
            "-p",
            "80",
            "-i",
            &interval.to_string(),
            "-D",
            &format!("{seconds}s"),
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    sleep(SETTLE);
    let (begun, first) = (Instant::now(), monitor.cost()?);
    let watched =
        Duration::from_secs(seconds as u64).saturating_sub(SETTLE + Duration::from_secs(2)).max(SETTLE);
    let mut megabytes = vec![first.megabytes];
    let mut last = first.seconds;
    while begun.elapsed() < watched {
        sleep(Duration::from_secs(1));
        let cost = monitor.cost()?;
        last = cost.seconds;
        megabytes.push(cost.megabytes);
    }
    let elapsed = begun.elapsed().as_secs_f64();
    let output = load.wait_with_output().ok()?;
    sleep(Duration::from_millis(200));
    let run = Run::from_json(&String::from_utf8_lossy(&output.stdout)).ok()?;
    let made = run.of(Quantity::Cyclic).map(|series| series.histogram.count()).sum();
    figure::below(
        &format!("monitor's own CPU time at {} wake-ups/s a CPU, of one CPU", 1_000_000 / interval),
        100.0 * (last - first.seconds) / elapsed,
        "%",
        CPU_GOAL_PERCENT,
    );
    Some(Load { made, megabytes })
}

/// Wake-ups that were made, counted, and counted as missing.
fn account(made: u64, database: &std::path::Path) {
    let output = Command::new(env!("CARGO_BIN_EXE_lathunt"))
        .args(["history", "--json", "--series", "timer+wakeup", "--database"])
        .arg(database)
        .output()
        .expect("our own binary");
    let history: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let rows = history["rows"].as_array().cloned().unwrap_or_default();
    // Rows of tasks count the same wake-ups again.
    let of_cpus = || rows.iter().filter(|row| row["cpu"].is_u64());
    let sum = |of: &dyn Fn(&serde_json::Value) -> Option<u64>| of_cpus().filter_map(of).sum::<u64>();
    let counted = sum(&|row| row["histogram"]["count"].as_u64());
    let missing = sum(&|row| row["lost"].as_u64());
    figure::plain("wake-ups that the load made", made as f64, "");
    figure::plain("wake-ups that the monitor counted", counted as f64, "");
    figure::plain("stretches in which it knows that some are missing", missing as f64, "");
    // Threads of others are counted too, so this is a lower limit; none may be missing without a word.
    let uncounted = made.saturating_sub(counted);
    let silent = if missing == 0 { uncounted } else { 0 };
    figure::at_most("wake-ups missing without a word", silent as f64, "", 0.0);
}
