//! Our drop-in `cyclictest` beside the one of rt-tests, with the same flags: minimum and median latency.
//!
//! `-S -p95 -m -i 200 -q -D 3`, and `-N -h 200000 --json`, so that both say their median in ns. Rounds alternate, and
//! who begins alternates too; of each round the mean over the CPUs is taken, then the median of the rounds' ratios.
//! Needs root. `cargo bench -p lathunt --bench cyclictest [-- ROUNDS]`

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Map, Value};

#[path = "../../core/benches/figure/mod.rs"]
mod figure;

const FLAGS: [&str; 10] = ["-S", "-p95", "-m", "-i", "200", "-q", "-D", "3", "-N", "-h200000"];
const GOAL: f64 = 1.05;

/// Means over the CPUs, ns.
struct Latency {
    min: f64,
    median: f64,
}

fn measure(program: &Path) -> Result<Latency, String> {
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let file = directory.path().join("latency.json");
    let output = Command::new(program)
        .args(FLAGS)
        .arg(format!("--json={}", file.display()))
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{} cannot be run: {error}", program.display()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{}: {}", program.display(), said.lines().next().unwrap_or("failed")));
    }
    let text = std::fs::read_to_string(&file).map_err(|error| error.to_string())?;
    let json: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let threads = json["thread"].as_object().ok_or("no threads in the output")?;
    let figures: Option<Vec<(f64, f64)>> = threads
        .values()
        .map(|thread| Some((thread["min"].as_f64()?, median(thread["histogram"].as_object()?)?)))
        .collect();
    let figures = figures.filter(|figures| !figures.is_empty()).ok_or("no figures in the output")?;
    let mean = |of: fn(&(f64, f64)) -> f64| figures.iter().map(of).sum::<f64>() / figures.len() as f64;
    Ok(Latency { min: mean(|figures| figures.0), median: mean(|figures| figures.1) })
}

/// The median of rows `ns: count`.
fn median(rows: &Map<String, Value>) -> Option<f64> {
    let row = |(ns, count): (&String, &Value)| Some((ns.parse::<u64>().ok()?, count.as_u64()?));
    let mut rows: Vec<(u64, u64)> = rows.iter().map(row).collect::<Option<_>>()?;
    rows.sort_unstable();
    let half = rows.iter().map(|row| row.1).sum::<u64>() / 2;
    let mut seen = 0;
    rows.iter()
        .find(|row| {
            seen += row.1;
            seen > half
        })
        .map(|row| row.0 as f64)
}

fn main() {
    let rounds = figure::rounds(9);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let ours = directory.path().join("cyclictest");
    symlink(env!("CARGO_BIN_EXE_lathunt"), &ours).expect("a link");
    let programs = [ours.as_path(), Path::new("cyclictest")];
    let mut taken: [Vec<Latency>; 2] = [Vec::new(), Vec::new()];
    for round in 0..rounds {
        for which in [round % 2, (round + 1) % 2] {
            match measure(programs[which]) {
                Ok(latency) => taken[which].push(latency),
                Err(why) => {
                    return figure::skipped("latency beside cyclictest (package rt-tests, root)", &why)
                }
            }
        }
    }
    type Figure = fn(&Latency) -> f64;
    let figures: [(&str, Figure); 2] =
        [("minimum", |latency| latency.min), ("median", |latency| latency.median)];
    for (name, figure) in figures {
        let [ours, theirs] = taken.each_ref().map(|taken| taken.iter().map(figure).collect::<Vec<f64>>());
        let ratio = figure::median_ratio(&ours, &theirs);
        figure::at_most(&format!("{name} latency, ours / cyclictest's"), ratio, "x", GOAL);
        let what = format!("  {name}: ours, theirs (medians of {rounds} rounds)");
        println!("{what:<58} {:>9.0} {:>6.0} ns", figure::median(&ours), figure::median(&theirs));
    }
}
