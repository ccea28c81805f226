//! The event that starts a wake-up.
//!
//! `sched_waking` is the decision to wake a thread, `sched_wakeup` its enqueueing on a run queue, later and perhaps on
//! another CPU. The first is the start; in recordings without it (older kernels or configurations), the second is used.

use crate::trace::item::{Item, Span};
use crate::trace::source::Source;

/// Number of events examined: a trace with `sched_waking` has one among the first.
const LOOKED_AT: usize = 100_000;

/// Whether `source` has `sched_wakeup` but not `sched_waking`.
#[must_use]
pub fn is_missing(source: &dyn Source) -> bool {
    let named = |name: &str| -> Vec<u32> {
        let classes = source.catalogue().classes().iter().enumerate();
        classes.filter(|(_, class)| class.name == name).map(|(index, _)| index as u32).collect()
    };
    let (waking, wakeup) = (named("sched_waking"), named("sched_wakeup"));
    if wakeup.is_empty() || waking.is_empty() {
        return waking.is_empty() && !wakeup.is_empty();
    }
    let mut walk = source.events(Span::ALL);
    let mut woken = false;
    for _ in 0..LOOKED_AT {
        match walk.next() {
            Some(Item::Event(record)) if waking.contains(&record.class) => return false,
            Some(Item::Event(record)) => woken |= wakeup.contains(&record.class),
            Some(_) => {}
            None => break,
        }
    }
    woken
}
