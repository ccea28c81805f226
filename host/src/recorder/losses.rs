//! What each loss counter of the kernel side means for the result.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;

use lathunt_core::run::Loss;
use lathunt_core::time::{Ns, Tid};

use super::block::CpuBlock;
use super::figures;
use super::unfinished::SHORT;

/// `enum loss` of src/bpf/block.h, in its order.
const MEANINGS: [(&str, &str); 11] = [
    ("no_flight_buffer", "tasks above the threshold while all flight buffers were waiting to be read, and not worse than the cases in them: these peaks have no evidence"),
    ("no_flight_buffer_asked", "freezes that a measuring thread requested while all flight buffers were waiting to be read: these peaks have no evidence"),
    ("waking_not_remembered", "wake-ups that were not measured: no free slot for the thread in the recorder's table (8192 slots, 4 for each thread to choose from)"),
    ("irq_number_too_high", "interrupts with a number above 1023: counted together as 1023"),
    ("interrupt_end_unmatched", "interrupts with only an entry or only an exit event (usually one per CPU at the start): their time is not counted"),
    ("negative_latency", "samples dropped because an event was earlier than its cause (clocks of two CPUs differ, or a clock was set)"),
    ("stack_not_taken", "kernel stacks that could not be taken: these peaks name no code"),
    ("switches_not_seen", "context switches not reported by this kernel (the task that left was not the one last switched in): the task that ran in between is unknown, and no task is blamed for that time"),
    ("nmi_not_recorded", "NMIs beyond eight with no other event in between: their time is counted, but they are missing from the evidence of peaks"),
    ("wakeups_not_seen", "switch-ins of measured threads not reported by this kernel (single ones, or all of a thread): their wake-ups are missing"),
    ("waited_before_start", "CPUs on which a thread waited since before the recording began, woken or preempted then, for longer than after any wake-up that is counted: if it was woken, that wake-up is missing"),
];

/// Index of `no_flight_buffer_asked`, which user space counts.
pub(super) const NO_BUFFER_USER: usize = 1;

/// Index of `switches_not_seen`.
const SWITCHES: usize = 7;

/// Index of `wakeups_not_seen`.
pub(super) const UNSEEN: usize = 9;

/// Index of `waited_before_start`, which is counted here.
const BEFORE: usize = 10;

/// Counters (by index) of wake-ups missing from a latency series: not remembered, negative, not seen, begun before.
const MISSING_SAMPLES: [usize; 4] = [2, 5, UNSEEN, BEFORE];

/// The counter with the index `which`.
pub(super) fn count(block: &CpuBlock, which: usize) -> u64 {
    let before = Ns(block.before_ns.load(Relaxed));
    match which {
        BEFORE => u64::from(before >= SHORT && before > figures::largest(block)),
        _ => block.lost[which].load(Relaxed),
    }
}

/// Wake-ups known to be missing from `block`: a lower bound, since a period of unreported switches counts once, however
/// many it hid.
pub(super) fn missing(block: &CpuBlock) -> u64 {
    MISSING_SAMPLES.iter().map(|&which| count(block, which)).sum()
}

/// Whether a latency is missing if an event is skipped because it hit the program `name` while that was running.
pub(super) fn measures(name: &str) -> bool {
    matches!(name, "on_switch" | "on_waking" | "on_wakeup_new" | "on_timer_entry")
}

/// Counters above zero, with their meaning. `recursions`: events that hit a program while the same one ran,
/// [measured](measures) and others. `hidden`: the threads that the last unreported switch of each CPU switched away
/// from.
pub(super) fn of(
    counts: impl Iterator<Item = u64>,
    recursions: [u64; 2],
    hidden: &BTreeSet<Tid>,
) -> Vec<Loss> {
    let recursion = [
        (
            "wakeups_in_recorder",
            "wakings, switches or timer expiries that happened inside the recorder's own program for them: their latencies are missing",
        ),
        ("program_recursion", "events that happened inside the recorder's own program and were not recorded"),
    ];
    let names: Vec<String> = hidden.iter().map(|&tid| named(tid)).collect();
    let loss = |((counter, meaning), count): ((&str, &str), u64)| Loss {
        counter: counter.to_owned(),
        count,
        meaning: match counter == MEANINGS[SWITCHES].0 && !names.is_empty() {
            true => format!("{meaning}; the last ones switched out: {}", names.join(" and ")),
            false => meaning.to_owned(),
        },
        evidence_only: true, // the recorder's own series report their losses themselves
    };
    MEANINGS
        .into_iter()
        .zip(counts)
        .chain(recursion.into_iter().zip(recursions))
        .filter(|&(_, count)| count > 0)
        .map(loss)
        .collect()
}

/// Its name, if it is still alive.
fn named(tid: Tid) -> String {
    let comm = std::fs::read_to_string(format!("/proc/{}/comm", tid.0)).unwrap_or_default();
    format!("{}/{}", if comm.is_empty() { "thread" } else { comm.trim_end() }, tid.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wake_ups_that_a_series_lacks_are_those_of_four_counters() {
        let block = CpuBlock::zeroed();
        (0..).zip(MEANINGS).for_each(|(place, _)| block.lost[place].store(1 << place, Relaxed));
        let named = |name: &str| MEANINGS.iter().position(|&(known, _)| known == name).unwrap();
        let lacking = ["waking_not_remembered", "negative_latency", "wakeups_not_seen"];
        let sum: u64 = lacking.into_iter().map(|name| 1 << named(name)).sum();
        assert_eq!(missing(&block), sum);
        // A wait since before the recording, if it is longer than all that are counted.
        let missing_with = |before: u64, largest: u64| {
            block.before_ns.store(before, Relaxed);
            block.hist[1].max_ns.store(largest, Relaxed);
            missing(&block) - sum
        };
        assert_eq!(missing_with(2_000_000, 1_999_999), 1);
        assert_eq!(missing_with(2_000_000, 2_000_000), 0);
        assert_eq!(missing_with(999_999, 0), 0, "short");
        assert_eq!(MEANINGS[NO_BUFFER_USER].0, "no_flight_buffer_asked");
        assert_eq!(MEANINGS[SWITCHES].0, "switches_not_seen");
        assert_eq!(MEANINGS[UNSEEN].0, "wakeups_not_seen");
        assert_eq!(MEANINGS[BEFORE].0, "waited_before_start");
    }
}
