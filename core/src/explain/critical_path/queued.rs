//! Requests belong to the thread that submitted them: a worker of the block layer issues those for which the device had no
//! room at first, one after the other.

use std::collections::{BTreeMap, HashSet};

use super::links::Linked;
use super::Walk;
use crate::series::Thread;
use crate::time::{Mono, Ns};
use crate::trace::event::{Event, Kind as What, Sym};

/// Requests count from this time before a wait on, or since its system call if that is longer ago: another call may have
/// submitted them.
const BEFORE: Ns = Ns::from_ms(10);

/// Maximum time of a request in the queue of its device, ns.
const QUEUED: u64 = 100_000_000;

/// A device counts as busy if it had requests in this share of a time.
const BUSY: f64 = 0.8;

/// Requests of one thread that were not complete at the start of a wait.
pub(super) struct Own {
    /// That thread.
    pub by: Thread,
    /// Their number, at least 1.
    pub count: usize,
    /// Their length together.
    pub sectors: u64,
    /// The last one waited in the queue of the device, which was busy.
    pub waited: bool,
}

impl Linked<'_, '_> {
    /// The thread whose request was issued at `issued`; `None`: only the worker that issued it is known.
    #[must_use]
    pub fn owner(&self, issued: u32) -> Option<Thread> {
        self.submitted(issued).map(|(_, owner)| owner).or_else(|| self.submitter(issued))
    }

    /// The thread of an event of a request, unless it is a worker of the block layer, which issues and puts back those of
    /// others.
    fn submitter(&self, index: u32) -> Option<Thread> {
        let by = self.actor(index)?;
        let work = self.executing(by.tid, self.record.event(index).at);
        let is_of_others = |function: Option<Sym>| {
            function.is_none_or(|function| self.record.text(function).starts_with("blk_mq_"))
        };
        Some(by).filter(|_| !work.is_some_and(|(.., function)| is_of_others(function)))
    }

    /// When and by which thread the request issued at `issued` was submitted, if a worker of the block layer may have issued
    /// it later.
    #[must_use]
    pub fn submitted(&self, issued: u32) -> Option<(Mono, Thread)> {
        let Event { at, kind: What::BlockIssue { dev, sector, .. }, .. } = *self.record.event(issued) else {
            return None;
        };
        let from = Mono(at.0.saturating_sub(QUEUED));
        let mut recent = self.inserts(dev, sector, at).take_while(|(_, event)| event.at >= from);
        recent.find_map(|(index, event)| Some((event.at, self.submitter(index)?)))
    }
}

impl Walk<'_, '_> {
    /// The requests of `by` to `dev` that were complete in `[a, done]`, up to that at `sector`, issued by `issued`. `None`:
    /// that one is not its own, or not recorded.
    pub(super) fn own_requests(
        &self,
        by: Thread,
        (dev, sector): (u32, u64),
        issued: u32,
        (a, done): (Mono, Mono),
    ) -> Option<Own> {
        let call = self.linked.in_call(by.tid, a).map(|(index, ..)| self.record.event(index).at);
        let before = Mono(a.0.saturating_sub(BEFORE.0));
        let since = call.map_or(before, |call| call.min(before));
        let mut events: Vec<(u32, &Event)> =
            self.record.cpus().flat_map(|cpu| self.record.events_on(cpu, since, done)).collect();
        events.retain(|(_, event)| device_of(&event.kind) == Some(dev));
        events.sort_by_key(|(_, event)| event.at);
        let is_own = |index: u32| self.linked.actor(index).is_some_and(|who| who.tid == by.tid);
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
        let waited = at > a && !is_own(issued) && is_busy(&events, a, at);
        Some(Own {
            by,
            count: own.len(),
            sectors: own.values().map(|&length| u64::from(length)).sum(),
            waited,
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
