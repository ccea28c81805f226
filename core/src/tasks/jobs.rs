//! Counts the jobs of a thread exactly, without loss.
//!
//! A job counts from its nominal release, even if its thread was woken late. A job that has not ended (or started) by
//! the end of the run counts with its response time so far, so that a backlog is included.

use crate::histogram::{Histogram, Layout};
use crate::series::SecondMax;
use crate::set_run::{Blocked, Extent};
use crate::time::{Cpu, Mono, Ns};

/// One job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// Nominal release.
    pub release: Mono,
    /// First instruction; `None`: it never started.
    pub start: Option<Mono>,
    /// Its end, or when the run ended.
    pub end: Mono,
    /// CPU time it used.
    pub execution: Ns,
    /// Relative deadline.
    pub deadline: Option<Ns>,
    /// Whether it ended.
    pub finished: bool,
    /// CPU on which it ended.
    pub cpu: Cpu,
}

impl Job {
    /// From the nominal release to the end.
    #[must_use]
    pub fn response(&self) -> Ns {
        self.end.since(self.release)
    }

    /// Its lateness.
    #[must_use]
    pub fn lateness(&self) -> Option<Ns> {
        let late = self.deadline.map(|deadline| self.response().saturating_sub(deadline));
        late.filter(|late| *late > Ns::ZERO)
    }
}

/// Statistics of a duration.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    count: u64,
    total: u64,
    min: u64,
    max: u64,
}

impl Sum {
    fn add(&mut self, time: Ns) {
        self.min = if self.count == 0 { time.0 } else { self.min.min(time.0) };
        self.max = self.max.max(time.0);
        self.count += 1;
        self.total = self.total.saturating_add(time.0);
    }

    fn extent(&self) -> Option<Extent> {
        let mean = self.total.checked_div(self.count)?;
        Some(Extent { min_ns: Ns(self.min), mean_ns: Ns(mean), max_ns: Ns(self.max) })
    }
}

/// Seconds whose maxima are kept before they are compacted.
const SECONDS: usize = 4_000;

/// Statistics of a thread's jobs. [`Figures::count`] allocates only for the maxima of each second, once an hour.
#[derive(Clone, Debug)]
pub struct Figures {
    begin: Mono,
    /// Response times of all jobs.
    pub response: Histogram,
    /// The largest response time of each second since the common start.
    pub seconds: Vec<SecondMax>,
    /// Ended jobs.
    pub finished: u64,
    /// Jobs that never started.
    pub not_started: u64,
    /// Late jobs.
    pub misses: u64,
    /// Releases without a job.
    pub missed_releases: u64,
    /// Minimum slack.
    pub slack_min: Option<i64>,
    /// The job with the longest response time.
    pub worst: Option<Job>,
    /// Waits for mutexes.
    pub blocked: Blocked,
    release: Sum,
    execution: Sum,
    ended: Sum,
}

impl Figures {
    /// None yet. `begin`: the common start.
    #[must_use]
    pub fn new(begin: Mono) -> Figures {
        Figures {
            begin,
            response: Histogram::new(Layout::LATENCY),
            seconds: Vec::with_capacity(SECONDS + 1),
            finished: 0,
            not_started: 0,
            misses: 0,
            missed_releases: 0,
            slack_min: None,
            worst: None,
            blocked: Blocked::default(),
            release: Sum::default(),
            execution: Sum::default(),
            ended: Sum::default(),
        }
    }

    /// Counts a job.
    pub fn count(&mut self, job: &Job) {
        let response = job.response();
        if self.worst.is_none_or(|worst| response > worst.response()) {
            self.worst = Some(*job);
        }
        self.response.record(response);
        self.second(job.end, response);
        match (job.finished, job.start) {
            (true, _) => {
                self.finished += 1;
                self.execution.add(job.execution);
                self.ended.add(response);
            }
            (false, None) => self.not_started += 1,
            (false, Some(_)) => {}
        }
        if let Some(start) = job.start {
            self.release.add(start.since(job.release));
        }
        if let Some(deadline) = job.deadline {
            let whole = |time: Ns| i64::try_from(time.0).unwrap_or(i64::MAX);
            let slack = whole(deadline).saturating_sub(whole(response));
            // The slack of an unfinished job is not yet known.
            if job.finished || slack < 0 {
                self.slack_min = Some(self.slack_min.map_or(slack, |known| known.min(slack)));
            }
            self.misses += u64::from(job.lateness().is_some());
        }
    }

    fn second(&mut self, at: Mono, response: Ns) {
        let second = u32::try_from(at.since(self.begin).0 / 1_000_000_000).unwrap_or(u32::MAX);
        match self.seconds.last_mut().filter(|last| last.second >= second) {
            Some(last) => last.max_ns = last.max_ns.max(response),
            None => self.seconds.push(SecondMax { second, max_ns: response }),
        }
        if self.seconds.len() > SECONDS {
            crate::series::compact_seconds(&mut self.seconds);
        }
    }

    /// Counts a wait for a mutex.
    pub fn blocked(&mut self, time: Ns) {
        self.blocked.count += 1;
        self.blocked.total_ns = self.blocked.total_ns + time;
        self.blocked.max_ns = self.blocked.max_ns.max(time);
    }

    /// Jobs that were released.
    #[must_use]
    pub fn jobs(&self) -> u64 {
        self.response.count()
    }

    /// From release to first instruction.
    #[must_use]
    pub fn release(&self) -> Option<Extent> {
        self.release.extent()
    }

    /// CPU time of ended jobs.
    #[must_use]
    pub fn execution(&self) -> Option<Extent> {
        self.execution.extent()
    }

    /// Longest minus shortest response time of ended jobs.
    #[must_use]
    pub fn end_jitter(&self) -> Option<Ns> {
        self.ended.extent().map(|ended| ended.max_ns.saturating_sub(ended.min_ns))
    }

    /// The largest lateness.
    #[must_use]
    pub fn lateness_max(&self) -> Option<Ns> {
        self.slack_min.filter(|slack| *slack < 0).map(|slack| Ns(slack.unsigned_abs()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(release_us: u64, end_us: u64, finished: bool) -> Job {
        Job {
            release: Mono(release_us * 1_000),
            start: Some(Mono(release_us * 1_000 + 5_000)),
            end: Mono(end_us * 1_000),
            execution: Ns::from_us(10),
            deadline: Some(Ns::from_us(100)),
            finished,
            cpu: Cpu(0),
        }
    }

    #[test]
    fn a_job_that_goes_on_counts_with_what_it_took_and_a_backlog_is_as_late_as_it_is() {
        let mut figures = Figures::new(Mono(0));
        figures.count(&job(0, 40, true));
        figures.count(&job(100, 200, true));
        figures.count(&job(200, 350, false));
        figures.count(&Job { start: None, execution: Ns::ZERO, ..job(300, 350, false) });
        assert_eq!((figures.jobs(), figures.finished, figures.not_started, figures.misses), (4, 2, 1, 1));
        assert_eq!(figures.worst.unwrap().response(), Ns::from_us(150));
        assert_eq!((figures.slack_min, figures.lateness_max()), (Some(-50_000), Some(Ns::from_us(50))));
        assert_eq!(figures.end_jitter(), Some(Ns::from_us(60)), "unfinished jobs have no end");
        assert_eq!(figures.release().unwrap().max_ns, Ns::from_us(5));
    }

    #[test]
    fn a_response_equal_to_the_deadline_is_in_time_and_no_slack_comes_from_a_job_that_goes_on() {
        let mut figures = Figures::new(Mono(0));
        figures.count(&job(0, 30, false));
        assert_eq!((figures.slack_min, figures.lateness_max()), (None, None));
        figures.count(&job(100, 200, true));
        assert_eq!((figures.misses, figures.slack_min), (0, Some(0)));
    }

    #[test]
    fn seconds_keep_the_largest_of_each() {
        let mut figures = Figures::new(Mono(0));
        let second = 1_000_000;
        for (release, took) in [(0, 5), (10, 9), (second, 7), (3 * second, 1), (3 * second + 1, 2)] {
            figures.count(&job(release, release + took, true));
        }
        let kept: Vec<_> = figures.seconds.iter().map(|one| (one.second, one.max_ns.0 / 1_000)).collect();
        assert_eq!(kept, [(0, 9), (1, 7), (3, 2)]);
    }
}
