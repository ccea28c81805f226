//! What `hunt` itself costs: CPU time of all its threads but the measuring ones, while it measures under load.
//!
//! The load runs in processes of its own. Read from /proc/PID/task/*/stat while `hunt -D 15s` runs; the share is that
//! of the time in which the measuring threads live, so without calibration before and files after, which are named
//! beside it. Needs root for what a hunt does as root. `cargo bench -p lathunt --bench hunt`

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

#[path = "../../core/benches/figure/mod.rs"]
mod figure;

const LENGTH: &str = "15s";
const GOAL_PERCENT: f64 = 2.0;
/// How the measuring threads are called.
const MEASURING: &str = "cyclic/";

/// One look at the threads of a process.
struct Look {
    at: Instant,
    measuring: BTreeSet<i32>,
}

/// CPU ticks (user and system) and name of a thread, from its `stat`: the name stands in parentheses.
fn parse(stat: &str) -> Option<(String, u64)> {
    let (head, rest) = stat.rsplit_once(')')?;
    let (_, name) = head.split_once('(')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let ticks = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    Some((name.to_owned(), ticks))
}

/// Looks at every thread of `pid`; `own` keeps the last ticks of each that does not measure, also of those that ended.
fn look(pid: u32, own: &mut BTreeMap<i32, u64>) -> Option<Look> {
    let mut measuring = BTreeSet::new();
    for entry in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
        let Some(tid) = entry.file_name().to_str().and_then(|tid| tid.parse::<i32>().ok()) else { continue };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        match parse(&stat) {
            Some((name, _)) if name.starts_with(MEASURING) => {
                own.remove(&tid); // it had not taken its name yet
                measuring.insert(tid);
            }
            Some((_, ticks)) => {
                own.insert(tid, ticks);
            }
            None => {} // it ended meanwhile
        }
    }
    Some(Look { at: Instant::now(), measuring })
}

fn main() {
    // The tick of /proc is 1/100 s on every architecture Linux has (USER_HZ).
    let second = |ticks: u64| ticks as f64 / 100.0;
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut hunt = Command::new(env!("CARGO_BIN_EXE_lathunt"))
        .args(["hunt", "-D", LENGTH, "-q", "-o"])
        .arg(directory.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("our own binary");
    let begun = Instant::now();
    let mut own: BTreeMap<i32, u64> = BTreeMap::new();
    let mut threads = BTreeSet::new();
    let (mut from, mut to) = (None, None);
    while hunt.try_wait().ok().flatten().is_none() {
        if let Some(look) = look(hunt.id(), &mut own) {
            let now = (look.at, own.values().sum::<u64>());
            if !look.measuring.is_empty() {
                // Calibration measures too, with threads of its own: the last ones count.
                if look.measuring.is_disjoint(&threads) {
                    from = Some(now);
                }
                threads = look.measuring;
                to = Some(now);
            }
        }
        sleep(Duration::from_millis(50));
    }
    let what = format!("hunt's own CPU use over {LENGTH}, of one CPU");
    let (Some(from), Some(to)) = (from, to) else {
        return figure::skipped(&what, "hunt did not measure: run `lathunt hunt -D 5s` to see why");
    };
    let length = to.0.duration_since(from.0).as_secs_f64();
    if length < 10.0 {
        return figure::skipped(&what, "hunt ended early: run `lathunt hunt -D 15s` to see why");
    }
    figure::below(&what, 100.0 * second(to.1 - from.1) / length, "%", GOAL_PERCENT);
    let outside = second(own.values().sum::<u64>() - (to.1 - from.1));
    let elapsed = begun.elapsed().as_secs_f64() - length;
    println!("  set-up, calibration and files took {outside:.2} s of CPU time in {elapsed:.1} s");
}
