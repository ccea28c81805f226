//! Spread of the samples: standard deviation, mode and median absolute deviation.
//!
//! A histogram knows only the class of a sample. Each figure is therefore an interval that contains the exact figure,
//! wherever the samples are within their classes. The exact minimum and maximum are two of the samples.

use serde::{Deserialize, Serialize};

use super::Histogram;
use crate::time::Ns;

/// The three figures; each closed interval contains the exact one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Spread {
    /// Standard deviation of the population (divided by n), ns.
    pub sd_ns: (f64, f64),
    /// Edges of the class with the most samples per ns; the lowest if several have.
    pub mode_ns: (Ns, Ns),
    /// Samples in it.
    pub mode_count: u64,
    /// Median of the absolute deviations from the median, ns. For an even number of samples a median is the mean of the
    /// two in the middle.
    pub mad_ns: (f64, f64),
}

/// Samples in `from..=to`, ns.
#[derive(Clone, Copy)]
struct Class {
    from: f64,
    to: f64,
    count: u64,
}

impl Spread {
    /// Spread of all samples; `None` without samples. Cost: one pass over the occupied classes, and sorting them.
    #[must_use]
    pub fn of(histogram: &Histogram) -> Option<Spread> {
        let (min, max) = (histogram.min()?, histogram.max()?);
        // Extremes imported from another tool may be rounded down to its classes: they are not exact.
        let is_rounded = |at: Ns| at.0.is_multiple_of(histogram.layout().width().0);
        if is_rounded(min) && is_rounded(max) && histogram.layout().width() > Ns(1) {
            let class =
                |(from, to, count): (Ns, Ns, u64)| Class { from: from.0 as f64, to: to.0 as f64, count };
            return Spread::within(histogram, &histogram.occupied().map(class).collect::<Vec<_>>());
        }
        let mut classes: Vec<Class> = histogram
            .occupied()
            .map(|(from, to, count)| Class { from: from.max(min).0 as f64, to: to.min(max).0 as f64, count })
            .collect();
        // One sample is exactly the minimum, one the maximum.
        let known = |at: Ns| Class { from: at.0 as f64, to: at.0 as f64, count: 1 };
        if let Some(first) = classes.first_mut() {
            first.count -= 1;
            classes.push(known(min));
        }
        if histogram.count() > 1 {
            let last =
                classes.iter_mut().filter(|class| class.count > 0).max_by(|a, b| a.to.total_cmp(&b.to));
            if let Some(last) = last {
                last.count -= 1;
                classes.push(known(max));
            }
        }
        classes.retain(|class| class.count > 0);
        Spread::within(histogram, &classes)
    }

    fn within(histogram: &Histogram, classes: &[Class]) -> Option<Spread> {
        let width = |(from, to, _): &(Ns, Ns, u64)| (to.0 - from.0) as f64 + 1.0;
        let density = |class: &(Ns, Ns, u64)| class.2 as f64 / width(class);
        let mode = histogram.occupied().reduce(|a, b| if density(&b) > density(&a) { b } else { a })?;
        Some(Spread {
            sd_ns: deviation(classes, histogram.count()),
            mode_ns: (mode.0, mode.1),
            mode_count: mode.2,
            mad_ns: absolute_deviation(classes, histogram.count()),
        })
    }
}

/// The deviation with all samples in the middle of their classes differs from the exact one by at most the root mean
/// square of the half widths (triangle inequality).
fn deviation(classes: &[Class], count: u64) -> (f64, f64) {
    let n = count as f64;
    let mean_of =
        |of: &dyn Fn(&Class) -> f64| classes.iter().map(|c| of(c) * (c.count as f64 / n)).sum::<f64>();
    let middle = |c: &Class| f64::midpoint(c.from, c.to);
    let mean = mean_of(&middle);
    let sd = mean_of(&|c| (middle(c) - mean).powi(2)).sqrt();
    let off = mean_of(&|c| ((c.to - c.from) / 2.0).powi(2)).sqrt();
    ((sd - off).max(0.0), sd + off)
}

/// Each deviation is between the smallest and the largest that its class and that of the median allow; a median is
/// monotonic in each of its values.
fn absolute_deviation(classes: &[Class], count: u64) -> (f64, f64) {
    let lower: Vec<(f64, u64)> = classes.iter().map(|c| (c.from, c.count)).collect();
    let upper: Vec<(f64, u64)> = classes.iter().map(|c| (c.to, c.count)).collect();
    let (low, high) = (median(lower, count), median(upper, count));
    let least = |c: &Class| (c.from - high).max(low - c.to).max(0.0);
    let most = |c: &Class| (c.to - low).max(high - c.from);
    let distances = |of: &dyn Fn(&Class) -> f64| classes.iter().map(|c| (of(c), c.count)).collect();
    (median(distances(&least), count), median(distances(&most), count))
}

/// The mean of the two values in the middle, which are the same if `count` is odd.
fn median(mut values: Vec<(f64, u64)>, count: u64) -> f64 {
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    let at = |rank: u64| {
        let mut seen = 0u64;
        let found = values.iter().find(|(_, n)| {
            seen += n;
            seen >= rank
        });
        found.map_or(0.0, |(value, _)| *value)
    };
    f64::midpoint(at(count.div_ceil(2)), at(count / 2 + 1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::histogram::Layout;

    fn of(values: &[u64]) -> Spread {
        let mut histogram = Histogram::new(Layout::LATENCY);
        values.iter().for_each(|&value| histogram.record(Ns(value)));
        Spread::of(&histogram).unwrap()
    }

    /// From the samples themselves, by the definitions.
    fn exact(values: &[u64]) -> (f64, f64) {
        let n = values.len() as f64;
        let mean = values.iter().map(|&v| v as f64).sum::<f64>() / n;
        let sd = (values.iter().map(|&v| (v as f64 - mean).powi(2)).sum::<f64>() / n).sqrt();
        let middle = |mut values: Vec<f64>| {
            values.sort_by(f64::total_cmp);
            (values[(values.len() - 1) / 2] + values[values.len() / 2]) / 2.0
        };
        let median = middle(values.iter().map(|&v| v as f64).collect());
        (sd, middle(values.iter().map(|&v| (v as f64 - median).abs()).collect()))
    }

    #[test]
    fn samples_that_are_all_the_same_do_not_spread_and_two_spread_by_half_their_distance() {
        let same = of(&[5_300; 7]);
        assert!(same.sd_ns.1 < 1e-6 && same.mad_ns == (0.0, 0.0), "{same:?}");
        assert_eq!((same.mode_ns, same.mode_count), ((Ns(5_000), Ns(5_999)), 7));
        // Minimum and maximum are exact, so both samples are known.
        assert_eq!(of(&[2_001, 8_001]).sd_ns, (3_000.0, 3_000.0));
        assert_eq!(of(&[2_001, 8_001]).mad_ns, (3_000.0, 3_000.0));
    }

    #[test]
    fn the_mode_is_where_samples_are_densest_not_where_a_class_is_wide() {
        let mut values = vec![3_100, 3_200, 3_900];
        // Five in one class of some 400 µs: more in it, but far fewer per ns.
        values.extend([14_010_000, 14_020_000, 14_030_000, 14_040_000, 14_050_000]);
        assert_eq!((of(&values).mode_ns, of(&values).mode_count), ((Ns(3_000), Ns(3_999)), 3));
        assert!(Spread::of(&Histogram::new(Layout::LATENCY)).is_none());
    }

    proptest! {
        #[test]
        fn the_intervals_hold_the_figures_of_the_samples(
            values in proptest::collection::vec(prop_oneof![0u64..9_000, 0u64..200_000, 0u64..1 << 34], 1..60)
        ) {
            let (spread, (sd, mad)) = (of(&values), exact(&values));
            let slack = 1e-6 * (sd + mad + 1.0);
            prop_assert!(spread.sd_ns.0 - slack <= sd && sd <= spread.sd_ns.1 + slack, "{sd}: {spread:?}");
            prop_assert!(spread.mad_ns.0 - slack <= mad && mad <= spread.mad_ns.1 + slack, "{mad}: {spread:?}");
            // And are no wider than the widest class, twice.
            let widest = values.iter().max().unwrap() / 32 + 1_000;
            prop_assert!(spread.sd_ns.1 - spread.sd_ns.0 <= widest as f64 + slack);
            prop_assert!(spread.mad_ns.1 - spread.mad_ns.0 <= 2.0 * widest as f64 + slack);
        }
    }
}
