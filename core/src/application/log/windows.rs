//! Windows: the figures start anew in each, and the thread goes on.
//!
//! A job counts in the window in which it ends, also if it was released several windows before. The activations of a thread
//! with too few of them to infer its main wait are kept: its jobs may be longer than a window, and so may its period.

use super::super::main_wait::main_wait;
use super::super::part::Part;
use super::super::places::Id;
use super::{Log, FEW};
use crate::trace::activation::Point;

impl Log {
    /// Resets the figures and keeps the state.
    pub fn begin_window(&mut self, name: fn(Point) -> Option<&'static str>) {
        if self.learning.len() >= FEW {
            self.decide(name);
        }
        self.reported = self.learning.len();
        self.trial = None;
        self.later.begin_window(name);
        self.begin_figures_of_window();
        // Drops the places of the previous window, else a thread with ever new places would fill the table.
        let left = self.left.map(|(left, _)| left);
        let part = self.part.as_ref().map(|part| part.place);
        let kept = self.places.forget_but([self.main, left, part]);
        self.part = self.part.take().and_then(|part| Some(Part { place: kept[2]?, ..part }));
        self.main = kept[0];
        self.left = kept[1].zip(self.left).map(|(id, (_, since))| (id, since));
    }

    fn begin_figures_of_window(&mut self) {
        self.sums.had_jobs();
        self.names.begin_window();
        self.begin_figures();
    }

    /// Infers the main wait, and processes the activations so far; those of earlier windows are in no figure.
    pub(super) fn decide(&mut self, name: fn(Point) -> Option<&'static str>) {
        let (learnt, reported) = (std::mem::take(&mut self.learning), std::mem::take(&mut self.reported));
        let places: Vec<Id> = learnt.iter().map(|one| self.place_of(one, name).0).collect();
        self.main = main_wait(&learnt, &places, &self.places, self.chosen.as_deref());
        let mut all = learnt.iter().zip(places);
        all.by_ref().take(reported).for_each(|(one, place)| self.step_learnt(one, place, name));
        if reported > 0 {
            self.begin_figures_of_window();
        }
        all.for_each(|(one, place)| self.step_learnt(one, place, name));
    }

    /// Whether its response times are held to a deadline.
    pub fn has_deadline(&self) -> bool {
        self.due.deadline.is_some() || self.due.is_period
    }

    /// Whether the thread has ended.
    pub fn has_ended(&self) -> bool {
        let last = self.learning.last().or(self.before.as_ref());
        last.is_some_and(|last| last.point.syscall == Point::EXITS)
    }
}
