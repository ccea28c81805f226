//! A thread's own activity while it ran: system calls, page faults and signal handlers.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::blocked::signal_name;
use super::Walk;
use crate::explain::cpu::{Context, Slice};
use crate::explain::thread::Stretch;
use crate::series::Thread;
use crate::time::{Mono, Ns};
use crate::trace::event::{Event, Kind as What};

/// Maximum number of faults that are examined individually.
const FEW: u32 = 8;
/// Minimum time of an unusual fault.
const TELLING_FAULT: Ns = Ns::from_us(20);
/// Minimum time of an unusual system call.
const TELLING_CALL: Ns = Ns::from_us(50);

/// Time to clear a huge page.
const CLEARS: RangeInclusive<Ns> = Ns::from_us(30)..=Ns::from_ms(2);

/// System calls that take the lock of the mappings of a process (mmap_lock, for writing).
const CHANGE_MAPPINGS: [&str; 13] = [
    "mmap", "munmap", "mremap", "mprotect", "brk", "madvise", "mlock", "munlock", "mlockall", "clone",
    "clone3", "fork", "vfork",
];

/// Predicate on the kind of an event.
type Is = fn(&What) -> bool;

/// The end of a system call, searched backwards.
struct CallEnd {
    at: Mono,
    /// The call whose exit it is.
    of: Option<i32>,
    /// An exit, or the end of the span; else another entry, before which an exit is missing.
    is_known: bool,
}

/// Time in the handlers of one signal.
#[derive(Default)]
struct Handled {
    net: Ns,
    count: u32,
    is_bound: bool, // upper limit: only the sending of the signal is recorded, not its delivery
    by: Option<Thread>,
}

/// First writes that may each have cleared a huge page.
#[derive(Default)]
struct HugeFaults {
    net: Ns,
    /// Their places, in huge pages of 2 MB.
    pages: Vec<u64>,
    /// One of them was too short or too long, or two were in one place.
    are_others: bool,
}

impl HugeFaults {
    fn add(&mut self, net: Ns, address: u64, error_code: u32) {
        if self.are_others {
            return;
        }
        let page = address >> 21;
        self.are_others |= error_code & 3 != 2 || !CLEARS.contains(&net) || self.pages.contains(&page);
        self.net = self.net + net;
        self.pages.push(page);
    }

    /// Of a time of `rest`.
    fn said(&self, rest: Ns) -> Option<String> {
        let (net, count) = (self.net.min(rest), self.pages.len());
        (count > 1 && !self.are_others).then(|| {
            format!(
                ", up to {net} of it in {count} page faults, each the first write to another 2 MB of memory: huge pages, each of which the kernel clears; the ends of the faults are not recorded"
            )
        })
    }
}

impl Walk<'_, '_> {
    /// Label and advice for its own time: those of the system call that took most of it, if there is one; `found`: the call in
    /// which interrupts found it.
    pub(super) fn own_doing(&mut self, call: Option<&(String, Ns)>, found: Option<&str>) -> (String, String) {
        let has = |is: Is| self.record.window.events.iter().any(|event| is(&event.kind));
        let kinds: [(&str, Is); 3] = [
            ("csd:*", |kind| matches!(kind, What::CsdQueue { .. })),
            ("lock:contention_*", |kind| matches!(kind, What::ContentionBegin { .. })),
            ("irq_vectors:*", |kind| {
                matches!(kind, What::VectorEntry(_) | What::IrqEntry { .. } | What::SoftirqEntry { .. })
            }),
        ];
        let unseen: Vec<&str> = kinds.iter().filter(|(_, is)| !has(*is)).map(|(name, _)| *name).collect();
        let sees_calls = self.record.has.calls;
        match call {
            Some((call, _)) => {
                let unseen = match unseen.is_empty() {
                    true => String::new(),
                    false => format!("; whether it waited for something there is not recorded ({})", unseen.join(", ")),
                };
                let advice = format!("the time is spent in the kernel, in {call}: keep this call out of the interval{unseen}");
                (format!("its own system call: {call}"), advice)
            }
            // It computes nothing there: a waiter spins while the owner of the lock runs (rtmutex_spin_on_owner).
            None if found == Some("futex") => (
                "a lock whose owner runs, or its own code".to_owned(),
                "in futex a thread spins while the owner of the lock runs on another CPU: shorten what is done with that lock; its owner is not recorded (`lathunt trace --events full` shows it)".to_owned(),
            ),
            None if self.record.window.only_blocking_calls => {
                let advice = match found {
                    Some(call) => format!(
                        "shorten what it does in the interval, first the system call {call}; how long it was in it is not recorded (`lathunt trace --events full` does)"
                    ),
                    None => "the time is the thread's own: shorten what it does in the interval; its system calls are not recorded (`lathunt trace --events full` does)".to_owned(),
                };
                ("its own running".to_owned(), advice)
            }
            None if sees_calls || unseen.len() < kinds.len() => (
                "its own running".to_owned(),
                "the time is the thread's own: shorten what it does in the interval".to_owned(),
            ),
            None => (
                "its own running".to_owned(),
                "the thread ran, in its own code or in the kernel: which, and whether it was interrupted or waited for another CPU there, is not recorded (irq_vectors:*, raw_syscalls, csd:*, lock:contention_*)".to_owned(),
            ),
        }
    }

    /// The system call, other than waiting ones, that took most of its own CPU time.
    pub(super) fn main_call(&self, thread: &Thread, stretch: &Stretch, rest: Ns) -> Option<(String, Ns)> {
        let cpu = stretch.cpu?;
        let mut longest: Option<(Ns, String)> = None;
        let mut ends = CallEnd { at: stretch.end, of: None, is_known: true };
        let net = |a: Mono, b: Mono| -> Ns {
            let slices = self.record.slices(cpu, a.max(stretch.begin), b);
            slices.iter().filter(|of| of.context == Context::Thread(thread.tid)).map(Slice::length).sum()
        };
        let began = self.linked.in_call(thread.tid, stretch.begin).map(|(index, ..)| index);
        for (index, event) in self.linked.doings(thread.tid, stretch.end).take(10_000) {
            if event.at < stretch.begin && Some(index) != began {
                break;
            }
            match event.kind {
                What::SysEnter { id, .. } => {
                    if ends.is_known {
                        longest = longest.max(Some((net(event.at, ends.at), self.record.call_name(id))));
                    }
                    ends = CallEnd { at: event.at, of: None, is_known: false };
                }
                What::SysExit { id, .. } => {
                    // Its entry is missing.
                    if let Some(of) = ends.of {
                        longest = longest.max(Some((net(event.at, ends.at), self.record.call_name(of))));
                    }
                    ends = CallEnd { at: event.at, of: Some(id), is_known: true };
                }
                _ => {}
            }
            if Some(index) == began {
                break;
            }
        }
        if let Some(of) = ends.of {
            longest = longest.max(Some((net(stretch.begin, ends.at), self.record.call_name(of))));
        }
        let most = longest.filter(|(net, _)| net.0 * 2 >= rest.0 && *net >= TELLING_CALL);
        most.map(|(net, call)| (call, net))
    }

    /// The thread that, all the while that `thread` was in `call`, ran on another CPU in a call that takes the same lock: that of
    /// the mappings of a process. A thread that spins for it has no event of that.
    pub(super) fn changes_mappings_too(
        &self,
        thread: &Thread,
        stretch: &Stretch,
        call: &str,
    ) -> Option<(Thread, String)> {
        if !CHANGE_MAPPINGS.contains(&call) || self.lossy {
            return None;
        }
        let within = self.linked.doings(thread.tid, stretch.end).take(10_000);
        let mut until = stretch.end;
        let mut longest = (Ns::ZERO, stretch.begin);
        for (_, event) in within.take_while(|(_, event)| event.at >= stretch.begin) {
            if matches!(event.kind, What::SysEnter { id, .. } if self.record.call_name(id) == call) {
                longest = longest.max((until.since(event.at), event.at));
            }
            until = event.at;
        }
        let (net, begin) = longest;
        let end = begin + net;
        let others = self.record.cpus().filter(|cpu| Some(*cpu) != stretch.cpu);
        others.filter(|_| net >= TELLING_CALL).find_map(|cpu| {
            let slices = self.record.slices(cpu, begin, end);
            let most = slices.iter().max_by_key(|slice| slice.length())?;
            let Context::Thread(tid) = most.context else { return None };
            let of = |slice: &&Slice| slice.context == Context::Thread(tid);
            let ran: Ns = slices.iter().filter(of).map(Slice::length).sum();
            let (_, id, _) = self.linked.in_call(tid, Mono(begin.0 + net.0 / 2))?;
            let theirs = self.record.call_name(id);
            let is_it = ran.0 * 4 >= net.0 * 3 && CHANGE_MAPPINGS.contains(&theirs.as_str());
            is_it.then(|| (self.record.thread_by_id(tid, begin), theirs))
        })
    }

    /// Handlers of one signal that took a large part of its time and ended in the span: since the delivery or, if that
    /// is not recorded, at most since the sending.
    pub(super) fn handler(&self, thread: &Thread, stretch: &Stretch, rest: Ns) -> Option<String> {
        let mut of: BTreeMap<i32, Handled> = BTreeMap::new();
        let within = self.linked.doings(thread.tid, stretch.end).take(10_000);
        let mut next = stretch.end;
        for (_, returned) in within.take_while(|(_, event)| event.at >= stretch.begin) {
            let What::SysEnter { id, .. } = returned.kind else { continue };
            if self.record.call_name(id) != "rt_sigreturn" {
                continue;
            }
            let taken = self.linked.delivered(thread.tid, returned.at);
            let sent = self.linked.signalled(thread.tid, taken.map_or(returned.at, |taken| taken.at));
            let Some(begin) = taken.or(sent.map(|(_, sent)| sent)) else { continue };
            let (What::SignalDeliver { sig, .. } | What::SignalGenerate { sig, .. }) = begin.kind else {
                continue;
            };
            let same = |(_, sent): &(u32, &Event)| matches!(sent.kind, What::SignalGenerate { sig: of, .. } if of == sig);
            let by = sent.filter(same).and_then(|(index, _)| self.linked.actor(index));
            let until = returned.at.min(next);
            let slices = self.record.slices(stretch.cpu?, begin.at.max(stretch.begin), until);
            let own = slices.iter().filter(|slice| slice.context == Context::Thread(thread.tid));
            let handled = of.entry(sig).or_default();
            handled.net = handled.net + own.map(Slice::length).sum::<Ns>();
            handled.count += 1;
            handled.is_bound |= taken.is_none();
            handled.by = handled.by.take().or(by);
            next = begin.at;
        }
        let (sig, handled) = of.into_iter().max_by_key(|(_, handled)| handled.net)?;
        let by = handled.by.map_or(String::new(), |by| format!(" from {by}"));
        let up_to = if handled.is_bound { "up to " } else { "" };
        let times = if handled.count > 1 { format!(", {} times", handled.count) } else { String::new() };
        let net = handled.net.min(rest);
        (net.0 * 2 >= stretch.length().0).then(|| {
            let name = signal_name(sig);
            format!(", {up_to}{net} of it in the handler of signal {sig} ({name}){times}{by}")
        })
    }

    /// One or a few page faults, after which most of its own time passed without another event of its own.
    pub(super) fn long_fault(&self, thread: &Thread, stretch: &Stretch, rest: Ns) -> Option<String> {
        let mut next = stretch.end;
        let mut longest: Option<(Ns, u64, u32)> = None;
        let mut huge = HugeFaults::default();
        let mut count = 0;
        for (_, event) in self.linked.doings(thread.tid, stretch.end).take(10_000) {
            if event.at < stretch.begin {
                break;
            }
            if let What::UserFault { address, error_code, .. }
            | What::KernelFault { address, error_code, .. } = event.kind
            {
                count += 1;
                // Its next own action shows the end of the fault.
                let acted = self.linked.acts(thread.tid, event.at, next).last();
                let until = acted.map_or(next, |(_, act)| act.at);
                let slices = self.record.slices(stretch.cpu?, event.at, until);
                let own = slices.iter().filter(|slice| slice.context == Context::Thread(thread.tid));
                let net: Ns = own.map(Slice::length).sum();
                longest = longest.max(Some((net, address, error_code)));
                huge.add(net, address, error_code);
            }
            next = event.at;
        }
        if let Some(said) = huge.said(rest).filter(|_| huge.net.0 * 2 >= rest.0) {
            return Some(said);
        }
        let (net, address, error_code) =
            longest.filter(|(net, ..)| count <= FEW && net.0 * 2 >= rest.0 && *net >= TELLING_FAULT)?;
        // x86: bit 0: the page is present, bit 1: a write.
        let how = match error_code & 3 {
            3 => "a write to a page that is shared (copied, as after fork)",
            2 => "the first write to a page (cleared then; a huge page takes 100 µs and more)",
            _ => "a page that was not present",
        };
        let net = net.min(rest);
        let place = self.page(None, Some(address));
        Some(format!(", up to {net} of it in a page fault on {place}: {how}; its end is not recorded"))
    }

    /// Number of its page faults.
    pub(super) fn faults(&self, thread: &Thread, stretch: &Stretch) -> u32 {
        let within = self.linked.doings(thread.tid, stretch.end).take(100_000);
        let within = within.take_while(|(_, event)| event.at >= stretch.begin);
        within
            .filter(|(_, event)| matches!(event.kind, What::UserFault { .. } | What::KernelFault { .. }))
            .count() as u32
    }

    /// Text on the activity of the thread while it ran: its recorded system calls and faults.
    pub(super) fn doing(&self, thread: &Thread, stretch: &Stretch, interrupts: u32) -> String {
        let mut calls: BTreeMap<String, (u32, Ns, u32)> = BTreeMap::new();
        let mut order = 0;
        let mut left = stretch.end;
        let (mut faults, mut file) = (0, None);
        let began = self.linked.in_call(thread.tid, stretch.begin).map(|(index, ..)| index);
        let within = self.linked.doings(thread.tid, stretch.end).take(100_000);
        for (index, event) in within {
            if event.at < stretch.begin && Some(index) != began {
                break;
            }
            match event.kind {
                What::SysEnter { id, .. } => {
                    order += 1;
                    let call = calls.entry(self.record.call_name(id)).or_insert((0, Ns::ZERO, order));
                    *call = (call.0 + 1, call.1 + left.since(event.at.max(stretch.begin)), order);
                }
                What::SysExit { .. } => left = event.at,
                What::UserFault { .. } | What::KernelFault { .. } => faults += 1,
                What::FilemapFault { dev, ino, offset } => file = Some((dev, ino, offset)),
                _ => {}
            }
            if Some(index) == began {
                break;
            }
        }
        let mut calls: Vec<(String, (u32, Ns, u32))> = calls.into_iter().collect();
        calls.sort_by_key(|(_, (_, _, order))| std::cmp::Reverse(*order));
        let more = if calls.len() > 4 { ", …" } else { "" };
        let named: Vec<String> = calls
            .into_iter()
            .take(4)
            .map(|(name, (count, net, _))| {
                let count = if count > 1 { format!(" {count}×") } else { String::new() };
                let net = if net.0 * 20 > stretch.length().0 { format!(" {net}") } else { String::new() };
                format!("{name}{count}{net}")
            })
            .collect();
        let mut text = String::new();
        if !named.is_empty() {
            text.push_str(&format!(" ({}{more})", named.join(", ")));
        }
        if let Some(file) = file {
            text.push_str(&format!(", faults on {}", self.page(Some(file), None)));
        } else if faults > 0 {
            text.push_str(&format!(", {faults} page fault(s)"));
        }
        if interrupts > 0 {
            text.push_str(&format!(", interrupted {interrupts}× (entry and exit code counted here)"));
        }
        text
    }
}
