//! Another main wait after the last one: a program that changes how it waits in the middle of its run.
//!
//! Once a thread has waited more than twice as often as in any job before without reaching its main wait, its activations since
//! then are also split into jobs by a main wait of their own, as of a thread that was recorded from there. If it returns to its
//! first main wait, all that was one job, and these figures are dropped. Otherwise they are reported beside those of the first
//! main wait, for which the time since its last wait stays outside any job: whether that wait will come again is not known.

use super::super::job::{Job, Standing};
use super::super::places::Id;
use super::super::task::Task;
use super::learning::LONGEST;
use super::{Log, FEW, LEARNING};
use crate::series::Quantity;
use crate::time::{Mono, Ns, Tid};
use crate::trace::activation::{Activation, Point};

/// Maximum number of jobs kept until it is known that they are jobs, the longest ones.
const JOBS: usize = 8;

/// Activations since the last main wait.
#[derive(Clone, Default)]
pub(super) struct Later {
    kept: Vec<Activation>,
    count: usize,
    /// The largest number in any job.
    most: usize,
    log: Option<Box<Log>>,
    jobs: Vec<Job>,
    /// It had figures of its own in an earlier window.
    is_known: bool,
}

impl Later {
    pub fn begin_window(&mut self, name: fn(Point) -> Option<&'static str>) {
        self.is_known = !self.report(name).is_empty();
        self.jobs.clear();
        if let Some(log) = &mut self.log {
            log.begin_window(name);
        }
    }

    /// The log of the other main wait.
    pub fn log(&mut self) -> Option<&mut Log> {
        self.log.as_deref_mut()
    }

    /// Its figures. Wake-ups are in those of the first main wait.
    pub fn report(&self, name: fn(Point) -> Option<&'static str>) -> Vec<Task> {
        let mut tasks = self.log.as_ref().map(|log| log.report(name)).unwrap_or_default();
        tasks.retain(|task| self.is_known || task.activations >= FEW as u64);
        for task in &mut tasks {
            task.series.retain(|series| series.quantity == Quantity::Response);
            (task.preemptions, task.page_faults, task.faulting) = (0, 0, None);
        }
        tasks
    }

    /// Jobs that have ended, whose limits may change: if the thread returns to its first main wait, they were parts of one.
    pub fn take_jobs(&mut self) -> Vec<Job> {
        let mut ended = self.log.as_mut().map(|log| log.take_jobs()).unwrap_or_default();
        let final_ones = ended.iter_mut().filter(|job| !job.is_provisional());
        for job in final_ones {
            self.jobs.push(Job { standing: Standing::Settled, ..job.clone() });
            job.standing = Standing::AtLeast;
        }
        self.jobs.sort_by_key(|job| std::cmp::Reverse(job.total()));
        self.jobs.truncate(JOBS);
        ended
    }

    /// The longest jobs, once the recording or the window ends without another wait in the first main wait.
    pub fn take_all_jobs(&mut self) -> Vec<Job> {
        let mut jobs = self.take_jobs();
        jobs.append(&mut self.jobs);
        let of_next = self.log.as_mut().map(|log| log.later.take_all_jobs());
        jobs.extend(of_next.unwrap_or_default());
        jobs
    }
}

impl Log {
    /// Processes an activation from before the main wait was known.
    pub(super) fn step_learnt(&mut self, a: &Activation, place: Id, name: fn(Point) -> Option<&'static str>) {
        self.step(a, place, name);
        self.add_later(a, place, name);
    }

    /// Adds an activation that blocked in `place`.
    pub(super) fn add_later(&mut self, a: &Activation, place: Id, name: fn(Point) -> Option<&'static str>) {
        if self.chosen.is_some() {
            return;
        }
        let later = &mut self.later;
        later.count += 1;
        if Some(place) == self.main {
            *later = Later { most: later.most.max(later.count), ..Later::default() };
            return;
        }
        if let Some(log) = &mut later.log {
            log.add(a, name);
            return;
        }
        let enough = LEARNING.max(later.most.saturating_mul(2));
        if later.count > enough || enough > LONGEST {
            return;
        }
        later.kept.push(*a);
        if later.count == enough {
            let kept = std::mem::take(&mut later.kept);
            self.later.log = Some(Box::new(self.later_log(&kept, name)));
        }
    }

    fn later_log(&self, kept: &[Activation], name: fn(Point) -> Option<&'static str>) -> Log {
        let mut log = Log::new(None, None);
        kept.iter().take(1).for_each(|first| log.named(first, &self.names.deadlines));
        log.ask_for_jobs(self.jobs.as_ref().map(|jobs| jobs.least));
        log.ask_for_turns(self.finished.is_some());
        log.several.keep_runs_of(&self.several);
        log.ends.keep_requests_of(&self.ends);
        log.wakers.clone_from(&self.wakers);
        log.answering.clone_from(&self.answering);
        log.not_mutexes.clone_from(&self.not_mutexes);
        log.created_by = self.created_by;
        for one in kept {
            log.add(one, name);
        }
        log
    }

    /// The recording ends at `end`: the last job of the first main wait has no known end if the thread waits elsewhere since.
    pub(super) fn end_later(
        &mut self,
        end: Mono,
        name: fn(Point) -> Option<&'static str>,
        blocks: Option<u16>,
    ) {
        let Some(log) = &mut self.later.log else { return };
        log.end(end, name, || blocks);
        if !self.later.report(name).is_empty() {
            self.unfinished.take().into_iter().for_each(|last| self.candidates.unseen(last.since, end));
        }
    }

    /// A thread that releases it ran.
    pub fn releaser_ran(&mut self, from: Mono, until: Mono) {
        self.several.releaser_ran(from, until);
        self.later.log().into_iter().for_each(|log| log.releaser_ran(from, until));
    }

    /// Requests jobs longer than `least`, and the longest; `None`: none.
    pub fn ask_for_jobs(&mut self, least: Option<Ns>) {
        if let Some(least) = least {
            self.jobs.get_or_insert_with(|| super::Jobs::new(self.due)).least = least;
        }
        self.later.log().into_iter().for_each(|log| log.ask_for_jobs(least));
    }

    /// The requested jobs that ended.
    pub fn take_jobs(&mut self) -> Vec<Job> {
        let mut jobs = self.jobs.as_mut().map(super::Jobs::take).unwrap_or_default();
        jobs.extend(self.later.take_jobs());
        jobs
    }

    /// The requested jobs, at the end of the recording or of a window.
    pub fn take_last_jobs(&mut self) -> Vec<Job> {
        let mut jobs = self.take_jobs();
        jobs.extend(self.later.take_all_jobs());
        jobs
    }

    /// `other` wakes this thread and works for it ([`Log::answering`]).
    pub fn is_answered_by(&mut self, other: Tid) {
        if self.answering.len() < super::WAKERS && !self.answering.contains(&other) {
            self.answering.push(other);
        }
        self.later.log().into_iter().for_each(|log| log.is_answered_by(other));
    }

    /// It asks `others`, too.
    pub fn also_asks(&mut self, others: &[Tid]) {
        self.ends.also_asks(others);
        self.later.log().into_iter().for_each(|log| log.also_asks(others));
    }
}
