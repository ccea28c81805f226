//! Of how many activations something is known, and how many of them were, or may have been, above a level.
//!
//! A stall swallows the activations that fall into it: one sample tells of it, and all that were missed were late too.
//! A statement about activations counts these where the instrument knows how late they would have been, and takes
//! them for late where it does not. So it does with samples that were lost, but for those known to be below the maximum.

use crate::histogram::Histogram;
use crate::series::Series;
use crate::time::Ns;

/// Activations that were due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Activations {
    /// All of them: samples, missed and lost ones.
    pub all: u64,
    /// Those without a sample of their own.
    pub missed: u64,
    /// Those that may be above the level, the unknown ones among them.
    pub above: u64,
    /// Those of which it is not known.
    pub unknown: u64,
}

impl Activations {
    /// Of all `series` together.
    pub(crate) fn of<'s>(series: impl Iterator<Item = &'s Series>, level: Ns) -> Activations {
        series.map(|series| one(series, level)).fold(Activations::default(), |sum, of| Activations {
            all: sum.all.saturating_add(of.all),
            missed: sum.missed.saturating_add(of.missed),
            above: sum.above.saturating_add(of.above),
            unknown: sum.unknown.saturating_add(of.unknown),
        })
    }
}

fn one(series: &Series, level: Ns) -> Activations {
    let samples = series.histogram.count();
    let (known, missed, unplaced) = match series.activations() {
        Some(all) => (all, all.count().saturating_sub(samples), 0),
        None => (&series.histogram, series.missed.unwrap_or(0), series.missed.unwrap_or(0)),
    };
    let all = known.count().saturating_add(unplaced).saturating_add(series.lost);
    let bounded = series.lost_at_most().is_some_and(|most| most <= level);
    let unknown = unplaced.saturating_add(if bounded { 0 } else { series.lost });
    Activations { all, missed, above: possibly_above(known, level).saturating_add(unknown), unknown }
}

/// Samples that may be above `level`: all of a bin that reaches beyond it.
pub(crate) fn possibly_above(histogram: &Histogram, level: Ns) -> u64 {
    if histogram.max().is_none_or(|max| max <= level) {
        return 0;
    }
    histogram.occupied().filter(|&(_, upper, _)| upper > level).map(|(_, _, count)| count).sum()
}
