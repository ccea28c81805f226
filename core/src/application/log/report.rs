//! The figures of one thread.

use super::super::paused::Timed;
use super::super::task::Task;
use super::{Jobs, Log};
use crate::glob::fits;
use crate::trace::activation::Point;

impl Log {
    /// Its figures, one entry for each deadline that its names had.
    pub fn report(&self, name: fn(Point) -> Option<&'static str>) -> Vec<Task> {
        let with_later = |log: &Log| {
            let mut tasks = log.report_all();
            tasks.extend(log.later.report(name));
            tasks
        };
        if self.main.is_some() {
            return with_later(self);
        }
        let mut decided = self.clone();
        decided.decide(name);
        with_later(&decided)
    }

    pub(super) fn report_decided(&self) -> Task {
        let main = self.main.map(|main| self.places.get(main));
        let is_chosen =
            self.chosen.as_deref().zip(main.as_ref()).is_some_and(|(of, main)| fits(of, &main.name));
        let timed = self.sums.timed();
        let other_start = self.main.filter(|_| !is_chosen && timed != Timed::Computed);
        let other_start =
            other_start.and_then(|main| self.candidates.other_start(main, self.last(), &self.places));
        let mut task = self.sums.report(self.main, &self.places, self.lost_since.is_some());
        if task.activations == 0 {
            task.released_by.extend(self.created_by);
        }
        Task {
            is_chosen,
            polls_from_ns: main.filter(|_| !is_chosen).and_then(|main| self.paused.polls_from(main, timed)),
            rounded_ns: self.rounded,
            off_cpu_ns: self.spinning.may_spin().filter(|_| !is_chosen),
            other_start,
            unfinished: self.unfinished.clone().or_else(|| self.going_on.clone()),
            stopped_ns: self.stopped,
            outside_ns: self.candidates.outside(),
            other_turns: self.candidates.report(&self.places),
            late_causes: self.jobs.as_ref().map(Jobs::causes).unwrap_or_default(),
            several_waits: self.cycles.report(&self.sums.distances()),
            off_period_ns: self.cycles.off_period(self.sums.period_ns()),
            other_end: self.ends.report(&self.places).filter(|_| !is_chosen),
            several_jobs: self.several.report(self.sums.shortest_distance(), self.is_periodic()),
            released_every_ns: task.released_every_ns.filter(|_| !is_chosen),
            ..task
        }
    }
}
