//! Sleeps until an absolute time that the signal of a timer interrupts: the thread runs the handler and sleeps on. That is not a
//! job. A signal from another thread may be a release.
//!
//! It still counts if it was late or the longest so far (its thread may take signals for releases), or if the time had passed by
//! then, so that the job of that time followed at once.

use super::{CurrentJob, Log};
use crate::series::Quantity;
use crate::time::Ns;
use crate::trace::activation::{Activation, Via};

impl Log {
    /// Whether another timer than that of its call ended its main sleep.
    pub(super) fn is_interrupted(&mut self, a: &Activation) -> bool {
        let by_call = a.via == Via::Timer && a.source == 0;
        // Some kernels do not show whose a timer is.
        self.ended_by_call |= by_call;
        let sleeps = self.main.is_some_and(|main| self.places.get(main).is_absolute_sleep());
        sleeps && a.via == Via::Timer && !by_call && self.ended_by_call
    }

    /// Whether `job`, which took `response`, was only a signal handler.
    pub(super) fn is_no_job(&self, job: &CurrentJob, response: Ns) -> bool {
        let least = [self.due.deadline, self.sums.longest(Quantity::Response)];
        job.is_interrupted
            && job.late.is_none()
            && least.iter().flatten().min().is_some_and(|&of| response <= of)
    }
}
