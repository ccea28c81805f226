//! Threads that wait for a CPU while others are recorded: a window that ends meanwhile has the wait so far.

use lathunt_core::application::Wait;

use super::{look, Recording};
use crate::recorder::Starving;

impl Recording {
    /// Threads that waited for a CPU at the last two looks ([`Recording::look_again`]), who waits for the longest first.
    #[must_use]
    pub fn starving(&self) -> &[Starving] {
        &self.starving
    }

    /// Threads that came to match the selection since are recorded too, and those are found that wait for a CPU. Call it
    /// once a second.
    pub fn look_again(&mut self) {
        self.starving = self.recorder.starving(&mut self.pending);
        if self.settings.command.is_none() && self.settings.selection.looks_again() {
            look(&mut self.found, &self.recorder, &self.settings.selection);
        }
    }

    /// Those that waited at the last look and still do.
    pub(super) fn waits(&self) -> Vec<Wait> {
        let waits =
            self.starving.iter().filter(|waits| self.recorder.is_pending(waits.thread.tid, waits.since));
        waits.map(|of| Wait { thread: of.thread.clone(), since: of.since, cpu: of.cpu }).collect()
    }
}
