//! Explains one gap from the trace: which sources had the CPU while the loop did not run.
//!
//! The accounting is that of the explanations (`explain::share`): every CPU slice belongs to one source, and nested
//! interrupts are separate. The remainder is time of the loop's thread: kernel entry and exit, page faults, and events
//! invisible to this kernel.

use crate::explain::cpu::Context;
use crate::explain::record::Record;
use crate::explain::share::{tally, Phase, Share};
use crate::explain::thread::{states, State, Stretch};
use crate::time::{Cpu, Mono, Ns, Prio, Tid};
use crate::trace::event::Kind;

/// An iteration at or above the threshold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gap {
    /// Its CPU.
    pub cpu: Cpu,
    /// The clock read before it.
    pub begin: Mono,
    /// The clock read after it.
    pub end: Mono,
    /// Page faults of the loop's thread in the gap.
    pub faults: u64,
    /// SMIs of this CPU in the gap; `None`: cannot be counted.
    pub smi: Option<u64>,
    /// Steal time around the gap; `None`: not counted.
    pub steal_ns: Option<Ns>,
    /// The steal time is exact (ns, for this gap) rather than in steps of 10 ms around it.
    pub steal_is_exact: bool,
    /// The loop was on another CPU, at its start or end: nothing that is known of `cpu` explains it.
    pub elsewhere: bool,
}

impl Gap {
    /// Steal time in the gap if known exactly; else 0.
    #[must_use]
    pub fn stolen(&self) -> Ns {
        self.steal_ns.filter(|_| self.steal_is_exact).unwrap_or(Ns::ZERO)
    }

    /// Its length.
    #[must_use]
    pub fn length(&self) -> Ns {
        self.end.since(self.begin)
    }
}

/// Time of one source inside one gap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// `hard IRQ 25 (virtio0)`, `softirq TIMER`, `hog/99 (RT 98)`, …
    pub name: String,
    /// Net time.
    pub net: Ns,
}

/// A gap by source. `parts`, `own` and `unrecorded` add up to the gap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shares {
    /// All sources except the loop's thread, largest first.
    pub parts: Vec<Part>,
    /// Time of the loop's thread on the CPU.
    pub own: Ns,
    /// Number of interruptions: each costs entry and exit time outside any handler.
    pub entries: u32,
    /// The trace has no data, or contradicts itself.
    pub unrecorded: Ns,
}

/// Time of a thread of a lower class, or of the idle thread, while the loop was runnable at a real-time priority.
pub const THROTTLED: &str = "throttling (RT bandwidth or fair server)";
/// Time while the loop was not runnable: stopped, traced, or blocked in a page fault.
pub const NOT_RUNNABLE: &str = "the loop was stopped, or waited";

/// Splits `gap` of the loop's thread `tid` by source. As in explanations, time of a lower class is throttling only
/// while the thread was runnable with the real-time priority that it had when switched out.
#[must_use]
pub fn shares(record: &Record, tid: Tid, gap: &Gap) -> Shares {
    let slices = record.slices(gap.cpu, gap.begin, gap.end);
    let mut found = Shares::default();
    let mut in_loop = true;
    for slice in &slices {
        let own = slice.context == Context::Thread(tid);
        found.entries += u32::from(in_loop && !own);
        in_loop = own;
    }
    for stretch in states(record, tid, gap.begin, gap.end) {
        let slices = record.slices(gap.cpu, stretch.begin, stretch.end);
        let tally = tally(record, Phase::Running, gap.cpu, &slices);
        found.unrecorded =
            tally.gaps.iter().map(|gap| gap.duration_ns).fold(found.unrecorded, |sum, net| sum + net);
        for share in &tally.shares {
            match share.context {
                Context::Thread(thread) if thread == tid => found.own = found.own + share.net,
                _ => found.add(name(share, left(record, &stretch)), share.net),
            }
        }
    }
    found.parts.sort_by_key(|part| std::cmp::Reverse(part.net));
    found
}

impl Shares {
    fn add(&mut self, name: String, net: Ns) {
        match self.parts.iter_mut().find(|part| part.name == name) {
            Some(part) => part.net = part.net + net,
            None => self.parts.push(Part { name, net }),
        }
    }
}

/// State of the loop while another context has its CPU.
#[derive(Clone, Copy)]
enum Left {
    /// Runnable, at a real-time priority.
    Runnable,
    /// Not runnable.
    NotRunnable,
    /// Running, SCHED_OTHER, or unknown.
    Other,
}

fn left(record: &Record, stretch: &Stretch) -> Left {
    let began = stretch.began_by.map(|index| record.event(index).kind);
    match (stretch.state, began) {
        (State::Blocked(_), _) => Left::NotRunnable,
        (State::Preempted, Some(Kind::Switch { prev, .. })) if prev.prio.is_some_and(Prio::is_realtime) => {
            Left::Runnable
        }
        (State::Woken, Some(Kind::Waking { task, .. } | Kind::Wakeup { task, .. }))
            if task.prio.is_some_and(Prio::is_realtime) =>
        {
            Left::Runnable
        }
        _ => Left::Other,
    }
}

fn name(share: &Share, left: Left) -> String {
    let (is_thread, is_lower) = match share.context {
        Context::Idle(_) => (true, true),
        Context::Thread(_) => {
            let prio = share.thread.as_ref().and_then(|thread| thread.prio);
            (true, prio.is_some_and(|prio| !prio.is_realtime()))
        }
        _ => (false, false),
    };
    match left {
        Left::NotRunnable if is_thread => NOT_RUNNABLE.to_owned(),
        Left::Runnable if is_lower => format!("{THROTTLED}: {}", share.comm()),
        _ => share.label(),
    }
}
