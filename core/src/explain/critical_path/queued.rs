//! Requests of one thread that a device serves one after the other: a worker of the block layer issues those for which the
//! device had no room at first.

use std::collections::{BTreeMap, HashSet};

use super::Walk;
use crate::series::Thread;
use crate::time::{Mono, Ns};
use crate::trace::event::{Event, Kind as What};

/// Requests count from this time before a wait on, or since its system call if that is longer ago: another call may have
/// submitted them.
const BEFORE: Ns = Ns::from_ms(10);

/// A device counts as busy if it had requests in this share of a time.
const BUSY: f64 = 0.8;

/// Requests of one thread that were not complete when it began to wait.
pub(super) struct Own {
    /// Their number, at least 1.
    pub count: usize,
    /// Their length together.
    pub sectors: u64,
    /// The last one waited in the queue of the device, which was busy.
    pub waited: bool,
}

impl Walk<'_, '_> {
    /// The requests of `thread` to `dev` that were complete in `[a, done]`, up to that at `sector`, issued by `issued`.
    /// `None`: that one is not its own, or not recorded.
    pub(super) fn own_requests(
        &self,
        thread: &Thread,
        (dev, sector): (u32, u64),
        issued: u32,
        (a, done): (Mono, Mono),
    ) -> Option<Own> {
        let call = self.linked.in_call(thread.tid, a).map(|(index, ..)| self.record.event(index).at);
        let before = Mono(a.0.saturating_sub(BEFORE.0));
        let since = call.map_or(before, |call| call.min(before));
        let mut events: Vec<(u32, &Event)> =
            self.record.cpus().flat_map(|cpu| self.record.events_on(cpu, since, done)).collect();
        events.retain(|(_, event)| device_of(&event.kind) == Some(dev));
        events.sort_by_key(|(_, event)| event.at);
        let is_own = |index: u32| self.linked.actor(index).is_some_and(|by| by.tid == thread.tid);
        // Sector and length.
        let mut own: BTreeMap<u64, u32> = BTreeMap::new();
        let mut ended: HashSet<u64> = HashSet::new();
        for &(index, event) in &events {
            match event.kind {
                What::BlockInsert { sector, nr_sector, .. } | What::BlockIssue { sector, nr_sector, .. }
                    if own.contains_key(&sector) || is_own(index) =>
                {
                    let known = own.entry(sector).or_default();
                    *known = (*known).max(nr_sector);
                }
                What::BlockComplete { sector, .. } if event.at >= a => _ = ended.insert(sector),
                _ => {}
            }
        }
        ended.insert(sector);
        own.contains_key(&sector).then_some(())?;
        let at = self.record.event(issued).at.clamp(a, done);
        own.retain(|sector, _| ended.contains(sector));
        Some(Own {
            count: own.len(),
            sectors: own.values().map(|&length| u64::from(length)).sum(),
            waited: at > a && !is_own(issued) && is_busy(&events, a, at),
        })
    }
}

fn device_of(kind: &What) -> Option<u32> {
    match *kind {
        What::BlockInsert { dev, .. } | What::BlockIssue { dev, .. } | What::BlockComplete { dev, .. } => {
            Some(dev)
        }
        _ => None,
    }
}

/// Whether a device had requests nearly all the time in `[a, b)`, by its events in time order.
fn is_busy(events: &[(u32, &Event)], a: Mono, b: Mono) -> bool {
    let mut in_flight: HashSet<u64> = HashSet::new();
    let (mut busy, mut last) = (Ns::ZERO, a);
    for (_, event) in events.iter().filter(|(_, event)| event.at < b) {
        let now = event.at.max(a);
        if !in_flight.is_empty() {
            busy = busy + now.since(last);
        }
        last = now;
        match event.kind {
            What::BlockIssue { sector, .. } => _ = in_flight.insert(sector),
            What::BlockComplete { sector, .. } => _ = in_flight.remove(&sector),
            _ => {}
        }
    }
    if !in_flight.is_empty() {
        busy = busy + b.since(last);
    }
    busy.share_of(b.since(a)) >= BUSY
}
