//! Number of deadline misses and the largest lateness, exact, not from the classes of a histogram.
//!
//! A job that ends in the main wait has a response time, and misses if that exceeds the deadline. A thread that sleeps
//! until absolute times may overrun several releases without blocking: each sleep until a time that has passed ended a
//! job after the next release, which is a miss if the deadline is not longer than the period. So for a thread without a
//! deadline of its own, misses are the overruns, as the application itself counts them.

use crate::time::Ns;
use crate::trace::activation::LateSleeps;

/// Jobs kept until the period is known.
const EARLY: usize = 64;

/// A finished job: from a release to the next block in the main wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Finished {
    /// Response time; `None`: its release or its end was not recorded.
    pub response: Option<Ns>,
    /// Releases it overran without blocking.
    pub late: Option<LateSleeps>,
    /// From the last of these releases to its end.
    pub last: Option<Ns>,
}

impl Finished {
    /// Whether the last overrun time can be the next release. A time within the period of this job is within the job.
    fn asked_for_next(&self, period: Ns) -> bool {
        let asked_after = self.response.zip(self.last).map(|(response, last)| response.saturating_sub(last));
        asked_after.is_none_or(|after| after.0 as f64 >= period.0 as f64 * (1.0 - super::sums::PERIODIC))
    }
}

/// The count so far.
#[derive(Clone, Default)]
pub(super) struct Misses {
    early: Vec<Finished>,
    /// The last overrun release: either the next job, whose sleep ends at once, or a job that did not block.
    open: Option<Ns>,
    count: u64,
    most: Option<Ns>,
}

impl Misses {
    /// A job ended.
    pub fn finished(&mut self, job: Finished, deadline: Option<Ns>, period: Option<Ns>) {
        if period.is_some() || self.early.len() >= EARLY {
            self.judge_early(deadline, period);
            self.judge(job, deadline, period);
        } else {
            self.early.push(job);
        }
        self.open = job.last;
    }

    /// The next release; `asked_late`: the previous job armed its timer after it.
    pub fn released(&mut self, asked_late: bool, deadline: Option<Ns>, period: Option<Ns>) {
        if let Some(last) = self.open.take().filter(|_| !asked_late) {
            let deadline = deadline.or(period);
            deadline.into_iter().for_each(|deadline| self.hold(last, deadline));
        }
    }

    /// Number of misses and largest lateness, with the final period.
    pub fn report(&self, deadline: Option<Ns>, period: Option<Ns>) -> (u64, Option<Ns>) {
        let mut whole = self.clone();
        whole.judge_early(deadline, period);
        (whole.count, whole.most)
    }

    fn judge_early(&mut self, deadline: Option<Ns>, period: Option<Ns>) {
        for job in std::mem::take(&mut self.early) {
            self.judge(job, deadline, period);
        }
    }

    fn judge(&mut self, job: Finished, given: Option<Ns>, period: Option<Ns>) {
        let Some(deadline) = given.or(period) else { return };
        let overrun = job
            .late
            .filter(|_| period.is_some_and(|period| deadline <= period && job.asked_for_next(period)));
        match (overrun, period) {
            (Some(late), Some(period)) => {
                self.count += u64::from(late.count);
                self.most = self.most.max(Some(late.most + period.saturating_sub(deadline)));
            }
            _ => job.response.into_iter().for_each(|response| self.hold(response, deadline)),
        }
    }

    fn hold(&mut self, response: Ns, deadline: Ns) {
        if response > deadline {
            self.count += 1;
            self.most = self.most.max(Some(response.saturating_sub(deadline)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Mono;

    const PERIOD: Option<Ns> = Some(Ns(1_000_000));

    fn overran(most: u64, last: u64) -> Finished {
        let late = LateSleeps { count: 2, last: Mono(5), most: Ns(most) };
        Finished { response: None, late: Some(late), last: Some(Ns(last)) }
    }

    #[test]
    fn a_response_at_the_deadline_is_in_time_and_one_nanosecond_more_is_late() {
        let told = |response| {
            let mut misses = Misses::default();
            let job = Finished { response: Some(Ns(response)), late: None, last: None };
            misses.finished(job, Some(Ns(300_000)), PERIOD);
            misses.report(Some(Ns(300_000)), PERIOD)
        };
        assert_eq!(told(300_000), (0, None));
        assert_eq!(told(300_001), (1, Some(Ns(1))));
    }

    #[test]
    fn a_sleep_until_a_time_that_had_passed_in_the_midst_of_a_job_is_no_overrun() {
        let told = |after: u64| {
            let mut misses = Misses::default();
            let late = LateSleeps { count: 1, last: Mono(after), most: Ns(100_000) };
            let job = Finished {
                response: Some(Ns(1_200_000)),
                late: Some(late),
                last: Some(Ns(1_200_000 - after)),
            };
            misses.finished(job, Some(Ns(1_000_000)), PERIOD);
            misses.finished(
                Finished { response: Some(Ns(1)), late: None, last: None },
                Some(Ns(1_000_000)),
                PERIOD,
            );
            misses.report(Some(Ns(1_000_000)), PERIOD)
        };
        assert_eq!(told(1_000_000), (1, Some(Ns(100_000))));
        assert_eq!(told(50_000), (1, Some(Ns(200_000))), "by its response");
    }

    #[test]
    fn a_turn_that_came_after_the_next_release_is_late_by_what_the_deadline_lies_before_that_too() {
        let mut misses = Misses::default();
        misses.finished(overran(1_498_000, 10), Some(Ns(600_000)), PERIOD);
        assert_eq!(misses.report(Some(Ns(600_000)), PERIOD), (2, Some(Ns(1_498_000 + 400_000))));
    }

    #[test]
    fn the_last_release_that_was_overrun_is_a_turn_of_its_own_unless_it_is_the_next_one() {
        let told = |asked_late| {
            let mut misses = Misses::default();
            misses.finished(overran(500_000, 1_200_000), None, PERIOD);
            misses.released(asked_late, None, PERIOD);
            misses.report(None, PERIOD)
        };
        assert_eq!(told(true), (2, Some(Ns(500_000))));
        assert_eq!(told(false), (3, Some(Ns(500_000))));
    }
}
