//! The period of a thread, and the usual interval between its releases.

use super::super::grid;
use super::super::paused::Timed;
use super::super::point::Place;
use super::super::task::Period;
use super::{Sums, KNOWN, PERIODIC};
use crate::series::Quantity;
use crate::time::Ns;

/// Minimum number of intervals for a period.
const FEW: usize = 3;

impl Sums {
    /// The largest value so far.
    pub fn longest(&self, quantity: Quantity) -> Option<Ns> {
        self.series.iter().find(|(of, _)| *of == quantity).and_then(|(_, histogram)| histogram.max())
    }

    /// The shortest of the last intervals between releases, if there are enough.
    pub fn shortest_distance(&self) -> Option<Ns> {
        let known = self.distances.len() >= KNOWN;
        self.distances.iter().filter(|_| known).map(|&(release, _)| Ns(release)).min()
    }

    /// The median interval, if there are enough: threads without a timer often have a few releases that are no jobs, such
    /// as the ends of other threads.
    pub(super) fn released_every(&self) -> Option<Ns> {
        let enough = if self.timer_releases * 2 > self.releases { FEW } else { KNOWN };
        self.period_ns().filter(|_| self.distances.len() >= enough)
    }

    pub(super) fn period(&self) -> Option<Period> {
        let period = self.paces.median()?;
        let off = |&(release, _): &(u64, u64)| {
            let periods = (release as f64 / period as f64).round().max(1.0);
            (release as f64 - periods * period as f64).abs() / period as f64
        };
        let regular = self.distances.iter().filter(|distance| off(distance) <= PERIODIC).count();
        let jitter: Vec<u64> =
            self.distances.iter().map(|&(release, start)| start.abs_diff(release)).collect();
        let largest = jitter.iter().copied().max().unwrap_or_default().max(self.jitter_max);
        (self.distances.len() >= FEW && regular * 2 > self.distances.len()).then(|| Period {
            median_ns: Ns(period),
            jitter_median_ns: Ns(middle(jitter).unwrap_or_default()),
            jitter_max_ns: Ns(largest),
            missed: 0,
            changed: false,
            longest_ns: None,
        })
    }

    /// Times at which its main waits end.
    pub fn timed(&self) -> Timed {
        let last = self.distances.len().saturating_sub(grid::RECENT);
        let last: Vec<u64> = self.distances.range(last..).map(|&(release, _)| release).collect();
        match self.timer_releases * 2 > self.releases {
            false => Timed::No,
            true if grid::is_computed(&last) => Timed::Computed,
            true => Timed::FromNow,
        }
    }

    /// Whether the thread only sleeps in `main`, its main wait, for times that it does not compute from a period: what it has to
    /// do then came before. A call that something else ended, too, waits for that.
    pub(super) fn polls(&self, main: &Place) -> bool {
        let sleeps = main.is_absolute_sleep() || main.is_timeout() || self.timeouts == self.releases;
        let by_itself = sleeps && self.timeouts * 2 > self.releases && !main.is_input();
        main.is_relative_sleep() || by_itself && self.timed() == Timed::FromNow
    }

    /// The main wait lasted for `waited`.
    pub fn slept(&mut self, waited: Ns) {
        self.slept = self.slept.max(Some(waited));
    }
}

fn middle(mut values: Vec<u64>) -> Option<u64> {
    let half = values.len() / 2;
    (!values.is_empty()).then(|| *values.select_nth_unstable(half).1)
}
