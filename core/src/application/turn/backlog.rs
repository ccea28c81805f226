//! Jobs that are released while the one before them runs, and that the thread takes up without waiting for them.

use super::super::candidates::may_queue;
use super::super::misses::Finished;
use super::super::places::Id;
use super::super::several::Queue;
use super::super::sums::missing_between;
use super::{Log, Turn, WAKERS};
use crate::time::{Mono, Tid};
use crate::trace::activation::{Activation, Point, Via};

impl Log {
    /// A part of a turn ends where a wait for a timer returned at once.
    pub(super) fn cut(&mut self, cut: &Activation, name: fn(Point) -> Option<&'static str>) {
        let (Some(turn), Some(late)) = (&mut self.turn, cut.late_sleeps) else { return };
        let response = cut.blocked.since(turn.part);
        let execution = std::mem::take(&mut turn.execution) + cut.execution;
        let due = late.last.max(turn.part).min(cut.blocked);
        let begin = std::mem::replace(&mut turn.part, due);
        turn.longest = turn.longest.max(response);
        let of_turn = *turn;
        self.is_over(&of_turn, begin, cut);
        let period = self.sums.period_ns();
        self.cycles.finished(cut.blocked);
        self.jobs.iter_mut().for_each(|jobs| {
            jobs.step(cut, name);
            jobs.ends(begin, cut.blocked, name);
            jobs.begins();
        });
        self.sums.finished(execution, Finished { response: Some(response), late: None, last: None });
        let next = Activation { switched_in: cut.blocked, armed_late: true, via: Via::Timer, ..*cut };
        self.sums.released(&next, due, None);
        self.cycles.released(due, period);
    }

    /// A late turn in which the thread may have taken up another job without waiting for it.
    /// `last`: the activation that ends it.
    pub(super) fn perhaps_several(&mut self, turn: &Turn, last: &Activation, place: Id) {
        let end = last.blocked;
        let response = end.since(turn.begin);
        let Some(deadline) = self.due.deadline.filter(|&deadline| response > deadline) else { return };
        let queues = may_queue(&self.places.get(place));
        let queue = match turn.via {
            _ if !queues => Queue::None,
            Via::Timer => Queue::None,
            Via::Thread => Queue::OfThreads,
            Via::Interrupt => Queue::OfOthers,
        };
        let part = (turn.part > turn.begin).then(|| turn.longest.max(end.since(turn.part)));
        // It armed a timer that had expired by then: its next job may have begun there, without a wait.
        let armed = turn.late.filter(|late| queues && late.count > u16::from(last.at_once));
        let rearmed = armed.map(|late| late.most.max(end.since(late.last)));
        let part = rearmed.map(|certain| part.map_or(certain, |part| part.min(certain))).or(part);
        self.several.late(turn.begin, end, deadline, part, queue);
    }

    /// A thread that wakes it for the first time; at most 16 are known.
    pub(super) fn new_waker(&mut self, activation: &Activation) -> Option<Tid> {
        let tid = activation.waker.tid;
        let other = activation.via == Via::Thread && tid != activation.thread.tid;
        let new = other && self.wakers.len() < WAKERS && !self.wakers.contains(&tid);
        new.then(|| {
            self.wakers.push(tid);
            tid
        })
    }

    /// A thread that releases it was at work.
    pub fn releaser_ran(&mut self, from: Mono, until: Mono) {
        self.several.releaser_ran(from, until);
    }

    /// Since when it may have been at work, until the end of its next activation.
    pub fn at_work_since(&self, next: &Activation) -> Mono {
        let last = self.learning.last().or(self.before.as_ref());
        let unseen = last.filter(|last| missing_between(last, next).0 > 0);
        unseen.map_or(next.switched_in, |last| last.blocked)
    }
}
