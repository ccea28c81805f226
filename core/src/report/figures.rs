//! The numbers of a series that every view shows: the same names, the same rounding, the same order.

use serde::Serialize;

use crate::histogram::Histogram;
use crate::numbers::{grouped, or_dash, plural, quantile};
use crate::run::Run;
use crate::series::{Quantity, Series};
use crate::time::Ns;

/// Figures of a series in a table. `None`: no samples, or not known.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Number of samples.
    pub samples: u64,
    /// Smallest latency, exact.
    pub min_ns: Option<Ns>,
    /// Arithmetic mean, ns.
    pub avg_ns: Option<f64>,
    /// Upper edge of the class with the median.
    pub median_ns: Option<Ns>,
    /// Upper edge of the class with the 99.9 % quantile.
    pub p99_9_ns: Option<Ns>,
    /// Largest latency, exact.
    pub max_ns: Option<Ns>,
    /// Activations missed in a stall; `None`: not known.
    pub missed: Option<u64>,
    /// Samples lost before they were counted.
    pub lost: u64,
}

impl Figures {
    /// Figures of one series.
    #[must_use]
    pub fn of(series: &Series) -> Figures {
        Figures { missed: series.missed, ..Figures::with_losses(&series.histogram, series.lost) }
    }

    /// Figures of a histogram.
    #[must_use]
    pub fn of_histogram(histogram: &Histogram) -> Figures {
        Figures::with_losses(histogram, 0)
    }

    /// Figures of a histogram that lacks `lost` samples.
    fn with_losses(histogram: &Histogram, lost: u64) -> Figures {
        Figures {
            samples: histogram.count(),
            min_ns: histogram.min(),
            avg_ns: histogram.mean_ns(),
            median_ns: quantile(histogram, lost, 0.5),
            p99_9_ns: quantile(histogram, lost, 0.999),
            max_ns: histogram.max(),
            missed: Some(0),
            lost,
        }
    }

    /// Figures of several series together. If their classes differ, median and p99.9 are `None`.
    #[must_use]
    pub fn of_all(series: &[&Series]) -> Figures {
        let Some((first, rest)) = series.split_first() else { return Figures::default() };
        let mut merged = first.histogram.clone();
        let samples = total(series, |s| s.histogram.count());
        // A file may claim more samples than a counter holds: then there is no sum.
        let mergeable = samples < u64::MAX && rest.iter().all(|other| merged.merge(&other.histogram).is_ok());
        let add = |sum: Option<u64>, s: &&Series| Some(sum?.saturating_add(s.missed?));
        let (missed, lost) = (series.iter().fold(Some(0), add), total(series, |s| s.lost));
        let figures = if mergeable {
            Figures::with_losses(&merged, lost)
        } else {
            let sum: f64 = series.iter().map(|s| s.histogram.sum_ns() as f64).sum();
            Figures {
                samples,
                min_ns: series.iter().filter_map(|s| s.histogram.min()).min(),
                avg_ns: (samples > 0).then(|| sum / samples as f64),
                max_ns: series.iter().filter_map(|s| s.histogram.max()).max(),
                ..Figures::default()
            }
        };
        Figures { missed, lost, ..figures }
    }
}

fn total(series: &[&Series], field: impl Fn(&Series) -> u64) -> u64 {
    series.iter().fold(0, |sum, s| sum.saturating_add(field(s)))
}

/// The quantities of a run, the judged one first, then by rank.
#[must_use]
pub fn quantities(run: &Run) -> Vec<Quantity> {
    let mut found: Vec<Quantity> = Vec::new();
    for series in &run.series {
        if !found.contains(&series.quantity) {
            found.push(series.quantity);
        }
    }
    found.sort_by_key(|quantity| quantity.facts().rank);
    found
}

/// `1 response`, `1 234 responses`.
#[must_use]
pub fn counted(count: u64, noun: &str) -> String {
    format!("{} {}", grouped(count), plural(count, noun))
}

/// A count in at most `width` characters (at least 6): grouped, else in digits, else as `1.2e12`.
#[must_use]
pub fn fitting(count: u64, width: usize) -> String {
    let forms = [grouped(count), count.to_string()];
    forms.into_iter().find(|form| form.len() <= width).unwrap_or_else(|| format!("{:.1e}", count as f64))
}

/// A mean in ns as a duration, or `–`.
#[must_use]
pub fn mean(value: Option<f64>) -> String {
    or_dash(value.map(|ns| Ns(ns.round() as u64)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::Layout;
    use crate::time::Cpu;

    fn series(layout: Layout, values: &[u64]) -> Series {
        let mut histogram = Histogram::new(layout);
        values.iter().for_each(|&v| histogram.record(Ns(v)));
        Series { missed: Some(1), ..Series::new(Quantity::Cyclic, Some(Cpu(0)), histogram) }
    }

    #[test]
    fn numbers_are_grouped_by_thousands() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1 000"), (1_234_567, "1 234 567")] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn two_samples_of_a_thousand_have_extremes_and_no_median() {
        let mut known = series(Layout::LATENCY, &[4_000, 2_925_000]);
        known.lost = 2;
        assert!(Figures::of(&known).median_ns.is_some());
        known.lost = 1_994;
        let figures = Figures::of(&known);
        assert_eq!((figures.median_ns, figures.p99_9_ns), (None, None));
        assert_eq!((figures.min_ns, figures.max_ns), (Some(Ns(4_000)), Some(Ns(2_925_000))));
        assert_eq!(Figures::of_all(&[&known, &known]).median_ns, None);
    }

    #[test]
    fn a_quantile_that_may_lie_among_lost_samples_is_not_known() {
        let mut values = vec![20_000; 1_799];
        values.push(899_000);
        let mut known = series(Layout::LATENCY, &values);
        known.lost = 200; // 10 % beyond the last row of a histogram, and the largest of them
        let figures = Figures::of(&known);
        assert_eq!((figures.median_ns, figures.p99_9_ns), (Some(Ns(20_999)), None));
        assert_eq!((figures.lost, figures.max_ns), (200, Some(Ns(899_000))));
        assert_eq!(Figures::of_all(&[&known, &known]).p99_9_ns, None);
        known.lost = 1; // with it the p99.9 may be the largest that is known
        assert_eq!(Figures::of(&known).p99_9_ns, Some(Ns(899_000)));
        known.lost = 2;
        assert_eq!(Figures::of(&known).p99_9_ns, None);
    }

    #[test]
    fn different_classes_still_give_exact_extremes_but_no_quantile() {
        let (a, b) = (series(Layout::LATENCY, &[5_000, 7_000]), series(Layout::new(1, 32).unwrap(), &[9]));
        let both = Figures::of_all(&[&a, &b]);
        assert_eq!((both.samples, both.missed), (3, Some(2)));
        assert_eq!((both.min_ns, both.max_ns, both.median_ns), (Some(Ns(9)), Some(Ns(7_000)), None));
        assert_eq!(Figures::of_all(&[&b, &a]).max_ns, both.max_ns, "in any order");
        let same = Figures::of_all(&[&a, &a]);
        assert_eq!((same.samples, same.median_ns), (4, Some(Ns(5_999))));
        assert_eq!(Figures::of_all(&[]), Figures::default());
    }
}
