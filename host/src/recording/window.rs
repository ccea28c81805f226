//! Series of a window: the growth of a CPU's cumulative histograms, with exact extremes.
//!
//! Bins and sums are differences. The maximum cannot be one: the kernel side keeps the largest since it was last taken,
//! which happens before and after the histogram is copied, so that a sample in between is reported with its count.

use std::collections::HashMap;

use lathunt_core::histogram::{Exact, Histogram};
use lathunt_core::series::{Quantity, Series};
use lathunt_core::time::{Cpu, Ns};

pub(super) type Key = (Quantity, Cpu);

/// State carried over from closed windows.
#[derive(Default)]
pub(super) struct Before {
    histograms: HashMap<Key, Histogram>,
    /// Losses so far.
    lost: HashMap<Key, u64>,
    first: HashMap<Key, lathunt_core::time::Mono>,
}

/// The largest value of each series of a window, as taken from the kernel side: from time to time, and right after each
/// copy of the histograms.
#[derive(Default)]
pub(super) struct Largests(HashMap<Key, Largest>);

impl Largests {
    /// Taken between two copies.
    pub fn larger(&mut self, key: Key, max: Ns) {
        let largest = self.0.entry(key).or_default();
        largest.until = largest.until.max(max);
    }

    /// Taken right after a copy. A value taken right after the previous copy is in this one, in an open window.
    pub fn meanwhile(&mut self, taken: &[(Key, Ns)]) {
        for largest in self.0.values_mut() {
            largest.until = largest.until.max(std::mem::take(&mut largest.meanwhile));
        }
        for &(key, max) in taken {
            self.0.entry(key).or_default().meanwhile = max;
        }
    }

    /// The copy was the last one of the window for these quantities.
    pub fn begin_window(&mut self, of: impl Fn(Quantity) -> bool) {
        for (_, largest) in self.0.iter_mut().filter(|((quantity, _), _)| of(*quantity)) {
            *largest = Largest { carried: largest.meanwhile, ..Largest::default() };
        }
    }

    /// Of one series.
    pub fn of(&self, key: Key) -> Largest {
        self.0.get(&key).copied().unwrap_or_default()
    }
}

/// Largest of the window: taken while the previous window was copied (and perhaps counted there), `until` the copy was
/// started, and `meanwhile`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Largest {
    pub carried: Ns,
    pub until: Ns,
    pub meanwhile: Ns,
}

impl Before {
    /// The part of `now` beyond the earlier windows. `smallest` is the minimum seen by user space.
    pub fn part(&self, now: &Series, largest: Largest, smallest: Option<Ns>) -> Option<Series> {
        let key = (now.quantity, now.cpu?);
        let Some(before) = self.histograms.get(&key) else { return Some(now.clone()) };
        let layout = now.histogram.layout();
        let mut counts: Vec<(usize, u64)> =
            now.histogram.occupied().map(|(lower, _, n)| (layout.index(lower), n)).collect();
        let earlier: HashMap<usize, u64> =
            before.occupied().map(|(lower, _, n)| (layout.index(lower), n)).collect();
        for (index, n) in &mut counts {
            *n -= earlier.get(index).copied().unwrap_or(0).min(*n);
        }
        counts.retain(|&(_, n)| n > 0);
        let lost = now.lost.saturating_sub(self.lost.get(&key).copied().unwrap_or(0));
        let (Some(&(first, _)), Some(&(last, _))) = (counts.first(), counts.last()) else {
            return Some(Series { histogram: Histogram::new(layout), lost, ..now.clone() });
        };
        let fits = |value: Ns| layout.index(value) == last;
        let known = [largest.carried, largest.until, largest.meanwhile];
        let max = known.into_iter().filter(|&max| fits(max)).max().unwrap_or(layout.upper(last));
        let min = smallest.filter(|&min| layout.index(min) == first).unwrap_or(layout.lower(first));
        let sum_ns = now.histogram.sum_ns().saturating_sub(before.sum_ns());
        let mut histogram = Histogram::new(layout);
        // Both are in the outermost bins by the choice above; in a single bin they may be swapped.
        histogram.add_counts(&counts, Exact { sum_ns, min: min.min(max), max }).ok()?;
        let mut series = Series { histogram, ..now.clone() };
        series.begin = self.first.get(&key).copied().or(now.begin);
        series.lost = lost;
        Some(series)
    }

    /// The next window starts after the contents of `now`, at `at`.
    pub fn close(&mut self, now: &[Series], at: lathunt_core::time::Mono) {
        for series in now {
            let Some(cpu) = series.cpu else { continue };
            self.histograms.insert((series.quantity, cpu), series.histogram.clone());
            self.lost.insert((series.quantity, cpu), series.lost);
            self.first.insert((series.quantity, cpu), at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lathunt_core::histogram::Layout;
    use lathunt_core::time::Mono;

    fn series(values: &[u64]) -> Series {
        let mut histogram = Histogram::new(Layout::LATENCY);
        values.iter().for_each(|&ns| histogram.record(Ns(ns)));
        Series::new(Quantity::Wakeup, Some(Cpu(1)), histogram)
    }

    fn largest(until: u64, meanwhile: u64) -> Largest {
        Largest { carried: Ns(900_000), until: Ns(until), meanwhile: Ns(meanwhile) }
    }

    #[test]
    fn a_window_holds_what_came_after_the_one_before_with_its_own_extremes() {
        let mut before = Before::default();
        let first = series(&[900_000, 5_100]);
        assert_eq!(before.part(&first, largest(900_000, 0), None).unwrap(), first);
        before.close(&[first], Mono(7));
        let both = series(&[900_000, 5_100, 40_300, 5_200, 12_345_678]);
        let part = before.part(&both, largest(40_300, 12_345_678), Some(Ns(5_200))).unwrap();
        let histogram = &part.histogram;
        assert_eq!((histogram.count(), histogram.sum_ns()), (3, 40_300 + 5_200 + 12_345_678));
        assert_eq!((histogram.min(), histogram.max()), (Some(Ns(5_200)), Some(Ns(12_345_678))));
        assert_eq!(part.begin, Some(Mono(7)));
    }

    #[test]
    fn a_maximum_belongs_to_the_window_whose_copy_has_its_count() {
        let key = (Quantity::Wakeup, Cpu(1));
        let mut largests = Largests::default();
        let told = |largests: &Largests| {
            let Largest { carried, until, meanwhile } = largests.of(key);
            [carried, until, meanwhile].map(|ns| ns.0)
        };
        largests.larger(key, Ns(700));
        largests.larger(key, Ns(300));
        largests.meanwhile(&[(key, Ns(900))]);
        assert_eq!(told(&largests), [0, 700, 900]);
        largests.meanwhile(&[]);
        assert_eq!(
            told(&largests),
            [0, 900, 0],
            "the window goes on, and nothing came right after this copy"
        );
        largests.meanwhile(&[(key, Ns(400))]);
        largests.begin_window(|quantity| quantity == Quantity::Timer);
        assert_eq!(told(&largests), [0, 900, 400], "that of another quantity");
        largests.begin_window(|_| true);
        assert_eq!(told(&largests), [400, 0, 0]);
    }

    #[test]
    fn a_maximum_that_nobody_told_is_not_below_what_it_may_be_and_one_of_the_last_copy_counts() {
        let mut before = Before::default();
        before.close(&[series(&[1_000])], Mono(7));
        let now = series(&[1_000, 30_500]);
        let none = Largest::default();
        assert_eq!(before.part(&now, none, None).unwrap().histogram.max(), Some(Ns(30_999)));
        let carried = Largest { carried: Ns(30_500), ..none };
        assert_eq!(before.part(&now, carried, None).unwrap().histogram.max(), Some(Ns(30_500)));
    }

    #[test]
    fn a_sample_that_came_after_the_copy_is_not_this_windows_maximum() {
        let mut before = Before::default();
        before.close(&[series(&[1_000])], Mono(7));
        let part = before.part(&series(&[1_000, 30_500]), largest(30_500, 9_000_000), None).unwrap();
        assert_eq!((part.histogram.min(), part.histogram.max()), (Some(Ns(30_000)), Some(Ns(30_500))));
        let empty = Series { lost: 3, ..series(&[1_000]) };
        let part = before.part(&empty, largest(0, 0), None).unwrap();
        assert_eq!((part.histogram.count(), part.lost), (0, 3), "a window without samples");
    }
}
