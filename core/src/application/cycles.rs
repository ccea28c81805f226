//! Turns that may be parts of one job: a thread that waits in its main place also in the midst of a job.
//!
//! Two sleeps with the same arguments are one place. When each of them began a job, a periodic thread would be released at
//! equal distances; when a job has two waits there, only every second distance of two releases is equal. So the longest
//! span over 2, 3 … turns is kept, and told where single distances are not regular.
//! Not here: waits that halve the period exactly, which look like jobs of half the period.

use std::collections::VecDeque;

use super::task::SeveralWaits;
use crate::time::{Mono, Ns};

/// So many waits of one job are looked for at most.
const WAITS: usize = 4;
/// From so many distances on something can be said.
const KNOWN: usize = 8;

/// Of one thread.
#[derive(Clone, Default)]
pub(super) struct Cycles {
    releases: VecDeque<Mono>,
    longest: [Option<Ns>; WAITS],
}

impl Cycles {
    /// Counts anew.
    pub fn begin_window(&mut self) {
        self.longest = [None; WAITS];
    }

    /// A turn begins.
    pub fn released(&mut self, release: Mono) {
        self.releases.truncate(WAITS - 1);
        self.releases.push_front(release);
    }

    /// It ends.
    pub fn finished(&mut self, at: Mono) {
        for (longest, release) in self.longest.iter_mut().zip(&self.releases) {
            *longest = (*longest).max(Some(at.since(*release)));
        }
    }

    /// Turns were lost.
    pub fn forget(&mut self) {
        self.releases.clear();
    }

    /// By the last `distances` of releases; `None`: they are regular, or too few.
    pub fn report(&self, distances: &[u64]) -> Option<SeveralWaits> {
        if distances.len() < KNOWN || is_regular(distances, 1) {
            return None;
        }
        let waits = (2..=WAITS).find(|&waits| is_regular(distances, waits));
        let longest_ns = self.longest[waits.unwrap_or(WAITS) - 1].or(self.longest[1])?;
        Some(SeveralWaits { waits: waits.and_then(|waits| u8::try_from(waits).ok()), longest_ns })
    }
}

/// Whether most sums of so many distances are nearly the same, or a multiple of it: releases that fell out are none.
pub(super) fn is_regular(distances: &[u64], waits: usize) -> bool {
    let sums: Vec<u64> = distances.windows(waits).map(|some| some.iter().sum()).collect();
    let mut sorted = sums.clone();
    sorted.sort_unstable();
    let Some(&median) = sorted.get(sorted.len() / 2).filter(|&&median| median > 0) else { return true };
    let near = |sum: &u64| {
        let times = (*sum as f64 / median as f64).round().max(1.0);
        (*sum as f64 - times * median as f64).abs() <= super::sums::PERIODIC * median as f64
    };
    sums.iter().filter(|sum| near(sum)).count() * 4 > sums.len() * 3
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Each turn: how long after the one before it is released, and how long it takes.
    fn of(turns: &[(u64, u64)]) -> Option<SeveralWaits> {
        let (mut cycles, mut at, mut distances) = (Cycles::default(), 0, Vec::new());
        for (distance, takes) in turns.iter().cycle().take(100) {
            at += distance;
            distances.push(*distance);
            cycles.released(Mono(at));
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
    fn a_regular_thread_has_one_wait_a_job_also_when_releases_fall_out() {
        assert_eq!(of(&[(10 * MS, 4 * MS)]), None);
        assert_eq!(of(&[(10 * MS, 4 * MS), (10 * MS, MS), (10 * MS, MS), (30 * MS, MS)]), None);
    }

    #[test]
    fn where_nothing_is_regular_the_longest_of_all_is_told() {
        let mut dice = 7_u64;
        let mut random = || {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            MS + (dice >> 33) % (100 * MS)
        };
        let turns: Vec<(u64, u64)> = (0..100).map(|_| (random(), MS / 2)).collect();
        assert_eq!(of(&turns).unwrap().waits, None);
    }
}
