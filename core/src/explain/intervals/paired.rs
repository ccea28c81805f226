//! Intervals between markers: start and end are paired by thread, or by a value.

use super::{Begun, Found, Question, Search};
use crate::explain::markers::Matcher;
use crate::time::Tid;
use crate::trace::event::Event;
use crate::trace::item::Record;
use crate::trace::source::Source;

/// Number of threads named whose start or end markers have no counterpart.
pub(super) const MOST_NAMED: usize = 8;

/// The markers of the start and of the end, if the query has any; those that no event can match are noted in `found`.
pub(super) fn matchers<'s>(
    source: &'s dyn Source,
    question: &'s Question,
    found: &mut Found,
) -> Option<(Matcher<'s>, Matcher<'s>)> {
    let Question::Between { from, to, pair } = question else { return None };
    let make = |marker| Matcher::new(marker, pair.as_deref().or(Some("arg0")), source);
    let both = (make(from), make(to));
    for (matcher, marker) in [(&both.0, from), (&both.1, to)] {
        if !matcher.is_possible() {
            found.impossible.push(marker.to_string());
        }
    }
    Some(both)
}

impl Search<'_> {
    /// Takes `event` as an end, then as a start, if it matches these markers. False: the query has no markers.
    pub(super) fn marked(&mut self, record: &Record<'_>, event: &Event) -> bool {
        let (Some((from, to)), Some(class)) = (&self.matchers, self.source.class(record)) else {
            return false;
        };
        let ends = to.matches(record, event, class, &self.normalizer);
        let begins = from.matches(record, event, class, &self.normalizer);
        if let Some(key) = ends {
            self.end(event, key);
        }
        if let Some(key) = begins {
            self.begin(event, key);
        }
        true
    }

    /// A start marker, on the thread of `event`.
    fn begin(&mut self, event: &Event, key: Option<String>) {
        let Some(tid) = event.current else { return };
        let begun = Begun::new(event.at, tid, key.clone());
        let earlier = match (&self.question, key) {
            (Question::Between { pair: Some(_), .. }, Some(key)) => self.by_key.insert(key, begun),
            (Question::Between { pair: Some(_), .. }, None) => Some(begun),
            _ => self.by_thread.insert(paired_as(event, tid), begun),
        };
        earlier.iter().for_each(|earlier| self.unended(earlier, event.at));
        self.found.unmatched_begins += u64::from(earlier.is_some());
    }

    /// An end marker, on the thread of `event`.
    fn end(&mut self, event: &Event, key: Option<String>) {
        let Some(tid) = event.current else { return };
        let begun = match (&self.question, &key) {
            (Question::Between { pair: Some(_), .. }, Some(key)) => self.by_key.remove(key),
            (Question::Between { pair: Some(_), .. }, None) => None,
            _ => self.by_thread.remove(&paired_as(event, tid)),
        };
        let before = self.ended.insert(tid, event.at);
        match begun {
            Some(begun) => self.keep(begun, tid, event),
            None => {
                self.found.unmatched_ends += 1;
                self.without_start(tid, before, event.at);
                let name = self.name(tid);
                if self.found.end_threads.len() < MOST_NAMED {
                    self.found.end_threads.insert(name);
                }
            }
        }
    }
}

/// The idle task is one on each CPU.
fn paired_as(event: &Event, tid: Tid) -> Tid {
    match tid {
        Tid::IDLE => Tid(-1 - i32::try_from(event.cpu.0).unwrap_or(i32::MAX - 1)),
        tid => tid,
    }
}
