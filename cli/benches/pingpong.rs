//! What `lathunt box` adds to a round trip: beside a minimal ping-pong in C, which this bench compiles, beside sockperf, and one
//! way beside the programs of rt-tests, all at one stimulus a millisecond, SCHED_FIFO 95, in alternating rounds.
//! sockperf spins between two packets, and ptsematest, pmqtest and svsematest wake the receiver just before each measurement, so
//! that caches are warm: beside these, ours has --warm.
//!
//! Round trips: the median, interpolated within its class of 1 µs. One way: averages, which is what rt-tests print (in whole µs,
//! so that a ratio of small figures is coarse). Needs root and a C compiler. `cargo bench -p lathunt --bench pingpong [-- ROUNDS]`

use std::path::Path;
use std::process::{Child, Command, Stdio};

use lathunt_core::histogram::Histogram;
use lathunt_core::run::Run;
use lathunt_core::series::Quantity;

#[path = "../../core/benches/figure/mod.rs"]
mod figure;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/pingpong/pingpong.c");
const ADDRESS: &str = "udp:127.0.0.1:47480";
const GOAL: f64 = 1.05;

/// A process that does not outlive the bench.
struct Responder(Child);

impl Drop for Responder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The median, as if the samples of its class were spread evenly.
fn median(histogram: &Histogram) -> f64 {
    let half = histogram.count() as f64 / 2.0;
    let mut before = 0.0;
    for (low, high, count) in histogram.occupied() {
        if before + count as f64 >= half {
            return low.0 as f64 + (half - before) / count as f64 * (high.0 + 1 - low.0) as f64;
        }
        before += count as f64;
    }
    f64::NAN
}

fn output(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{command:?}: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            Err(said.lines().next().unwrap_or("failed").to_owned())
        }
    }
}

/// `from` and `to`: CPUs of the box and of the responder.
fn ours(kind: &str, from: &str, to: &str, more: &[&str]) -> Result<Run, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lathunt"));
    command.args(["box", "-q", "--json", "-D", "2s", "-c", from]).args(more);
    let _responder = match kind {
        "udp" => {
            let mut responder = Command::new(env!("CARGO_BIN_EXE_lathunt"));
            responder.args(["respond", ADDRESS, "-q", "-c", to]).stdout(Stdio::null());
            command.arg(ADDRESS);
            Some(Responder(responder.spawn().map_err(|error| error.to_string())?))
        }
        kind => {
            command.args(["--pair", kind]);
            if from == to {
                command.arg("-S");
            }
            None
        }
    };
    let output = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    Run::from_json(&String::from_utf8_lossy(&output.stdout)).map_err(|error| error.to_string())
}

fn round_trip(kind: &str, from: &str, to: &str, more: &[&str]) -> Result<f64, String> {
    let run = ours(kind, from, to, more)?;
    let series = run.of(Quantity::Roundtrip).next().ok_or("no round trips")?;
    Ok(median(&series.histogram))
}

/// The C program's median.
fn theirs(program: &Path, kind: &str, from: &str, to: &str) -> Result<f64, String> {
    let text = output(Command::new(program).args([kind, "1000", "2000", from, to, "95"]))?;
    text.split_whitespace().nth(1).and_then(|word| word.parse().ok()).ok_or("no median".to_owned())
}

/// The median of sockperf over UDP on CPU 1, ns.
fn sockperf() -> Result<f64, String> {
    let alike = ["-c", "1", "chrt", "-f", "95", "sockperf"];
    let address = ["-i", "127.0.0.1", "-p", "47481"];
    let mut server = Command::new("taskset");
    server.args(alike).arg("server").args(address).stdout(Stdio::null()).stderr(Stdio::null());
    let _server = Responder(server.spawn().map_err(|error| error.to_string())?);
    std::thread::sleep(std::time::Duration::from_millis(300));
    let mut client = Command::new("taskset");
    let alone = ["ping-pong", "-t", "2", "--mps=1000", "--full-rtt", "-m", "40"];
    let text = output(client.args(alike).args(alone).args(address))?;
    let median =
        text.lines().find_map(|line| line.split_once("percentile 50.000 =")?.1.trim().parse::<f64>().ok());
    Ok(median.ok_or("no median in its output")? * 1_000.0)
}

/// Average of one way, ns.
fn one_way(program: &str, alone: &[&str]) -> Result<f64, String> {
    let text = output(Command::new(program).args(alone).args(["-p95", "-i", "1000", "-l", "2000", "-q"]))?;
    let averages: Vec<f64> = text
        .lines()
        .filter_map(|line| line.split_once("Avg")?.1.split(',').next()?.trim().parse().ok())
        .collect();
    match averages.is_empty() {
        true => Err("no average in its output".to_owned()),
        false => Ok(averages.iter().sum::<f64>() / averages.len() as f64 * 1_000.0),
    }
}

fn our_way(kind: &str, alone: &[&str]) -> Result<f64, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lathunt"));
    let text = output(command.args(["box", "-q", "--json", "-D", "2s", "--pair", kind]).args(alone))?;
    let run = Run::from_json(&text).map_err(|error| error.to_string())?;
    let ways: Vec<f64> = run.of(Quantity::Outward).filter_map(|series| series.histogram.mean_ns()).collect();
    match ways.is_empty() {
        true => Err("no outward".to_owned()),
        false => Ok(ways.iter().sum::<f64>() / ways.len() as f64),
    }
}

/// Both in turn; who begins alternates.
fn beside(
    what: &str,
    goal: f64,
    rounds: usize,
    ours: &dyn Fn() -> Result<f64, String>,
    theirs: &dyn Fn() -> Result<f64, String>,
) {
    let mut taken = [Vec::new(), Vec::new()];
    for round in 0..rounds {
        for which in [round % 2, (round + 1) % 2] {
            match if which == 0 { ours() } else { theirs() } {
                Ok(value) => taken[which].push(value),
                Err(why) => return figure::skipped(what, &why),
            }
        }
    }
    figure::at_most(what, figure::median_ratio(&taken[0], &taken[1]), "×", goal);
    figure::plain("    ours, median of the rounds", figure::median(&taken[0]) / 1_000.0, "µs");
    figure::plain("    theirs", figure::median(&taken[1]) / 1_000.0, "µs");
}

fn main() {
    let rounds = figure::rounds(9);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let program = directory.path().join("pingpong");
    let compiled = output(Command::new("cc").args(["-O2", "-pthread", "-o"]).arg(&program).arg(SOURCE));
    match compiled {
        Err(why) => figure::skipped("box beside a minimal ping-pong in C", &why),
        Ok(_) => {
            for kind in ["pipe", "eventfd", "futex", "udp"] {
                for (from, to, how) in [("1", "1", "one CPU"), ("1", "0", "two CPUs")] {
                    // Both threads of ours on one CPU are on each CPU in turn: the C program's on CPU 1.
                    let what = format!("{kind}, {how}: round trip beside C");
                    let ours = || round_trip(kind, from, to, &[]);
                    beside(&what, GOAL, rounds, &ours, &|| theirs(&program, kind, from, to));
                }
            }
        }
    }
    let ours = || round_trip("udp", "1", "1", &["--warm"]);
    beside("udp, one CPU, warm: round trip beside sockperf", 1.0, rounds, &ours, &sockperf);
    // sigwaittest knows only two CPUs.
    for (peer, kind, alone) in [
        ("ptsematest", "mutex", &["-S"][..]),
        ("pmqtest", "mqueue", &["-S"]),
        ("svsematest", "semaphore:sysv", &["-S"]),
        ("sigwaittest", "signal", &[]),
    ] {
        let (cpus, more) =
            if alone.is_empty() { ("two CPUs", alone) } else { ("one CPU, warm", &["-S", "--warm"][..]) };
        let what = format!("{kind}, {cpus}: one way beside {peer}");
        beside(&what, 1.0, rounds, &|| our_way(kind, more), &|| one_way(peer, alone));
    }
}
