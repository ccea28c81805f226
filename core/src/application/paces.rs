//! Compares releases and ends of jobs with the period of a thread: missed releases and deadline misses.
//!
//! A release is missing if two releases are more than one period apart and the thread did not overrun one: it skipped
//! its work, was released late by another thread, or its clock was set. The missing job was done by the end of the next
//! job at the latest, and counts with that response time; if that job was not recorded, the response time is not known.
//!
//! The period is the median of [`RECENT`] intervals between releases, and each job is judged when it is in the middle
//! of them: if a thread changes its period, the jobs before and after are judged by their own period, while a phase of
//! overload with missing releases does not change the period. Releases cannot come sooner by overload: [`FASTER`] shorter
//! intervals in a row start a phase with a shorter period, that of these intervals. It ends when as many intervals in a row are
//! as long as the median. Before it starts, jobs are judged by the longer period, also where the median is that of the shorter
//! one already. The change is reported ([`Held::changed`]).

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
const FASTER: usize = 8;

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
    phase: Phase,
}

/// The period of the jobs that are judged.
#[derive(Clone, Copy, Default, PartialEq)]
enum Phase {
    /// None was judged.
    #[default]
    Unknown,
    /// Usual.
    Of(u64),
    /// Shorter than the median, ns.
    Faster(u64),
}

/// The result.
pub(super) struct Held {
    /// Number of deadline misses, and the largest lateness.
    pub misses: (u64, Option<Ns>),
    /// Whole periods without a release.
    pub missing: Missing,
    /// The period changed during the recording.
    pub changed: bool,
    /// The longest period by which jobs were judged, if it changed.
    pub longest: Option<Ns>,
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
        let Paces { deadline, distances, sorted, phase, .. } = std::mem::take(self);
        *self = Paces { deadline, distances, sorted, phase, ..Paces::default() };
    }

    /// From now on jobs start in another place: those before are judged by their own period, which is forgotten.
    pub fn forget_period(&mut self) {
        let period = self.period();
        while !self.steps.is_empty() {
            self.judge_first(period);
        }
        self.missing.end();
        self.phase = Phase::Unknown;
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
        let longest = whole.by.filter(|_| has_moved).map(|(_, most)| Ns(most));
        whole.missing.end();
        Held {
            misses: whole.misses.report(self.deadline, found),
            missing: whole.missing,
            changed: has_moved,
            longest,
        }
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

    fn judge_first(&mut self, median: Option<Ns>) {
        match self.steps.pop_front() {
            Some(Step::Released { asked_late, after }) => {
                self.releases -= 1;
                let period = median.map(|Ns(median)| Ns(self.enter_phase(after, median)));
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
            Some(Step::Finished(job)) => {
                self.missing.finished(job.response);
                let period = match self.phase {
                    Phase::Of(period) | Phase::Faster(period) => median.and(Some(Ns(period))),
                    Phase::Unknown => median,
                };
                self.misses.finished(job, self.deadline, period);
            }
            None => {}
        }
    }

    /// The period of the job whose release `after` the previous one is judged, ns.
    fn enter_phase(&mut self, after: Option<Distance>, median: u64) -> u64 {
        let now = match self.phase {
            Phase::Of(period) | Phase::Faster(period) => period,
            Phase::Unknown => self.first_period(median),
        };
        let Some(Distance { ns, .. }) = after else {
            self.phase = Phase::Of(now);
            return now;
        };
        self.phase = match self.phase {
            _ if is_shorter(ns, now) && self.next_are(|ns| is_shorter(ns, now)) => {
                let period = self.median_of_next(ns, now);
                if is_shorter(period, median) {
                    Phase::Faster(period)
                } else {
                    Phase::Of(median)
                }
            }
            Phase::Faster(_) if is_shorter(now, median) => {
                let is_over = !is_shorter(ns, median) && self.next_are(|ns| !is_shorter(ns, median));
                if is_over {
                    Phase::Of(median)
                } else {
                    Phase::Faster(now)
                }
            }
            // The median is that of the next phase already.
            _ if is_shorter(median, now) => Phase::Of(now),
            _ => Phase::Of(median),
        };
        match self.phase {
            Phase::Of(period) | Phase::Faster(period) => period,
            Phase::Unknown => median,
        }
    }

    /// The intervals of the releases to be judged next.
    fn next(&self) -> impl Iterator<Item = u64> + '_ {
        self.steps.iter().filter_map(|step| match step {
            Step::Released { after: Some(Distance { ns, .. }), .. } => Some(*ns),
            Step::Released { .. } | Step::Finished(_) => None,
        })
    }

    /// Whether the next intervals, with the one before them [`FASTER`], are all so.
    fn next_are(&self, so: impl Fn(u64) -> bool) -> bool {
        let mut next = self.next().take(FASTER - 1);
        let mut count = 1;
        next.all(|ns| {
            count += 1;
            so(ns)
        }) && count == FASTER
    }

    /// The median of `first` and the next intervals, as far as they are shorter than `period`.
    fn median_of_next(&self, first: u64, period: u64) -> u64 {
        let next = self.next().take_while(|&ns| is_shorter(ns, period));
        let mut all: Vec<u64> = std::iter::once(first).chain(next).collect();
        let half = all.len() / 2;
        *all.select_nth_unstable(half).1
    }

    /// The period of the first jobs: `median`, unless the first [`KNOWN`] intervals are another one, all the same.
    fn first_period(&self, median: u64) -> u64 {
        let first: Vec<u64> = self.next().take(KNOWN).collect();
        let (least, most) =
            first.iter().fold((u64::MAX, 0), |(least, most), &ns| (least.min(ns), most.max(ns)));
        let is_one = first.len() == KNOWN && (most - least) as f64 <= least as f64 * CHANGED;
        if is_one && is_shorter(median, least) {
            least
        } else {
            median
        }
    }
}

/// Whether `ns` is below three quarters of `period`.
fn is_shorter(ns: u64, period: u64) -> bool {
    ns < period - period / 4
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
    fn a_job_is_judged_by_the_period_before_a_change_also_where_few_were_before() {
        for before in [20, 60, 100, 127, 200] {
            for after in [10, 40, 500, 1_000] {
                let of = of(&[(before, 20 * MS, 15 * MS), (after, 2 * MS, MS)]);
                assert_eq!((of.misses, of.missing.count()), ((0, None), 0), "{before}, {after}");
                assert!(of.changed);
                let late = (20, 20 * MS, 3 * MS);
                let of = self::of(&[
                    late,
                    (before, 20 * MS, MS),
                    (1, 20 * MS, 21 * MS),
                    (after, 2 * MS, MS),
                    (2, 2 * MS, 3 * MS),
                ]);
                assert_eq!(of.misses, (3, Some(Ns(MS))), "{before}, {after}");
            }
        }
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
        assert_eq!((phase(80).misses.0, phase(80).changed), (79, true), "the first is released after 14 ms");
        assert_eq!(phase(80).longest, Some(Ns(14 * MS)));
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
