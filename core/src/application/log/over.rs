//! Start of jobs, and finished jobs for the chain of their thread.

use super::super::chain::Seen;
use super::super::grid::asked;
use super::{CurrentJob, Log};
use crate::time::{Mono, Ns};
use crate::trace::activation::{Activation, LateSleeps, Via, Who};

impl CurrentJob {
    /// A job released at `begin` by `activation`.
    pub(super) fn released(activation: &Activation, begin: Mono, is_interrupted: bool) -> CurrentJob {
        CurrentJob {
            begin,
            execution: Ns::ZERO,
            late: None,
            via: activation.via,
            by_timerfd: activation.by_timerfd,
            waker: activation.waker.tid,
            waking: activation.waking,
            part: begin,
            longest: Ns::ZERO,
            rested: None,
            alternated: None,
            fed: None,
            locked: None,
            delay: activation.switched_in.since(begin),
            is_interrupted,
            rounded: activation.rounded,
        }
    }
}

impl Log {
    /// Its first activation will be the start of its program.
    pub fn starts(&mut self) {
        self.is_starting = true;
    }

    /// The overruns of a span without a release, except that of the thread's first sleep. That one ends its
    /// initialisation, not a job: many loops first sleep until the time at which they started.
    pub(super) fn without_the_first_sleep(&self, late: LateSleeps) -> Option<LateSleeps> {
        let count = late.count - u16::from(self.is_starting).min(late.count);
        (count > 0).then_some(LateSleeps { count, ..late })
    }

    /// A timer that was armed for a time before the thread was recorded was armed to wake it at once: it is not late.
    pub(super) fn without_kicks(&mut self, a: &Activation) -> Option<Activation> {
        let first = *self.first.get_or_insert(a.begin());
        let at_once = a.armed_after > Ns::ZERO && a.begin().since(first) <= a.armed_after;
        at_once.then_some(Activation { armed_after: Ns::ZERO, ..*a })
    }

    /// Keeps finished jobs for [`Log::take_finished`].
    pub fn ask_for_turns(&mut self, wanted: bool) {
        self.finished = self.finished.take().or(wanted.then(Vec::new));
    }

    /// The name of the thread, and its finished jobs.
    pub fn take_finished(&mut self) -> (String, Vec<Seen>) {
        let comm = self.names.comm.map(|comm| comm.text()).unwrap_or_default();
        let mut finished = self.finished.as_mut().map(std::mem::take).unwrap_or_default();
        // If they prove to be parts of a longer job, that one is added as well.
        let later = self.later.log().map(|log| log.take_finished().1).unwrap_or_default();
        finished.extend(later);
        (comm, finished)
    }

    /// The part of a job released at `begin` ends with `last`.
    pub(super) fn is_over(&mut self, job: &CurrentJob, begin: Mono, last: &Activation) {
        let waker = (job.via == Via::Thread && begin == job.begin).then_some(job.waker);
        let (tid, waking) = (last.thread.tid, job.waking);
        let seen = Seen { tid, waker, waking, begin, end: last.blocked };
        self.finished.iter_mut().for_each(|finished| finished.push(seen));
    }
}

/// The release of a job: for a timer that was armed late, the requested time.
pub(super) fn release(activation: &Activation, late: Option<LateSleeps>) -> Mono {
    asked(activation, late).min(activation.switched_in)
}

/// The thread that ended the wait; `None` for a timer or an interrupt.
pub(super) fn released_by(activation: &Activation) -> Option<Who> {
    (activation.via == Via::Thread).then_some(activation.waker)
}
