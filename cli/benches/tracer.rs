//! What the tracer costs: one 32-byte event, a packet switch, system calls and page faults, the consumer at a steady
//! rate; beside LTTng-UST in alternating rounds of the same run (tracer/bench/run.sh, whose lines are printed as well).
//!
//! Net is minus the empty loop. Needs a C compiler; LTTng-UST where the ratios are wanted.
//! `cargo bench -p lathunt --bench tracer [-- ROUNDS]`

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

#[path = "../../core/benches/figure/mod.rs"]
mod figure;

const LOOPS: &str = "1000000";

/// Median, p99 and p99.85 of every measurement of one name, ns.
type Columns = [Vec<f64>; 3];

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let rounds = figure::rounds(3).to_string();
    let output = Command::new(root.join("tracer/bench/run.sh"))
        .args([LOOPS, &rounds])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output();
    let text = match output {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).into_owned(),
        Ok(output) => return figure::skipped("tracer", &format!("tracer/bench/run.sh: {}", output.status)),
        Err(error) => return figure::skipped("tracer", &format!("tracer/bench/run.sh: {error}")),
    };
    text.lines().for_each(|line| println!("  {line}"));
    let mut found: BTreeMap<&str, Columns> = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [name, _, _, median, p99, switch, ..] = words[..] else { continue };
        let Ok(values) =
            [median, p99, switch].map(str::parse::<f64>).into_iter().collect::<Result<Vec<_>, _>>()
        else {
            continue;
        };
        for (column, value) in found.entry(name).or_default().iter_mut().zip(values) {
            column.push(value);
        }
    }
    costs(&found);
    silence(&text);
    sustained(&text);
}

/// The events, net and beside the peer.
fn costs(found: &BTreeMap<&str, Columns>) {
    let of = |name: &str, column: usize| {
        found.get(name).map_or(f64::NAN, |columns| figure::median(&columns[column]))
    };
    let net = |name: &str| of(name, 0) - of("empty", 0);
    figure::at_most("tracer: net median of a 32-byte event", net("lathunt-flight"), "ns", 20.0);
    figure::plain("tracer: the same, drained to disk by its consumer", net("lathunt"), "ns");
    figure::plain("tracer: net median of an event that is off", net("lathunt-off"), "ns");
    figure::at_most("tracer: packet switch (p99.85)", of("lathunt-flight", 2), "ns", 400.0);
    if !found.contains_key("lttng-default") {
        return figure::skipped(
            "tracer beside LTTng-UST",
            "lttng-tools or liblttng-ust-dev is not installed",
        );
    }
    let default = net("lathunt-flight") / net("lttng-default");
    figure::at_most("tracer / LTTng-UST: net median", default, "", 1.0 / 6.0);
    let p99 = of("lathunt-flight", 1) / of("lttng-default", 1);
    figure::at_most("tracer / LTTng-UST: p99", p99, "", 1.0 / 3.0);
    let switch = |peer: &str| of("lathunt-flight", 2) / of(peer, 2);
    figure::at_most("tracer / LTTng-UST: packet switch", switch("lttng-default"), "", 1.0 / 8.0);
    figure::at_most(
        "tracer / LTTng-UST --read-timer: packet switch",
        switch("lttng-read-timer"),
        "",
        1.0 / 2.5,
    );
}

/// `silent: N events, F page faults, then ended with 7 …`: the second ten million ran under a filter of system calls.
fn silence(text: &str) {
    let number = |line: &str, before: &str| -> Option<f64> {
        line[..line.find(before)?].split_ascii_whitespace().next_back()?.parse().ok()
    };
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("silent:")).collect();
    let faults: f64 = lines.iter().map(|line| number(line, " page faults").unwrap_or(f64::NAN)).sum();
    figure::at_most("tracer: page faults over 2 × 10^7 events", faults, "", 0.0);
    let killed =
        lines.iter().filter(|line| !line.contains("ended with 7 ") && !line.contains("ended with 8 "));
    figure::at_most("tracer: runs of 10^7 events with a system call", killed.count() as f64, "", 0.0);
}

/// `NAME: N emitted; R events recorded, D discarded (no room), …; consumer P % of a CPU`.
fn sustained(text: &str) {
    let number_before = |line: &str, what: &str| -> Option<f64> {
        line[..line.find(what)?].split_ascii_whitespace().next_back()?.parse().ok()
    };
    for line in text.lines().filter(|line| line.contains(" emitted; ")) {
        let (name, _) = line.split_once(": ").unwrap_or((line, ""));
        let emitted = number_before(line, " emitted").unwrap_or(f64::NAN);
        let recorded = number_before(line, " events recorded").unwrap_or(0.0);
        let consumer = number_before(line, " % of a CPU").unwrap_or(f64::NAN);
        figure::at_most(&format!("tracer, {name}: lost events"), emitted - recorded, "", 0.0);
        if name.starts_with("1 M") {
            figure::at_most(&format!("tracer, {name}: consumer"), consumer, "% of a CPU", 5.0);
        } else {
            figure::plain(&format!("tracer, {name}: consumer"), consumer, "% of a CPU");
        }
    }
}
