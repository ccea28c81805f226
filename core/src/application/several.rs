//! Late turns that may be several jobs, each of them in time.
//!
//! A semaphore, a pipe or a socket may hold another job when the thread comes back to it: then it does not block, and its two
//! jobs look like one. No event tells of the second one's release. But whoever releases the thread must have been at work
//! for it: the last job of a turn was released at the latest when a releaser ran for the last time before its end. So
//! a job from then on is certain, and a turn is late for certain when that one is. Where no releaser is known (an interrupt),
//! a turn is taken for one job that is not longer than the shortest distance of two releases.
//!
//! Of a timer's jobs more is known: each part between waits that returned at once (`part`) has its own response time.

use std::collections::VecDeque;

use super::task::SeveralJobs;
use crate::time::{Mono, Ns};

/// Late turns that are kept until more is known.
const KEPT: usize = 64;
/// Times at which releasers were at work.
const RUNS: usize = 256;

/// Of one thread.
#[derive(Clone, Default)]
pub(super) struct Several {
    /// When releasers were at work, in the order of their ends.
    ran: VecDeque<(Mono, Mono)>,
    turns: VecDeque<Late>,
    sum: Option<SeveralJobs>,
}

#[derive(Clone, Copy)]
struct Late {
    begin: Mono,
    end: Mono,
    deadline: Ns,
    part: Option<Ns>,
    queue: Queue,
}

/// What a thread may find where it waits for its jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queue {
    /// Nothing that it is not woken for.
    None,
    /// What threads put there.
    OfThreads,
    /// What an interrupt may have put there.
    OfOthers,
}

impl Several {
    pub fn begin_window(&mut self) {
        (self.turns, self.sum) = (VecDeque::new(), None);
    }

    /// A thread that releases this one was at work.
    pub fn releaser_ran(&mut self, from: Mono, until: Mono) {
        if self.ran.len() == RUNS {
            self.ran.pop_front();
        }
        self.ran.push_back((from, until));
    }

    /// A turn was later than `deadline`; `part`: its longest part, if it has several.
    pub fn late(&mut self, begin: Mono, end: Mono, deadline: Ns, part: Option<Ns>, queue: Queue) {
        if self.turns.len() == KEPT {
            self.fold_first(None);
        }
        self.turns.push_back(Late { begin, end, deadline, part, queue });
    }

    /// `shortest`: distance of two releases, if enough are known.
    pub fn report(&self, shortest: Option<Ns>) -> Option<SeveralJobs> {
        let mut whole = self.clone();
        while !whole.turns.is_empty() {
            whole.fold_first(shortest);
        }
        whole.sum.filter(|sum| sum.turns > 0)
    }

    fn fold_first(&mut self, shortest: Option<Ns>) {
        let Some(turn) = self.turns.pop_front() else { return };
        let (all, certain) = (turn.end.since(turn.begin), self.certain(&turn, shortest));
        let sum = self.sum.get_or_insert(SeveralJobs {
            turns: 0,
            longest_ns: Ns::ZERO,
            certain_ns: Ns::ZERO,
            late: 0,
        });
        sum.late += 1;
        sum.certain_ns = sum.certain_ns.max(certain);
        if certain <= turn.deadline {
            sum.turns += 1;
            sum.longest_ns = sum.longest_ns.max(all);
        }
    }

    /// What one job of the turn took at least.
    fn certain(&self, turn: &Late, shortest: Option<Ns>) -> Ns {
        let all = turn.end.since(turn.begin);
        let by_timer = turn.part.unwrap_or(all);
        let by_others = match turn.queue {
            Queue::None => all,
            Queue::OfThreads => turn.end.since(self.last_release(turn)),
            Queue::OfOthers if shortest.is_some_and(|shortest| all <= shortest) => all,
            Queue::OfOthers => Ns::ZERO,
        };
        by_timer.min(by_others)
    }

    /// When the last job of `turn` was released at the latest.
    fn last_release(&self, turn: &Late) -> Mono {
        let forgotten =
            self.ran.len() == RUNS && self.ran.front().is_some_and(|&(_, until)| until > turn.end);
        if forgotten {
            return turn.end;
        }
        let runs = self.ran.iter().filter(|(from, _)| *from < turn.end);
        runs.map(|&(_, until)| until.min(turn.end)).max().unwrap_or(turn.begin).max(turn.begin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn told(ran: &[(u64, u64)], queue: Queue, shortest: Option<Ns>) -> Option<SeveralJobs> {
        let mut several = Several::default();
        several.late(Mono(100 * MS), Mono(142 * MS), Ns::from_ms(40), None, queue);
        ran.iter().for_each(|&(from, until)| several.releaser_ran(Mono(from * MS), Mono(until * MS)));
        several.report(shortest)
    }

    #[test]
    fn a_late_turn_is_one_job_where_nobody_released_another() {
        let of = |ran: &[(u64, u64)]| told(ran, Queue::OfThreads, None);
        assert_eq!(of(&[(99, 101), (150, 151)]), None, "41 ms from the last release");
        assert_eq!(of(&[]), None);
        let doubt = SeveralJobs { turns: 1, longest_ns: Ns(42 * MS), certain_ns: Ns(21 * MS), late: 1 };
        assert_eq!(of(&[(99, 101), (120, 121)]), Some(doubt));
        let at_work = of(&[(130, 200)]).unwrap();
        assert_eq!((at_work.turns, at_work.certain_ns), (1, Ns::ZERO), "until its end, and on");
    }

    #[test]
    fn an_interrupt_may_release_several_jobs_unless_it_never_came_so_soon() {
        let of = |shortest| told(&[], Queue::OfOthers, shortest);
        assert!(of(None).is_some() && of(Some(Ns(41 * MS))).is_some());
        assert_eq!(of(Some(Ns(42 * MS))), None);
        assert_eq!(told(&[], Queue::None, None), None);
    }

    #[test]
    fn what_is_not_known_any_more_is_a_doubt() {
        let mut several = Several::default();
        several.late(Mono(100), Mono(142), Ns(40), None, Queue::OfThreads);
        (0..RUNS as u64).for_each(|at| several.releaser_ran(Mono(200 + at), Mono(200 + at)));
        assert_eq!(several.report(None).unwrap().turns, 1);
        let mut many = Several::default();
        (0..200).for_each(|k| many.late(Mono(k * 100), Mono(k * 100 + 42), Ns(40), None, Queue::None));
        assert_eq!(many.report(None), None, "all are certain");
        many.late(Mono(0), Mono(42), Ns(40), None, Queue::OfOthers);
        let told = many.report(None).unwrap();
        assert_eq!((told.turns, told.late, told.certain_ns), (1, 201, Ns(42)));
    }
}
