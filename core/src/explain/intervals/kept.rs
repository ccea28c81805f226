//! The intervals that are kept: the worst ones, in bounded memory.

use std::cmp::Reverse;

use super::{Begun, FoundInterval, Question, Search};
use crate::time::Tid;
use crate::trace::event::Event;

/// Maximum number of intervals kept: the worst ones.
pub const MOST: usize = 100_000;

impl Search<'_> {
    pub(super) fn keep(&mut self, begun: Begun, tid: Tid, event: &Event) {
        self.keep_until(begun, tid, event, false);
    }

    /// `unfinished`: `event` is only the end of the trace.
    pub(super) fn keep_until(&mut self, begun: Begun, tid: Tid, event: &Event, unfinished: bool) {
        if tid == Tid::IDLE {
            if matches!(self.question, Question::Between { .. }) && !unfinished {
                self.found.of_idle += 1;
                let one = (event.at.since(begun.at), event.cpu, event.at);
                self.found.longest_of_idle = self.found.longest_of_idle.max(Some(one));
            }
            return;
        }
        let interval = FoundInterval {
            tid,
            comm: self.comm(tid),
            begun_by: (begun.tid != tid).then_some(begun.tid),
            key: begun.key,
            cpu: event.cpu,
            begin: begun.at,
            end: event.at.max(begun.at),
            spans_loss: begun.at < self.lost_until,
            unfinished,
        };
        match &self.whose.comm {
            Some(_) if self.whose.tid.is_none_or(|wanted| wanted == tid) => self.keep_by_name(interval),
            Some(_) => {}
            None if self.whose.fits(tid, &interval.comm) => self.accept(interval),
            None => {}
        }
    }

    pub(super) fn accept(&mut self, interval: FoundInterval) {
        self.found.count += 1;
        self.found.spanning_losses += u64::from(interval.spans_loss);
        self.found.unfinished += u64::from(interval.unfinished);
        self.found.intervals.push(interval);
        if self.found.intervals.len() >= MOST + MOST / 16 {
            self.drop_shortest();
        }
    }

    /// Names may be known only later than the interval.
    pub(super) fn name_kept(&mut self) {
        let mut intervals = std::mem::take(&mut self.found.intervals);
        for interval in intervals.iter_mut().filter(|interval| interval.comm.is_empty()) {
            interval.comm = self.comm(interval.tid);
        }
        self.found.intervals = intervals;
    }

    /// Keeps the worst intervals, those that overlap a loss last.
    pub(super) fn drop_shortest(&mut self) {
        let intervals = &mut self.found.intervals;
        self.found.spanning_losses += self.gaps.mark(intervals);
        intervals.sort_by_key(|interval| (interval.spans_loss, Reverse(interval.total()), interval.begin));
        intervals.truncate(MOST);
    }
}
