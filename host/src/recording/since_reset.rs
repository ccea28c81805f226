//! Figures for the files of the old latency histograms: everything since one of their `reset` files was
//! written.
//!
//! Other users of the figures are unaffected: the values at the reset are subtracted.

use lathunt_core::export::latency_hist;
use lathunt_core::series::{Quantity, Series};
use lathunt_core::time::{Mono, Ns};
use lathunt_core::trace::activation::Activation;

use super::extremes::Extremes;
use super::window::{Before, Key, Largests};

/// The figures at the last reset of each quantity, and the extremes since.
#[derive(Default)]
pub struct SinceReset {
    before: Before,
    largest: Largests,
    extremes: Extremes,
}

impl SinceReset {
    /// A wake-up.
    pub(super) fn activation(&mut self, activation: &Activation) {
        self.extremes.add(activation);
    }

    /// Adds the largest value of a series since the last query.
    pub(super) fn larger(&mut self, key: Key, max: Ns) {
        self.largest.larger(key, max);
    }

    /// The same, queried after the series were read.
    pub(super) fn meanwhile(&mut self, taken: &[(Key, Ns)]) {
        self.largest.meanwhile(taken);
    }

    /// Those of `series` with samples since.
    #[must_use]
    pub fn part(&self, series: &[Series]) -> Vec<Series> {
        let part = |series: &Series| {
            let key = (series.quantity, series.cpu?);
            self.before.part(series, self.largest.of(key), self.extremes.smallest(key))
        };
        series.iter().filter_map(part).filter(|series| series.histogram.count() > 0).collect()
    }

    /// The worst since, of each quantity of activations and CPU.
    #[must_use]
    pub fn worst(&self) -> Vec<latency_hist::Worst> {
        self.extremes.worst()
    }

    /// Restarts `quantities` at `at`; `series` are the present ones.
    pub fn reset(&mut self, quantities: &[Quantity], series: &[Series], at: Mono) {
        let of_them = series.iter().filter(|series| quantities.contains(&series.quantity));
        self.before.close(&of_them.cloned().collect::<Vec<_>>(), at);
        self.largest.begin_window(|quantity| quantities.contains(&quantity));
        quantities.iter().for_each(|&quantity| self.extremes.clear_of(quantity, at));
    }
}

#[cfg(test)]
mod tests {
    use lathunt_core::histogram::{Histogram, Layout};
    use lathunt_core::time::Cpu;

    use super::*;

    fn series(quantity: Quantity, values: &[u64]) -> Series {
        let mut histogram = Histogram::new(Layout::LATENCY);
        values.iter().for_each(|&ns| histogram.record(Ns(ns)));
        Series::new(quantity, Some(Cpu(1)), histogram)
    }

    #[test]
    fn one_quantity_is_counted_anew_and_the_others_go_on() {
        let mut since = SinceReset::default();
        let all = [series(Quantity::Timer, &[7_000]), series(Quantity::Wakeup, &[90_500, 3_000])];
        assert_eq!(since.part(&all), all);
        since.reset(&[Quantity::Wakeup], &all, Mono(5));
        assert_eq!(since.part(&all), all[..1]);
        since.larger((Quantity::Wakeup, Cpu(1)), Ns(40_200));
        let now =
            [series(Quantity::Timer, &[7_000, 8_000]), series(Quantity::Wakeup, &[90_500, 3_000, 40_200])];
        let part = since.part(&now);
        assert_eq!((part[0].histogram.count(), part[1].histogram.count()), (2, 1));
        assert_eq!(part[1].histogram.max(), Some(Ns(40_200)));
    }
}
