//! Compares releases and ends of jobs with the period of a thread: missed releases and deadline misses.
//!
//! A release is missing if two releases are more than one period apart and the thread did not overrun one: it skipped
//! its work, was released late by another thread, or its clock was set. The missing job was done by the end of the next
//! job at the latest, and counts with that response time; if that job was not recorded, the response time is not known.
//!
//! The period is the median of [`RECENT`] intervals between releases, and each job is judged when it is in the middle
//! of them: if a thread changes its period, the jobs before and after are judged by their own period, while a phase of
//! overload with missing releases does not change the period. Releases cannot come sooner by overload: [`FASTER`] shorter
//! intervals in a row are another period, also in a phase too short for the median to follow. Its jobs are judged by the
//! longer one, and the change is reported ([`Held::changed`]).

use std::collections::VecDeque;

use super::misses::{Finished, Misses};
use super::missing::Missing;
use crate::time::Ns;

/// Number of intervals between releases that give the period.
pub(super) const RECENT: usize = 256;
/// Minimum number of intervals for a known period.
const KNOWN: usize = 16;
/// Maximum number of steps per release, if jobs overran or were lost.
const STEPS: usize = 4;
/// Relative difference above which the period has changed.
const CHANGED: f64 = 0.1;
/// Number of intervals in a row below three quarters of the period that show a shorter one. A late release is followed by
/// one or two shorter intervals.
const FASTER: u32 = 8;

/// An event that is not judged yet.
#[derive(Clone, Copy)]
enum Step {
    /// A release; `asked_late`: the previous job armed the timer after it.
    Released {
        asked_late: bool,
        after: Option<Distance>,
    },
    Finished(Finished),
}

/// Interval from the previous release, ns; `overrun`: releases in between that were overrun, not missed.
#[derive(Clone, Copy)]
struct Distance {
    ns: u64,
    overrun: u64,
}

/// State of one thread.
#[derive(Clone, Default)]
pub(super) struct Paces {
    deadline: Option<Ns>,
    distances: VecDeque<u64>,
    sorted: Vec<u64>, // sorted
    steps: VecDeque<Step>,
    releases: usize, // among them
    misses: Misses,
    missing: Missing,
    by: Option<(u64, u64)>, // shortest and longest period used, ns
    shorter: u32,           // intervals in a row
    was_faster: bool,
}

/// The result.
pub(super) struct Held {
    /// Number of deadline misses, and the largest lateness.
    pub misses: (u64, Option<Ns>),
    /// Whole periods without a release.
    pub missing: Missing,
    /// The period changed during the recording.
    pub changed: bool,
}

impl Paces {
    pub fn new(deadline: Option<Ns>) -> Paces {
        Paces { deadline, ..Paces::default() }
    }

    /// Sets the deadline for the jobs that follow.
    pub fn set_deadline(&mut self, deadline: Option<Ns>) {
        self.deadline = deadline;
    }

    /// Resets the figures; the intervals of the period are kept.
    pub fn begin_window(&mut self) {
        let Paces { deadline, distances, sorted, .. } = std::mem::take(self);
        *self = Paces { deadline, distances, sorted, ..Paces::default() };
    }

    /// From now on jobs start in another place: those before are judged by their own period, which is forgotten.
    pub fn forget_period(&mut self) {
        let period = self.period();
        while !self.steps.is_empty() {
            self.judge_first(period);
        }
        self.missing.end();
        (self.distances, self.sorted) = (VecDeque::new(), Vec::new());
    }

    /// A release, `distance` ns after the previous one if that is known; `overrun`: see [`Distance`].
    pub fn released(&mut self, asked_late: bool, distance: Option<u64>, overrun: u64) {
        let after = distance.map(|ns| Distance { ns, overrun });
        self.steps.push_back(Step::Released { asked_late, after });
        self.releases += 1;
        distance.into_iter().for_each(|ns| self.remember(ns));
        while self.releases > RECENT / 2 || self.steps.len() > STEPS * RECENT {
            self.judge_first(self.period());
        }
    }

    /// A job ends.
    pub fn finished(&mut self, job: Finished) {
        self.steps.push_back(Step::Finished(job));
    }

    /// The median interval, ns.
    pub fn median(&self) -> Option<u64> {
        self.sorted.get(self.sorted.len() / 2).copied().filter(|&period| period > 0)
    }

    /// The result, the rest judged by the current period; `found`: the reported period.
    pub fn held(&self, found: Option<Ns>) -> Held {
        let mut whole = self.clone();
        let period = self.period().or(found);
        while !whole.steps.is_empty() {
            whole.judge_first(period);
        }
        let has_moved = whole.by.is_some_and(|(least, most)| (most - least) as f64 > least as f64 * CHANGED);
        let changed = whole.was_faster || has_moved;
        whole.missing.end();
        Held { misses: whole.misses.report(self.deadline, found), missing: whole.missing, changed }
    }

    /// The median interval, if there are enough of them.
    pub fn period(&self) -> Option<Ns> {
        self.median().filter(|_| self.distances.len() >= KNOWN).map(Ns)
    }

    /// Replaces the oldest interval and keeps `sorted` in order with one move. Hot path: once per release.
    fn remember(&mut self, ns: u64) {
        let place = self.sorted.partition_point(|&known| known < ns);
        let oldest = if self.distances.len() == RECENT { self.distances.pop_front() } else { None };
        self.distances.push_back(ns);
        let Some(oldest) = oldest else { return self.sorted.insert(place, ns) };
        let gone = self.sorted.partition_point(|&known| known < oldest);
        if gone < place {
            self.sorted.copy_within(gone + 1..place, gone);
            self.sorted[place - 1] = ns;
        } else {
            self.sorted.copy_within(place..gone, place + 1);
            self.sorted[place] = ns;
        }
    }

    fn judge_first(&mut self, period: Option<Ns>) {
        match self.steps.pop_front() {
            Some(Step::Released { asked_late, after }) => {
                self.releases -= 1;
                self.misses.released(asked_late, self.deadline, period);
                self.missing.end();
                if let (Some(Distance { ns, overrun }), Some(Ns(period))) = (after, period) {
                    let periods = (ns.saturating_add(period / 2) / period).max(1);
                    self.missing
                        .before_turn((periods - 1).saturating_sub(overrun), Ns(ns.saturating_sub(period)));
                    self.shorter = if ns < period - period / 4 { self.shorter + 1 } else { 0 };
                    self.was_faster |= self.shorter >= FASTER;
                    let (least, most) = self.by.unwrap_or((period, period));
                    self.by = Some((least.min(period), most.max(period)));
                }
            }
            Some(Step::Finished(job)) => {
                self.missing.finished(job.response);
                self.misses.finished(job, self.deadline, period);
            }
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Numbers of jobs, with the time until the next release and the execution time of each.
    fn of(jobs: &[(u64, u64, u64)]) -> Held {
        let mut paces = Paces::new(None);
        let mut before = None;
        for &(count, distance, response) in jobs {
            for _ in 0..count {
                paces.released(false, before.replace(distance), 0);
                paces.finished(Finished { response: Some(Ns(response)), late: None, last: None });
            }
        }
        let found = paces.median().map(Ns);
        paces.held(found)
    }

    #[test]
    fn each_turn_is_held_against_the_period_of_its_time() {
        let slower = of(&[(200, MS, MS / 10), (300, 10 * MS, 5 * MS)]);
        assert_eq!((slower.missing.count(), slower.misses, slower.changed), (0, (0, None), true));
        let faster = of(&[(300, 10 * MS, 5 * MS), (200, MS, MS / 10)]);
        assert_eq!((faster.missing.count(), faster.misses, faster.changed), (0, (0, None), true));
        let late = of(&[(200, MS, MS / 10), (1, MS, 3 * MS), (200, MS, MS / 10), (300, 10 * MS, 5 * MS)]);
        assert_eq!(late.misses, (1, Some(Ns(2 * MS))));
    }

    #[test]
    fn the_order_of_the_last_distances_is_kept() {
        let mut paces = Paces::new(None);
        for step in 0..2_000_u64 {
            paces.remember(step * step % 1_009 % 97); // many are equal
            let mut sorted: Vec<u64> = paces.distances.iter().copied().collect();
            sorted.sort_unstable();
            assert_eq!(paces.sorted, sorted, "{step}");
        }
    }

    #[test]
    fn a_phase_of_overload_is_not_another_period() {
        let overload = of(&[(100, MS, MS / 10), (60, 2 * MS, 3 * MS / 2), (300, MS, MS / 10)]);
        assert_eq!((overload.missing.count(), overload.changed), (60, false));
        assert_eq!(overload.misses, (60, Some(Ns(MS / 2))));
    }

    #[test]
    fn a_short_phase_of_a_shorter_period_is_told() {
        let phase = |jobs| of(&[(100, 14 * MS, MS / 10), (jobs, 2 * MS, 3 * MS), (100, 14 * MS, MS / 10)]);
        assert_eq!((phase(80).misses.0, phase(80).changed), (0, true));
        assert!(phase(9).changed && !phase(2).changed);
        // A late release, from which the thread goes on by its old schedule.
        let late =
            of(&[(100, MS, MS / 10), (1, MS + MS / 2, MS / 10), (1, MS / 2, MS / 10), (100, MS, MS / 10)]);
        assert!(!late.changed);
    }

    #[test]
    fn what_few_turns_did_is_held_against_the_period_that_is_told() {
        let few = of(&[(8, MS, MS / 10), (1, 3 * MS, 2 * MS), (2, MS, MS / 10)]);
        assert_eq!((few.missing.count(), few.misses.0), (2, 1));
    }
}
