//! Which priority a running thread had that others lent it: `sched_pi_setprio` stands on the CPU of who lends.
//!
//! Not here: what it set itself (only its departure tells), and what the loan meant ([`super::critical_path`]).

use super::cpu::{Context, Slice};
use super::record::Record;
use crate::time::{Mono, Prio, Tid};
use crate::trace::event::{Event, Kind};

/// `slices`, cut where the thread that runs is lent a priority or gives it back.
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
    events.filter(move |(_, event)| lent(event, tid).is_some()).map(|(_, event)| event.at)
}

/// The priority that the thread of a slice of [`split`] had: by the last change since it was switched in, else by what
/// the first one before it leaves replaced. `None`: no thread, or none changed it.
pub fn shown(record: &Record, slice: &Slice) -> Option<Prio> {
    let tid = borrower(record, slice)?;
    let before = record.events_of(tid, Mono(0), slice.begin).rev().map(|(_, event)| event);
    let before = before.take_while(|event| !is_switch(event)).find_map(|event| lent(event, tid));
    let behind = || {
        let behind = record.events_of(tid, slice.end, record.until()).map(|(_, event)| event);
        behind.take_while(|event| !is_switch(event)).find_map(|event| lent(event, tid))
    };
    before.map(|(_, new)| new).or_else(|| behind().map(|(old, _)| old))
}

/// The thread of `slice`, where it was lent a priority at all.
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
fn lent(event: &Event, tid: Tid) -> Option<(Prio, Prio)> {
    match event.kind {
        Kind::PiSetprio { task, old, new } if task.tid == tid => Some((old, new)),
        _ => None,
    }
}
