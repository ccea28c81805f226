//! What each loss counter of the kernel side means for the result.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;

use lathunt_core::run::Loss;
use lathunt_core::time::Tid;

use super::block::CpuBlock;

/// `enum loss` of src/bpf/block.h, in its order.
const MEANINGS: [(&str, &str); 10] = [
    ("no_flight_buffer", "a late task crossed the threshold while all flight buffers waited to be read, and was not the worst of those: that peak has no evidence"),
    ("no_flight_buffer_asked", "a measuring thread asked for a freeze while all flight buffers waited to be read: that peak has no evidence"),
    ("waking_not_remembered", "no free slot for a thread (there are 8192, and four where each may sit): some wake-ups were not measured"),
    ("irq_number_too_high", "interrupts numbered above 1023 were counted together under 1023"),
    ("interrupt_end_unmatched", "interrupts of which only the beginning or the end was seen (usually one per CPU at the start): not accounted"),
    ("negative_latency", "an event lay before what it follows (clocks of two CPUs differ, or a clock was set): that sample was dropped"),
    ("stack_not_taken", "the kernel could not take a stack: that peak names no code"),
    ("switches_not_seen", "times that this kernel did not report context switches (the task that left was not the one last switched in): who ran meanwhile is not known, and nobody is blamed for that time"),
    ("nmi_not_recorded", "more than eight NMIs came before anything else was recorded: their time is counted, the evidence of peaks lacks them"),
    ("wakeups_not_seen", "times that a measured thread got the CPU by a switch that this kernel did not report, or is one whose switches it does not report: wake-ups are missing"),
];

/// The place of `no_flight_buffer_asked`, which user space counts.
pub(super) const NO_BUFFER_USER: usize = 1;

/// The place of `switches_not_seen`.
const SWITCHES: usize = 7;

/// Counters (by place) of wake-ups that a latency series lacks: not remembered, negative, not seen.
const MISSING_SAMPLES: [usize; 3] = [2, 5, 9];

/// Wake-ups that `block` knows to be missing: at least, since a stretch in which switches were not reported counts once,
/// however many it hid.
pub(super) fn missing(block: &CpuBlock) -> u64 {
    MISSING_SAMPLES.iter().map(|&place| block.lost[place].load(Relaxed)).sum()
}

/// Whether a latency is missing when an event falls into the program `name` while it runs, and is skipped by that.
pub(super) fn measures(name: &str) -> bool {
    matches!(name, "on_switch" | "on_waking" | "on_wakeup_new" | "on_timer_entry")
}

/// Counters above zero, with their meaning. `recursions`: events that hit a program while the same one ran, those that
/// are [measured](measures) and others. `hidden`: the threads away from which the last switches of each CPU were that
/// were not reported.
pub(super) fn of(
    counts: impl Iterator<Item = u64>,
    recursions: [u64; 2],
    hidden: &BTreeSet<Tid>,
) -> Vec<Loss> {
    let recursion = [
        (
            "wakeups_in_recorder",
            "wakings, switches or timers that fell into the recorder's own program for such: their latencies are missing",
        ),
        ("program_recursion", "events that fell into the recorder's own program and were not recorded"),
    ];
    let names: Vec<String> = hidden.iter().map(|&tid| named(tid)).collect();
    let loss = |((counter, meaning), count): ((&str, &str), u64)| Loss {
        counter: counter.to_owned(),
        count,
        meaning: match counter == MEANINGS[SWITCHES].0 && !names.is_empty() {
            true => format!("{meaning}; the last away from {}", names.join(" and ")),
            false => meaning.to_owned(),
        },
        evidence_only: true, // the recorder's own series say themselves what they lack
    };
    MEANINGS
        .into_iter()
        .zip(counts)
        .chain(recursion.into_iter().zip(recursions))
        .filter(|&(_, count)| count > 0)
        .map(loss)
        .collect()
}

/// As far as it still lives.
fn named(tid: Tid) -> String {
    let comm = std::fs::read_to_string(format!("/proc/{}/comm", tid.0)).unwrap_or_default();
    format!("{}/{}", if comm.is_empty() { "thread" } else { comm.trim_end() }, tid.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wake_ups_that_a_series_lacks_are_those_of_three_counters() {
        let block = CpuBlock::zeroed();
        (0..).zip(MEANINGS).for_each(|(place, _)| block.lost[place].store(1 << place, Relaxed));
        let named = |name: &str| MEANINGS.iter().position(|&(known, _)| known == name).unwrap();
        let lacking = ["waking_not_remembered", "negative_latency", "wakeups_not_seen"];
        let sum: u64 = lacking.into_iter().map(|name| 1 << named(name)).sum();
        assert_eq!(missing(&block), sum);
        assert_eq!(MEANINGS[NO_BUFFER_USER].0, "no_flight_buffer_asked");
        assert_eq!(MEANINGS[SWITCHES].0, "switches_not_seen");
    }
}
