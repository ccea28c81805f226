//! PI-boosted priority of a running thread: `sched_pi_setprio` is recorded on the CPU of the waiter.
//!
//! Not here: priorities it set itself (only its switch-out shows them), and the effect of a boost
//! ([`super::critical_path`]).

use super::cpu::{Context, Slice};
use super::record::Record;
use crate::time::{Mono, Prio, Tid};
use crate::trace::event::{Event, Kind};

/// `slices`, split where the running thread is boosted or loses a boost.
pub fn split(record: &Record, slices: &[Slice]) -> Vec<Slice> {
    let mut pieces = Vec::with_capacity(slices.len());
    for slice in slices {
        let mut rest = *slice;
        if let Some(tid) = borrower(record, slice) {
            for at in changes(record, tid, slice.begin, slice.end) {
                if rest.begin < at && at < rest.end {
                    pieces.push(Slice { end: at, faults: 0, ..rest });
                    rest.begin = at;
                }
            }
        }
        pieces.push(rest);
    }
    pieces
}

fn changes<'r>(record: &'r Record<'_>, tid: Tid, a: Mono, b: Mono) -> impl Iterator<Item = Mono> + 'r {
    let events = record.events_of(tid, a, b);
    events.filter(move |(_, event)| boost_of(event, tid).is_some()).map(|(_, event)| event.at)
}

/// The priority of the thread in a slice of [`split`]: from the last change since its switch-in, else the old priority
/// in the next change before its switch-out. `None`: not a thread, or no change.
pub fn shown(record: &Record, slice: &Slice) -> Option<Prio> {
    let tid = borrower(record, slice)?;
    let before = record.events_of(tid, Mono(0), slice.begin).rev().map(|(_, event)| event);
    let before = before.take_while(|event| !is_switch(event)).find_map(|event| boost_of(event, tid));
    let behind = || {
        let behind = record.events_of(tid, slice.end, record.until()).map(|(_, event)| event);
        behind.take_while(|event| !is_switch(event)).find_map(|event| boost_of(event, tid))
    };
    before.map(|(_, new)| new).or_else(|| behind().map(|(old, _)| old))
}

/// The thread of `slice`, if it was ever boosted.
fn borrower(record: &Record, slice: &Slice) -> Option<Tid> {
    match slice.context {
        Context::Thread(tid) if record.was_lent(tid) => Some(tid),
        _ => None,
    }
}

fn is_switch(event: &Event) -> bool {
    matches!(event.kind, Kind::Switch { .. })
}

/// Old and new priority.
fn boost_of(event: &Event, tid: Tid) -> Option<(Prio, Prio)> {
    match event.kind {
        Kind::PiSetprio { task, old, new } if task.tid == tid => Some((old, new)),
        _ => None,
    }
}
