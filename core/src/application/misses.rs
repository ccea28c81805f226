//! Deadlines that were missed: how many, and by how much at most. Exact, not by classes of a histogram.
//!
//! A turn that ends in the main wait has a response, and misses when that is after the deadline. A thread that sleeps
//! until absolute times may overrun several of them without blocking: each sleep until a time that had passed ended a turn
//! that came after the release of the next one, which is a miss when the deadline is not after the period. So the count of
//! a thread without a deadline of its own is that of its overruns, as the application counts them itself.

use crate::time::Ns;
use crate::trace::activation::LateSleeps;

/// Turns kept until the period is known.
const EARLY: usize = 64;

/// From a release to the next block in the main wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Finished {
    /// From its release; `None`: that, or how it ended, was not recorded.
    pub response: Option<Ns>,
    /// Releases that it overran without blocking.
    pub late: Option<LateSleeps>,
    /// From the last of these to its end.
    pub last: Option<Ns>,
}

/// The count so far.
#[derive(Clone, Default)]
pub(super) struct Misses {
    early: Vec<Finished>,
    /// The last release that was overrun: it is either the next one, from whose own sleep the thread is woken at once, or a
    /// turn without a block of its own.
    open: Option<Ns>,
    count: u64,
    most: Option<Ns>,
}

impl Misses {
    /// A turn ended.
    pub fn finished(&mut self, turn: Finished, deadline: Option<Ns>, period: Option<Ns>) {
        if period.is_some() || self.early.len() >= EARLY {
            self.judge_early(deadline, period);
            self.judge(turn, deadline, period);
        } else {
            self.early.push(turn);
        }
        self.open = turn.last;
    }

    /// The next release; `asked_late`: it is the one that the turn before asked for when it had passed.
    pub fn released(&mut self, asked_late: bool, deadline: Option<Ns>, period: Option<Ns>) {
        if let Some(last) = self.open.take().filter(|_| !asked_late) {
            let deadline = deadline.or(period);
            deadline.into_iter().for_each(|deadline| self.hold(last, deadline));
        }
    }

    /// Count and largest excess with the period as it is known in the end.
    pub fn report(&self, deadline: Option<Ns>, period: Option<Ns>) -> (u64, Option<Ns>) {
        let mut whole = self.clone();
        whole.judge_early(deadline, period);
        (whole.count, whole.most)
    }

    fn judge_early(&mut self, deadline: Option<Ns>, period: Option<Ns>) {
        for turn in std::mem::take(&mut self.early) {
            self.judge(turn, deadline, period);
        }
    }

    fn judge(&mut self, turn: Finished, given: Option<Ns>, period: Option<Ns>) {
        let Some(deadline) = given.or(period) else { return };
        let overrun = turn.late.filter(|_| period.is_some_and(|period| deadline <= period));
        match (overrun, period) {
            (Some(late), Some(period)) => {
                self.count += u64::from(late.count);
                self.most = self.most.max(Some(late.most + period.saturating_sub(deadline)));
            }
            _ => turn.response.into_iter().for_each(|response| self.hold(response, deadline)),
        }
    }

    fn hold(&mut self, response: Ns, deadline: Ns) {
        if response > deadline {
            self.count += 1;
            self.most = self.most.max(Some(response.saturating_sub(deadline)));
        }
    }
}
