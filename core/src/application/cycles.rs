//! Recorded jobs that may be parts of one job: a thread that also waits in its main place within a job.
//!
//! Two sleeps with the same arguments are one place. If each starts a job, the releases of a periodic thread are at
//! regular intervals; if a job has two waits there, only every second release is. So the longest span over 2, 3 …
//! recorded jobs is kept, and reported if single intervals are not regular. If a thread is regular except for a few
//! releases off its period, and the next release is on the period again, the wait may have been within a job: the span
//! from the release before it to the end of the job after it is kept. Not covered: waits that halve the period exactly,
//! which look like jobs of half the period.

use std::collections::VecDeque;

use super::runs::Runs;
use super::task::SeveralWaits;
use crate::time::{Mono, Ns};

/// Maximum number of waits per job that is checked.
const WAITS: usize = 16;
/// Minimum number of intervals for a conclusion.
const KNOWN: usize = 8;
/// Maximum number of jobs that are not compared with the period yet.
const HELD: usize = 128;

/// State of one thread.
#[derive(Clone, Default)]
pub(super) struct Cycles {
    releases: VecDeque<Mono>,
    longest: [Option<Ns>; WAITS],
    /// Jobs to compare with the period: release and end. The period is a median over jobs before and after.
    cycles: VecDeque<(Mono, Option<Mono>)>,
    /// The last release on the period.
    on_period: Option<Mono>,
    off_period: Option<Ns>,
    runs: Runs,
}

impl Cycles {
    /// Resets the figures.
    pub fn begin_window(&mut self) {
        self.longest = [None; WAITS];
        self.runs.begin_window();
        self.off_period = None;
    }

    /// A job is released.
    pub fn released(&mut self, release: Mono, period: Option<Ns>) {
        self.runs.released(release, period);
        self.cycles.push_back((release, None));
        if self.cycles.len() > HELD {
            self.hold_first(period);
        }
        self.releases.truncate(WAITS - 1);
        self.releases.push_front(release);
    }

    /// The last job ends.
    pub fn finished(&mut self, at: Mono) {
        self.runs.finished(at);
        self.cycles.back_mut().into_iter().for_each(|(_, end)| *end = Some(at));
        for (longest, release) in self.longest.iter_mut().zip(&self.releases) {
            *longest = (*longest).max(Some(at.since(*release)));
        }
    }

    /// Jobs were lost.
    pub fn forget(&mut self) {
        self.runs.forget();
        self.releases.clear();
        (self.on_period, self.cycles) = (None, VecDeque::new());
    }

    /// The longest span around a release off the period.
    pub fn off_period(&self, period: Option<Ns>) -> Option<Ns> {
        let mut whole = self.clone();
        while !whole.cycles.is_empty() {
            whole.hold_first(period);
        }
        whole.off_period
    }

    fn hold_first(&mut self, period: Option<Ns>) {
        let (Some((release, end)), Some(period)) = (self.cycles.pop_front(), period) else { return };
        let on = |from: Mono, to: Mono| {
            let (distance, period) = (to.since(from).0 as f64, period.0 as f64);
            let times = (distance / period).round();
            times >= 1.0 && (distance - times * period).abs() <= super::sums::PERIODIC * period
        };
        let Some(before) = self.on_period.filter(|&before| !on(before, release)) else {
            self.on_period = Some(release);
            return;
        };
        // Only an additional release within the period counts; a late one replaces its own, and a shifted period
        // continues here.
        let next = self.cycles.front().map_or(release, |(next, _)| *next);
        let room = next.since(before).0 as f64 <= period.0 as f64 * (1.0 + super::sums::PERIODIC);
        if room && (next == release || on(before, next)) && !on(release, next) {
            self.off_period = self.off_period.max(end.map(|end| end.since(before)));
        } else {
            self.on_period = Some(release);
        }
    }

    /// Judges the last intervals between releases, ns; `None`: they are regular, or too few.
    pub fn report(&self, distances: &[u64]) -> Option<SeveralWaits> {
        let of_runs = self.runs.report();
        let of_runs = of_runs.map(|(waits, longest_ns)| SeveralWaits { waits, longest_ns });
        self.of_few(distances).into_iter().chain(of_runs).max_by_key(|several| several.longest_ns)
    }

    fn of_few(&self, distances: &[u64]) -> Option<SeveralWaits> {
        if distances.len() < KNOWN || is_regular(distances, 1) {
            return None;
        }
        let waits = (2..=WAITS).find(|&waits| is_regular(distances, waits));
        if waits.is_none() && self.runs.has_equal_waits() {
            return None; // a relative sleep, and work of any length after it
        }
        // Right after the start or a loss, the longest over fewer jobs.
        let longest_ns = self.longest[..waits.unwrap_or(WAITS)].iter().rev().find_map(|longest| *longest)?;
        Some(SeveralWaits { waits: waits.and_then(|waits| u32::try_from(waits).ok()), longest_ns })
    }
}

/// Whether more than 3/4 of the sums of `waits` successive intervals are nearly equal, to a fraction of one interval. A
/// multiple counts as equal: a release was missed.
pub(super) fn is_regular(distances: &[u64], waits: usize) -> bool {
    let sums: Vec<u64> = distances.windows(waits).map(|some| some.iter().sum()).collect();
    let mut sorted = sums.clone();
    sorted.sort_unstable();
    let Some(&median) = sorted.get(sorted.len() / 2).filter(|&&median| median > 0) else { return true };
    let near = |sum: &u64| {
        let times = (*sum as f64 / median as f64).round().max(1.0);
        (*sum as f64 - times * median as f64).abs() <= super::sums::PERIODIC * median as f64 / waits as f64
    };
    sums.iter().filter(|sum| near(sum)).count() * 4 > sums.len() * 3
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Each job: time since the previous release, and execution time.
    fn of(lengths: &[(u64, u64)]) -> Option<SeveralWaits> {
        let (mut cycles, mut at, mut distances) = (Cycles::default(), 0, Vec::new());
        for (distance, takes) in lengths.iter().cycle().take(100) {
            at += distance;
            distances.push(*distance);
            cycles.released(Mono(at), None);
            cycles.finished(Mono(at + takes));
        }
        cycles.report(&distances[1..])
    }

    #[test]
    fn a_job_that_sleeps_in_its_midst_is_longer_than_its_parts() {
        // 30 ms of work, a sleep until 35 ms, 25 ms of work; every 100 ms
        let found = of(&[(65 * MS, 30 * MS), (35 * MS, 25 * MS)]);
        assert_eq!(found, Some(SeveralWaits { waits: Some(2), longest_ns: Ns(95 * MS) }));
    }

    #[test]
    fn a_single_wait_off_the_period_may_be_one_within_a_job() {
        let of = |lengths: &[(u64, u64)]| {
            let mut cycles = Cycles::default();
            for (release, takes) in lengths {
                cycles.released(Mono(*release), Some(Ns(100 * MS)));
                cycles.finished(Mono(release + takes));
            }
            cycles.off_period(Some(Ns(100 * MS)))
        };
        let grid = |from: u64, count: u64| (0..count).map(move |k| (from + k * 100 * MS, 2 * MS));
        assert_eq!(of(&grid(MS, 20).collect::<Vec<_>>()), None);
        let mut once: Vec<(u64, u64)> = grid(MS, 5).collect();
        once.push((461 * MS, 3 * MS)); // 60 ms after a release on the period
        once.extend(grid(501 * MS, 15));
        assert_eq!(of(&once), Some(Ns(63 * MS)));
        let mut moved: Vec<(u64, u64)> = grid(MS, 5).collect();
        moved.extend(grid(451 * MS, 15));
        assert_eq!(of(&moved), None);
        let mut late: Vec<(u64, u64)> = grid(MS, 5).collect();
        late.push((520 * MS, 2 * MS)); // instead of 501 ms
        late.extend(grid(601 * MS, 15));
        assert_eq!(of(&late), None);
        assert_eq!(of(&grid(MS, 3).chain(grid(1_001 * MS, 200)).collect::<Vec<_>>()), None, "some fell out");
    }

    #[test]
    fn a_regular_thread_has_one_wait_a_job_also_when_releases_fall_out() {
        assert_eq!(of(&[(10 * MS, 4 * MS)]), None);
        assert_eq!(of(&[(10 * MS, 4 * MS), (10 * MS, MS), (10 * MS, MS), (30 * MS, MS)]), None);
    }

    #[test]
    fn a_job_of_seven_waits_of_different_lengths_is_seen_whole() {
        let offsets = [8, 9, 11, 7, 10, 9, 18].map(|ms| (ms * MS, 5 * MS));
        let found = of(&offsets).unwrap();
        assert_eq!((found.waits, found.longest_ns), (Some(7), Ns((72 - 7) * MS + 5 * MS)));
    }

    #[test]
    fn work_of_any_length_between_equal_sleeps_is_a_job_each_and_work_in_a_pattern_may_be_one() {
        let sleeps = |works: &[u64]| {
            let jobs = works.iter().zip(works.iter().cycle().skip(works.len() - 1));
            of(&jobs.map(|(&works, before)| (before + 5 * MS, works)).collect::<Vec<_>>())
        };
        assert_eq!(sleeps(&[MS, 8 * MS]), Some(SeveralWaits { waits: Some(2), longest_ns: Ns(14 * MS) }));
        let mut dice = 7_u64;
        let any: Vec<u64> = (0..100)
            .map(|_| {
                dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (dice >> 33) % (20 * MS)
            })
            .collect();
        assert_eq!(sleeps(&any), None);
    }

    #[test]
    fn where_nothing_is_regular_the_longest_of_all_is_told() {
        let mut dice = 7_u64;
        let mut random = || {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            MS + (dice >> 33) % (100 * MS)
        };
        let lengths: Vec<(u64, u64)> = (0..100).map(|_| (random(), MS / 2)).collect();
        assert_eq!(of(&lengths).unwrap().waits, None);
    }
}
