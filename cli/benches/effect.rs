//! What a running monitor does to the latencies of others: cyclictest's own average without and with it, in ten
//! alternations, and the monitor's CPU time meanwhile. Beside it, in the same rounds, what programs cost that read the
//! clock at the three tracepoints of such a wake-up and record nothing: no recorder comes below.
//!
//! `cyclictest -S -p95 -m -i 1000 -N -q -D 4` of rt-tests. The difference is held against the noise of this machine: the
//! spread (half the distance of the quartiles) of the differences between rounds that were both without it. Needs root.
//! `cargo bench -p lathunt --bench effect [-- ALTERNATIONS]`

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

#[path = "daemon/mod.rs"]
mod daemon;
#[path = "../../core/benches/figure/mod.rs"]
mod figure;

use daemon::Daemon;
use lathunt_host::recorder::Floor;

const FLAGS: [&str; 9] = ["-S", "-p95", "-m", "-i", "1000", "-N", "-q", "-D", "4"];
const WHAT: &str = "cyclictest's average with the monitor";

/// Mean over the CPUs of what cyclictest calls its average, ns.
fn average() -> Result<f64, String> {
    let output = Command::new("cyclictest")
        .args(FLAGS)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cyclictest (package rt-tests) cannot be run: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let of = |line: &str| line.split("Avg:").nth(1)?.split_whitespace().next()?.parse::<f64>().ok();
    let averages: Vec<f64> = text.lines().filter_map(of).collect();
    match averages.len() {
        0 => Err("cyclictest gave no averages: it needs root".to_owned()),
        count => Ok(averages.iter().sum::<f64>() / count as f64),
    }
}

/// What runs beside cyclictest.
#[derive(Clone, Copy)]
enum Beside {
    Nothing,
    Floor,
    Monitor,
}

fn main() {
    let rounds = figure::rounds(10);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut averages = [Vec::new(), Vec::new(), Vec::new()];
    let mut share = Vec::new();
    let order = [Beside::Nothing, Beside::Floor, Beside::Monitor];
    for round in 0..rounds {
        for turn in 0..order.len() {
            let beside = order[(round + turn) % order.len()];
            let measured = match beside {
                Beside::Nothing => average(),
                Beside::Floor => beside_floor(),
                Beside::Monitor => {
                    beside_monitor(&directory.path().join("monitor.sqlite")).map(|(average, percent)| {
                        share.push(percent);
                        average
                    })
                }
            };
            match measured {
                Ok(value) => averages[beside as usize].push(value),
                Err(why) => return figure::skipped(WHAT, &why),
            }
        }
    }
    report(&averages);
    // Not what it takes in the long run, for which the bench `monitor` has the goal: each is a new one with new worst cases.
    figure::plain("  the monitor's CPU time in its first seconds", figure::median(&share), "% of a CPU");
}

fn beside_floor() -> Result<f64, String> {
    let _floor = Floor::start().map_err(|error| error.to_string())?;
    average()
}

/// And the monitor's CPU time meanwhile, percent of a CPU.
fn beside_monitor(database: &Path) -> Result<(f64, f64), String> {
    let daemon = Daemon::start(database).ok_or("no recorder here: run `lathunt monitor` to see why")?;
    // At first every wake-up is among the worst so far; of a window of five minutes that is the first seconds.
    let _ = average();
    let (begun, before) = (Instant::now(), daemon.cost());
    let value = average()?;
    let (before, after) = before.zip(daemon.cost()).ok_or("the monitor ended")?;
    Ok((value, 100.0 * (after.seconds - before.seconds) / begun.elapsed().as_secs_f64()))
}

fn report([bare, floor, monitor]: &[Vec<f64>; 3]) {
    let between: Vec<f64> = bare.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let noise = spread(&between);
    let times = |with: &[f64]| {
        let added: Vec<f64> = with.iter().zip(bare).map(|(with, bare)| with - bare).collect();
        figure::median(&added).abs() / noise
    };
    figure::plain("cyclictest's average alone, median", figure::median(bare), "ns");
    figure::plain(&format!("{WHAT}, median"), figure::median(monitor), "ns");
    figure::plain("  spread of two rounds without it", noise, "ns");
    figure::at_most("  difference (median of the rounds) / spread", times(monitor), "x", 1.0);
    figure::plain("  the same of programs that only read the clock", times(floor), "x");
}

/// Half the distance of the quartiles.
fn spread(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |part: usize| sorted.get(sorted.len() * part / 4).copied().unwrap_or(f64::NAN);
    (at(3) - at(1)) / 2.0
}
