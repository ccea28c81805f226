//! Lengths of iterations (turns): one counter per length in clock ticks, so that counting costs one increment and all
//! figures are exact; gaps, and lengths beyond the table, go to a histogram in ns.

use crate::histogram::{Exact, Histogram, Layout};
use crate::time::Ns;

/// Lengths in ticks with their own counter, except the last: 31 µs at 2.1 GHz. A length is a `u16`, which avoids bounds
/// checks.
const BINS: usize = 1 << 16;

/// The last counter has no length: it is incremented if no length is pending, and never read.
const NOTHING: u16 = (BINS - 1) as u16;

/// Bins in files and plots: 1 ns up to 32 µs, then 3 %.
#[must_use]
pub fn layout() -> Layout {
    Layout::new(1, 1 << 15).unwrap_or(Layout::LATENCY)
}

/// Counts of iterations.
#[derive(Clone, Debug)]
pub struct Turns {
    bins: Box<[u64; BINS]>, // iterations of i ticks, all below `long_from`
    long_from: u64,         // at most NOTHING
    gap_from: u64,          // at least `long_from`
    tick_ns: f64,
    long: Histogram, // the others, ns
    long_squares: f64,
}

/// Counts short iterations; see [`Turns::short`]. Each is counted one iteration later, or on drop: AMD Zen delays the
/// counter read until earlier stores complete, and a store whose address depends on the read just done costs 6 ns per
/// iteration; the address of the previous iteration is already known.
#[derive(Debug)]
pub struct Short<'a> {
    bins: &'a mut [u64; BINS],
    long_from: u64,
    waiting: u16,
}

impl Short<'_> {
    /// Counts an iteration of `ticks` if it is short; false: pass it to [`Turns::long`].
    #[inline(always)]
    pub fn count(&mut self, ticks: u64) -> bool {
        self.bins[usize::from(self.waiting)] += 1;
        let short = ticks < self.long_from;
        self.waiting = if short { ticks as u16 } else { NOTHING };
        short
    }
}

impl Drop for Short<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.bins[usize::from(self.waiting)] += 1;
    }
}

/// Figures of all iterations.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Figures {
    /// Number of iterations.
    pub count: u64,
    /// Shortest, ns.
    pub min_ns: f64,
    /// Arithmetic mean, ns.
    pub mean_ns: f64,
    /// Longest, ns.
    pub max_ns: f64,
    /// Variance, ns².
    pub variance_ns2: f64,
    /// Standard deviation, ns.
    pub deviation_ns: f64,
}

impl Turns {
    /// For a clock with a tick of `tick_ns`; iterations from `threshold` are gaps.
    #[must_use]
    pub fn new(tick_ns: f64, threshold: Ns) -> Turns {
        let ticks = (threshold.0 as f64 / tick_ns).ceil() as u64;
        Turns {
            bins: Box::new([0; BINS]),
            long_from: ticks.clamp(1, NOTHING.into()),
            gap_from: ticks.max(1),
            tick_ns,
            long: Histogram::new(layout()),
            long_squares: 0.0,
        }
    }

    /// A counter of short iterations: a loop that holds it keeps the table's address and limit in registers.
    #[inline(always)]
    pub fn short(&mut self) -> Short<'_> {
        Short { long_from: self.long_from, bins: &mut self.bins, waiting: NOTHING }
    }

    /// Whether an iteration of `ticks` is a gap.
    #[must_use]
    pub fn is_long(&self, ticks: u64) -> bool {
        ticks >= self.gap_from
    }

    /// Counts an iteration that was not short; returns its length.
    pub fn long(&mut self, ticks: u64) -> Ns {
        let ns = self.ns(ticks);
        self.long.record(ns);
        self.long_squares += (ns.0 as f64).powi(2);
        ns
    }

    /// Clears all counts after a warm-up, which also faults in the table.
    pub fn clear(&mut self) {
        self.bins.fill(0);
        self.long = Histogram::new(layout());
        self.long_squares = 0.0;
    }

    /// `ticks` in ns.
    #[must_use]
    pub fn ns(&self, ticks: u64) -> Ns {
        Ns((ticks as f64 * self.tick_ns).round() as u64)
    }

    /// Counts and lengths in ticks, without the long ones.
    fn occupied(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> + '_ {
        let lengths = (0..).zip(self.bins[..usize::from(NOTHING)].iter().copied());
        lengths.filter(|&(_, count)| count > 0).collect::<Vec<_>>().into_iter()
    }

    /// All iterations in ns. Extremes and sum are exact to half a ns per iteration.
    #[must_use]
    pub fn histogram(&self) -> Histogram {
        let mut all = self.long.clone();
        let short: Vec<(u64, u64)> = self.occupied().collect();
        if let (Some(first), Some(last)) = (short.first(), short.last()) {
            let counts: Vec<(usize, u64)> =
                short.iter().map(|&(ticks, count)| (layout().index(self.ns(ticks)), count)).collect();
            let sum: f64 = short.iter().map(|&(ticks, count)| ticks as f64 * count as f64).sum();
            let exact = Exact {
                sum_ns: (sum * self.tick_ns).round() as u64,
                min: self.ns(first.0),
                max: self.ns(last.0),
            };
            // The extremes are in the outermost bins by construction, so this cannot fail.
            let _ = all.add_counts(&counts, exact);
        }
        all
    }

    /// The figures of all iterations; `None`: none.
    #[must_use]
    pub fn figures(&self) -> Option<Figures> {
        let mut sums = Sums::default();
        for (ticks, count) in self.occupied() {
            sums.add(ticks as f64 * self.tick_ns, count as f64);
        }
        let mut squares = sums.squares + self.long_squares;
        sums.count += self.long.count() as f64;
        sums.sum += self.long.sum_ns() as f64;
        if let (Some(min), Some(max)) = (self.long.min(), self.long.max()) {
            sums.extremes(min.0 as f64);
            sums.extremes(max.0 as f64);
        }
        if sums.count == 0.0 {
            return None;
        }
        let mean = sums.sum / sums.count;
        squares = (squares / sums.count - mean * mean).max(0.0);
        Some(Figures {
            count: sums.count as u64,
            min_ns: sums.min,
            mean_ns: mean,
            max_ns: sums.max,
            variance_ns2: squares,
            deviation_ns: squares.sqrt(),
        })
    }
}

struct Sums {
    count: f64,
    sum: f64,
    squares: f64,
    min: f64,
    max: f64,
}

impl Default for Sums {
    fn default() -> Sums {
        Sums { count: 0.0, sum: 0.0, squares: 0.0, min: f64::INFINITY, max: 0.0 }
    }
}

impl Sums {
    fn add(&mut self, value: f64, count: f64) {
        self.count += count;
        self.sum += value * count;
        self.squares += value * value * count;
        self.extremes(value);
    }

    fn extremes(&mut self, value: f64) {
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn count(turns: &mut Turns, ticks: u64) {
        if !turns.short().count(ticks) {
            turns.long(ticks);
        }
    }

    proptest! {
        /// Against the textbook formulas, over lengths on both sides of the threshold and of the table's end.
        #[test]
        fn the_figures_are_those_of_the_formulas(
            lengths in proptest::collection::vec(prop_oneof![1u64..200, 1_000u64..300_000], 1..200),
            threshold in prop_oneof![Just(500u64), Just(1_000), Just(1_000_000)],
        ) {
            let mut turns = Turns::new(0.5, Ns(threshold));
            lengths.iter().for_each(|&ticks| count(&mut turns, ticks));
            let figures = turns.figures().unwrap();
            let ns: Vec<f64> = lengths.iter().map(|&ticks| ticks as f64 * 0.5).collect();
            let n = ns.len() as f64;
            let mean = ns.iter().sum::<f64>() / n;
            let variance = ns.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
            let near = |a: f64, b: f64, error: f64| (a - b).abs() <= error;
            prop_assert_eq!(figures.count, lengths.len() as u64);
            prop_assert!(near(figures.mean_ns, mean, 0.5), "{} {mean}", figures.mean_ns);
            prop_assert!(near(figures.deviation_ns, variance.sqrt(), 0.6 + variance.sqrt() * 1e-6));
            prop_assert!(near(figures.max_ns, ns.iter().copied().fold(0.0, f64::max), 0.5));
            prop_assert!(near(figures.min_ns, ns.iter().copied().fold(f64::MAX, f64::min), 0.5));
            let histogram = turns.histogram();
            prop_assert_eq!(histogram.count(), lengths.len() as u64);
            prop_assert!(near(histogram.mean_ns().unwrap(), mean, 1.0));
            let longest = lengths.iter().max().unwrap();
            prop_assert_eq!(histogram.max(), Some(turns.ns(*longest)));
        }
    }

    /// A length waits for the next one: none may be lost at a gap, at the end, at the table's edge, or while none waits.
    #[test]
    fn lengths_counted_one_after_the_other_are_all_counted() {
        let mut turns = Turns::new(1.0, Ns(1_000_000));
        let lengths = [5, 7, 65_533, 65_534, 65_535, 65_536, 7, 1_000_000, 5, 0];
        let mut rest = lengths.iter().copied();
        while rest.len() > 0 {
            let mut short = turns.short();
            let long = rest.by_ref().find(|&ticks| !short.count(ticks));
            drop(short);
            long.map(|ticks| turns.long(ticks));
        }
        let counted: Vec<(u64, u64)> = turns.occupied().collect();
        assert_eq!(counted, [(0, 1), (5, 2), (7, 2), (65_533, 1), (65_534, 1)]);
        let figures = turns.figures().unwrap();
        assert_eq!((figures.count, figures.min_ns, figures.max_ns), (10, 0.0, 1_000_000.0));
        assert_eq!(turns.histogram().count(), 10);
    }

    #[test]
    fn a_turn_as_long_as_the_threshold_is_a_gap() {
        let turns = Turns::new(0.5, Ns(1_000));
        assert_eq!([1_999, 2_000].map(|ticks| turns.is_long(ticks)), [false, true]);
    }

    #[test]
    fn nothing_counted_says_nothing() {
        let mut turns = Turns::new(1.0, Ns(1_000));
        count(&mut turns, 20);
        turns.clear();
        assert_eq!((turns.figures(), turns.histogram().count()), (None, 0));
    }
}
