//! Number of activations, and how many of them were, or may have been, above a level.
//!
//! A stall suppresses the activations that fall into it: it gives one sample, but all missed activations were late too.
//! If the instrument knows how late they would have been, they count at that latency, else as above the level. Lost
//! samples count as above the level unless they are known to be below the maximum.

use crate::histogram::Histogram;
use crate::series::{Quantity, Series};
use crate::time::Ns;

/// Activations that were due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Activations {
    /// Total: samples, missed and lost ones.
    pub all: u64,
    /// Missed: those that gave no sample.
    pub missed: u64,
    /// Those that are or may be above the level, including `unknown`.
    pub above: u64,
    /// Those not known to be above or below.
    pub unknown: u64,
    /// Latencies are from the time at which each was due, those of the samples from a later one: round trips, whose
    /// samples are from the sending.
    pub from_due: bool,
}

impl Activations {
    /// Sum over all `series`.
    pub(crate) fn of<'s>(series: impl Iterator<Item = &'s Series>, level: Ns) -> Activations {
        series.map(|series| one(series, level)).fold(Activations::default(), |sum, of| Activations {
            all: sum.all.saturating_add(of.all),
            missed: sum.missed.saturating_add(of.missed),
            above: sum.above.saturating_add(of.above),
            unknown: sum.unknown.saturating_add(of.unknown),
            from_due: sum.from_due || of.from_due,
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
    let above = possibly_above(known, level).saturating_add(unknown);
    Activations { all, missed, above, unknown, from_due: is_from_due(series) }
}

/// Whether [`Series::activations`] counts from an earlier time than the samples do.
pub(crate) fn is_from_due(series: &Series) -> bool {
    series.quantity == Quantity::Roundtrip && series.replayed.is_some()
}

/// Samples that may be above `level`: a bin that extends beyond it counts as a whole.
pub(crate) fn possibly_above(histogram: &Histogram, level: Ns) -> u64 {
    if histogram.max().is_none_or(|max| max <= level) {
        return 0;
    }
    histogram.occupied().filter(|&(_, upper, _)| upper > level).map(|(_, _, count)| count).sum()
}
