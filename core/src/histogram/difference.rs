//! The difference between two snapshots of one growing histogram.
//!
//! Counts and sum subtract exactly. The extremes of the interval do not follow from the snapshots: the caller passes
//! the maximum, the minimum is known to its bin.

use std::collections::BTreeMap;

use super::Histogram;
use crate::time::Ns;

/// The later snapshot lacks counts of the earlier one: they are not of the same histogram.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("the later histogram holds less than the earlier one: it was begun anew in between")]
pub struct NotLater;

impl Histogram {
    /// `self` minus `earlier`. `max`: the largest value observed in between. If it is not in the highest bin of the
    /// difference (a snapshot was torn), the nearest edge of that bin is taken. The minimum is the lower edge of the
    /// lowest bin, or the exact minimum of `self` if that is in it.
    ///
    /// # Errors
    /// If `earlier` is not an earlier snapshot of the same histogram.
    pub fn since(&self, earlier: &Histogram, max: Ns) -> Result<Histogram, NotLater> {
        if self.layout != earlier.layout || self.count < earlier.count || self.sum_ns < earlier.sum_ns {
            return Err(NotLater);
        }
        let mut stretch = Histogram::of_few(self.layout);
        let mut counts: BTreeMap<usize, u64> = self.bins.occupied().collect();
        for (index, before) in earlier.bins.occupied() {
            let now = counts.get_mut(&index).ok_or(NotLater)?;
            *now = now.checked_sub(before).ok_or(NotLater)?;
        }
        counts.retain(|_, n| *n > 0);
        stretch.bins.add(counts.iter().map(|(&index, &n)| (index, n)), self.layout);
        stretch.count = self.count - earlier.count;
        if stretch.count == 0 {
            return Ok(stretch);
        }
        stretch.sum_ns = self.sum_ns - earlier.sum_ns;
        let lowest = counts.first_key_value().map_or(0, |(&index, _)| index);
        let highest = counts.last_key_value().map_or(0, |(&index, _)| index);
        stretch.max = max.clamp(self.layout.lower(highest), self.layout.upper(highest).min(self.max));
        stretch.min = self.layout.lower(lowest).max(self.min).min(stretch.max);
        Ok(stretch)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::histogram::Layout;

    fn of(values: &[u64]) -> Histogram {
        let mut histogram = Histogram::new(Layout::LATENCY);
        values.iter().for_each(|&value| histogram.record(Ns(value)));
        histogram
    }

    proptest! {
        #[test]
        fn what_came_since_has_the_counts_sum_and_maximum_of_what_came(
            before in proptest::collection::vec(0u64..50_000_000, 0..30),
            after in proptest::collection::vec(0u64..50_000_000, 1..30),
        ) {
            let earlier = of(&before);
            let later = of(&[&before[..], &after].concat());
            let (alone, max) = (of(&after), *after.iter().max().unwrap());
            let since = later.since(&earlier, Ns(max)).unwrap();
            prop_assert_eq!(&since.bins, &alone.bins);
            prop_assert_eq!((since.count, since.sum_ns, since.max), (alone.count, alone.sum_ns, Ns(max)));
            let bin = Layout::LATENCY.index(alone.min);
            prop_assert!(since.min >= Layout::LATENCY.lower(bin) && since.min <= Layout::LATENCY.upper(bin));
            // it can be stored and merged like any other
            let text = serde_json::to_string(&since).unwrap();
            prop_assert_eq!(serde_json::from_str::<Histogram>(&text).unwrap(), since);
        }
    }

    #[test]
    fn a_recorder_that_began_anew_is_no_difference() {
        assert_eq!(of(&[5_000]).since(&of(&[5_000, 6_000]), Ns(5_000)), Err(NotLater));
        assert_eq!(of(&[5_000, 9_000]).since(&of(&[6_000]), Ns(9_000)), Err(NotLater));
        assert_eq!(of(&[5_000]).since(&of(&[5_000]), Ns(0)).map(|since| since.count()), Ok(0));
    }

    #[test]
    fn a_maximum_that_the_counts_contradict_stays_in_their_highest_bin() {
        let since = of(&[5_000, 9_500]).since(&of(&[5_000]), Ns(70_000)).unwrap();
        assert_eq!(since.max(), Some(Ns(9_500)));
        let since = of(&[5_000, 9_500]).since(&of(&[5_000]), Ns(0)).unwrap();
        assert_eq!(since.max(), Some(Ns(9_000)));
    }
}
