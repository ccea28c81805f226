//! Time on the CPU in which a thread spins for another CPU: for the completion of an IPI, a mutex, or a lock of the
//! kernel.

use std::collections::{BTreeMap, HashMap};

use super::locks::only_spins;
use super::reason::lock_name;
use super::running::MANY_WOKEN;
use super::Walk;
use crate::explain::cpu::{Context, Slice};
use crate::explain::pieces::length;
use crate::explain::segment::{Kind, Segment};
use crate::explain::share::{tally, Phase, Share};
use crate::explain::thread::Stretch;
use crate::series::Thread;
use crate::time::{Cpu, Mono, Ns, Tid};
use crate::trace::event::{Event, Kind as What};

/// Function-call IPIs from one thread in one span, while it spun for their completion.
pub(super) struct Spin {
    pub calls: u32,
    pub begin: Mono,
    pub pieces: Vec<(Mono, Mono)>,
    pub cpu: Cpu,
    pub function: String,
    pub proof: u32,
}

/// Minimum time for a waiter that has not blocked to count as spinning; the path to the block takes less.
const SPINNING: Ns = Ns::from_us(50);
/// Longer than any futex call that gets its mutex at once, also on an emulated CPU.
const SURELY_SPINNING: Ns = Ns::from_us(300);

/// Asynchronous function-call IPIs: a waking, a kick, the completion of a request, RCU.
const UNAWAITED: [&str; 6] = [
    "sched_ttwu_pending",
    "nohz_csd_func",
    "rcu_exp_handler",
    "__blk_mq_complete_request_remote",
    "rps_trigger_softirq",
    "tick_broadcast_function",
];
/// Minimum time of spinning for one lock to mention.
const WORTH_TELLING: Ns = Ns::from_us(20);

/// What `at` gives for more than half of `[a, b]`; it changes at `changes`, in order, only.
fn longest<T: Copy + PartialEq>(
    a: Mono,
    b: Mono,
    changes: &[Mono],
    at: impl Fn(Mono) -> Option<T>,
) -> Option<T> {
    let mut had: Vec<(T, Ns)> = Vec::new();
    let mut from = a;
    for until in changes.iter().copied().chain([b]) {
        if let Some(what) = at(from).filter(|_| until > from) {
            let length = until.since(from);
            match had.last_mut().filter(|(last, _)| *last == what) {
                Some((_, sum)) => *sum = *sum + length,
                None => had.push((what, length)),
            }
        }
        from = from.max(until);
    }
    let (what, most) = had.into_iter().max_by_key(|(_, length)| *length)?;
    (most.0 * 2 > b.since(a).0).then_some(what)
}

impl Walk<'_, '_> {
    /// Whether `thread` sent function-call IPIs or contended for a lock of the kernel in the span: it may have spun.
    pub(super) fn may_have_spun(&self, thread: &Thread, stretch: &Stretch) -> bool {
        let shows = |event: &Event| {
            event.current == Some(thread.tid)
                && matches!(
                    event.kind,
                    What::CsdQueue { .. } | What::ContentionBegin { .. } | What::ContentionEnd { .. }
                )
        };
        let cpu = stretch.cpu.into_iter();
        let mut events = cpu.flat_map(|cpu| self.record.events_on(cpu, stretch.begin, stretch.end));
        events.any(|(_, event)| shows(event))
    }

    /// Function-call IPIs that `thread` waited for on the CPU, by CPU and function.
    pub(super) fn spins(&self, thread: &Thread, stretch: &Stretch) -> Vec<Spin> {
        // What the thread did meanwhile may be missing.
        let Some(cpu) = stretch.cpu.filter(|_| !self.lossy) else { return Vec::new() };
        let mut spins: BTreeMap<(Cpu, String), (Spin, Mono)> = BTreeMap::new();
        for (index, event) in self.record.events_on(cpu, stretch.begin, stretch.end) {
            let What::CsdQueue { target_cpu, function, csd } = event.kind else { continue };
            let name = function.map_or("?", |sym| self.record.text(sym));
            if event.current != Some(thread.tid) || target_cpu == cpu || csd == 0 || UNAWAITED.contains(&name)
            {
                continue;
            }
            // If an interrupt sent it, the interrupted thread does not wait for it.
            if self.linked.actor(index).is_none() {
                continue;
            }
            let Some(done) = self.answered(target_cpu, csd, event.at, stretch.end) else { continue };
            if self.went_on(cpu, index, event.at, done) {
                continue;
            }
            let function = name.to_owned();
            let (spin, until) = spins.entry((target_cpu, function.clone())).or_insert_with(|| {
                let spin = Spin {
                    calls: 0,
                    begin: event.at,
                    pieces: Vec::new(),
                    cpu: target_cpu,
                    function,
                    proof: index,
                };
                (spin, event.at)
            });
            let from = event.at.max(*until);
            spin.pieces.extend(own(&self.record.slices(cpu, from, done.max(from)), thread).1);
            spin.calls += 1;
            *until = done.max(*until);
        }
        spins
            .into_values()
            .map(|(spin, _)| spin)
            .filter(|spin| length(&spin.pieces) > Ns::from_us(1))
            .collect()
    }

    /// What kept `spin.cpu` from responding, as parts of the spinning time; and the end of the clause that names it.
    pub(super) fn unanswered(&mut self, spin: &Spin) -> (Vec<Segment>, String, Option<Thread>) {
        let slices = spin.pieces.iter().flat_map(|&(a, b)| self.record.slices(spin.cpu, a, b));
        let counted = tally(self.record, Phase::Blocked, spin.cpu, &slices.collect::<Vec<_>>());
        let mut parts = counted.gaps;
        let (a, b) = match (spin.pieces.first(), spin.pieces.last()) {
            (Some((a, _)), Some((_, b))) => (*a, *b),
            _ => (spin.begin, spin.begin),
        };
        let mut longest: Option<(Ns, String, Option<Thread>)> = None;
        for share in counted.shares {
            let label = match &share.thread {
                Some(holder) if matches!(share.context, Context::Thread(_)) => {
                    format!("{holder}{}{}", self.mostly_in(holder, &share), self.woke(holder, spin.cpu, a, b))
                }
                _ => self.source(&share, a, b),
            };
            if longest.as_ref().is_none_or(|(net, ..)| *net < share.net) {
                longest = Some((share.net, label.clone(), share.thread.clone()));
            }
            parts.push(share.leaf(format!("CPU {} runs {label}", spin.cpu)));
        }
        match longest.filter(|(net, ..)| net.0 * 4 >= length(&spin.pieces).0) {
            Some((net, label, thread)) => (parts, format!(", which meanwhile ran {label} for {net}"), thread),
            None => (parts, String::new(), None),
        }
    }

    /// ` in write`: the system call that a thread is in.
    pub(super) fn in_what(&self, thread: &Thread, at: Mono) -> String {
        let call = self.linked.in_call(thread.tid, at);
        call.map_or(String::new(), |(_, id, _)| format!(" in {}", self.record.call_name(id)))
    }

    /// The same for most of its share.
    fn mostly_in(&self, thread: &Thread, share: &Share) -> String {
        let doing = self.main_doing(thread.tid, share);
        doing.map_or(String::new(), |doing| format!(" in {doing}"))
    }

    /// The work item or the system call that `tid` is in for more than half of its share, interruptions included: what it
    /// is in at one moment says nothing of the rest.
    pub(super) fn main_doing(&self, tid: Tid, share: &Share) -> Option<String> {
        let (a, b) = (share.begin, share.begin + share.net);
        let work = |at| self.linked.executing(tid, at).map(|(index, _, function)| (index, function));
        let call = |at| self.linked.in_call(tid, at).map(|(index, id, _)| (index, id));
        let is_change = |kind: &What| {
            use What::{SysEnter, SysExit, WorkEnd, WorkStart};
            matches!(kind, SysEnter { .. } | SysExit { .. } | WorkStart { .. } | WorkEnd { .. })
        };
        let own = self.record.events_on(share.cpu, a, b).map(|(_, event)| event);
        let own = own.filter(|event| event.current == Some(tid) && is_change(&event.kind));
        let changes: Vec<Mono> = own.map(|event| event.at).collect();
        let of_work = longest(a, b, &changes, work);
        let of_call = longest(a, b, &changes, call);
        let name = |function| format!("work item {}", self.record.text(function));
        of_work
            .and_then(|(_, function)| function.map(name))
            .or_else(|| of_call.map(|(_, id)| self.record.call_name(id)))
    }

    /// ` (waking 700 threads)`: its activity with interrupts off.
    fn woke(&self, thread: &Thread, cpu: Cpu, a: Mono, b: Mono) -> String {
        match self.wakings(thread, cpu, a, b) {
            count @ MANY_WOKEN.. => format!(" (waking {count} threads)"),
            _ => String::new(),
        }
    }

    /// Number of wakings by `thread` on `cpu`.
    pub(super) fn wakings(&self, thread: &Thread, cpu: Cpu, a: Mono, b: Mono) -> usize {
        let wakings = self.record.events_on(cpu, a, b).filter(|(index, event)| {
            matches!(event.kind, What::Waking { .. })
                && event.current == Some(thread.tid)
                && self.linked.actor(*index).is_some()
        });
        wakings.count()
    }

    /// A waiter for a priority-inheritance mutex spins while the owner runs (rt_mutex_slowlock): from the futex call to
    /// its end or that of the span, minus interrupts.
    pub(super) fn spins_on_mutexes(&self, thread: &Thread, stretch: &Stretch) -> Vec<Segment> {
        let mut spins = Vec::new();
        let mut until = stretch.end;
        for (index, event) in self.linked.doings(thread.tid, stretch.end).take(10_000) {
            match event.kind {
                What::SysEnter { id, args } => {
                    if self.record.is_futex(id) && matches!(args[1] & 0x7f, 6 | 13) {
                        let from = event.at.max(stretch.begin);
                        let span = (from, until, stretch.end);
                        spins.extend(self.spin_on_mutex(thread, stretch.cpu, index, args[0], span));
                    }
                    until = event.at;
                }
                What::SysExit { .. } => until = event.at,
                _ => {}
            }
            if event.at < stretch.begin {
                break;
            }
        }
        spins.reverse();
        spins
    }

    /// One spin, if it is long enough: the path to the block, or an uncontended call, takes less.
    fn spin_on_mutex(
        &self,
        thread: &Thread,
        cpu: Option<Cpu>,
        index: u32,
        address: u64,
        (from, until, end): (Mono, Mono, Mono),
    ) -> Option<Segment> {
        if until.since(from) < SPINNING {
            return None;
        }
        let slices = self.record.slices(cpu?, from, until);
        let (net, pieces) = own(&slices, thread);
        let owner = self.record.events_on(cpu?, from, until).find_map(|(_, event)| match event.kind {
            What::PiSetprio { task, .. } if event.current == Some(thread.tid) && task.tid != thread.tid => {
                Some(self.record.thread_by_id(task.tid, event.at))
            }
            _ => None,
        });
        // A call that blocked or boosted an owner had to wait; of the others, only a long one may have.
        let waited = until == end || owner.is_some() || net >= SURELY_SPINNING;
        let owner = match (owner, self.unlocks(thread.tid, address, from, until)) {
            (Some(owner), _) => format!("its owner {owner}, boosted by inheritance,"),
            (None, Some(owner)) => format!("its owner {owner}, which unlocks it in the end,"),
            (None, None) => "its owner".to_owned(),
        };
        let label =
            format!("{thread} spins for the priority-inheritance (PI) mutex {address:#x} while {owner} runs");
        let mut leaf = Segment::leaf(Kind::Running, label, from, net);
        leaf.pieces = pieces;
        leaf.evidence = vec![self.record.evidence(index)];
        leaf.inferred = true;
        (waited && net >= SPINNING).then_some(leaf)
    }

    /// The thread other than `waiter` that last unlocks the priority-inheritance mutex at `address`: an owner whose
    /// priority is not lower is not boosted.
    fn unlocks(&self, waiter: Tid, address: u64, from: Mono, until: Mono) -> Option<Thread> {
        const FUTEX_UNLOCK_PI: u64 = 7;
        let is_it = |event: &Event| match event.kind {
            What::SysEnter { id, args } => {
                self.record.is_futex(id) && args[0] == address && args[1] & 0x7f == FUTEX_UNLOCK_PI
            }
            _ => false,
        };
        let last = self.record.cpus().filter_map(|cpu| {
            let mut events = self.record.events_on(cpu, from, until).rev();
            events.find(|(_, event)| event.current != Some(waiter) && is_it(event))
        });
        let (_, event) = last.max_by_key(|(_, event)| event.at)?;
        Some(self.record.thread_by_id(event.current?, event.at))
    }

    /// Completion of the call `csd` on `cpu`.
    fn answered(&self, cpu: Cpu, csd: u64, from: Mono, until: Mono) -> Option<Mono> {
        self.record.events_on(cpu, from, until).find_map(|(_, event)| match event.kind {
            What::CsdExit { csd: done } if done == csd => Some(event.at),
            _ => None,
        })
    }

    /// Whether the thread was active on `cpu` between the call and its completion: then it did not wait.
    fn went_on(&self, cpu: Cpu, call: u32, from: Mono, until: Mono) -> bool {
        let last = Mono(until.0.saturating_sub(1));
        self.record.events_on(cpu, from, last).filter(|(index, _)| *index > call).any(|(index, event)| {
            // A waking by an interrupt is not by the thread.
            let own = |index: u32| self.linked.actor(index).is_some();
            match event.kind {
                What::SysExit { .. } | What::SysEnter { .. } | What::Switch { .. } => true,
                What::Waking { .. } => own(index),
                _ => false,
            }
        })
    }

    /// Contended locks of the kernel, from `contention_begin` to `contention_end` or the end of the span, when it
    /// blocked: name and part of each. Waits nest (for the lock that guards the queue of another one): the innermost
    /// counts. Inside futex it is the mutex of the program (see above).
    pub(super) fn spins_on_locks(&self, thread: &Thread, stretch: &Stretch) -> Vec<(String, Segment)> {
        // Two waits look like one long one where an end and the next start are missing.
        let Some(cpu) = stretch.cpu.filter(|_| !self.lossy) else { return Vec::new() };
        let in_futex =
            |at| self.linked.in_call(thread.tid, at).is_some_and(|(_, id, _)| self.record.is_futex(id));
        // A thread that only spins is not switched out before the end: without it, how long it spun is unknown.
        let has_ends =
            self.record.window.events.iter().any(|event| matches!(event.kind, What::ContentionEnd { .. }));
        let ends = |of: u64, event: Option<&(u32, &Event)>| match event {
            Some((_, event)) => {
                !has_ends || matches!(event.kind, What::ContentionEnd { lock, .. } if lock == of)
            }
            None => !has_ends || stretch.ended_by.is_none(),
        };
        let mut open = self.linked.open_locks(thread.tid, stretch.begin);
        let mut within: Vec<(u32, &Event)> = self
            .linked
            .doings(thread.tid, stretch.end)
            .take(10_000)
            .take_while(|(_, event)| event.at > stretch.begin)
            .collect();
        within.reverse();
        let mut spins: HashMap<u64, (String, Segment)> = HashMap::new();
        let mut since = stretch.begin;
        let times = within.iter().map(|(_, event)| event.at).chain([stretch.end]);
        for (at, event) in times.zip(within.iter().map(Some).chain([None])) {
            if let Some(&(index, lock, flags)) = open.0.last()
                && !in_futex(self.record.event(index).at)
                && (!only_spins(flags) || ends(lock, event))
            {
                let (net, pieces) = own(&self.record.slices(cpu, since, at), thread);
                let (_, spin) = spins.entry(lock).or_insert_with(|| {
                    let what = format!("{} of the kernel ({lock:#x})", lock_name(flags));
                    let label = format!("{thread} spins for {what}");
                    let mut leaf = Segment::leaf(Kind::Running, label, since, Ns::ZERO);
                    (leaf.count, leaf.evidence) = (0, vec![self.record.evidence(index)]);
                    (what, leaf)
                });
                spin.pieces.extend(pieces);
                spin.duration_ns = spin.duration_ns + net;
                spin.count += 1;
            }
            since = at;
            if let Some((index, event)) = event {
                open.step(*index, event);
            }
        }
        let mut spins: Vec<(String, Segment)> =
            spins.into_values().filter(|(_, spin)| spin.duration_ns >= WORTH_TELLING).collect();
        spins.sort_by_key(|(_, spin)| spin.begin);
        spins
    }
}

/// The thread's own time in `slices`, and its pieces.
fn own(slices: &[Slice], thread: &Thread) -> (Ns, Vec<(Mono, Mono)>) {
    let own = slices.iter().filter(|slice| slice.context == Context::Thread(thread.tid));
    let pieces: Vec<(Mono, Mono)> = own.map(|slice| (slice.begin, slice.end)).collect();
    (pieces.iter().map(|(begin, end)| end.since(*begin)).sum(), pieces)
}
