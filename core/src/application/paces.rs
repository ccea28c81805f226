//! What is held against a thread's period: missed releases, and turns that ended too late.
//!
//! A release fell out where two of them lie more than a period apart and the thread was not seen to overrun one: it skipped
//! its work, was released late by another, or its clock was set. A job that was due then was done by the end of the
//! next turn at the latest, and counts with that latency; where that turn was not seen, it is not known.
//!
//! The period is the median of [`RECENT`] distances of releases, and each turn is judged when as many releases have followed
//! it as lie before it in them: so a thread that changes its period has the turns before and behind the change held against
//! their own, while a phase of overload, in which releases fall out, does not become the period.

use std::collections::VecDeque;

use super::misses::{Finished, Misses};
use super::missing::Missing;
use crate::time::Ns;

/// Distances of releases from which the period is taken.
pub(super) const RECENT: usize = 256;
/// From so many on it is known.
const KNOWN: usize = 16;
/// Steps of one release, at most, where turns were overrun or lost.
const STEPS: usize = 4;
/// Another period is one that differs by more than this part of it.
const CHANGED: f64 = 0.1;

/// What is not judged yet.
#[derive(Clone, Copy)]
enum Step {
    /// A release; `asked_late`: the turn before asked for it when it had passed.
    Released {
        asked_late: bool,
        after: Option<Distance>,
    },
    Finished(Finished),
}

/// From the release before; `overrun`: releases between that were overrun, and are not missing.
#[derive(Clone, Copy)]
struct Distance {
    ns: u64,
    overrun: u64,
}

/// Of one thread.
#[derive(Clone, Default)]
pub(super) struct Paces {
    deadline: Option<Ns>,
    distances: VecDeque<u64>,
    sorted: Vec<u64>, // the same
    steps: VecDeque<Step>,
    releases: usize, // among them
    misses: Misses,
    missing: Missing,
    by: Option<(u64, u64)>, // the shortest and the longest period that something was held against
}

/// What came out.
pub(super) struct Held {
    /// Turns that were over too late, and the most by which one was.
    pub misses: (u64, Option<Ns>),
    /// Whole periods without a release.
    pub missing: Missing,
    /// The period was another one for a while.
    pub changed: bool,
}

impl Paces {
    pub fn new(deadline: Option<Ns>) -> Paces {
        Paces { deadline, ..Paces::default() }
    }

    /// From now on turns are held against this one.
    pub fn set_deadline(&mut self, deadline: Option<Ns>) {
        self.deadline = deadline;
    }

    /// Counts anew; what is known of the period stays.
    pub fn begin_window(&mut self) {
        let Paces { deadline, distances, sorted, .. } = std::mem::take(self);
        *self = Paces { deadline, distances, sorted, ..Paces::default() };
    }

    /// A turn begins, `distance` after the one before if that is known; `overrun`: see [`Distance`].
    pub fn released(&mut self, asked_late: bool, distance: Option<u64>, overrun: u64) {
        let after = distance.map(|ns| Distance { ns, overrun });
        self.steps.push_back(Step::Released { asked_late, after });
        self.releases += 1;
        distance.into_iter().for_each(|ns| self.remember(ns));
        while self.releases > RECENT / 2 || self.steps.len() > STEPS * RECENT {
            self.judge_first(self.period());
        }
    }

    /// A turn ends.
    pub fn finished(&mut self, turn: Finished) {
        self.steps.push_back(Step::Finished(turn));
    }

    /// The median distance.
    pub fn median(&self) -> Option<u64> {
        self.sorted.get(self.sorted.len() / 2).copied().filter(|&period| period > 0)
    }

    /// With what is not judged yet held against the period of now; `found`: as it is told.
    pub fn held(&self, found: Option<Ns>) -> Held {
        let mut whole = self.clone();
        let period = self.period().or(found);
        while !whole.steps.is_empty() {
            whole.judge_first(period);
        }
        let changed = whole.by.is_some_and(|(least, most)| (most - least) as f64 > least as f64 * CHANGED);
        whole.missing.end();
        Held { misses: whole.misses.report(self.deadline, found), missing: whole.missing, changed }
    }

    /// The same, once there are enough distances.
    pub fn period(&self) -> Option<Ns> {
        self.median().filter(|_| self.distances.len() >= KNOWN).map(Ns)
    }

    /// Takes the place of the oldest: what lies between the two in their order moves by one. On the way of every activation.
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
                    let (least, most) = self.by.unwrap_or((period, period));
                    self.by = Some((least.min(period), most.max(period)));
                }
            }
            Some(Step::Finished(turn)) => {
                self.missing.finished(turn.response);
                self.misses.finished(turn, self.deadline, period);
            }
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// So many turns each: how long until the next release, and how long they took.
    fn of(turns: &[(u64, u64, u64)]) -> Held {
        let mut paces = Paces::new(None);
        let mut before = None;
        for &(count, distance, response) in turns {
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
    fn what_few_turns_did_is_held_against_the_period_that_is_told() {
        let few = of(&[(8, MS, MS / 10), (1, 3 * MS, 2 * MS), (2, MS, MS / 10)]);
        assert_eq!((few.missing.count(), few.misses.0), (2, 1));
    }
}
