//! Intervals that are not whole: those that span lost events, those whose start is lost, and those without an end.

use super::{Begun, Question, Search};
use crate::time::{Mono, Tid};
use crate::trace::item::Loss;

impl Search<'_> {
    /// Intervals of other CPUs that ended in the gap.
    pub(super) fn lost_meanwhile(&mut self, loss: &Loss) {
        let Some(after) = loss.after else { return };
        let within = self.found.intervals.iter_mut().rev().take_while(|interval| interval.end >= after);
        for interval in within.filter(|interval| !interval.spans_loss && interval.begin < loss.before) {
            interval.spans_loss = true;
            self.found.spanning_losses += 1;
        }
    }

    /// An end without a start, the first of its thread after a loss: the interval started before or in the loss.
    pub(super) fn begun_in_loss(&mut self, tid: Tid, before: Option<Mono>, end: Mono) {
        let lost = self.lost_until;
        if lost == Mono(0) || before.is_some_and(|before| before > lost) || !self.is_selected(tid, lost, end)
        {
            return;
        }
        self.found.begun_in_losses += 1;
        let least = (end.since(lost), end);
        self.found.longest_begun_in_loss = self.found.longest_begun_in_loss.max(Some(least));
    }

    /// The thread has ended, so its open interval has no end: the id may be reused.
    pub(super) fn over(&mut self, tid: Tid, at: Mono) {
        if let Some(known) = self.switched.get_mut(&tid) {
            known.is_off = false;
        }
        let by_thread = matches!(self.question, Question::Between { .. } | Question::Syscall(_));
        if let Some(begun) = by_thread.then(|| self.by_thread.remove(&tid)).flatten() {
            self.cut_by_exit(&begun, at);
            self.found.unmatched_begins += 1;
            if self.found.begin_threads.len() < 8 {
                let name = self.name(tid);
                self.found.begin_threads.insert(name);
            }
        }
        self.forget_names(tid);
    }

    /// An interval between markers without an end: at `until` its thread exits.
    fn cut_by_exit(&mut self, begun: &Begun, until: Mono) {
        if self.is_asked_for(begun, until) {
            let cut = Some((until.since(begun.at), begun.at));
            self.found.longest_cut_by_exit = self.found.longest_cut_by_exit.max(cut);
        }
    }

    fn is_asked_for(&self, begun: &Begun, until: Mono) -> bool {
        matches!(self.question, Question::Between { .. }) && self.is_selected(begun.tid, begun.at, until)
    }

    /// An interval between markers without an end: at `until` another one starts, or the trace ends.
    pub(super) fn unended(&mut self, begun: &Begun, until: Mono) {
        if !self.is_asked_for(begun, until) {
            return;
        }
        let length = until.since(begun.at);
        if self.found.longest_unended.as_ref().is_none_or(|(known, ..)| *known < length) {
            self.found.longest_unended = Some((length, self.name(begun.tid), begun.at));
        }
    }
}
