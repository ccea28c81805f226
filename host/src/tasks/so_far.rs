//! Figures of a running set, for a file that survives a kill: counted a second time, from the jobs that the threads pass on,
//! so that the threads' own data are not touched.
//!
//! Not included: jobs that came too fast for the rings (counted as lost), each thread's present job, waits for mutexes, and
//! releases that passed without a job.

use std::path::Path;
use std::sync::Arc;

use lathunt_core::set_run::FiberRun;
use lathunt_core::tasks::jobs::{Figures, Job};
use lathunt_core::tasks::outcome::{Done, Executed};
use lathunt_core::time::{Mono, Ns, Tid};

use super::kernel::short;
use super::ring::Ring;
use super::Options;

/// The first save after one second, then each time a tenth more has passed, at most every ten seconds.
const LEAST: Ns = Ns::from_ms(1_000);
const MOST: Ns = Ns::from_ms(10_000);

/// Figures of all threads.
pub(super) struct SoFar<'o> {
    options: &'o Options,
    fibers: Option<FiberRun>,
    begin: Mono,
    saved: Mono,
    figures: Vec<Figures>,
}

impl SoFar<'_> {
    /// Empty; stays empty if nothing is to be saved. `begin`: the common start.
    pub fn new(begin: Mono, options: &Options, fibers: Option<FiberRun>) -> SoFar<'_> {
        SoFar { options, fibers, begin, saved: begin, figures: Vec::new() }
    }

    /// Counts a job of the thread with this index.
    pub fn count(&mut self, thread: usize, job: &Job) {
        if self.options.save && self.figures.len() <= thread {
            self.figures.resize_with(thread + 1, || Figures::new(self.begin));
        }
        if let Some(figures) = self.figures.get_mut(thread) {
            figures.count(job);
        }
    }

    /// Whether it is time to save; records that.
    pub fn is_due(&mut self, now: Mono) -> bool {
        let is_due = self.options.save && is_due(self.begin, self.saved, now);
        if is_due {
            self.saved = now;
        }
        is_due
    }

    /// The run so far, of the threads with these rings.
    pub fn executed(&self, now: Mono, rings: &[Arc<Ring>]) -> Executed {
        Executed {
            begin: self.begin,
            end: now,
            process: Tid(i32::try_from(std::process::id()).unwrap_or_default()),
            threads: rings.iter().enumerate().map(|(at, ring)| self.thread(at, ring)).collect(),
            speeds: self.options.speeds.each.clone(),
            ns_per_loop: Some(self.options.speeds.ns_per_loop),
            switch: self.options.switch,
            timer_late: None,
            stretch: Vec::new(),
            fibers: self.fibers.clone(),
            fiber_trace: None,
            is_over: false,
        }
    }

    fn thread(&self, at: usize, ring: &Ring) -> Done {
        let status = Path::new("/proc/self/task").join(ring.tid().0.to_string()).join("status");
        let status = std::fs::read(status).unwrap_or_default();
        let status = String::from_utf8_lossy(&status);
        let switches = |line: &str| line.strip_prefix("nonvoluntary_ctxt_switches:")?.trim().parse().ok();
        // The switches of the thread that carries the fibers belong to none of them.
        let preemptions = status.lines().find_map(switches).filter(|_| self.fibers.is_none());
        Done {
            name: ring.name.clone(),
            task: ring.task,
            tid: ring.tid(),
            comm: short(&ring.name),
            rule: ring.rule,
            figures: Some(self.figures.get(at).cloned().unwrap_or_else(|| Figures::new(self.begin))),
            lost: ring.lost(),
            preemptions: preemptions.unwrap_or_default(),
            migrations: None,
            ended: None,
        }
    }
}

fn is_due(begin: Mono, saved: Mono, now: Mono) -> bool {
    now.since(saved) >= Ns(now.since(begin).0 / 10).clamp(LEAST, MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kill_costs_a_tenth_of_the_run_or_ten_seconds() {
        let at = |ms: u64| Mono(5_000_000_000 + ms * 1_000_000);
        let mut saved = vec![0];
        for ms in (0..400_000).step_by(20) {
            if is_due(at(0), at(saved[saved.len() - 1]), at(ms)) {
                saved.push(ms);
            }
        }
        assert_eq!(saved[..4], [0, 1_000, 2_000, 3_000]);
        let gaps = saved.windows(2).map(|pair| (pair[0], pair[1] - pair[0]));
        assert!(gaps.clone().all(|(at, gap)| gap <= (at / 8).clamp(1_000, 10_000)), "{saved:?}");
        assert!(gaps.clone().all(|(at, gap)| gap >= (at / 10).clamp(1_000, 10_000)), "{saved:?}");
    }
}
