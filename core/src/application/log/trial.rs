//! A main wait that shows only after another one was inferred: a thread that sets up its work with many waits of any kind,
//! and then sleeps until computed times.
//!
//! From its first sleep until an absolute time on, the activations are kept beside the state before it. If these sleeps
//! prove to be the main wait, they are processed again from there.

use super::super::main_wait::main_wait;
use super::super::places::Id;
use super::learning::LONGEST;
use super::Log;
use crate::trace::activation::{Activation, Point};

/// Minimum number of sleeps for a decision; then at each power of two.
const FEW: usize = 4;

/// State of a trial.
#[derive(Clone)]
pub(super) struct Trial {
    before: Box<Log>,
    activations: Vec<Activation>,
    sleeps: usize,
}

impl Log {
    /// Processes an activation that blocked in `place`, which may be `fresh`.
    pub(super) fn step_on_trial(
        &mut self,
        activation: &Activation,
        place: Id,
        fresh: bool,
        name: fn(Point) -> Option<&'static str>,
    ) {
        let sleeps = self.places.get(place).is_absolute_sleep();
        let is_new = sleeps && fresh && self.trial.is_none() && self.chosen.is_none();
        if is_new && !self.main.is_some_and(|main| self.places.get(main).is_absolute_sleep()) {
            let before = Box::new(self.clone());
            self.trial = Some(Trial { before, activations: Vec::new(), sleeps: 0 });
        }
        self.step(activation, place, name);
        let Some(trial) = &mut self.trial else { return };
        trial.activations.push(*activation);
        trial.sleeps += usize::from(sleeps);
        let is_due = sleeps && trial.sleeps >= FEW && trial.sleeps.is_power_of_two();
        let is_last = trial.activations.len() >= LONGEST;
        if is_due || is_last {
            self.decide_trial(is_last, name);
        }
    }

    fn decide_trial(&mut self, is_last: bool, name: fn(Point) -> Option<&'static str>) {
        let Some(trial) = self.trial.take() else { return };
        let places: Vec<Id> = trial.activations.iter().map(|one| self.place_of(one, name).0).collect();
        let main = main_wait(&trial.activations, &places, &self.places, None);
        let at = main.filter(|&main| self.places.get(main).is_absolute_sleep());
        let at = at.and_then(|main| places.iter().position(|&place| place == main));
        match at {
            Some(at) => self.begin_again(trial, at, name),
            None => self.trial = Some(trial).filter(|_| !is_last),
        }
    }

    /// Processes the activations of `trial` with the main wait in which the one at `at` blocked.
    fn begin_again(&mut self, trial: Trial, at: usize, name: fn(Point) -> Option<&'static str>) {
        let mut whole = *trial.before;
        whole.end_part(name);
        whole.later = super::Later::default();
        whole.main = trial.activations.get(at).map(|one| whole.place_of(one, name).0);
        // The job in progress by the other main wait is time outside jobs.
        let since = whole.current.take().map(|job| job.begin);
        whole.sums.forget_period();
        whole.cycles.forget();
        whole.ends.forget();
        whole.paused = super::Paused::default();
        whole.candidates.forget(since);
        whole.jobs.iter_mut().for_each(super::Jobs::forget);
        whole.several.keep_runs_of(&self.several);
        whole.ends.keep_requests_of(&self.ends);
        for activation in &trial.activations {
            let (place, _) = whole.place_of(activation, name);
            whole.step(activation, place, name);
        }
        whole.names.comm = self.names.comm;
        whole.wakers = std::mem::take(&mut self.wakers);
        whole.not_mutexes = std::mem::take(&mut self.not_mutexes);
        (whole.created_by, whole.waited_in) = (self.created_by, self.waited_in);
        // A chain has these jobs already.
        whole.finished = self.finished.take();
        *self = whole;
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::tests::{activation, name, SLEEP};
    use super::super::super::Tasks;
    use crate::series::Quantity;
    use crate::time::{Mono, Ns};
    use crate::trace::activation::{Activation, Via};

    const MS: u64 = 1_000_000;

    #[test]
    fn a_sleep_until_computed_times_is_the_main_wait_however_many_waits_come_before_it() {
        const RELATIVE: crate::trace::activation::Point =
            crate::trace::activation::Point { operation: 0, ..SLEEP };
        for setup in [10, 63, 64, 65, 100, 500] {
            let mut tasks = Tasks::new(4, Some(Ns::from_ms(40)), name);
            (1..=setup).for_each(|number| {
                let point = if number == setup { SLEEP } else { RELATIVE };
                tasks.add(&activation(number * MS, Via::Timer, point));
            });
            // Steps of 6 ms with sleeps between them; the first job and the sixth take ten of them.
            for number in 1..=12_u64 {
                let at = (setup + 100 * number) * MS;
                let steps = if number % 5 == 1 { 10 } else { 2 };
                for step in 0..steps {
                    let one = activation(
                        at + step * 6 * MS,
                        Via::Timer,
                        if step + 1 == steps { SLEEP } else { RELATIVE },
                    );
                    tasks.add(&Activation { blocked: Mono(one.switched_in.0 + 5 * MS), ..one });
                }
            }
            let task = tasks.report().remove(0);
            assert_eq!(task.waits_in.as_deref(), Some("clock_nanosleep TIMER_ABSTIME"), "{setup}");
            let response = &task.of(Quantity::Response).unwrap().histogram;
            let longest = response.max().unwrap();
            assert!(
                longest.0.abs_diff(59 * MS) < MS && task.misses == 3,
                "{setup}: {longest}, {}",
                task.misses
            );
        }
    }
}
