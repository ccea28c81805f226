//! Releases with gaps at equal distances: jobs with many waits, and a pause until the next one.
//!
//! A program that steps through a table with one sleep (20 steps of 1 ms, then a pause of 2 ms) looks like a thread of 1 kHz
//! that misses every 21st release. If the number of releases between two gaps is constant, they may be one job: from the first
//! of them to the end of the last. A gap after a step longer than the period does not count: the thread was late.

use crate::time::{Mono, Ns};

/// Minimum number of equal runs of releases for a table.
const FEW: u32 = 4;

/// State of one thread.
#[derive(Clone, Default)]
pub(super) struct Runs {
    begin: Option<Mono>,
    last: Option<Mono>,
    end: Option<Mono>,
    waits: u32,
    before: u32,
    steady: u32,
    unsteady: u32,
    longest: Option<Ns>,
}

impl Runs {
    /// A step starts.
    pub fn released(&mut self, at: Mono, period: Option<Ns>) {
        let Some(last) = self.last.replace(at) else {
            (self.begin, self.waits) = (Some(at), 1);
            return;
        };
        let Some(period) =
            period.filter(|period| at.since(last).0.saturating_mul(2) > period.0.saturating_mul(3))
        else {
            self.waits = self.waits.saturating_add(1);
            return;
        };
        let end = self.end.filter(|end| end.since(last) <= period && self.waits > 1);
        if let Some((begin, end)) = self.begin.zip(end) {
            *(if self.waits == self.before { &mut self.steady } else { &mut self.unsteady }) += 1;
            self.before = self.waits;
            self.longest = self.longest.max(Some(end.since(begin)));
        }
        (self.begin, self.waits) = (Some(at), 1);
    }

    /// The last step ends.
    pub fn finished(&mut self, at: Mono) {
        self.end = Some(at);
    }

    /// Steps were lost.
    pub fn forget(&mut self) {
        (self.begin, self.last, self.end, self.waits) = (None, None, None, 0);
    }

    /// Resets the figures.
    pub fn begin_window(&mut self) {
        self.longest = None;
    }

    /// Number of releases between two gaps, and the longest job that they may be; `None`: the numbers differ.
    pub fn report(&self) -> Option<(u32, Ns)> {
        let equal = self.steady >= FEW && self.unsteady <= 2 + self.steady / FEW;
        Some((self.before, self.longest.filter(|_| equal)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Releases every 1 ms; after each number of them in `runs`, one is missing. A step takes 0.1 ms, the last before a gap `last`.
    fn of(runs: &[u64], last: u64) -> Option<(u32, Ns)> {
        let (mut told, mut at) = (Runs::default(), 0);
        for &run in runs.iter().cycle().take(40) {
            for number in 1..=run {
                told.released(Mono(at), Some(Ns(MS)));
                told.finished(Mono(at + if number == run { last } else { MS / 10 }));
                at += MS;
            }
            at += MS;
        }
        told.report()
    }

    #[test]
    fn gaps_at_equal_distances_may_be_the_ends_of_jobs() {
        assert_eq!(of(&[21], MS / 10), Some((21, Ns(20 * MS + MS / 10))));
        assert_eq!(of(&[21, 5, 40, 8], MS / 10), None, "at irregular places");
        assert_eq!(of(&[21], 3 * MS / 2), None, "the thread was late each time");
        assert_eq!(of(&[1_000], MS / 10).map(|(waits, _)| waits), Some(1_000));
    }
}
