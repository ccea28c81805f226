//! From activations to turns: which wait is the main one, and what lay between two of them.
//!
//! The first [`LEARNING`] activations of a thread are only looked at, then gone through again: the main wait is the
//! place where it blocked most often, but a place from which timers woke it wins when it has half as many. A thread
//! that never comes to so many is judged by those it has.

use std::collections::HashMap;

use super::point::Place;
use super::task::{Sums, Task};
use crate::series::Thread;
use crate::time::{Mono, Ns};
use crate::trace::activation::{Activation, Via};

const LEARNING: usize = 64;
/// So many suffice when a window ends; fewer are judged anew in the next one.
const FEW: usize = 8;
/// Distinct places remembered for each thread; what comes later is `other places`.
const PLACES: usize = 32;

/// One thread.
#[derive(Clone)]
pub(super) struct Log {
    learning: Vec<Activation>,
    main: Option<Place>,
    sums: Sums,
    turn: Option<Turn>,
    /// Where and when it blocked last.
    left: Option<(Place, Mono)>,
}

/// A turn that goes on.
#[derive(Clone, Copy)]
struct Turn {
    begin: Mono,
    execution: Ns,
}

impl Log {
    pub fn new(deadline: Option<Ns>) -> Log {
        Log { learning: Vec::new(), main: None, sums: Sums::new(deadline), turn: None, left: None }
    }

    pub fn add(&mut self, activation: &Activation, name: fn(i16) -> Option<&'static str>) {
        if self.main.is_some() {
            self.step(activation, name);
            return;
        }
        self.learning.push(activation.clone());
        if self.learning.len() >= LEARNING {
            self.decide(name);
        }
    }

    /// Counts anew, and goes on with what it knows; false when the thread did nothing since the last call.
    pub fn begin_window(&mut self, name: fn(i16) -> Option<&'static str>) -> bool {
        let active = !self.is_empty();
        if self.learning.len() >= FEW {
            self.decide(name);
        }
        self.learning.clear();
        self.sums.begin_window();
        active
    }

    pub fn is_empty(&self) -> bool {
        self.sums.is_empty() && self.learning.is_empty()
    }

    pub fn report(&self, name: fn(i16) -> Option<&'static str>) -> Task {
        if self.main.is_some() {
            return self.sums.report(self.main.as_ref());
        }
        let mut decided = self.clone();
        decided.decide(name);
        decided.sums.report(decided.main.as_ref())
    }

    fn decide(&mut self, name: fn(i16) -> Option<&'static str>) {
        self.main = main_wait(&self.learning, name);
        for activation in std::mem::take(&mut self.learning) {
            self.step(&activation, name);
        }
    }

    fn step(&mut self, activation: &Activation, name: fn(i16) -> Option<&'static str>) {
        let place = Place::of(activation.point, name);
        let from_main = self.left.as_ref().map(|(left, _)| Some(left) == self.main.as_ref());
        match (&self.left, from_main) {
            (Some(_), Some(true)) => {
                self.turn = Some(Turn { begin: activation.begin(), execution: Ns::ZERO });
                self.sums.released(activation);
            }
            (Some((left, since)), _) => {
                let waited = activation.waking.since(*since);
                let known = self.sums.blocking.len() < PLACES || self.sums.blocking.contains_key(left);
                let left = if known { left.clone() } else { other_places() };
                self.sums.blocked(left, waited, *since, released_by(activation));
            }
            (None, _) => {}
        }
        self.sums.woken(activation);
        if let Some(turn) = &mut self.turn {
            turn.execution = turn.execution + activation.execution;
        }
        if Some(&place) == self.main.as_ref() {
            if let Some(turn) = self.turn.take() {
                self.sums.finished(activation.blocked.since(turn.begin), turn.execution);
            }
        }
        self.left = Some((place, activation.blocked));
    }
}

fn other_places() -> Place {
    Place { class: super::Class::Other, name: "other places".to_owned() }
}

/// Who ended the wait; `None` for a timer or an interrupt.
fn released_by(activation: &Activation) -> Option<Thread> {
    (activation.via == Via::Thread).then(|| activation.waker.clone())
}

fn main_wait(activations: &[Activation], name: fn(i16) -> Option<&'static str>) -> Option<Place> {
    let mut count: HashMap<Place, (usize, usize)> = HashMap::new();
    for (at, activation) in activations.iter().enumerate() {
        let woken_by_timer = activations.get(at + 1).is_some_and(|next| next.via == Via::Timer);
        let (blocked, timed) = count.entry(Place::of(activation.point, name)).or_default();
        *blocked += 1;
        *timed += usize::from(woken_by_timer);
    }
    let most = count.values().map(|&(blocked, _)| blocked).max()?;
    let timed = count.iter().filter(|(_, &(_, timed))| timed > 0 && timed * 2 >= most);
    let timed = timed.max_by_key(|(place, &(_, timed))| (timed, std::cmp::Reverse(place.name.clone())));
    let plain =
        count.iter().max_by_key(|(place, &(blocked, _))| (blocked, std::cmp::Reverse(place.name.clone())));
    timed.or(plain).map(|(place, _)| place.clone())
}
