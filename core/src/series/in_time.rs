//! The maxima of a run in time order.

use std::collections::BTreeMap;

use super::Series;

/// The longest stretch of `series`, in seconds: maxima of shorter ones can be combined to it, never the reverse.
#[must_use]
pub fn longest_stretch<'s>(series: impl IntoIterator<Item = &'s Series>) -> u32 {
    let filled = series.into_iter().filter(|s| s.histogram.count() > 0);
    filled.map(|s| s.seconds_stretch).max().unwrap_or(1).max(1)
}

/// Maxima of each `stretch` seconds over all series of a run, in time order. For runs together, the longest stretch of
/// all: maxima of blocks of different lengths have no common distribution.
///
/// # Errors
/// If a series has no maxima, or if its stretches do not divide `stretch`.
pub fn maxima_in_time(series: &[&Series], stretch: u32) -> Result<Vec<f64>, &'static str> {
    let filled = series.iter().filter(|s| s.histogram.count() > 0);
    let mut at: BTreeMap<u32, f64> = BTreeMap::new();
    for one in filled {
        if one.seconds.is_empty() {
            return Err("this run has a histogram without the maxima of its seconds");
        }
        if !stretch.is_multiple_of(one.seconds_stretch.max(1)) {
            return Err("its maxima are of stretches of different lengths");
        }
        for max in &one.seconds {
            let most = at.entry(max.second / stretch).or_insert(0.0);
            *most = most.max(max.max_ns.0 as f64);
        }
    }
    Ok(at.into_values().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::{Histogram, Layout};
    use crate::series::{Quantity, SecondMax};
    use crate::time::Ns;

    fn series(stretch: u32, seconds: &[(u32, u64)]) -> Series {
        let mut series = Series::new(Quantity::Cyclic, None, Histogram::new(Layout::LATENCY));
        seconds.iter().for_each(|(_, ns)| series.histogram.record(Ns(*ns)));
        let all = seconds.iter().map(|&(second, ns)| SecondMax { second, max_ns: Ns(ns) });
        (series.seconds, series.seconds_stretch) = (all.collect(), stretch);
        series
    }

    #[test]
    fn shorter_stretches_are_combined_to_the_longest() {
        let (short, long) = (series(1, &[(0, 3), (1, 5), (2, 9), (5, 2)]), series(4, &[(3, 7), (4, 1)]));
        assert_eq!(longest_stretch([&short, &long]), 4);
        assert_eq!(maxima_in_time(&[&short, &long], 4), Ok(vec![9.0, 2.0]));
        assert_eq!(maxima_in_time(&[&short], 1), Ok(vec![3.0, 5.0, 9.0, 2.0]));
        assert!(maxima_in_time(&[&short, &long], 2).is_err());
    }
}
