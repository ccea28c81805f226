//! Threads that wait for a CPU while others are recorded: a window that ends in between includes the wait so far.

use lathunt_core::application::Wait;
use lathunt_core::trace::activation::Activation;

use super::{look, Recording};
use crate::recorder::Starving;

impl Recording {
    /// Threads that were waiting for a CPU at the last two checks ([`Recording::look_again`]), the longest wait first.
    #[must_use]
    pub fn starving(&self) -> &[Starving] {
        &self.starving
    }

    /// Also records threads that have come to match the selection, and finds those that wait for a CPU. Call it once a
    /// second.
    pub fn look_again(&mut self) {
        self.starving = self.recorder.starving(&mut self.pending);
        if self.settings.command.is_none() && self.settings.selection.looks_again() {
            look(&mut self.found, &self.recorder, &self.settings.selection);
        }
    }

    /// Those that were waiting at the last check and still are.
    pub(super) fn waits(&self) -> Vec<Wait> {
        let waits =
            self.starving.iter().filter(|waits| self.recorder.is_pending(waits.thread.tid, waits.since));
        waits.map(|of| Wait { thread: of.thread.clone(), since: of.since, cpu: of.cpu }).collect()
    }

    /// Adds the wait of `a` so far, with what its CPU did meanwhile: who has the CPU at the end may be someone else than who
    /// had it all the time.
    pub(super) fn waited_until_the_end(&mut self, a: &Activation) {
        let is_useful = a.latency() >= self.book.useful_from(a.cpu);
        let evidence = is_useful.then(|| self.recorder.evidence_of_wait(a)).flatten();
        evidence.into_iter().for_each(|frozen| self.book.evidence(frozen));
        self.book.activation(a);
        self.notes.push(format!(
            "{} still waited for CPU {} when recording ended: its latency is the wait until then",
            a.thread.thread(),
            a.cpu
        ));
    }
}
