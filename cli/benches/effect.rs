//! What a running monitor does to the latencies of others: cyclictest's own average without and with it, in ten
//! alternations, and the monitor's CPU time meanwhile.
//!
//! `cyclictest -S -p95 -m -i 1000 -N -q -D 4` of rt-tests. The difference is held against the noise of this machine: the
//! spread (half the distance of the quartiles) of the differences between rounds that were both without it. Needs root.
//! `cargo bench -p lathunt --bench effect [-- ALTERNATIONS]`

use std::process::{Command, Stdio};
use std::time::Instant;

#[path = "daemon/mod.rs"]
mod daemon;
#[path = "../../core/benches/figure/mod.rs"]
mod figure;

use daemon::Daemon;

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

fn main() {
    let rounds = figure::rounds(10);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (mut bare, mut with) = (Vec::new(), Vec::new());
    let (mut own, mut wall) = (0.0, 0.0);
    for round in 0..rounds {
        for monitored in [round % 2 == 1, round % 2 == 0] {
            let daemon = match monitored {
                true => Daemon::start(&directory.path().join("monitor.sqlite")),
                false => None,
            };
            if monitored && daemon.is_none() {
                return figure::skipped(WHAT, "no recorder here: run `lathunt monitor` to see why");
            }
            if monitored {
                // At first every wake-up is among the worst so far; of a window of five minutes that is the first seconds.
                let _ = average();
            }
            let (begun, before) = (Instant::now(), daemon.as_ref().and_then(Daemon::cost));
            let value = match average() {
                Ok(value) => value,
                Err(why) => return figure::skipped(WHAT, &why),
            };
            if let Some((before, after)) = before.zip(daemon.as_ref().and_then(Daemon::cost)) {
                own += after.seconds - before.seconds;
                wall += begun.elapsed().as_secs_f64();
            }
            if monitored { &mut with } else { &mut bare }.push(value);
        }
    }
    report(&bare, &with);
    // Not what it takes in the long run, for which the bench `monitor` has the goal: each is a new one with new worst cases.
    figure::plain("  the monitor's CPU time in its first seconds", 100.0 * own / wall, "% of a CPU");
}

fn report(bare: &[f64], with: &[f64]) {
    let added: Vec<f64> = with.iter().zip(bare).map(|(with, bare)| with - bare).collect();
    let between: Vec<f64> = bare.windows(2).map(|pair| pair[1] - pair[0]).collect();
    figure::plain("cyclictest's average alone, median", figure::median(bare), "ns");
    figure::plain(&format!("{WHAT}, median"), figure::median(with), "ns");
    figure::plain("  spread of two rounds without it", spread(&between), "ns");
    let ratio = figure::median(&added).abs() / spread(&between);
    figure::at_most("  difference (median of the rounds) / spread", ratio, "x", 1.0);
}

/// Half the distance of the quartiles.
fn spread(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |part: usize| sorted.get(sorted.len() * part / 4).copied().unwrap_or(f64::NAN);
    (at(3) - at(1)) / 2.0
}
