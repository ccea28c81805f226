//! A thread that takes a name with another deadline: its jobs before and after are reported separately, each with the
//! deadline of its time. Otherwise a late job would be forgiven by a later name.

use std::sync::Arc;

use super::super::deadlines::Deadlines;
use super::super::job::{Due, Jobs};
use super::super::task::Task;
use super::Log;
use crate::comm::Comm;
use crate::trace::activation::Activation;

/// Maximum number of earlier figures per thread.
const EARLIER: usize = 8;

/// Names of one thread.
#[derive(Clone, Default)]
pub(super) struct Named {
    pub deadlines: Arc<Deadlines>,
    /// The current one.
    pub comm: Option<Comm>,
    /// That of the last processed activation.
    held_as: Option<Comm>,
    /// Figures under earlier deadlines, oldest first.
    earlier: Vec<Log>,
}

impl Named {
    pub fn begin_window(&mut self) {
        self.earlier.clear();
    }

    pub fn has_earlier_figures(&self) -> bool {
        !self.earlier.is_empty()
    }
}

impl Log {
    /// Notes the name, and the deadlines of names.
    pub fn named(&mut self, activation: &Activation, deadlines: &Arc<Deadlines>) {
        if self.names.comm.replace(activation.thread.comm).is_none() {
            self.names.deadlines = Arc::clone(deadlines);
            self.set_due(deadlines.due(&activation.thread.comm.text()));
        }
    }

    fn set_due(&mut self, due: Due) {
        self.due = due;
        self.sums.set_deadline(due.deadline);
        self.jobs.iter_mut().for_each(|jobs| jobs.set_due(due));
    }

    /// Applies the deadline of the name at the end of `a`. The job in which the name changes counts under the new one, but
    /// may have been a job of the old one: time that is part of no job there.
    pub(super) fn renamed(&mut self, a: &Activation) {
        let comm = a.thread.comm;
        let was = self.names.held_as.replace(comm).unwrap_or(comm);
        let due = if was == comm { self.due } else { self.names.deadlines.due(&comm.text()) };
        if due == self.due {
            return;
        }
        let begin = self.current.map_or(a.begin(), |job| job.begin);
        if !self.sums.is_empty() {
            let mut earlier = self.clone();
            earlier.sums.is_named(was);
            earlier.candidates.unseen(begin, a.blocked);
            // All that is in progress continues under the new name.
            (earlier.current, earlier.part, earlier.names) = (None, None, Named::default());
            earlier.later = super::Later::default();
            self.begin_figures();
            self.names.earlier.push(earlier);
        }
        self.set_due(due);
    }

    /// Resets the figures; all that is in progress continues.
    pub(super) fn begin_figures(&mut self) {
        self.sums.begin_window();
        self.candidates.begin_window();
        self.jobs.iter_mut().for_each(Jobs::begin_window);
        self.cycles.begin_window();
        self.several.begin_window();
        self.ends.begin_window();
        self.paused.begin_window();
        self.spinning.begin_window();
        self.rounded = None;
        self.going_on = None;
        if self.unfinished.take().is_some() {
            self.current = None;
        }
    }

    /// Its figures, the last ones first; `main` is known.
    pub(super) fn report_all(&self) -> Vec<Task> {
        let own = (self.names.earlier.is_empty() || !self.has_no_figures()).then_some(self);
        own.into_iter().chain(self.names.earlier.iter().rev()).map(Log::report_decided).collect()
    }

    /// Removes its oldest figures if there are more than [`EARLIER`].
    pub fn oldest_figures(&mut self) -> Option<Task> {
        let own = (self.names.earlier.len() > EARLIER).then(|| self.names.earlier.remove(0).report_decided());
        own.or_else(|| self.later.log()?.oldest_figures())
    }
}
