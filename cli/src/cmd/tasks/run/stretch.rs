//! Keeps the jobs of all threads around the worst one, for a chart. The worst is the one with the largest lateness; without
//! a late one, that which used most of its deadline, or took longest.

use std::collections::VecDeque;

use lathunt_core::set_run::ChartJob;
use lathunt_core::tasks::jobs::Job;
use lathunt_core::time::{Mono, Ns};

/// Maximum number of jobs remembered.
const KEPT: usize = 8_000;
/// Maximum number of jobs in a chart.
const SHOWN: usize = 400;
/// Minimum time before and after the worst job.
const LEAST: Ns = Ns::from_ms(5);
/// Maximum time.
const MOST: Ns = Ns::from_ms(200);

/// The jobs so far.
#[derive(Default)]
pub struct Stretch {
    recent: VecDeque<ChartJob>,
    worst: Option<(Rank, Window)>,
    taken: Vec<ChartJob>,
    open: bool,
}

/// Lateness, share of the deadline in thousandths, response.
type Rank = (u64, u64, u64);

#[derive(Clone, Copy)]
struct Window {
    from: Mono,
    to: Mono,
    middle: Mono,
}

impl Stretch {
    /// Adds a job.
    pub fn job(&mut self, thread: usize, job: &Job) {
        let response = job.response();
        let share = job.deadline.map_or(0, |deadline| response.0.saturating_mul(1_000) / deadline.0.max(1));
        let rank = (job.lateness().unwrap_or_default().0, share, response.0);
        self.recent.push_back(ChartJob {
            thread,
            release: job.release,
            start: job.start,
            end: job.end,
            execution_ns: job.execution,
            deadline_ns: job.deadline,
            finished: job.finished,
        });
        if self.worst.is_none_or(|(known, _)| rank > known) {
            let beside = Ns(response.0).clamp(LEAST, MOST);
            let from = Mono(job.release.0.saturating_sub(beside.0));
            // Of a long job, only its end is shown.
            let from = from.max(Mono(job.end.0.saturating_sub(2 * MOST.0)));
            self.worst = Some((rank, Window { from, to: job.end + beside, middle: job.end }));
            self.open = true;
        } else if self.open && self.worst.is_some_and(|(_, window)| job.release > window.to) {
            self.close();
        }
        if self.recent.len() > KEPT {
            self.recent.pop_front();
        }
    }

    fn close(&mut self) {
        self.open = false;
        let Some((_, window)) = self.worst else { return };
        let inside = |job: &&ChartJob| job.end >= window.from && job.release <= window.to;
        self.taken = self.recent.iter().filter(inside).cloned().collect();
        // The nearest to the end of the worst one first.
        self.taken.sort_by_key(|job| job.end.0.abs_diff(window.middle.0));
        self.taken.truncate(SHOWN);
        self.taken.sort_by_key(|job| (job.release, job.thread));
    }

    /// The jobs, in the order of their release.
    pub fn finish(mut self) -> Vec<ChartJob> {
        if self.open {
            self.close();
        }
        self.taken
    }
}

#[cfg(test)]
mod tests {
    use lathunt_core::time::Cpu;

    use super::*;

    fn job(release_ms: u64, took_ms: u64) -> Job {
        let release = Mono(release_ms * 1_000_000);
        Job {
            release,
            start: Some(release),
            end: release + Ns::from_ms(took_ms),
            execution: Ns::from_ms(took_ms),
            deadline: Some(Ns::from_ms(10)),
            finished: true,
            cpu: Cpu(0),
        }
    }

    #[test]
    fn the_stretch_has_the_worst_job_and_what_was_around_it_of_all_threads() {
        let mut stretch = Stretch::default();
        for nth in 0..2_000 {
            let took = if nth == 700 { 15 } else { 1 };
            stretch.job(0, &job(nth * 20, took));
            stretch.job(1, &job(nth * 20 + 3, 2));
        }
        let jobs = stretch.finish();
        assert!(jobs.len() <= 8 && jobs.iter().any(|job| job.end.since(job.release) == Ns::from_ms(15)));
        let near = |job: &ChartJob| job.release.0.abs_diff(14_000_000_000) <= 40_000_000;
        assert!(jobs.iter().all(near) && jobs.iter().any(|job| job.thread == 1));
    }
}
