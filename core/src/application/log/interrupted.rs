//! Sleeps that the signal of a timer interrupts: the thread runs the handler and sleeps on, until the same time or for what is
//! left. That is not a job. A signal from another thread may be a release.
//!
//! It still counts if it was late or the longest so far (its thread may take signals for releases), or if the time had passed by
//! then, so that the job of that time followed at once.

use super::{CurrentJob, Log};
use crate::series::Quantity;
use crate::time::{Mono, Ns};
use crate::trace::activation::{Activation, Via};

impl Log {
    /// Whether another timer than that of its call ended its main sleep.
    pub(super) fn is_interrupted(&mut self, a: &Activation) -> bool {
        let by_call = a.is_timeout();
        // Some kernels do not show whose a timer is.
        self.ended_by_call |= by_call;
        let sleeps = self
            .main
            .map(|main| self.places.get(main))
            .is_some_and(|main| main.is_absolute_sleep() || main.is_relative_sleep() || main.is_timeout());
        sleeps && a.via == Via::Timer && !by_call && self.ended_by_call
    }

    /// A main wait ended with `a`, for a release at `begin`. A sleep that was interrupted may go on.
    pub(super) fn slept(&mut self, a: &Activation, begin: Mono, is_interrupted: bool) {
        let since = self.slept_from.take().or(self.left.map(|(_, since)| since)).unwrap_or(a.waking);
        if is_interrupted {
            self.slept_from = Some(since);
            return;
        }
        self.paused.waited(begin.since(since), a.switched_in.since(begin));
        self.sums.waited(a, a.waking.since(since));
    }

    /// Whether `job`, which took `response`, was only a signal handler. Otherwise the sleep before it was the wait for it.
    pub(super) fn is_no_job(&mut self, job: &CurrentJob, response: Ns) -> bool {
        let least = [self.due.deadline, self.sums.longest(Quantity::Response)];
        let is_none = job.is_interrupted
            && job.late.is_none()
            && least.iter().flatten().min().is_some_and(|&of| response <= of);
        if let Some(since) = self.slept_from.take_if(|_| !is_none) {
            self.paused.waited(job.begin.since(since), job.delay);
            self.sums.slept(job.begin.since(since));
        }
        is_none
    }
}
