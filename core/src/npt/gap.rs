//! One gap against the kernel's record: who had the CPU while the loop did not run.
//!
//! The accounting is that of the explanations (`explain::share`): every slice of the CPU belongs to one source, and
//! what interrupted an interrupt is its own. What remains is time of the loop's own thread: entering and leaving the
//! kernel, its page faults, and whatever this kernel cannot see.

use crate::explain::cpu::Context;
use crate::explain::record::Record;
use crate::explain::share::{tally, Phase, Share};
use crate::explain::thread::{states, State, Stretch};
use crate::time::{Cpu, Mono, Ns, Prio, Tid};
use crate::trace::event::Kind;

/// A turn that took too long.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gap {
    /// Where.
    pub cpu: Cpu,
    /// The read of the clock before it.
    pub begin: Mono,
    /// The read after it.
    pub end: Mono,
    /// Page faults of the loop's thread in it.
    pub faults: u64,
    /// SMIs of this CPU in it; `None`: not countable here.
    pub smi: Option<u64>,
    /// Time that the host says it took around it; `None`: not counted here.
    pub steal_ns: Option<Ns>,
    /// That time is in ns and of this gap, not in steps of 10 ms and of its surroundings.
    pub steal_is_exact: bool,
}

impl Gap {
    /// What the host took in it, where that is known exactly; else nothing.
    #[must_use]
    pub fn stolen(&self) -> Ns {
        self.steal_ns.filter(|_| self.steal_is_exact).unwrap_or(Ns::ZERO)
    }

    /// How long.
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

/// A gap taken apart. `parts`, `own` and `unrecorded` add up to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shares {
    /// Everybody but the loop's thread, largest first.
    pub parts: Vec<Part>,
    /// The loop's own thread was on the CPU.
    pub own: Ns,
    /// How often the loop was left: each costs time that belongs to nobody's handler.
    pub entries: u32,
    /// The record says nothing, or contradicts itself.
    pub unrecorded: Ns,
}

/// What a thread of a lower class, or nobody, had while the loop was runnable at a real-time priority.
pub const THROTTLED: &str = "throttling (RT bandwidth or fair server)";
/// What others, or nobody, had while the loop was not runnable: it was stopped or traced, or waited in its page fault.
pub const NOT_RUNNABLE: &str = "the loop was stopped, or waited";

/// Takes `gap` of the loop's thread `tid` apart, by what the thread was doing: as the explanation of one gap does, a lower
/// class is called throttling only while the thread was runnable, at the real-time priority that it left the CPU with.
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

/// Why the loop does not run.
#[derive(Clone, Copy)]
enum Left {
    /// It is runnable, at a real-time priority.
    Runnable,
    /// It is not runnable.
    NotRunnable,
    /// It runs, it is an ordinary thread, or nothing is known.
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
