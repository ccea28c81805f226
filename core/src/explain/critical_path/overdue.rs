//! A sleep that something else ended after its time, before the handler of its timer ran.
//!
//! What made the thread wait until then is what kept the timer back, not what woke it.

use super::clauses::AMOUNT;
use super::Walk;
use crate::explain::lateness::{self, Firing};
use crate::explain::segment::{Kind, Segment};
use crate::series::Thread;
use crate::time::{Mono, Tid};
use crate::trace::event::Kind as What;
use crate::trace::window::Overdue;

impl Walk<'_, '_> {
    /// The sleep of `tid` that something else ended at `at`, if that is known to have been over.
    pub(super) fn overdue(&self, tid: Tid, at: Mono) -> Option<Overdue> {
        self.record.window.overdue.iter().copied().find(|one| (one.tid, one.woken) == (tid, at))
    }

    /// The parts of `[a, b)`: the sleep, and the time for which its timer was late.
    pub(super) fn overslept(
        &mut self,
        thread: &Thread,
        (a, b): (Mono, Mono),
        sleep: Overdue,
        reason: &str,
        depth: usize,
    ) -> Vec<Segment> {
        let (due, expires) = (sleep.due.clamp(a, b), sleep.expires.clamp(a, b));
        let mut parts = Vec::new();
        if due > a {
            let clause = format!("{} slept {AMOUNT} as requested{reason}", self.subject(thread, depth));
            let label = format!("{thread} SLEEPS as requested{reason}");
            let advice = "the thread slept as long as it requested";
            parts.push(self.slept(thread, (a, due), (label, clause), advice, &[], depth));
        }
        if expires > due {
            parts.push(self.slack(thread, (due, expires), None, depth));
        }
        if b > expires {
            parts.push(self.held_back(thread, sleep.expires, (expires, b), depth));
        }
        parts
    }

    /// `[due, b)`, in which the handler of the timer did not run.
    fn held_back(&mut self, thread: &Thread, due: Mono, (a, b): (Mono, Mono), depth: usize) -> Segment {
        let subject = self.subject(thread, depth);
        let whole =
            format!("{subject} overslept by {AMOUNT}: its timer had not come when something else woke it");
        let record = self.record;
        let is_it =
            |kind: What| matches!(kind, What::TimerExpireEntry { expires, .. } if expires == Some(due));
        let later = record
            .cpus()
            .filter_map(|cpu| record.events_on(cpu, b, record.until()).find(|(_, event)| is_it(event.kind)));
        let Some(expire) = later.min_by_key(|(_, event)| event.at) else {
            self.say_late(thread, (&[], &[]), b.since(a), whole, depth);
            let label = "timer late, on an unknown CPU: its handler is not recorded".to_owned();
            return Segment::unexplained(Kind::TimerLate, label, a, b.since(a));
        };
        let firing = Firing { waking: expire, handler: expire.1.at, expire: Some(expire) };
        let mut shares = Vec::new();
        let inside = lateness::late(record, thread.tid, a, b, &firing, &mut shares);
        self.say_late(thread, (&shares, &inside), b.since(a), whole, depth);
        self.shares.append(&mut shares);
        let label = "timer late, until something else woke the thread";
        let mut part = Segment::group(Kind::TimerLate, label, a, b.since(a), inside);
        part.evidence.push(record.evidence(expire.0));
        part
    }
}
