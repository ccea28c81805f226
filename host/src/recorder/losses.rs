//! What each loss counter of the kernel side means for the result.

use lathunt_core::run::Loss;

/// `enum loss` of src/bpf/block.h, in its order.
const MEANINGS: [(&str, &str); 9] = [
    ("no_flight_buffer", "a late task crossed the threshold while all flight buffers waited to be read: that peak has no evidence"),
    ("no_flight_buffer_asked", "a measuring thread asked for a freeze while all flight buffers waited to be read: that peak has no evidence"),
    ("waking_not_remembered", "no free slot for a thread (there are 8192, and four where each may sit): some wake-ups were not measured"),
    ("irq_number_too_high", "interrupts numbered above 1023 were counted together under 1023"),
    ("interrupt_end_unmatched", "interrupts of which only the beginning or the end was seen (usually one per CPU at the start): not accounted"),
    ("negative_latency", "an event lay before what it follows (clocks of two CPUs differ, or a clock was set): that sample was dropped"),
    ("stack_not_taken", "the kernel could not take a stack: that peak names no code"),
    ("switches_not_seen", "times that context switches went unseen (the task switched out was not the one last switched in; why the kernel did not report them is not known): wake-ups are missing"),
    ("nmi_not_recorded", "more than eight NMIs came before anything else was recorded: their time is counted, the evidence of peaks lacks them"),
];

/// The place of `no_flight_buffer_asked`, which user space counts.
pub(super) const NO_BUFFER_USER: usize = 1;

/// Counters (by place) of wake-ups that a latency series lacks: not remembered, negative, not seen.
pub(super) const MISSING_SAMPLES: [usize; 3] = [2, 5, 7];

/// Counters above zero, with their meaning. `recursions`: events that hit a program while the same one ran.
pub(super) fn of(counts: impl Iterator<Item = u64>, recursions: u64) -> Vec<Loss> {
    let recursion =
        ("program_recursion", "events that fell into the recorder's own program and were not recorded");
    let loss = |((counter, meaning), count): ((&str, &str), u64)| Loss {
        counter: counter.to_owned(),
        count,
        meaning: meaning.to_owned(),
        evidence_only: true, // the recorder's own series say themselves what they lack
    };
    MEANINGS
        .into_iter()
        .zip(counts)
        .chain([(recursion, recursions)])
        .filter(|&(_, count)| count > 0)
        .map(loss)
        .collect()
}
