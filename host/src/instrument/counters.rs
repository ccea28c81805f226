//! A histogram that one thread writes and others read at any time.

use std::sync::atomic::{AtomicU64, Ordering};

use lathunt_core::histogram::{Exact, Histogram, Layout};
use lathunt_core::time::Ns;

const RELAXED: Ordering = Ordering::Relaxed;

/// Adds without a locked instruction: correct only with a single writer.
#[inline]
pub(crate) fn bump(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(RELAXED).wrapping_add(by), RELAXED);
}

/// A histogram of atomics with exact extremes.
pub(crate) struct Counters {
    pub(crate) layout: Layout,
    bins: Box<[AtomicU64]>,
    pub(crate) count: AtomicU64,
    pub(crate) sum_ns: AtomicU64,
    pub(crate) min: AtomicU64, // u64::MAX while empty
    pub(crate) max: AtomicU64,
}

impl Counters {
    pub(crate) fn new(layout: Layout) -> Counters {
        Counters {
            layout,
            bins: (0..layout.bins()).map(|_| AtomicU64::new(0)).collect(),
            count: AtomicU64::new(0),
            sum_ns: AtomicU64::new(0),
            min: AtomicU64::new(u64::MAX),
            max: AtomicU64::new(0),
        }
    }

    #[inline]
    pub(crate) fn record(&self, value: Ns) {
        bump(&self.bins[self.layout.index(value)], 1);
        bump(&self.count, 1);
        self.sum_ns.store(self.sum_ns.load(RELAXED).saturating_add(value.0), RELAXED);
        self.extend(value, value);
    }

    #[inline]
    fn extend(&self, low: Ns, high: Ns) {
        if low.0 < self.min.load(RELAXED) {
            self.min.store(low.0, RELAXED);
        }
        if high.0 > self.max.load(RELAXED) {
            self.max.store(high.0, RELAXED);
        }
    }

    /// Records `first`, `first - step`, `first - 2 step`, … while they are above zero; returns how many there were.
    /// The cost is bounded by the number of bins, not by the length of the stall.
    pub(crate) fn record_descending(&self, first: Ns, step: Ns) -> u64 {
        self.record_at_most(first, step, u64::MAX)
    }

    /// The same, at most `most` of them.
    pub(crate) fn record_at_most(&self, first: Ns, step: Ns, most: u64) -> u64 {
        let mut value = first.0;
        let mut total = 0;
        while value > 0 && total < most {
            let bin = self.layout.index(Ns(value));
            let lower = self.layout.lower(bin).0.max(1);
            let n = ((value - lower) / step.0.max(1) + 1).min(most - total);
            let last = value - (n - 1) * step.0.max(1);
            bump(&self.bins[bin], n);
            bump(&self.count, n);
            let sum = u128::from(value + last) * u128::from(n) / 2;
            let sum = u64::try_from(sum).unwrap_or(u64::MAX);
            self.sum_ns.store(self.sum_ns.load(RELAXED).saturating_add(sum), RELAXED);
            self.extend(Ns(last), Ns(value));
            total += n;
            value = last.saturating_sub(step.0.max(1));
        }
        total
    }

    pub(crate) fn copy(&self) -> Copied {
        Copied {
            bins: self.bins.iter().map(|bin| bin.load(RELAXED)).collect(),
            exact: Exact {
                sum_ns: self.sum_ns.load(RELAXED),
                min: Ns(self.min.load(RELAXED)),
                max: Ns(self.max.load(RELAXED)),
            },
        }
    }
}

/// A copy of [`Counters`], consistent if the sequence counter confirms it.
pub(crate) struct Copied {
    bins: Vec<u64>,
    exact: Exact,
}

impl Copied {
    pub(crate) fn into_histogram(self, layout: Layout, and: &Histogram) -> Histogram {
        let mut histogram = and.clone();
        let occupied: Vec<(usize, u64)> = self.bins.into_iter().enumerate().filter(|(_, n)| *n > 0).collect();
        if let (Some((first, _)), Some((last, _))) = (occupied.first(), occupied.last()) {
            // Only an inconsistent copy has extremes outside its outermost bins.
            let within = |value: Ns, bin: usize| value.clamp(layout.lower(bin), layout.upper(bin));
            let (min, max) = (within(self.exact.min, *first), within(self.exact.max, *last));
            let exact = Exact { min: min.min(max), max, ..self.exact };
            let added = histogram.add_counts(&occupied, exact);
            debug_assert!(added.is_ok(), "{added:?}");
        }
        histogram
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(counters: &Counters) -> Histogram {
        counters.copy().into_histogram(counters.layout, &Histogram::new(counters.layout))
    }

    #[test]
    fn counted_with_atomics_equals_counted_by_the_histogram_itself() {
        let counters = Counters::new(Layout::LATENCY);
        let mut plain = Histogram::new(Layout::LATENCY);
        for value in [0, 1, 999, 1_000, 53_392_123, 7, 10_240_000, 1 << 40] {
            counters.record(Ns(value));
            plain.record(Ns(value));
        }
        assert_eq!(histogram(&counters), plain);
    }

    #[test]
    fn replayed_activations_equal_those_counted_one_by_one() {
        for (first, step) in
            [(1_000_000, 200_000), (999, 100), (53_000_000, 7), (5, 200), (20_000_000_001, 999_983)]
        {
            let counters = Counters::new(Layout::LATENCY);
            let mut plain = Histogram::new(Layout::LATENCY);
            let mut value: u64 = first;
            while value > 0 {
                plain.record(Ns(value));
                value = value.saturating_sub(step);
            }
            assert_eq!(counters.record_descending(Ns(first), Ns(step)), plain.count());
            assert_eq!(histogram(&counters), plain, "{first} by {step}");
        }
    }

    #[test]
    fn a_run_of_equal_steps_stops_at_its_number() {
        let counters = Counters::new(Layout::LATENCY);
        assert_eq!(counters.record_at_most(Ns(10_000), Ns(1_000), 3), 3);
        let histogram = histogram(&counters);
        assert_eq!((histogram.min(), histogram.max()), (Some(Ns(8_000)), Some(Ns(10_000))));
        assert_eq!(counters.record_at_most(Ns(5), Ns(0), 9), 5, "no endless loop without a step");
    }
}
