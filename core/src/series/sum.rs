//! The sum of two series.

use super::Series;
use crate::histogram::NoSum;
use crate::time::Ns;

impl Series {
    /// Adds the samples of `other`, and its missed and lost activations. A count of missed ones that is unknown in one of the
    /// two is unknown in the sum: the missed ones of the other then count as lost, which have no latency either.
    ///
    /// # Errors
    /// If the histograms differ in width, or the sum overflows.
    pub fn add_samples(&mut self, other: &Series) -> Result<(), NoSum> {
        // A series without missed activations is its own replay.
        let wanted = self.replayed.is_some() || other.replayed.is_some();
        let both = self.activations().zip(other.activations()).filter(|_| wanted);
        let both = both.filter(|(all, more)| all.count().checked_add(more.count()).is_some());
        let mut replayed = both.map(|(all, _)| all.clone());
        if let (Some(all), Some((_, more))) = (&mut replayed, both) {
            all.merge(more)?;
        }
        let lost_at_most = self.lost_at_most().zip(other.lost_at_most()).map(|(a, b)| a.max(b));
        let below_max = |one: &Series| one.lost == 0 || one.lost_below_max;
        let uncounted = match (self.missed, other.missed) {
            (Some(missed), None) | (None, Some(missed)) => missed,
            _ => 0,
        };
        let below_max = below_max(self) && below_max(other) && uncounted == 0;
        self.histogram.merge(&other.histogram)?;
        self.rounded_down_ns = self.rounded_down_ns.max(other.rounded_down_ns);
        self.replayed = replayed;
        self.missed = self.missed.zip(other.missed).map(|(all, more)| all.saturating_add(more));
        self.lost = self.lost.saturating_add(other.lost).saturating_add(uncounted);
        self.lost_below_max = below_max && self.lost > 0;
        self.lost_within_ns = lost_at_most
            .filter(|&most: &Ns| self.lost > 0 && !below_max && most > Ns::ZERO && uncounted == 0);
        Ok(())
    }
}
