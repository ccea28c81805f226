//! The timeline of one CPU: slices that cover a time span exactly, each with one context.
//!
//! The context is the innermost of: NMI, hard interrupt or system vector, softirq, thread (or idle). Hard interrupts
//! nest if a handler enables interrupts, but never a line in itself, and a softirq never starts inside one; an entry
//! that violates this proves a lost exit, and the time in between is [`Context::Unknown`], not guessed.
//!
//! The running thread is known from `sched_switch` and from the current thread of each event. Before the first of
//! these, it is inferred backwards: `prev` ran until its switch-out. NMIs report their duration at their end
//! (`nmi_handler`), so they are cut out last.
//!
//! Linear in the number of events. Not here: the effect of a slice on a victim.

mod carve;
mod hard;
mod lost;
mod reader;
mod stalled;
mod unseen;

use crate::hash::HashMap;
use crate::time::{Mono, Ns, Tid};
use crate::trace::event::{Event, Level, Sym, TaskRef, Vector};

/// Context that runs on the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Context {
    /// Events contradict each other or do not determine it.
    Unknown,
    /// Events were lost here, or the record starts later.
    Lost,
    /// The whole machine stalled, whatever was on this CPU.
    Stalled,
    /// The idle task, with the idle state if one was entered.
    Idle(Option<u32>),
    /// A thread.
    Thread(Tid),
    /// Handler of an interrupt line.
    HardIrq(u32),
    /// A system vector.
    Vector(Vector),
    /// A softirq (not its thread).
    Softirq(u8),
    /// A non-maskable interrupt.
    Nmi,
    /// A hard interrupt or softirq known only from the flags of an event.
    Unseen(Level),
}

impl Context {
    /// Whether it is a thread or the idle task.
    #[must_use]
    pub fn is_task(self) -> bool {
        matches!(self, Context::Idle(_) | Context::Thread(_))
    }

    /// Whether it is a hard interrupt or vector: the hardware disables interrupts while it runs.
    #[must_use]
    pub fn is_hard(self) -> bool {
        matches!(self, Context::HardIrq(_) | Context::Vector(_))
    }
}

/// A time span `[begin, end)` of one CPU in one context.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slice {
    /// Start.
    pub begin: Mono,
    /// End, excluded.
    pub end: Mono,
    /// Context that runs on the CPU.
    pub context: Context,
    /// The running or interrupted thread.
    pub task: Option<TaskRef>,
    /// Slices of one occurrence (one interrupt, one run of a thread) share this number.
    pub occurrence: u32,
    /// Index (in the window) of the event that proves the context.
    pub proof: Option<u32>,
    /// Function of the timer or of the cross-CPU call that runs inside an interrupt.
    pub function: Option<Sym>,
    /// Page faults reported at the end of this slice.
    pub faults: u32,
    /// Inferred, not recorded.
    pub inferred: bool,
}

impl Slice {
    /// Its length.
    #[must_use]
    pub fn length(&self) -> Ns {
        self.end.since(self.begin)
    }
}

/// All slices of one CPU.
#[derive(Clone, Debug)]
pub struct Timeline {
    slices: Vec<Slice>,          // ascending, without holes or overlaps
    last: Slice,                 // context after the last event
    wakers: HashMap<u32, Slice>, // contexts of wakings
    recorded_until: Mono,        // the last event of any CPU
    complete_from: Mono,         // nothing is known before it
}

impl Timeline {
    /// Reads `events` (indices and events of one CPU, in time order). `complete_from`: start of the complete record of
    /// this CPU; `recorded_until`: the recorder still ran then.
    #[must_use]
    pub fn read(events: &[(u32, &Event)], complete_from: Option<Mono>, recorded_until: Mono) -> Timeline {
        let first = events.first().map(|(_, event)| event.at);
        let complete_from = complete_from.or(first).unwrap_or(recorded_until);
        let reader::Read { slices, last, wakers } = reader::read(events, complete_from, recorded_until);
        Timeline { slices, last, wakers, recorded_until, complete_from }
    }

    /// The slices of `[a, b)`, clipped, covering it exactly; none has length 0.
    #[must_use]
    pub fn between(&self, a: Mono, b: Mono) -> Vec<Slice> {
        let mut found = Vec::new();
        if a >= b {
            return found;
        }
        let mut at = a;
        let start = self.slices.partition_point(|slice| slice.end <= a);
        for slice in self.slices[start..].iter().take_while(|slice| slice.begin < b) {
            self.fill(&mut found, at, slice.begin);
            let faults = if slice.end <= b { slice.faults } else { 0 };
            let clipped = Slice { begin: slice.begin.max(at), end: slice.end.min(b), faults, ..*slice };
            at = clipped.end;
            found.push(clipped);
        }
        let end_of_record = self.recorded_until.min(b);
        if at < end_of_record && at >= self.complete_from && self.slices.last().is_none_or(|s| s.end <= at) {
            found.push(Slice { begin: at, end: end_of_record, faults: 0, ..self.last });
            at = end_of_record;
        }
        self.fill(&mut found, at, b);
        found
    }

    /// The slice at time `at`; at a boundary the later one.
    #[must_use]
    pub fn at(&self, at: Mono) -> Option<&Slice> {
        self.slices
            .get(self.slices.partition_point(|slice| slice.end <= at))
            .filter(|slice| slice.begin <= at)
    }

    /// The slice that ends at `at` or contains it: the context of an event at that time.
    #[must_use]
    pub fn before(&self, at: Mono) -> Option<&Slice> {
        let index = self.slices.partition_point(|slice| slice.begin < at);
        index.checked_sub(1).and_then(|index| self.slices.get(index)).filter(|slice| slice.end >= at)
    }

    /// The context of the waking with this index.
    #[must_use]
    pub fn waker(&self, waking: u32) -> Option<&Slice> {
        self.wakers.get(&waking)
    }

    /// Start of the complete record of this CPU.
    #[must_use]
    pub fn complete_from(&self) -> Mono {
        self.complete_from
    }

    fn fill(&self, found: &mut Vec<Slice>, a: Mono, b: Mono) {
        if a >= b {
            return;
        }
        let known_from = self.complete_from.clamp(a, b);
        for (begin, end, context) in [(a, known_from, Context::Lost), (known_from, b, Context::Unknown)] {
            if begin < end {
                found.push(blank(begin, end, context));
            }
        }
    }
}

fn blank(begin: Mono, end: Mono, context: Context) -> Slice {
    Slice {
        begin,
        end,
        context,
        task: None,
        occurrence: 0,
        proof: None,
        function: None,
        faults: 0,
        inferred: false,
    }
}
