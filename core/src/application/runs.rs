//! Releases with pauses between them: jobs with many waits, and a pause until the next one.
//!
//! A program that steps through a table with one sleep (20 steps of 1 ms, then a pause of 2 ms) looks like a thread of 1 kHz
//! that misses every 21st release. If the number of releases between two pauses is constant, they may be one job: from the
//! first of them to the end of the last. If the number varies, but pauses are frequent, they may be, too: a job that polls
//! takes as many steps as it has to. A thread that rarely leaves out a release is periodic.
//!
//! A pause is an interval longer than the period which the step before it does not explain: a step longer than the period
//! delays the next release, and after a relative sleep each step does. Then the wait itself is as long as the others.

use std::collections::VecDeque;

use super::sums::PERIODIC;
use crate::time::{Mono, Ns};

/// Minimum number of equal runs of releases for a table.
const FEW: u32 = 4;
/// Pauses are frequent if there is one for this many releases.
const OFTEN: u64 = 1_024;
/// Number of waits whose median is their usual length.
const RECENT: usize = 64;

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
    releases: u64,
    /// Pauses after two releases or more.
    pauses: u64,
    /// The last waits, ns.
    idle: VecDeque<u64>,
}

impl Runs {
    /// A step starts.
    pub fn released(&mut self, at: Mono, period: Option<Ns>) {
        self.releases += 1;
        let wait = self.end.map(|end| at.since(end).0);
        // After a step longer than the period an absolute wait is short, whatever the step was.
        let is_late = |last: Mono, period: Ns| {
            self.end.is_some_and(|end| end.since(last) > period && !is_longer(at.since(end).0, period.0))
        };
        let pause = self.last.replace(at).zip(period).is_some_and(|(last, period)| {
            is_longer(at.since(last).0, period.0)
                && !wait.is_some_and(|wait| self.is_usual(wait))
                && !is_late(last, period)
        });
        if let Some(wait) = wait {
            self.idle.truncate(RECENT - 1);
            self.idle.push_front(wait);
        }
        if self.begin.is_some() && !pause {
            self.waits = self.waits.saturating_add(1);
            return;
        }
        if let Some((begin, end)) = self.begin.zip(self.end).filter(|_| self.waits > 1) {
            *(if self.waits == self.before { &mut self.steady } else { &mut self.unsteady }) += 1;
            self.pauses += 1;
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

    /// Whether `wait` is as long as most of the last waits.
    fn is_usual(&self, wait: u64) -> bool {
        self.usual().is_some_and(|usual| is_near(wait, usual))
    }

    /// Median of the last waits, ns.
    fn usual(&self) -> Option<u64> {
        let mut sorted: Vec<u64> = self.idle.iter().copied().collect();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied()
    }

    /// Whether more than 3/4 of the last waits have nearly the same length, as those of a relative sleep.
    pub fn has_equal_waits(&self) -> bool {
        let Some(usual) = self.usual() else { return false };
        let near = self.idle.iter().filter(|&&wait| is_near(wait, usual)).count();
        near * 4 > self.idle.len() * 3
    }

    /// Number of releases between two pauses (`None`: it varies), and the longest job that they may be; `None`: pauses
    /// are rare.
    pub fn report(&self) -> Option<(Option<u32>, Ns)> {
        let equal = self.steady >= FEW && self.unsteady <= 2 + self.steady / FEW;
        if equal {
            return Some((Some(self.before), self.longest?));
        }
        // A single step after the last pause may be the end of the thread.
        let pauses = self.pauses - u64::from(self.waits == 1).min(self.pauses);
        let often = pauses > 0 && pauses.saturating_mul(OFTEN) >= self.releases;
        let last = self.begin.zip(self.end).map(|(begin, end)| end.since(begin));
        Some((None, self.longest.max(last).filter(|_| often)?))
    }
}

fn is_longer(distance: u64, period: u64) -> bool {
    distance as f64 > period as f64 * (1.0 + PERIODIC)
}

fn is_near(wait: u64, usual: u64) -> bool {
    wait.abs_diff(usual) as f64 <= usual as f64 * PERIODIC
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Releases every 1 ms; after each number of them in `runs`, one is missing. A step takes 0.1 ms, the last before a gap `last`.
    fn of(runs: &[u64], last: u64) -> Option<(Option<u32>, Ns)> {
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
        assert_eq!(of(&[21], MS / 10), Some((Some(21), Ns(20 * MS + MS / 10))));
        assert_eq!(of(&[21], 3 * MS / 2), None, "the thread was late each time");
        assert_eq!(of(&[1_000], MS / 10).and_then(|(waits, _)| waits), Some(1_000));
    }

    #[test]
    fn frequent_gaps_at_irregular_places_may_be_the_ends_of_jobs_and_rare_ones_are_not() {
        assert_eq!(of(&[21, 5, 40, 8], MS / 10), Some((None, Ns(39 * MS + MS / 10))));
        assert_eq!(of(&[2_001, 5_005, 8_400, 1_500], MS / 10), None);
    }

    /// Steps of a relative (or else absolute) sleep: length of the sleep or interval, and of the step after it.
    fn steps(relative: bool, steps: impl Iterator<Item = (u64, u64)>) -> Option<(Option<u32>, Ns)> {
        let (mut told, mut release, mut end) = (Runs::default(), 0, 0);
        let (mut distances, mut before) = (Vec::new(), None);
        for (length, works) in steps {
            release = if relative { end } else { release } + length;
            end = release + works;
            before.replace(release).into_iter().for_each(|before| distances.push(release - before));
            distances.sort_unstable();
            told.released(Mono(release), distances.get(distances.len() / 2).copied().map(Ns));
            told.finished(Mono(end));
        }
        told.report()
    }

    #[test]
    fn a_pause_shorter_than_a_step_is_one() {
        let table = [10, 10, 10, 10, 10, 14].into_iter().cycle();
        for works in [84 * MS / 10, MS] {
            let of = |jobs: usize| steps(false, table.clone().take(jobs * 6).map(|ms| (ms * MS, works)));
            assert_eq!(of(20), Some((Some(6), Ns(50 * MS + works))));
            let short = of(3).unwrap();
            assert!(short.1 >= Ns(50 * MS + works), "few jobs: {short:?}");
        }
        let relative = [2, 2, 2, 2, 2, 6].into_iter().cycle().take(120);
        assert_eq!(steps(true, relative.map(|ms| (ms * MS, 8 * MS))), Some((Some(6), Ns(58 * MS))));
    }

    #[test]
    fn a_long_step_does_not_explain_a_pause_that_is_longer_still_and_is_none_by_itself() {
        // Polls each 1 ms; the last one and the one at `late` are followed by 4 ms of work, and the last by nothing until
        // 25 ms after it.
        let of = |late: Option<u64>| {
            let (mut told, mut at) = (Runs::default(), 0);
            for polls in [45, 40, 52, 38, 47] {
                for poll in 0..polls {
                    told.released(Mono(at), Some(Ns(MS)));
                    let (is_last, is_late) = (poll + 1 == polls, late == Some(poll));
                    told.finished(Mono(at + if is_last || is_late { 4 * MS } else { MS / 50 }));
                    at += if is_last {
                        25 * MS
                    } else if is_late {
                        4 * MS + MS / 50
                    } else {
                        MS
                    };
                }
            }
            told.report()
        };
        assert_eq!(of(None), Some((None, Ns(55 * MS))));
        assert_eq!(of(Some(20)), Some((None, Ns(58 * MS + MS / 50))));
    }

    #[test]
    fn long_steps_between_equal_sleeps_are_not_pauses() {
        let works = |step: u64| if step % 7 == 3 { 4 * MS } else { MS / 2 };
        assert_eq!(steps(true, (0..500).map(|step| (5 * MS, works(step)))), None);
        let at_end = (0..100).map(|step| (if step == 99 { 500 * MS } else { 5 * MS }, works(step)));
        assert_eq!(steps(true, at_end), None, "a last sleep before the end of the thread");
    }
}
