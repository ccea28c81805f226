//! The kernel's own tracers, as peers: they run in instances of the trace buffer and their text can be read.

use crate::boot::Outcome;

#[test]
#[ignore = "lab: run by make test"]
fn timerlat_runs_as_a_peer_and_measures_interrupt_and_thread_on_both_cpus() {
    let Some(peers) = Outcome::of("peers", "lab: timerlat") else { return };
    assert_eq!(peers.text("timerlat.current").trim(), "timerlat");
    let trace = peers.text("timerlat.trace");
    for cpu in ["[000]", "[001]"] {
        for context in ["irq", "thread"] {
            let samples: Vec<u64> = trace.lines().filter_map(|line| timerlat(line, cpu, context)).collect();
            assert!(samples.len() > 100, "{cpu} {context}: only {} samples in 2 s", samples.len());
            assert!(samples.iter().any(|&ns| ns > 0), "{cpu} {context}: all are zero");
        }
    }
}

#[test]
#[ignore = "lab: run by make test"]
fn hwlat_runs_as_a_peer_and_sees_that_the_emulator_steals_time() {
    let Some(peers) = Outcome::of("peers", "lab: hwlat") else { return };
    assert_eq!(peers.text("hwlat.current").trim(), "hwlat");
    let trace = peers.text("hwlat.trace");
    assert!(trace.lines().any(|line| line.contains("inner/outer(us):")), "{trace}");
}

/// The latency of a timerlat line (kernel/trace/trace_output.c `trace_timerlat_print`), if it is of that CPU and context:
/// `… [000] d..h1..  3.629713: #2     context    irq timer_latency   1525705 ns`.
fn timerlat(line: &str, cpu: &str, context: &str) -> Option<u64> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words.iter().position(|&word| word == "context")?;
    match words.get(at + 1..) {
        Some([found, "timer_latency", ns, "ns"]) if *found == context && words.contains(&cpu) => {
            ns.parse().ok()
        }
        _ => None,
    }
}
