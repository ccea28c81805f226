//! Whether the end of a main wait proves a release.
//!
//! A thread that polls sleeps for a relative time, then looks for work; it may spin until there is some. No event shows
//! that, and the time until its next wait is not a response time. The same holds for waits that are not for a job: a
//! mutex, a page fault, a write. Exception: sleeps that end at regular times whatever the length of the jobs before
//! them. Then the program computes them from a period, and their end is a release. In a loop that spins until its next
//! period, the sleeps have any length but that one. A sleep until an absolute time or the timeout of another wait is a
//! relative sleep unless its times are computed.

use super::candidates::may_begin_jobs;
use super::point::Place;
use crate::time::Ns;

/// Minimum number of sleeps that are shorter (longer) by as much as the job before is longer (shorter).
const SHOWN: u64 = 2;
/// Jobs differ in length if the difference exceeds this fraction of their interval (1/32).
const DIFFER: u64 = 32;
/// A sleep makes up for a difference to within a quarter of it.
const NEARLY: u64 = 4;

/// Times at which the main waits end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timed {
    /// Not those of timers.
    No,
    /// Computed by the program ([`super::grid`]).
    Computed,
    /// A length after each call, as in a relative sleep.
    FromNow,
}

/// The main waits of one thread.
#[derive(Clone, Default)]
pub(super) struct Paused {
    /// Response time of the last job, and of the one before it with the wait between.
    last: Option<Ns>,
    before: Option<(Ns, Ns)>,
    /// Sleeps after a job of another length than the one before it: those that made up for the difference, and others.
    made_up: u64,
    others: u64,
    jobs: Ns,
    waits: Ns,
    /// Time from the end of the wait before the current job until it ran, and the longest one of all jobs.
    start: Ns,
    longest_start: Ns,
}

impl Paused {
    /// Resets the figures. The current job counts in the new window.
    pub fn begin_window(&mut self) {
        self.longest_start = Ns::ZERO;
    }

    /// Jobs were lost.
    pub fn forget(&mut self) {
        (self.last, self.before, self.start) = (None, None, Ns::ZERO);
    }

    /// A job ended.
    pub fn finished(&mut self, response: Ns) {
        self.jobs = self.jobs + response;
        self.last = Some(response);
        self.longest_start = self.longest_start.max(std::mem::take(&mut self.start));
    }

    /// The main wait after it ended after `waited`, and the thread ran after `start` more.
    pub fn waited(&mut self, waited: Ns, start: Ns) {
        self.start = start;
        self.waits = self.waits + waited;
        let Some(response) = self.last.take() else { return };
        let Some((job, wait)) = self.before.replace((response, waited)) else { return };
        let (longer, all) = (response.0.abs_diff(job.0), response.0.saturating_add(waited.0));
        if longer > all / DIFFER {
            let moved = (response + waited).0.abs_diff((job + wait).0);
            *(if moved <= longer / NEARLY { &mut self.made_up } else { &mut self.others }) += 1;
        }
    }

    /// The longest time from the end of a wait in `main` until it ran, if its jobs may have been released later than that
    /// end.
    pub fn polls_from(&self, main: &Place, timed: Timed) -> Option<Ns> {
        self.may_poll(main, timed).then_some(self.longest_start.max(self.start))
    }

    fn may_poll(&self, main: &Place, timed: Timed) -> bool {
        if main.is_relative_sleep() || timed == Timed::FromNow {
            return self.made_up < SHOWN || self.made_up <= self.others.saturating_mul(NEARLY);
        }
        // Other code than glibc's waits for jobs in that call, too.
        if main.may_be_plain_futex() {
            return self.waits < self.jobs;
        }
        !main.is_unknown() && !may_begin_jobs(main)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{name, SLEEP};
    use super::*;
    use crate::trace::activation::Point;

    const MS: u64 = 1_000_000;

    /// `jobs`: response time and the sleep after it, µs.
    fn after(jobs: impl IntoIterator<Item = (u64, u64)>) -> Paused {
        let mut paused = Paused::default();
        for (response, sleep) in jobs {
            paused.finished(Ns(response * 1_000));
            paused.waited(Ns(sleep * 1_000), Ns::ZERO);
        }
        paused
    }

    fn dice() -> impl Iterator<Item = u64> {
        std::iter::successors(Some(7_u64), |dice| {
            Some(dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1))
        })
        .map(|dice| dice >> 33)
    }

    #[test]
    fn a_relative_sleep_is_a_release_only_where_it_makes_up_for_the_job_before_it() {
        let relative = Place::of(Point { operation: 0, ..SLEEP }, name);
        let may_poll = |jobs: Vec<(u64, u64)>| after(jobs).may_poll(&relative, Timed::FromNow);
        let work = |k: u64| if k % 50 == 25 { 4_000 } else { 1_000 };
        let periodic = (0..200).map(|k| (work(k), 10_000 - work(k)));
        assert!(!may_poll(periodic.collect()));
        // Always the same sleep: work, or a spin until the period, the start of which a late sleep moves.
        assert!(may_poll((0..200).map(|k| (work(k), 5_000)).collect()));
        assert!(may_poll(vec![(51_000, 50_000); 200]));
        let spins = dice().take(200).map(|dice| dice % 1_000).collect::<Vec<_>>();
        let spins = spins.windows(2).map(|late| (50_000 - late[0], 50_000 + late[1]));
        assert!(may_poll(spins.collect()));
        // Half of the time until the period, then a spin.
        let works = dice().take(200).map(|dice| 1_000 + dice % 40_000).collect::<Vec<_>>();
        let half = works.windows(2).map(|work| ((100_000 - work[0]) / 2 + work[1], (100_000 - work[1]) / 2));
        assert!(may_poll(half.collect()));
    }

    #[test]
    fn a_wait_for_a_cpu_counts_in_the_window_in_which_its_job_ends() {
        let relative = Place::of(Point { operation: 0, ..SLEEP }, name);
        let mut paused = after([(9_000, 1_000)]);
        paused.waited(Ns(MS), Ns(7));
        paused.begin_window();
        assert_eq!(paused.polls_from(&relative, Timed::No), Some(Ns(7)), "in progress");
        paused.finished(Ns(MS));
        assert_eq!(paused.polls_from(&relative, Timed::No), Some(Ns(7)));
        paused.begin_window();
        assert_eq!(paused.polls_from(&relative, Timed::No), Some(Ns(0)));
    }

    #[test]
    fn nothing_is_released_in_a_page_fault_nor_in_a_mutex() {
        let of = |syscall| Place::of(Point { syscall, ..Point::default() }, name);
        assert!(after([]).may_poll(&of(Point::STOPPED), Timed::No) && after([]).may_poll(&of(-1), Timed::No));
        let sleep = Place::of(SLEEP, name);
        assert!(!after([]).may_poll(&sleep, Timed::Computed) && after([]).may_poll(&sleep, Timed::FromNow));
        let futex =
            |operation| Place::of(Point { syscall: 202, argument: 64, operation, ..Point::default() }, name);
        let busy = after([(9_000, 1_000)]);
        let polls = |paused: &Paused, operation| paused.may_poll(&futex(operation), Timed::No);
        assert!(polls(&busy, 0) && polls(&busy, 6) && !polls(&busy, 9));
        let idle = after([(1_000, 9_000)]);
        assert!(!polls(&idle, 0) && polls(&idle, 6));
        assert_eq!(idle.jobs + idle.waits, Ns(10 * MS));
    }
}
