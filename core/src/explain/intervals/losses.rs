//! Intervals that are not whole: those that span lost events, those whose start is lost, and those without an end.

use super::paired::MOST_NAMED;
use super::{Begun, FoundInterval, Question, Search};
use crate::time::{Mono, Tid};
use crate::trace::item::Loss;

/// Maximum number of gaps kept; from then on the last one grows.
const MOST_GAPS: usize = 65_536;

/// Times in which events are missing, from the last event before the loss to the first one behind it. A CPU reports a loss
/// when its events continue, so intervals of other CPUs that ended in the gap are found before it.
#[derive(Default)]
pub(super) struct Gaps {
    /// (after, before)
    spans: Vec<(Mono, Mono)>,
}

impl Gaps {
    /// Notes a loss; one whose start is not known marks the intervals that end later ([`Search::lost_until`]).
    pub(super) fn add(&mut self, loss: &Loss) {
        let Some(after) = loss.after else { return };
        let is_full = self.spans.len() >= MOST_GAPS;
        match self.spans.last_mut() {
            Some((from, until)) if is_full || after <= *until && *from <= loss.before => {
                (*from, *until) = ((*from).min(after), (*until).max(loss.before));
            }
            _ => self.spans.push((after, loss.before)),
        }
    }

    /// Marks the intervals that overlap a gap, and returns the number of new marks. Takes n log m.
    pub(super) fn mark(&mut self, intervals: &mut [FoundInterval]) -> u64 {
        self.spans.sort_unstable();
        let latest = self.spans.iter().scan(Mono(0), |latest, &(_, until)| {
            *latest = until.max(*latest);
            Some(*latest)
        });
        let until: Vec<Mono> = latest.collect();
        let mut marks = 0;
        for interval in intervals.iter_mut().filter(|interval| !interval.spans_loss) {
            let begun = self.spans.partition_point(|&(after, _)| after <= interval.end);
            if begun > 0 && until[begun - 1] > interval.begin {
                interval.spans_loss = true;
                marks += 1;
            }
        }
        marks
    }
}

impl Search<'_> {
    /// An end without a start, the first of its thread in the trace or after a loss: the interval started before the trace,
    /// or before or in the loss. `before`: the last end.
    pub(super) fn without_start(&mut self, tid: Tid, before: Option<Mono>, end: Mono) {
        let lost = self.lost_until;
        if lost == Mono(0) && before.is_none() {
            self.begun_before(tid, end);
        }
        if lost == Mono(0) || before.is_some_and(|before| before > lost) || !self.is_selected(tid, lost, end)
        {
            return;
        }
        self.found.begun_in_losses += 1;
        let least = (end.since(lost), end);
        self.found.longest_begun_in_loss = self.found.longest_begun_in_loss.max(Some(least));
    }

    fn begun_before(&mut self, tid: Tid, end: Mono) {
        let Some((first, _)) = self.found.reach.filter(|(first, _)| self.is_selected(tid, *first, end))
        else {
            return;
        };
        let least = end.since(first);
        let is_new = self.switched.get(&tid).is_some_and(|known| known.is_new);
        if !is_new && self.found.longest_begun_before.as_ref().is_none_or(|(known, ..)| *known < least) {
            self.found.longest_begun_before = Some((least, self.name(tid), end));
        }
    }

    /// The thread has ended, so its open interval has no end: the id may be reused.
    pub(super) fn over(&mut self, tid: Tid, at: Mono) {
        if let Some(known) = self.switched.get_mut(&tid) {
            (known.is_off, known.asleep_since) = (false, None);
        }
        if let Question::At(_) = self.question {
            self.by_thread.remove(&tid);
        }
        let by_thread = matches!(self.question, Question::Between { .. } | Question::Syscall(_));
        if let Some(begun) = by_thread.then(|| self.by_thread.remove(&tid)).flatten() {
            self.cut_by_exit(&begun, at);
            self.found.unmatched_begins += 1;
            if self.found.begin_threads.len() < MOST_NAMED {
                let name = self.name(tid);
                self.found.begin_threads.insert(name);
            }
        }
        self.forget_names(tid);
    }

    /// An interval without an end: at `until` its thread exits.
    fn cut_by_exit(&mut self, begun: &Begun, until: Mono) {
        if self.is_asked_for(begun, until) {
            let cut = Some((until.since(begun.at), begun.at));
            self.found.longest_cut_by_exit = self.found.longest_cut_by_exit.max(cut);
        }
    }

    fn is_asked_for(&self, begun: &Begun, until: Mono) -> bool {
        let has_both = matches!(self.question, Question::Between { .. } | Question::Syscall(_));
        has_both && self.is_selected(begun.tid, begun.at, until)
    }

    /// An interval without an end: at `until` another one starts, or the trace ends.
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
