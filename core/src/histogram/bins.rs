//! Counts per bin: all bins where a measuring loop records, only the occupied ones of a histogram that is read. A file of some
//! kilobytes may declare thousands of histograms of a million bins each: what they take is in proportion to the file.

use super::Layout;

/// Counts by index.
#[derive(Clone, Debug)]
pub(super) enum Bins {
    /// All bins.
    All(Box<[u64]>),
    /// The occupied ones: ascending, each index once, counts above 0.
    Occupied(Vec<(u32, u64)>),
}

impl Bins {
    /// Empty bins, allocated now.
    pub(super) fn all(layout: Layout) -> Bins {
        Bins::All(vec![0; layout.bins()].into_boxed_slice())
    }

    /// No occupied bin; allocates nothing.
    pub(super) const fn none() -> Bins {
        Bins::Occupied(Vec::new())
    }

    /// Counts one. Allocates only after [`Bins::none`].
    #[inline]
    pub(super) fn count(&mut self, index: usize, layout: Layout) {
        match self {
            Bins::All(bins) => bins[index] += 1,
            Bins::Occupied(_) => self.count_few(index, layout),
        }
    }

    #[cold]
    fn count_few(&mut self, index: usize, layout: Layout) {
        let Bins::Occupied(occupied) = self else { return };
        match occupied.binary_search_by_key(&(index as u32), |&(index, _)| index) {
            Ok(at) => occupied[at].1 += 1,
            Err(at) => occupied.insert(at, (index as u32, 1)),
        }
        self.unfold(layout);
    }

    /// Adds counts at bins of `layout`, in any order. No sum may overflow.
    pub(super) fn add(&mut self, counts: impl Iterator<Item = (usize, u64)>, layout: Layout) {
        match self {
            Bins::All(bins) => counts.for_each(|(index, n)| bins[index] += n),
            Bins::Occupied(occupied) => {
                let is_counted = |&(_, n): &(usize, u64)| n > 0;
                occupied.extend(counts.filter(is_counted).map(|(index, n)| (index as u32, n)));
                occupied.sort_by_key(|&(index, _)| index);
                occupied.dedup_by(|next, into| {
                    let same = next.0 == into.0;
                    into.1 += if same { next.1 } else { 0 };
                    same
                });
                self.unfold(layout);
            }
        }
    }

    /// Occupied bins in ascending order.
    pub(super) fn occupied(&self) -> impl DoubleEndedIterator<Item = (usize, u64)> + '_ {
        let (all, few): (&[u64], &[(u32, u64)]) = match self {
            Bins::All(bins) => (bins, &[]),
            Bins::Occupied(occupied) => (&[], occupied),
        };
        let all = all.iter().enumerate().filter(|&(_, &n)| n > 0).map(|(index, &n)| (index, n));
        all.chain(few.iter().map(|&(index, n)| (index as usize, n)))
    }

    /// Allocates all bins if the occupied ones take as much.
    fn unfold(&mut self, layout: Layout) {
        if let Bins::Occupied(occupied) = self
            && 2 * occupied.len() > layout.bins()
        {
            let mut bins = vec![0; layout.bins()].into_boxed_slice();
            occupied.iter().for_each(|&(index, n)| bins[index as usize] = n);
            *self = Bins::All(bins);
        }
    }
}

impl PartialEq for Bins {
    fn eq(&self, other: &Bins) -> bool {
        self.occupied().eq(other.occupied())
    }
}

impl Eq for Bins {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Below the number of bins of the layout.
    const LIMIT: usize = 40;

    proptest! {
        #[test]
        fn few_bins_and_all_bins_hold_the_same(
            parts in proptest::collection::vec(proptest::collection::vec((0usize..LIMIT, 0u64..5), 0..12), 0..6),
            one in 0usize..3 * LIMIT,
        ) {
            let layout = Layout::new(1_000_000_000, 32).unwrap();
            let (mut all, mut few) = (Bins::all(layout), Bins::none());
            for part in &parts {
                all.add(part.iter().copied(), layout);
                few.add(part.iter().copied(), layout);
                prop_assert_eq!(&all, &few);
                prop_assert!(all.occupied().rev().eq(few.occupied().rev()));
            }
            if let Bins::Occupied(occupied) = &few {
                prop_assert!(occupied.is_sorted_by(|a, b| a.0 < b.0) && occupied.iter().all(|&(_, n)| n > 0));
            }
            for index in 0..one {
                all.count(index * 7 % LIMIT, layout);
                few.count(index * 7 % LIMIT, layout);
                prop_assert_eq!(&all, &few);
            }
        }
    }
}
