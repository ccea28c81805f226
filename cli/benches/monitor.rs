//! What a running monitor costs, and what it does when 10,000 real-time wake-ups a second hit each CPU.
//!
//! One measuring thread a CPU wakes every 100 µs and counts its own activations; the monitor counts them in the kernel. Printed: the
//! monitor's CPU time as a share of one CPU, its memory at start and end, and whether every wake-up that it did not
//! count is on record as missing. Windows are those of the default, five minutes. 20 s; ten minutes: `cargo bench -p lathunt --bench monitor -- 600`. Needs root.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

#[path = "../../core/benches/figure/mod.rs"]
mod figure;

use lathunt_core::run::Run;
use lathunt_core::series::Quantity;

const USUAL_SECONDS: usize = 20;
const CPU_GOAL_PERCENT: f64 = 0.5;
/// Beyond this much more memory at the end it is not called flat.
const MEMORY_GOAL_MB: f64 = 2.0;

struct Monitor(Child);

impl Drop for Monitor {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Monitor {
    /// Starts one and waits until it records; `None` when it cannot.
    fn start(database: &std::path::Path) -> Option<Monitor> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lathunt"));
        command.args(["monitor", "--listen", "off", "--database"]).arg(database);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().ok()?;
        let mut lines = BufReader::new(child.stderr.take()?).lines().map_while(Result::ok);
        let monitor = Monitor(child);
        let begun = lines.any(|line| line.contains("recording: "));
        std::thread::spawn(move || lines.for_each(drop));
        begun.then_some(monitor)
    }

    /// CPU time so far, seconds, and resident memory, MB.
    fn cost(&self) -> Option<(f64, f64)> {
        let read = |name: &str| std::fs::read_to_string(format!("/proc/{}/{name}", self.0.id())).ok();
        let stat = read("stat")?;
        let fields: Vec<u64> = stat
            .rsplit_once(')')?
            .1
            .split_ascii_whitespace()
            .map(|field| field.parse().unwrap_or(0))
            .collect();
        let status = read("status")?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kilobytes: f64 = resident.trim().trim_end_matches(" kB").parse().ok()?;
        // The tick of /proc is 1/100 s on every architecture Linux has (USER_HZ).
        Some(((fields.get(11)? + fields.get(12)?) as f64 / 100.0, kilobytes / 1024.0))
    }
}

fn main() {
    let seconds = figure::rounds(USUAL_SECONDS);
    let what = format!("monitor under 10,000 wake-ups/s a CPU for {seconds} s");
    let directory = tempfile::tempdir().expect("a temporary directory");
    let database = directory.path().join("monitor.sqlite");
    let Some(mut monitor) = Monitor::start(&database) else {
        return figure::skipped(&what, "no recorder here: run `lathunt monitor` to see why");
    };
    let load = Command::new(env!("CARGO_BIN_EXE_lathunt"))
        .args(["cyclic", "-q", "--json", "-p", "80", "-i", "100", "-D", &format!("{seconds}s")])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("our own binary");
    sleep(Duration::from_secs(2)); // both have settled
    let (begun, first) = (Instant::now(), monitor.cost());
    sleep(Duration::from_secs(seconds.saturating_sub(4).max(1) as u64));
    let (elapsed, last) = (begun.elapsed().as_secs_f64(), monitor.cost());
    let output = load.wait_with_output().expect("our own binary");
    sleep(Duration::from_millis(200));
    // SAFETY: the child was not waited for, so its pid is its own.
    unsafe { libc::kill(monitor.0.id() as libc::pid_t, libc::SIGTERM) };
    let _ = monitor.0.wait();
    let (Some(first), Some(last)) = (first, last) else {
        return figure::skipped(&what, "the monitor ended early: run `lathunt monitor` to see why");
    };
    figure::below(
        "monitor's own CPU time, of one CPU",
        100.0 * (last.0 - first.0) / elapsed,
        "%",
        CPU_GOAL_PERCENT,
    );
    figure::plain("monitor's memory at the start", first.1, "MB");
    figure::at_most(
        "monitor's memory at the end, more than at the start",
        last.1 - first.1,
        "MB",
        MEMORY_GOAL_MB,
    );
    account(&output.stdout, &database);
}

/// Wake-ups that were made, counted, and counted as missing.
fn account(load: &[u8], database: &std::path::Path) {
    let Ok(run) = Run::from_json(&String::from_utf8_lossy(load)) else {
        return figure::skipped(
            "wake-ups accounted for",
            "the load did not run: it needs real-time priority",
        );
    };
    let made: u64 = run.of(Quantity::Cyclic).map(|series| series.histogram.count()).sum();
    let output = Command::new(env!("CARGO_BIN_EXE_lathunt"))
        .args(["history", "--json", "--series", "timer+wakeup", "--database"])
        .arg(database)
        .output()
        .expect("our own binary");
    let history: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let rows = history["rows"].as_array().cloned().unwrap_or_default();
    let sum = |of: &dyn Fn(&serde_json::Value) -> Option<u64>| rows.iter().filter_map(of).sum::<u64>();
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
