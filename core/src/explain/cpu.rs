//! What one CPU did: its events as slices that cover a stretch of time exactly, each with one context.
//!
//! The context is the innermost of: NMI, hard interrupt or system vector, softirq, thread (or idle). Hard interrupts
//! nest where a handler lets others in, no line in itself, and no softirq begins inside one; an entry that breaks this
//! proves that an exit was lost, and then what lies between is [`Context::Unknown`], not guessed.
//!
//! Which thread runs is known from `sched_switch` and from the thread that every event names. Where neither has come
//! yet, the next one tells it backwards: until its switch-out, `prev` ran. NMIs report their duration at their end
//! (`nmi_handler`), so they are carved out last.
//!
//! Linear in the number of events. Not here: what a slice means for a victim.

mod carve;
mod hard;
mod lost;
mod reader;
mod unseen;

use std::collections::HashMap;

use crate::time::{Mono, Ns, Tid};
use crate::trace::event::{Event, Level, Sym, TaskRef, Vector};

/// Who has the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Context {
    /// Events contradict each other or do not say.
    Unknown,
    /// Events were lost here, or the record begins later.
    Lost,
    /// The idle task, in an idle state where one was entered.
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
    /// A hard interrupt or a softirq of which no event but this one's flags tells.
    Unseen(Level),
}

impl Context {
    /// A thread or the idle task: what interrupts interrupt.
    #[must_use]
    pub fn is_task(self) -> bool {
        matches!(self, Context::Idle(_) | Context::Thread(_))
    }

    /// A hard interrupt or vector: interrupts are off by hardware while it runs.
    #[must_use]
    pub fn is_hard(self) -> bool {
        matches!(self, Context::HardIrq(_) | Context::Vector(_))
    }
}

/// A stretch `[begin, end)` of one CPU in one context.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slice {
    /// First moment.
    pub begin: Mono,
    /// First moment after it.
    pub end: Mono,
    /// Who has the CPU.
    pub context: Context,
    /// The thread that runs or is interrupted.
    pub task: Option<TaskRef>,
    /// Slices of one occurrence (one interrupt, one turn of a thread) share this number.
    pub occurrence: u32,
    /// Index (in the window) of the event that proves the context.
    pub proof: Option<u32>,
    /// Function of the timer or of the cross-CPU call that runs inside an interrupt.
    pub function: Option<Sym>,
    /// Page faults reported at the end of this slice.
    pub faults: u32,
    /// Concluded rather than recorded.
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
    last: Slice,                 // what the CPU did after its last event
    wakers: HashMap<u32, Slice>, // contexts of wakings
    recorded_until: Mono,        // the last event of any CPU
    complete_from: Mono,         // before it nothing is known
}

impl Timeline {
    /// Reads `events` (indices and events of one CPU, in time order). `complete_from`: the record of this CPU is
    /// whole from there on; `recorded_until`: the recorder still worked then.
    #[must_use]
    pub fn read(events: &[(u32, &Event)], complete_from: Option<Mono>, recorded_until: Mono) -> Timeline {
        let first = events.first().map(|(_, event)| event.at);
        let complete_from = complete_from.or(first).unwrap_or(recorded_until);
        let reader::Read { slices, last, wakers } = reader::read(events, complete_from, recorded_until);
        Timeline { slices, last, wakers, recorded_until, complete_from }
    }

    /// The slices of `[a, b)`, clipped, covering it exactly.
    #[must_use]
    pub fn between(&self, a: Mono, b: Mono) -> Vec<Slice> {
        let mut found = Vec::new();
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

    /// The slice that holds the moment `at`: at a boundary the later one.
    #[must_use]
    pub fn at(&self, at: Mono) -> Option<&Slice> {
        self.slices
            .get(self.slices.partition_point(|slice| slice.end <= at))
            .filter(|slice| slice.begin <= at)
    }

    /// The slice that ends at `at` or holds it: what the event at that moment interrupted or was recorded in.
    #[must_use]
    pub fn before(&self, at: Mono) -> Option<&Slice> {
        let index = self.slices.partition_point(|slice| slice.begin < at);
        index.checked_sub(1).and_then(|index| self.slices.get(index)).filter(|slice| slice.end >= at)
    }

    /// The context in which the waking at this index was recorded.
    #[must_use]
    pub fn waker(&self, waking: u32) -> Option<&Slice> {
        self.wakers.get(&waking)
    }

    /// From when on the record of this CPU is whole.
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
