//! Activations of a thread before its main wait is known.

use super::super::candidates::may_begin_jobs;
use super::super::main_wait::{main_wait, may_be_within};
use super::super::places::Id;
use super::super::point::Class;
use super::{Log, LEARNING};
use crate::trace::activation::Point;

/// Maximum number of buffered activations: during setup (writing files, mapping memory) a thread may wait often.
pub(super) const LONGEST: usize = 16 * LEARNING;

impl Log {
    /// Whether the inferred main wait may start jobs; checked every [`LEARNING`] activations.
    pub(super) fn has_learnt(&mut self, name: fn(Point) -> Option<&'static str>) -> bool {
        let many = self.learning.len();
        if many >= LONGEST || self.chosen.is_some() {
            return true;
        }
        if !many.is_multiple_of(LEARNING) {
            return false;
        }
        let places = self.learnt_places(name);
        main_wait(&self.learning, &places, &self.places, None).is_some_and(|main| {
            let place = self.places.get(main);
            (place.class == Class::Lock || may_begin_jobs(place))
                && !may_be_within(main, &places, &self.places)
        })
    }

    fn learnt_places(&mut self, name: fn(Point) -> Option<&'static str>) -> Vec<Id> {
        let learning = std::mem::take(&mut self.learning);
        let places = learning.iter().map(|one| self.place_of(one, name).0).collect();
        self.learning = learning;
        places
    }

    /// Reports a possible job while the main wait is unknown, so that its evidence is frozen before it is overwritten.
    pub(super) fn perhaps_a_job(&mut self, place: Id, name: fn(Point) -> Option<&'static str>) {
        if self.jobs.is_none() {
            return;
        }
        let places = self.learnt_places(name);
        if main_wait(&self.learning, &places, &self.places, self.chosen.as_deref()) != Some(place) {
            return;
        }
        let before = places[..places.len() - 1].iter().rposition(|one| *one == place);
        let Some(job) = before.and_then(|before| self.learning.get(before + 1..)) else { return };
        if let (Some(jobs), Some(first)) = (&mut self.jobs, job.first()) {
            jobs.provisional(first.begin(), job);
        }
    }
}
