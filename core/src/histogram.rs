//! Latency histogram: linear bins of a selectable width, then log-linear ones, so that no value is clipped.
//!
//! Why not linear bins alone (cyclictest, jitterdebugger): the worst case is the product, and a clipped top bin hides
//! it. Why not log-linear alone (HdrHistogram): tables of 1 µs rows, as engineers and their scripts read them, must be
//! exact. Minimum, maximum, sum and count are stored in addition to the bins and are always exact.
//!
//! The same index function runs in the kernel (`host/src/bpf/hist.h`); a test in `host` compares the two.
//!
//! Accuracy: below `width * linear_bins` a value is known to one bin width; above, to 1/32 (3.1 %) of itself.
//! [`Histogram::quantile`] returns the upper edge of a bin, never above the exact maximum.

mod bins;
mod difference;
mod layout;
mod spread;
mod wire;

use std::borrow::Cow;

use self::bins::Bins;
use crate::time::Ns;

pub use difference::NotLater;
pub use layout::{BadLayout, Layout};
pub use spread::Spread;

/// Counts of durations. Invariants: the bins add up to `count`; `min` and `max` are exact observed values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    layout: Layout,
    bins: Bins,
    count: u64,
    sum_ns: u64, // saturates: 2^64 ns is 584 years of latency
    min: Ns,     // u64::MAX while empty
    max: Ns,     // 0 while empty
}

/// Why two histograms cannot be added.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum NoSum {
    /// The bins differ in width: the rows would not be exact.
    #[error("classes of {0} and of {1} do not add up exactly")]
    Layouts(Layout, Layout),
    /// The counts overflow (a file may claim any number of samples).
    #[error("they have more samples than a counter holds")]
    Counts,
}

impl Histogram {
    /// An empty histogram. Allocates once; [`Histogram::record`] never does then.
    #[must_use]
    pub fn new(layout: Layout) -> Histogram {
        Histogram { bins: Bins::all(layout), ..Histogram::of_few(layout) }
    }

    /// An empty histogram that takes memory for occupied bins only; recording may allocate.
    #[must_use]
    pub fn of_few(layout: Layout) -> Histogram {
        Histogram { layout, bins: Bins::none(), count: 0, sum_ns: 0, min: Ns(u64::MAX), max: Ns(0) }
    }

    /// Counts one duration. After [`Histogram::new`], it cannot fail, allocate or block: safe in a measuring loop.
    #[inline]
    pub fn record(&mut self, value: Ns) {
        self.bins.count(self.layout.index(value), self.layout);
        self.count += 1;
        self.sum_ns = self.sum_ns.saturating_add(value.0);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Adds counts from elsewhere (the recorder in the kernel): (bin index, count), with exact sum and extremes.
    ///
    /// # Errors
    /// An index outside the layout, extremes that contradict the bins, or an overflow; nothing is added then.
    pub fn add_counts(&mut self, counts: &[(usize, u64)], exact: Exact) -> Result<(), BadCounts> {
        let total =
            counts.iter().try_fold(0u64, |sum, &(_, n)| sum.checked_add(n)).ok_or(BadCounts::Overflow)?;
        let occupied = || counts.iter().filter(|&&(_, n)| n > 0).map(|&(index, _)| index);
        let bins = self.layout.bins();
        if let Some(index) = occupied().find(|&index| index >= bins) {
            return Err(BadCounts::Index(index, bins));
        }
        if total == 0 {
            return Ok(());
        }
        let edges = (occupied().min(), occupied().max());
        if exact.min > exact.max
            || edges != (Some(self.layout.index(exact.min)), Some(self.layout.index(exact.max)))
        {
            return Err(BadCounts::Extremes(exact.min, exact.max));
        }
        self.count = self.count.checked_add(total).ok_or(BadCounts::Overflow)?;
        self.bins.add(counts.iter().copied(), self.layout);
        self.sum_ns = self.sum_ns.saturating_add(exact.sum_ns);
        self.min = self.min.min(exact.min);
        self.max = self.max.max(exact.max);
        Ok(())
    }

    /// Adds all of `other`. Associative and commutative. If the numbers of linear bins differ, no count and no extreme
    /// is lost: the larger number is taken, unless the other histogram has values above its own linear bins.
    ///
    /// # Errors
    /// If the widths differ, or the counts overflow; nothing is added then.
    pub fn merge(&mut self, other: &Histogram) -> Result<(), NoSum> {
        if self.layout.width_ns != other.layout.width_ns {
            return Err(NoSum::Layouts(self.layout, other.layout));
        }
        // No bin exceeds the total, so no bin overflows.
        let count = self.count.checked_add(other.count).ok_or(NoSum::Counts)?;
        if self.layout == other.layout {
            self.bins.add(other.bins.occupied(), self.layout);
        } else {
            let layout = self.common_layout(other);
            let mut bins = Bins::none();
            let both = self.occupied().chain(other.occupied());
            bins.add(both.map(|(lower, _, count)| (layout.index(lower), count)), layout);
            (self.layout, self.bins) = (layout, bins);
        }
        self.count = count;
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        Ok(())
    }

    /// The layout with the most linear bins into which each bin of both fits as a whole. The log-linear bins are the
    /// same for all layouts of one width, so that linear bins fit into them.
    fn common_layout(&self, other: &Histogram) -> Layout {
        let (fewer, more) = match self.layout.linear_bins < other.layout.linear_bins {
            true => (self, other),
            false => (other, self),
        };
        let fits = fewer.max().is_none_or(|max| max < fewer.layout.edge());
        if fits {
            more.layout
        } else {
            fewer.layout
        }
    }

    /// How values map to bins.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Number of durations counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Smallest duration, exact; `None` when empty.
    #[must_use]
    pub fn min(&self) -> Option<Ns> {
        (self.count > 0).then_some(self.min)
    }

    /// Largest duration, exact; `None` when empty.
    #[must_use]
    pub fn max(&self) -> Option<Ns> {
        (self.count > 0).then_some(self.max)
    }

    /// Arithmetic mean from the exact sum; `None` when empty.
    #[must_use]
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64)
    }

    /// Exact sum of all durations in ns (saturating).
    #[must_use]
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// Upper edge of the bin that holds the `q`-quantile (`q` in 0..=1), never above the exact maximum.
    ///
    /// `None` when empty: 0 would look like a perfect result.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<Ns> {
        let rank = ((q.clamp(0.0, 1.0) * self.count as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (index, n) in self.bins.occupied() {
            seen += n;
            if seen >= rank {
                return Some(self.layout.upper(index).min(self.max).max(self.min));
            }
        }
        self.max()
    }

    /// Number of durations in bins that start at or above `value`: exact when `value` is a bin edge, else a lower
    /// bound.
    #[must_use]
    pub fn count_from(&self, value: Ns) -> u64 {
        let at = self.layout.index(value);
        let first = if self.layout.lower(at) == value { at } else { at + 1 };
        self.bins.occupied().rev().take_while(|&(index, _)| index >= first).map(|(_, n)| n).sum()
    }

    /// Counts of the linear rows: row `i` holds `[i, i + 1)` bin widths.
    #[must_use]
    pub fn rows(&self) -> Cow<'_, [u64]> {
        let rows = self.layout.linear_bins();
        match &self.bins {
            Bins::All(bins) => Cow::Borrowed(&bins[..rows]),
            Bins::Occupied(_) => {
                let mut all = vec![0; rows];
                let linear = self.bins.occupied().take_while(|&(index, _)| index < rows);
                linear.for_each(|(index, n)| all[index] = n);
                Cow::Owned(all)
            }
        }
    }

    /// Occupied bins in ascending order: (smallest value, largest value, count).
    pub fn occupied(&self) -> impl DoubleEndedIterator<Item = (Ns, Ns, u64)> + '_ {
        let layout = self.layout;
        self.bins.occupied().map(move |(i, n)| (layout.lower(i), layout.upper(i), n))
    }
}

/// Exact figures that accompany counts.
#[derive(Clone, Copy, Debug)]
pub struct Exact {
    /// Sum of all durations, ns.
    pub sum_ns: u64,
    /// Smallest duration.
    pub min: Ns,
    /// Largest duration.
    pub max: Ns,
}

/// Counts that cannot belong to this layout.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadCounts {
    /// An index outside the layout.
    #[error("bin {0} does not exist: this layout has {1} bins")]
    Index(usize, usize),
    /// Minimum or maximum is not in the outermost occupied bin.
    #[error("exact minimum {0} and maximum {1} do not lie in the outermost occupied bins")]
    Extremes(Ns, Ns),
    /// More than 2^64 counts.
    #[error("the counts add up to more than 2^64")]
    Overflow,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(values: &[u64]) -> Histogram {
        let mut h = Histogram::new(Layout::LATENCY);
        values.iter().for_each(|&v| h.record(Ns(v)));
        h
    }

    #[test]
    fn bins_are_adjacent_and_ascending() {
        let layout = Layout::LATENCY;
        for i in 1..layout.bins() {
            assert_eq!(layout.upper(i - 1).0 + 1, layout.lower(i).0, "gap before bin {i}");
        }
    }

    #[test]
    fn the_worst_case_is_exact_and_empty_is_not_zero() {
        assert_eq!(of(&[]).quantile(1.0), None);
        let h = of(&[900, 1_000, 123_456_789_012]);
        assert_eq!(h.quantile(1.0), Some(Ns(123_456_789_012)));
        assert_eq!(h.max(), Some(Ns(123_456_789_012)));
        assert_eq!(h.count_from(Ns(1_000)), 2);
    }

    #[test]
    fn more_samples_than_a_counter_holds_are_not_added() {
        let half = {
            let (n, most) = (1u64 << 63, u64::MAX);
            let text = format!(
                r#"{{"width_ns":1000,"linear_bins":10240,"count":{n},"sum_ns":{most},"min_ns":4100,"max_ns":4900,"bins":[[4,{n}]]}}"#
            );
            serde_json::from_str::<Histogram>(&text).unwrap()
        };
        let mut sum = half.clone();
        assert_eq!(sum.merge(&half), Err(NoSum::Counts));
        assert_eq!(sum, half);
    }

    #[test]
    fn a_file_that_contradicts_itself_is_refused() {
        let text = serde_json::to_string(&of(&[5_000, 7_000])).unwrap();
        for (from, to) in
            [("\"count\":2", "\"count\":3"), ("[5,1]", "[999999,1]"), ("\"max_ns\":7000", "\"max_ns\":9000")]
        {
            let damaged = text.replace(from, to);
            assert_ne!(damaged, text);
            assert!(serde_json::from_str::<Histogram>(&damaged).is_err(), "{damaged}");
        }
    }

    proptest! {
        #[test]
        fn merging_is_associative_and_loses_nothing(a in vec_of(), b in vec_of(), c in vec_of()) {
            let (ha, hb, hc) = (of(&a), of(&b), of(&c));
            let mut left = ha.clone();
            left.merge(&hb).unwrap();
            left.merge(&hc).unwrap();
            let mut right = hb.clone();
            right.merge(&hc).unwrap();
            let mut right_all = ha.clone();
            right_all.merge(&right).unwrap();
            prop_assert_eq!(&left, &right_all);
            let all: Vec<u64> = a.iter().chain(&b).chain(&c).copied().collect();
            prop_assert_eq!(&left, &of(&all));
            let text = serde_json::to_string(&left).unwrap();
            prop_assert_eq!(serde_json::from_str::<Histogram>(&text).unwrap(), left);
        }

        #[test]
        fn layouts_of_one_width_add_up_in_any_order_and_lose_no_value(a in vec_of(), b in vec_of(), c in vec_of()) {
            let with = |bins: u32, values: &[u64]| {
                let mut h = Histogram::new(Layout::new(1_000, bins).unwrap());
                values.iter().for_each(|&v| h.record(Ns(v)));
                h
            };
            let (ha, hb, hc) = (with(1_024, &a), with(10_240, &b), with(33, &c));
            let sum = |all: [&Histogram; 3]| {
                let mut sum = all[0].clone();
                sum.merge(all[1]).unwrap();
                sum.merge(all[2]).unwrap();
                sum
            };
            let left = sum([&ha, &hb, &hc]);
            prop_assert_eq!(&left, &sum([&hc, &ha, &hb]));
            prop_assert_eq!(&left, &sum([&hb, &hc, &ha]));
            let all: Vec<u64> = a.iter().chain(&b).chain(&c).copied().collect();
            prop_assert_eq!(&left, &with(left.layout().linear_bins, &all), "as if counted in one");
            let fits = |values: &[u64], edge: u64| values.iter().all(|&v| v < edge);
            if fits(&a, 1_024_000) && fits(&c, 33_000) {
                prop_assert_eq!(left.layout(), Layout::LATENCY);
            }
        }

        #[test]
        fn quantiles_enclose_the_sorted_value(mut values in vec_of(), q in 0.0f64..=1.0) {
            prop_assume!(!values.is_empty());
            values.sort_unstable();
            let rank = ((q * values.len() as f64).ceil() as usize).max(1);
            let exact = values[rank - 1];
            let got = of(&values).quantile(q).unwrap().0;
            prop_assert!(got >= exact && got <= *values.last().unwrap());
            prop_assert!(got as f64 <= exact as f64 * 1.04 + 1_000.0);
        }
    }

    fn vec_of() -> impl Strategy<Value = Vec<u64>> {
        proptest::collection::vec(prop_oneof![0u64..20_000_000, 0u64..1 << 40], 0..50)
    }
}
