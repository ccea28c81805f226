//! From which latency on the kernel side keeps evidence, so that the worst of each window has some.
//!
//! Nobody knows beforehand how large the worst of a window will be. A fixed threshold is either crossed all the time,
//! which costs, or never. This one begins at a quarter of the last window's maximum, rises to each maximum seen, and
//! falls by half each tenth of the window in which nothing crossed it: there is a record of the worst unless it was below the
//! floor or came before the threshold had fallen to it, and a few dozen records in a window at most.

use crate::time::Ns;

/// Evidence of latencies below this is never asked for: it would cost more than it tells.
pub const FLOOR: Ns = Ns::from_us(20);
/// How often the threshold may fall within a window.
const STEPS: u64 = 10;

/// The threshold of one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threshold {
    now: Ns,
    worst: Ns, // of this window
    fallen: u64,
}

impl Default for Threshold {
    fn default() -> Self {
        Threshold { now: FLOOR, worst: Ns::ZERO, fallen: 0 }
    }
}

impl Threshold {
    /// The latency from which on evidence is kept.
    #[must_use]
    pub fn get(&self) -> Ns {
        self.now
    }

    /// There is evidence of `latency`: only what is worse is of interest now.
    pub fn crossed(&mut self, latency: Ns) {
        self.worst = self.worst.max(latency);
        self.now = self.now.max(Ns(latency.0.saturating_add(1)));
    }

    /// `elapsed` of `length` of the window are over.
    pub fn time_passes(&mut self, elapsed: Ns, length: Ns) {
        let due = (u128::from(elapsed.0) * u128::from(STEPS) / u128::from(length.0.max(1))) as u64;
        while self.fallen < due.min(STEPS) {
            self.fallen += 1;
            if self.worst == Ns::ZERO {
                self.now = Ns(self.now.0 / 2).max(FLOOR);
            }
        }
    }

    /// A new window begins; the last one's maximum was `max` (`None`: no sample).
    pub fn begin(&mut self, max: Option<Ns>) {
        let quarter = max.map_or(self.now.0 / 4, |max| max.0 / 4);
        *self = Threshold { now: Ns(quarter).max(FLOOR), ..Threshold::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: Ns = Ns(300_000_000_000);

    #[test]
    fn a_rising_worst_costs_one_record_each_time() {
        let mut threshold = Threshold::default();
        for latency in [Ns::from_us(30), Ns::from_us(700), Ns::from_ms(5)] {
            assert!(latency >= threshold.get());
            threshold.crossed(latency);
            assert!(latency < threshold.get(), "the same again is no news");
        }
        threshold.time_passes(LENGTH, LENGTH);
        assert!(threshold.get() > Ns::from_ms(5), "it does not fall below what the window has already");
    }

    #[test]
    fn it_falls_until_something_crosses_it() {
        let mut threshold = Threshold::default();
        threshold.begin(Some(Ns::from_ms(40)));
        assert_eq!(threshold.get(), Ns::from_ms(10));
        threshold.time_passes(Ns(LENGTH.0 / 2), LENGTH);
        assert_eq!(threshold.get(), Ns(10_000_000 / 32));
        threshold.crossed(Ns::from_us(400));
        threshold.time_passes(LENGTH, LENGTH);
        assert_eq!(threshold.get(), Ns(400_001));
        threshold.begin(None);
        threshold.time_passes(LENGTH, LENGTH);
        assert_eq!(threshold.get(), FLOOR);
    }
}
