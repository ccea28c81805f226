//! The kernel side's counters as values: latency series and interference.

use std::fmt;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use lathunt_core::histogram::{Exact, Histogram, Layout};
use lathunt_core::series::{compact_seconds, Quantity, SecondMax, Series, MAXIMA_KEPT};
use lathunt_core::time::{Cpu, Mono, Ns};
use lathunt_core::trace::activation::Activation;
use lathunt_core::trace::event::{Vector, SOFTIRQS};

use super::block::{self, CpuBlock, Hist};
use super::{losses, names};

/// `enum quantity` of src/bpf/block.h, in its order.
pub(super) const QUANTITIES: [Quantity; 5] =
    [Quantity::Timer, Quantity::Wakeup, Quantity::TimerWakeup, Quantity::SharedPrio, Quantity::Switch];

/// How often a histogram is read again if the kernel side writes it at the same time.
const ATTEMPTS: usize = 200;

/// Sources of interference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A hard interrupt line, with the name that /proc/interrupts gives it.
    Irq(u32, Option<String>),
    /// A system vector.
    Vector(Vector),
    /// A softirq, by number.
    Softirq(u8),
    /// Non-maskable interrupts, all handlers.
    Nmi,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Irq(number, Some(name)) => write!(f, "hard IRQ {number} ({name})"),
            Source::Irq(number, None) => write!(f, "hard IRQ {number}"),
            Source::Vector(vector) => write!(f, "vector {}", vector.name()),
            Source::Softirq(vec) => match SOFTIRQS.get(usize::from(*vec)) {
                Some(name) => write!(f, "softirq {name}"),
                None => write!(f, "softirq {vec}"),
            },
            Source::Nmi => f.write_str("NMI"),
        }
    }
}

/// Net time that one source took on one CPU since the recorder began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interference {
    /// CPU.
    pub cpu: Cpu,
    /// Source.
    pub source: Source,
    /// Number of occurrences.
    pub count: u64,
    /// Total net time: nested interrupts are subtracted.
    pub total_ns: Ns,
    /// The longest.
    pub max_ns: Ns,
}

/// All sources of one CPU that occurred.
pub(super) fn interference(cpu: Cpu, block: &CpuBlock) -> Vec<Interference> {
    let lines = names::interrupts();
    let irqs = (0..).zip(&block.irq).map(|(n, source)| (Source::Irq(n, lines.get(&n).cloned()), source));
    let vectors = (0..).zip(&block.vector).map(|(n, source)| (Source::Vector(vector(n)), source));
    let softirqs = (0..).zip(&block.softirq).map(|(n, source)| (Source::Softirq(n), source));
    let nmi = std::iter::once((Source::Nmi, &block.nmi));
    irqs.chain(vectors)
        .chain(softirqs)
        .chain(nmi)
        .map(|(source, figures)| Interference {
            cpu,
            source,
            count: figures.count.load(Relaxed),
            total_ns: Ns(figures.total_ns.load(Relaxed)),
            max_ns: Ns(figures.max_ns.load(Relaxed)),
        })
        .filter(|interference| interference.count > 0)
        .collect()
}

pub(super) fn vector(number: u32) -> Vector {
    lathunt_core::trace::flight::vector(number).unwrap_or(Vector::Other(number as u8))
}

/// One series as it is now. `seconds`: the maxima collected so far.
pub(super) fn series(cpu: Cpu, block: &CpuBlock, which: usize, seconds: &[SecondMax]) -> Series {
    let mut histogram = Histogram::new(Layout::LATENCY);
    let mut lost = 0;
    for attempt in 1..=ATTEMPTS {
        let before = block.hist_seq.load(Acquire);
        let (counts, exact) = snapshot(&block.hist[which]);
        std::sync::atomic::fence(Acquire);
        let torn = before % 2 == 1 || block.hist_seq.load(Relaxed) != before;
        // The last attempt accepts a torn snapshot if its extremes fit: it lacks at most the sample being added.
        if torn && attempt < ATTEMPTS {
            continue;
        }
        if histogram.add_counts(&counts, exact).is_err() {
            lost = counts.iter().map(|&(_, n)| n).sum();
        }
        break;
    }
    let first = block.hist[which].first_ns.load(Relaxed);
    let mut series = Series::new(QUANTITIES[which], Some(cpu), histogram);
    series.begin = (first > 0).then_some(Mono(first));
    series.set_seconds(seconds.to_vec());
    series.lost = lost + losses::missing(block);
    series
}

pub(super) fn snapshot(hist: &Hist) -> (Vec<(usize, u64)>, Exact) {
    let exact = Exact {
        sum_ns: hist.sum_ns.load(Relaxed),
        min: Ns(!hist.min_inverted_ns.load(Relaxed)),
        max: Ns(hist.max_ns.load(Relaxed)),
    };
    if hist.count.load(Relaxed) == 0 {
        return (Vec::new(), exact);
    }
    let edges = [exact.min, exact.max].map(|edge| Layout::LATENCY.index(edge).min(block::HIST_BINS - 1));
    let bins = edges[0]..=edges[1].max(edges[0]);
    let counts = bins.map(|i| (i, hist.bins[i].load(Relaxed))).filter(|&(_, n)| n > 0);
    (counts.collect(), exact)
}

/// The largest wake-up latency, including its timer.
pub(super) fn largest(block: &CpuBlock) -> Ns {
    let waits = block.hist.iter().zip(QUANTITIES).filter(|(_, of)| *of != Quantity::Switch);
    Ns(waits.map(|(hist, _)| hist.max_ns.load(Relaxed)).max().unwrap_or_default())
}

/// Counts an unfinished wait, as `wakeup_ended()` of src/bpf/wakeup.h does a finished one. The programs must have stopped
/// counting.
pub(super) fn add_wait(block: &CpuBlock, a: &Activation) {
    let of_wakeup = if a.shared { Quantity::SharedPrio } else { Quantity::Wakeup };
    let of_both = a.timer.filter(|_| !a.shared).map(|_| (Quantity::TimerWakeup, a.latency()));
    let of_timer = a.timer_part().map(|part| (Quantity::Timer, part));
    let of_wakeup = a.wakeup().map(|wait| (of_wakeup, wait));
    for (quantity, value) in [of_wakeup, of_timer, of_both].into_iter().flatten() {
        let Some(which) = QUANTITIES.iter().position(|of| *of == quantity) else { continue };
        let hist = &block.hist[which];
        hist.bins[Layout::LATENCY.index(value).min(block::HIST_BINS - 1)].fetch_add(1, Relaxed);
        hist.sum_ns.fetch_add(value.0, Relaxed);
        hist.min_inverted_ns.fetch_max(!value.0, Relaxed);
        hist.max_ns.fetch_max(value.0, Relaxed);
        hist.recent_ns.fetch_max(value.0, Relaxed);
        let _ = hist.first_ns.compare_exchange(0, a.switched_in.0, Relaxed, Relaxed);
        hist.count.fetch_add(1, Relaxed);
    }
}

/// Takes the largest latency since the last call.
pub(super) fn take_recent(block: &CpuBlock, which: usize) -> Ns {
    Ns(block.hist[which].recent_ns.swap(0, Relaxed))
}

/// Records a maximum for `second`; in recordings of weeks, no more are kept than a series holds.
pub(super) fn file(max_ns: Ns, second: u32, seconds: &mut Vec<SecondMax>) {
    match seconds.last_mut().filter(|last| last.second == second) {
        Some(last) => last.max_ns = last.max_ns.max(max_ns),
        None => seconds.push(SecondMax { second, max_ns }),
    }
    if seconds.len() > 2 * MAXIMA_KEPT as usize {
        compact_seconds(seconds);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts like the programs.
    fn add(hist: &Hist, ns: u64) {
        if hist.count.fetch_add(1, Relaxed) == 0 {
            hist.first_ns.store(5, Relaxed);
        }
        hist.sum_ns.fetch_add(ns, Relaxed);
        hist.min_inverted_ns.fetch_max(!ns, Relaxed);
        hist.max_ns.fetch_max(ns, Relaxed);
        hist.recent_ns.fetch_max(ns, Relaxed);
        hist.bins[Layout::LATENCY.index(Ns(ns))].fetch_add(1, Relaxed);
    }

    #[test]
    fn a_series_has_what_was_counted_and_what_is_known_to_be_missing() {
        let block = CpuBlock::zeroed();
        [3_400, 900, 70_000_123].iter().for_each(|&ns| add(&block.hist[1], ns));
        block.lost[2].store(4, Relaxed);
        let told = series(Cpu(1), &block, 1, &[]);
        assert_eq!(
            (told.quantity, told.cpu, told.begin, told.lost),
            (Quantity::Wakeup, Some(Cpu(1)), Some(Mono(5)), 4)
        );
        let histogram = &told.histogram;
        assert_eq!((histogram.count(), histogram.sum_ns()), (3, 70_004_423));
        assert_eq!((histogram.min(), histogram.max()), (Some(Ns(900)), Some(Ns(70_000_123))));
        assert_eq!(series(Cpu(1), &block, 0, &[]).histogram.count(), 0);
    }

    #[test]
    fn counts_that_contradict_their_extremes_are_lost_and_not_told() {
        let block = CpuBlock::zeroed();
        [3_400, 900, 70_000_123].iter().for_each(|&ns| add(&block.hist[1], ns));
        block.hist[1].max_ns.store(80_000_000, Relaxed);
        let told = series(Cpu(1), &block, 1, &[]);
        assert_eq!((told.histogram.count(), told.lost), (0, 3));
    }

    #[test]
    fn the_largest_since_it_was_taken_is_taken_once_and_that_of_a_second_is_the_largest_in_it() {
        let block = CpuBlock::zeroed();
        [3_400, 900].iter().for_each(|&ns| add(&block.hist[0], ns));
        assert_eq!([take_recent(&block, 0), take_recent(&block, 0)], [Ns(3_400), Ns(0)]);
        let mut seconds = Vec::new();
        [(500, 1), (900, 1), (300, 1), (200, 2)]
            .iter()
            .for_each(|&(ns, second)| file(Ns(ns), second, &mut seconds));
        let told: Vec<_> = seconds.iter().map(|one| (one.second, one.max_ns.0)).collect();
        assert_eq!(told, [(1, 900), (2, 200)]);
    }
}
