//! Links between events across threads and CPUs: a timer and its arming, a work item and its queuing, a request and its
//! issue, a packet and its sending, a thread and its system call.
//!
//! Built in one pass over a window, in time order. Whether an event is in the context of its thread or in an interrupt
//! is decided at each look-up, from the slices of the CPU.

use std::hash::Hash;

use crate::cpuset::CpuSet;
use crate::explain::cpu::Context;
use crate::explain::record::{describe::does_softirqs, Record};
use crate::hash::HashMap;
use crate::series::Thread;
use crate::time::{Cpu, Mono, Prio, Tid};
use crate::trace::event::{Event, Kind, LeftAs, Sym, TaskRef};

/// Maximum time from sending a packet to loopback to the arrival of its segments, ns.
const SEGMENTING: u64 = 200_000;

/// Number of events searched back for a change of a thread's priority.
const FEW: usize = 64;

/// Maximum time from a signal to the stop that it causes, ns.
const STOPS_WITHIN: u64 = 100_000_000;

/// Signals that stop a thread, including those of the terminal.
const SIGSTOP: i32 = 19;
const SIGTTOU: i32 = 22;

/// Indices of events by their object, each list ascending in time.
#[derive(Default)]
pub struct Links {
    timers: HashMap<u64, Vec<u32>>,
    works: HashMap<u64, Vec<u32>>,
    executing: HashMap<Tid, Vec<u32>>,
    requests: HashMap<(u32, u64), Vec<u32>>,
    inserts: HashMap<(u32, u64), Vec<u32>>,
    /// Faults on mapped files are recorded.
    has_file_faults: bool,
    calls: HashMap<u64, Vec<u32>>,
    sent_to: HashMap<Cpu, Vec<u32>>,
    packets: HashMap<u64, Vec<u32>>,
    received: HashMap<u64, Vec<u32>>,
    doings: HashMap<Tid, Vec<u32>>,
    acts: HashMap<Tid, Vec<u32>>,
    boosts: HashMap<Tid, Vec<u32>>,
    stops: Vec<u32>,
    signals: HashMap<Tid, Vec<u32>>,
    delivered: HashMap<Tid, Vec<u32>>,
}

fn put<K: Hash + Eq>(map: &mut HashMap<K, Vec<u32>>, key: K, index: u32) {
    map.entry(key).or_default().push(index);
}

impl Links {
    /// Reads the window of `record`.
    #[must_use]
    pub fn of(record: &Record) -> Links {
        let events = &record.window.events;
        let mut order: Vec<u32> = (0..events.len() as u32).collect();
        order.sort_by_key(|&index| events[index as usize].at); // linear when already sorted
        let mut links = Links::default();
        for index in order {
            links.add(record, index, &events[index as usize]);
        }
        links
    }

    fn add(&mut self, record: &Record, index: u32, event: &Event) {
        let current = event.current.filter(|tid| *tid != Tid::IDLE);
        if let Some(tid) = current.filter(|_| is_act(&event.kind)) {
            put(&mut self.acts, tid, index);
        }
        if let Kind::SignalGenerate { task, .. } = event.kind {
            put(&mut self.signals, task.tid, index);
        }
        self.has_file_faults |= matches!(event.kind, Kind::FilemapFault { .. });
        match event.kind {
            Kind::HrtimerStart { timer, .. } | Kind::WheelTimerStart { timer, .. } => {
                put(&mut self.timers, timer, index);
            }
            Kind::WorkQueue { work, .. } => put(&mut self.works, work, index),
            Kind::WorkStart { .. } | Kind::WorkEnd { .. } => {
                if let Some(tid) = current {
                    put(&mut self.executing, tid, index);
                }
            }
            Kind::BlockIssue { dev, sector, .. } => put(&mut self.requests, (dev, sector), index),
            Kind::BlockInsert { dev, sector, .. } => put(&mut self.inserts, (dev, sector), index),
            Kind::CsdQueue { csd, target_cpu, .. } => {
                put(&mut self.calls, csd, index);
                put(&mut self.sent_to, target_cpu, index);
            }
            Kind::IpiSend { target_cpu, .. } => put(&mut self.sent_to, target_cpu, index),
            Kind::IpiSendMask { targets, .. } => {
                for cpu in record.text(targets).parse::<CpuSet>().iter().flat_map(CpuSet::iter) {
                    put(&mut self.sent_to, cpu, index);
                }
            }
            Kind::NetQueue { skb, .. } => put(&mut self.packets, skb, index),
            Kind::NetReceive { skb, .. } => put(&mut self.received, skb, index),
            Kind::SysEnter { .. }
            | Kind::SysExit { .. }
            | Kind::UserFault { .. }
            | Kind::KernelFault { .. }
            | Kind::FilemapFault { .. }
            | Kind::ContentionBegin { .. }
            | Kind::ContentionEnd { .. } => {
                let Some(tid) = current else { return };
                put(&mut self.doings, tid, index);
            }
            // The id may be reused: the previous thread may have ended in a call that never returned.
            Kind::Fork { child, .. } => put(&mut self.doings, child.tid, index),
            Kind::Switch { prev, left_as: LeftAs::Dead, .. } => put(&mut self.doings, prev.tid, index),
            Kind::PiSetprio { task, .. } => put(&mut self.boosts, task.tid, index),
            Kind::SignalGenerate { sig: SIGSTOP..=SIGTTOU, .. } => self.stops.push(index),
            Kind::SignalDeliver { .. } => {
                let Some(tid) = current else { return };
                put(&mut self.delivered, tid, index);
            }
            _ => {}
        }
    }
}

/// Actions of a thread other than those in [`Linked::doings`].
fn is_act(kind: &Kind) -> bool {
    matches!(
        kind,
        Kind::Marker { .. }
            | Kind::Fork { .. }
            | Kind::Exec { .. }
            | Kind::SignalGenerate { .. }
            | Kind::Waking { new: true, .. }
            | Kind::BlockInsert { .. }
            | Kind::BlockIssue { .. }
    )
}

/// The events of `key` before `before`, latest first.
fn last<'l, K: Hash + Eq>(
    record: &'l Record,
    map: &'l HashMap<K, Vec<u32>>,
    key: &K,
    before: Mono,
) -> impl Iterator<Item = (u32, &'l Event)> + use<'l, K> {
    let list = map.get(key).map_or(&[][..], Vec::as_slice);
    let until = list.partition_point(|&index| record.event(index).at <= before);
    list[..until].iter().rev().map(move |&index| (index, record.event(index)))
}

/// Links of one record, with look-ups.
pub struct Linked<'r, 'w> {
    /// The events.
    pub record: &'r Record<'w>,
    links: Links,
}

impl<'r, 'w> Linked<'r, 'w> {
    /// Indexes the record of a window.
    #[must_use]
    pub fn new(record: &'r Record<'w>) -> Self {
        Linked { record, links: Links::of(record) }
    }

    /// The thread in whose own context the event occurred; `None` in an interrupt, where the thread is a bystander.
    #[must_use]
    pub fn actor(&self, index: u32) -> Option<Thread> {
        let event = self.record.event(index);
        let tid = event.current.filter(|tid| *tid != Tid::IDLE)?;
        match self.record.slice_before(event.cpu, event.at) {
            Some(slice) if slice.context == Context::Thread(tid) => {
                let task = slice.task.filter(|task| task.tid == tid);
                let task = task.unwrap_or(TaskRef { tid, prio: None, comm: None });
                let thread = self.record.thread(task, event.at);
                Some(Thread { prio: self.set_itself(tid, event.at).or(thread.prio), ..thread })
            }
            _ if event.level.is_interrupt()
                && !does_softirqs(&self.record.thread_by_id(tid, event.at).comm) =>
            {
                None
            }
            Some(slice) if slice.context.is_hard() || matches!(slice.context, Context::Softirq(_)) => None,
            _ => Some(self.record.thread_by_id(tid, event.at)),
        }
    }

    /// The priority that a running thread set for itself since its switch-in, as its next switch-out shows.
    pub fn set_itself(&self, tid: Tid, at: Mono) -> Option<Prio> {
        let sets = |event: &Event| match event.kind {
            Kind::SysEnter { id, .. } => self.record.call_name(id).starts_with("sched_set"),
            _ => false,
        };
        let (_, set) = self.doings(tid, at).take(FEW).find(|(_, event)| sets(event))?;
        let mut since = self.record.events_of(tid, set.at, self.record.until());
        let (_, next) = since.find(|(_, event)| match event.kind {
            Kind::Switch { prev, next, .. } => prev.tid == tid || next.tid == tid,
            _ => false,
        })?;
        match next.kind {
            Kind::Switch { prev, .. } if prev.tid == tid && next.at >= at => prev.prio,
            _ => None,
        }
    }

    /// The last arming of `timer` before `at`: preferably by a thread, else by an interrupt that re-armed it.
    #[must_use]
    pub fn armed(&self, timer: u64, at: Mono) -> Option<(u32, &'w Event)> {
        let starts = || last(self.record, &self.links.timers, &timer, at);
        let by_thread = starts().take(64).find(|(index, _)| self.actor(*index).is_some());
        by_thread.or_else(|| starts().next()).map(|(index, _)| (index, self.record.event(index)))
    }

    /// The last arming of `timer` before `at`, in any context.
    #[must_use]
    pub fn last_armed(&self, timer: u64, at: Mono) -> Option<(u32, &'w Event)> {
        last(self.record, &self.links.timers, &timer, at)
            .next()
            .map(|(index, _)| (index, self.record.event(index)))
    }

    /// The work item that `tid` executes at `at`: its start and its pointer.
    #[must_use]
    pub fn executing(&self, tid: Tid, at: Mono) -> Option<(u32, u64, Option<Sym>)> {
        match last(self.record, &self.links.executing, &tid, at).next()? {
            (index, Event { kind: Kind::WorkStart { work, function }, .. }) => {
                Some((index, *work, *function))
            }
            _ => None,
        }
    }

    /// The last queuing of `work` before `at`.
    #[must_use]
    pub fn queued(&self, work: u64, at: Mono) -> Option<u32> {
        last(self.record, &self.links.works, &work, at).next().map(|(index, _)| index)
    }

    /// The issue of the request to the driver. A flush of the write cache is issued at sector 0, and completes at the last one.
    #[must_use]
    pub fn issued(&self, dev: u32, sector: u64, at: Mono) -> Option<u32> {
        if sector == u64::MAX {
            let is_flush = |event: &Event| matches!(event.kind, Kind::BlockIssue { nr_sector: 0, .. });
            let mut issues = last(self.record, &self.links.requests, &(dev, 0), at);
            return issues.find(|(_, event)| is_flush(event)).map(|(index, _)| index);
        }
        last(self.record, &self.links.requests, &(dev, sector), at).next().map(|(index, _)| index)
    }

    /// Whether faults on mapped files are recorded, as events of their own.
    #[must_use]
    pub fn has_file_faults(&self) -> bool {
        self.links.has_file_faults
    }

    /// Insertions of a request into the queue of its device up to `at`, latest first.
    pub fn inserts(&self, dev: u32, sector: u64, at: Mono) -> impl Iterator<Item = (u32, &Event)> + '_ {
        last(self.record, &self.links.inserts, &(dev, sector), at)
    }

    /// The sending of the cross-CPU call.
    #[must_use]
    pub fn called(&self, csd: u64, at: Mono) -> Option<u32> {
        last(self.record, &self.links.calls, &csd, at).next().map(|(index, _)| index)
    }

    /// The sending of the packet of a `netif_receive_skb`, if on this machine. Packet addresses are reused: if one was
    /// received in between, it was another packet, and no device except loopback receives its own packets.
    #[must_use]
    pub fn sent(&self, received: u32) -> Option<u32> {
        let Event { at, cpu, kind: Kind::NetReceive { skb, device, len }, .. } = *self.record.event(received)
        else {
            return None;
        };
        let before = last(self.record, &self.links.received, &skb, at).find(|(index, _)| *index != received);
        let since = before.map_or(Mono(0), |(_, event)| event.at);
        let (index, queued) = last(self.record, &self.links.packets, &skb, at)
            .next()
            .filter(|(_, queued)| queued.at >= since)
            .or_else(|| self.segmented(cpu, at, len))?;
        let Kind::NetQueue { device: by, .. } = queued.kind else { return None };
        (by != device || self.is_loopback(by)).then_some(index)
    }

    /// A packet over loopback that was segmented just before `at` on the same CPU.
    fn segmented(&self, cpu: Cpu, at: Mono, part: u32) -> Option<(u32, &'w Event)> {
        let from = Mono(at.0.saturating_sub(SEGMENTING));
        self.record.events_on(cpu, from, at).rev().find(|(_, event)| match event.kind {
            Kind::NetQueue { device, len, .. } => len > part && self.is_loopback(device),
            _ => false,
        })
    }

    fn is_loopback(&self, device: Option<Sym>) -> bool {
        device.is_some_and(|device| self.record.text(device) == "lo")
    }

    /// IPIs sent to `cpu` in `[a, b]`, latest first.
    pub fn sent_to(&self, cpu: Cpu, a: Mono, b: Mono) -> impl Iterator<Item = (u32, &Event)> + '_ {
        last(self.record, &self.links.sent_to, &cpu, b).take_while(move |(_, event)| event.at >= a)
    }

    /// System calls, faults and lock waits of `tid` before `at`, latest first; only those in its own context.
    pub fn doings(&self, tid: Tid, at: Mono) -> impl Iterator<Item = (u32, &Event)> + '_ {
        last(self.record, &self.links.doings, &tid, at)
    }

    /// As `doings`, from `at` on, earliest first.
    pub fn doings_from(&self, tid: Tid, at: Mono) -> impl Iterator<Item = (u32, &Event)> + '_ {
        let list = self.links.doings.get(&tid).map_or(&[][..], Vec::as_slice);
        let from = list.partition_point(|&index| self.record.event(index).at < at);
        list[from..].iter().map(|&index| (index, self.record.event(index)))
    }

    /// Markers, requests to disks, signals and new threads of `tid` in `[a, b]`, latest first; only those in its own context.
    pub fn acts(&self, tid: Tid, a: Mono, b: Mono) -> impl Iterator<Item = (u32, &Event)> + '_ {
        let own = move |index: u32| self.actor(index).is_some_and(|actor| actor.tid == tid);
        last(self.record, &self.links.acts, &tid, b)
            .take_while(move |(_, event)| event.at >= a)
            .filter(move |(index, _)| own(*index))
    }

    /// The system call that `tid` is in at `at`, with the index of its entry.
    #[must_use]
    pub fn in_call(&self, tid: Tid, at: Mono) -> Option<(u32, i32, [u64; 6])> {
        for (index, event) in self.doings(tid, at).take(4096) {
            match event.kind {
                Kind::SysEnter { id, args } => return Some((index, id, args)),
                Kind::SysExit { .. } | Kind::Fork { .. } | Kind::Switch { .. } => return None,
                _ => {}
            }
        }
        None
    }

    /// The signal that stopped `tid` at `at`: to the thread itself, or to its process just before.
    #[must_use]
    pub fn stopped(&self, tid: Tid, at: Mono) -> Option<u32> {
        let from = Mono(at.0.saturating_sub(1_000_000));
        let own_from = Mono(at.0.saturating_sub(STOPS_WITHIN));
        let sent = self.links.stops.iter().rev().copied().filter(|&index| {
            let event = self.record.event(index);
            let own = matches!(event.kind, Kind::SignalGenerate { task, .. } if task.tid == tid);
            event.at <= at && event.at >= if own { own_from } else { from }
        });
        sent.max_by_key(|&index| self.record.event(index).at)
    }

    /// The last signal before `at` to `tid`, or to the process of which it is the first thread.
    #[must_use]
    pub fn signalled(&self, tid: Tid, at: Mono) -> Option<(u32, &Event)> {
        last(self.record, &self.links.signals, &tid, at)
            .find(|(_, event)| matches!(event.kind, Kind::SignalGenerate { result: 0 | 4, .. }))
    }

    /// The last signal delivered to `tid` before `at`.
    #[must_use]
    pub fn delivered(&self, tid: Tid, at: Mono) -> Option<&Event> {
        last(self.record, &self.links.delivered, &tid, at).next().map(|(_, event)| event)
    }

    /// Index of the last event in `[a, b]` that boosted the priority of `tid`.
    #[must_use]
    pub fn boosted(&self, tid: Tid, a: Mono, b: Mono) -> Option<u32> {
        last(self.record, &self.links.boosts, &tid, b).take_while(|(_, event)| event.at >= a).find_map(
            |(index, event)| match event.kind {
                Kind::PiSetprio { old, new, .. } if new < old => Some(index),
                _ => None,
            },
        )
    }

    /// The priority of `tid` without the boosts up to `at`: inheritance never goes below it, so it is the lowest in the
    /// chain of changes.
    #[must_use]
    pub fn own_prio(&self, tid: Tid, at: Mono) -> Option<Prio> {
        let mut lowest: Option<(Prio, Prio)> = None;
        for (_, event) in last(self.record, &self.links.boosts, &tid, at) {
            let Kind::PiSetprio { old, new, .. } = event.kind else { continue };
            lowest = match lowest {
                None => Some((old, old.max(new))),
                Some((since, low)) if new == since => Some((old, low.max(old))),
                Some(_) => break,
            };
        }
        lowest.map(|(_, low)| low)
    }
}
