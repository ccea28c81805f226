//! What one CPU did: its events as slices that cover a stretch of time exactly, each with one context.
//!
//! The context is the innermost of: NMI, hard interrupt or system vector, softirq, thread (or idle). Hard interrupts
//! do not nest in each other (handlers run with interrupts off), and no softirq begins inside one; an entry that
//! breaks this proves that an exit was lost, and then what lies between is [`Context::Unknown`], not guessed.
//!
//! Which thread runs is known from `sched_switch` and from the thread that every event names. Where neither has come
//! yet, the next one tells it backwards: until its switch-out, `prev` ran. NMIs report their duration at their end
//! (`nmi_handler`), so they are carved out last.
//!
//! Linear in the number of events. Not here: what a slice means for a victim.

use crate::time::{Mono, Ns, Tid};
use crate::trace::event::{Event, Kind, Sym, TaskRef, Vector};

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
    slices: Vec<Slice>,     // ascending, without holes or overlaps
    last: Slice,            // what the CPU did after its last event
    recorded_until: Mono,   // the last event of any CPU
    complete_from: Mono,    // before it nothing is known
}

impl Timeline {
    /// Reads `events` (indices and events of one CPU, in time order). `complete_from`: the record of this CPU is
    /// whole from there on; `recorded_until`: the recorder still worked then.
    #[must_use]
    pub fn read(events: &[(u32, &Event)], complete_from: Option<Mono>, recorded_until: Mono) -> Timeline {
        let first = events.first().map(|(_, event)| event.at);
        let complete_from = complete_from.or(first).unwrap_or(recorded_until);
        let mut reader = Reader::new(first.map_or(complete_from, |first| first.min(complete_from)));
        for &(index, event) in events {
            reader.step(index, event);
        }
        reader.mark_before(complete_from);
        let last = reader.top(recorded_until, recorded_until);
        let slices = carve(reader.slices, &reader.nmis);
        Timeline { slices, last, recorded_until, complete_from }
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
        self.slices.get(self.slices.partition_point(|slice| slice.end <= at)).filter(|slice| slice.begin <= at)
    }

    /// The slice that ends at `at` or holds it: what the event at that moment interrupted or was recorded in.
    #[must_use]
    pub fn before(&self, at: Mono) -> Option<&Slice> {
        let index = self.slices.partition_point(|slice| slice.begin < at);
        index.checked_sub(1).and_then(|index| self.slices.get(index)).filter(|slice| slice.end >= at)
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

/// An interrupt that has begun.
#[derive(Clone, Copy)]
struct Frame {
    context: Context,
    occurrence: u32,
    first_slice: usize,
    proof: u32,
}

struct Reader {
    slices: Vec<Slice>,
    nmis: Vec<Slice>,
    at: Mono,
    task: Option<TaskRef>,
    task_proof: Option<u32>,
    task_occurrence: u32,
    sure_from: usize,    // slices from here on rest on the last proof of `task`
    pending_from: usize, // slices from here on wait for a first proof (while `task` is None)
    idle_state: Option<u32>,
    hard: Option<Frame>,
    soft: Option<Frame>,
    functions: [Option<(u64, Option<Sym>)>; 2], // timer, cross-CPU call
    occurrences: u32,
    fresh: bool, // nothing but this event since the record's begin or a loss
}

const TIMER: usize = 0;
const CALL: usize = 1;

impl Reader {
    fn new(at: Mono) -> Reader {
        Reader {
            slices: Vec::new(),
            nmis: Vec::new(),
            at,
            task: None,
            task_proof: None,
            task_occurrence: 0,
            sure_from: 0,
            pending_from: 0,
            idle_state: None,
            hard: None,
            soft: None,
            functions: [None; 2],
            occurrences: 0,
            fresh: true,
        }
    }

    fn step(&mut self, index: u32, event: &Event) {
        if event.at > self.at {
            let slice = self.top(self.at, event.at);
            self.slices.push(slice);
            self.at = event.at;
        }
        match event.kind {
            Kind::Switch { prev, .. } => self.see_task(index, prev, true),
            Kind::IdleEnter { .. } | Kind::IdleExit => self.see_task(index, TaskRef::default(), true),
            Kind::Lost { .. } => {}
            _ => {
                if let Some(tid) = event.current {
                    self.see_task(index, TaskRef { tid, prio: None, comm: None }, false);
                }
            }
        }
        self.apply(index, event);
        self.fresh = matches!(event.kind, Kind::Lost { .. });
    }

    fn apply(&mut self, index: u32, event: &Event) {
        match event.kind {
            Kind::Switch { next, .. } => self.switch_to(index, next),
            Kind::IrqEntry { irq, .. } => self.enter_hard(index, Context::HardIrq(irq)),
            Kind::IrqExit { irq } => self.leave_hard(index, Context::HardIrq(irq)),
            Kind::VectorEntry(vector) => self.enter_hard(index, Context::Vector(vector)),
            Kind::VectorExit(vector) => self.leave_hard(index, Context::Vector(vector)),
            Kind::SoftirqEntry { vec } => {
                self.drop_frames();
                self.soft = Some(self.frame(index, Context::Softirq(vec)));
            }
            Kind::SoftirqExit { vec } => self.leave_soft(index, Context::Softirq(vec)),
            Kind::Nmi { duration } => {
                let begin = Mono(event.at.0.saturating_sub(duration.0));
                self.occurrences += 1;
                let occurrence = self.occurrences;
                let nmi = blank(begin, event.at, Context::Nmi);
                self.nmis.push(Slice { occurrence, proof: Some(index), task: self.task, ..nmi });
            }
            Kind::IdleEnter { state } => self.enter_idle(Some(state)),
            Kind::IdleExit => self.enter_idle(None),
            Kind::TimerExpireEntry { timer, function, .. } => self.functions[TIMER] = Some((timer, function)),
            Kind::TimerExpireExit { .. } => self.functions[TIMER] = None,
            Kind::CsdEntry { csd, function } => self.functions[CALL] = Some((csd, function)),
            Kind::CsdExit { .. } => self.functions[CALL] = None,
            Kind::PageFault { count, .. } => {
                if let Some(slice) = self.slices.last_mut() {
                    slice.faults = slice.faults.saturating_add(count);
                }
            }
            Kind::PiSetprio { task, new, .. } => {
                if let Some(running) = self.task.as_mut().filter(|running| running.tid == task.tid) {
                    running.prio = Some(new);
                }
            }
            Kind::Lost { .. } => self.lose(),
            _ => {}
        }
    }

    /// The context now, as a slice.
    fn top(&self, begin: Mono, end: Mono) -> Slice {
        let function = self.functions[CALL].or(self.functions[TIMER]).and_then(|(_, function)| function);
        let mut slice = blank(begin, end, Context::Unknown);
        slice.task = self.task;
        if let Some(frame) = self.hard.or(self.soft) {
            slice.context = frame.context;
            slice.occurrence = frame.occurrence;
            slice.proof = Some(frame.proof);
            slice.function = function;
        } else if let Some(task) = self.task {
            slice.context = task_context(task.tid, self.idle_state);
            slice.occurrence = self.task_occurrence;
            slice.proof = self.task_proof;
        }
        slice
    }

    /// An event shows that `task` is on the CPU just before it.
    fn see_task(&mut self, index: u32, task: TaskRef, by_scheduler: bool) {
        match self.task {
            Some(known) if known.tid == task.tid => {
                if let (Some(known), true) = (self.task.as_mut(), task.comm.is_some()) {
                    known.comm = task.comm;
                    known.prio = task.prio.or(known.prio);
                }
            }
            Some(known) => {
                self.contradict(known.tid == Tid::IDLE && !by_scheduler);
                self.drop_frames();
                self.set_task(index, task);
            }
            None => {
                self.set_task(index, task);
                self.resolve_pending(index, task);
            }
        }
        self.sure_from = self.slices.len();
    }

    fn set_task(&mut self, index: u32, task: TaskRef) {
        self.occurrences += 1;
        self.task = Some(task);
        self.task_proof = Some(index);
        self.task_occurrence = self.occurrences;
        self.idle_state = None;
    }

    fn resolve_pending(&mut self, index: u32, task: TaskRef) {
        let occurrence = self.task_occurrence;
        for slice in &mut self.slices[self.pending_from..] {
            slice.task = Some(task);
            if slice.context == Context::Unknown {
                slice.context = task_context(task.tid, None);
                slice.proof = Some(index);
                slice.occurrence = occurrence;
            }
        }
        self.pending_from = self.slices.len();
    }

    /// Somebody else runs than was thought: his switch-in was not recorded. The idle task of some CPUs leaves no
    /// switch-out at all, so there the first event of the next thread stands for it, marked as inferred.
    fn contradict(&mut self, idle_without_switch: bool) {
        for slice in self.slices[self.sure_from..].iter_mut().filter(|slice| slice.context.is_task()) {
            if idle_without_switch {
                slice.inferred = true;
            } else {
                slice.context = Context::Unknown;
            }
        }
    }

    fn switch_to(&mut self, index: u32, next: TaskRef) {
        self.drop_frames();
        self.set_task(index, next);
    }

    fn enter_idle(&mut self, state: Option<u32>) {
        self.drop_frames();
        self.idle_state = state;
    }

    fn frame(&mut self, index: u32, context: Context) -> Frame {
        self.occurrences += 1;
        self.functions = [None; 2];
        Frame { context, occurrence: self.occurrences, first_slice: self.slices.len(), proof: index }
    }

    fn enter_hard(&mut self, index: u32, context: Context) {
        if let Some(open) = self.hard.take() {
            self.discard(open);
        }
        self.hard = Some(self.frame(index, context));
    }

    fn leave_hard(&mut self, index: u32, context: Context) {
        if self.hard.is_some_and(|open| open.context == context) {
            self.hard = None;
            self.functions = [None; 2];
        } else {
            self.end_of_first(index, context);
        }
    }

    fn leave_soft(&mut self, index: u32, context: Context) {
        if let Some(open) = self.hard.take() {
            self.discard(open);
        }
        if self.soft.is_some_and(|open| open.context == context) {
            self.soft = None;
            self.functions = [None; 2];
        } else {
            self.end_of_first(index, context);
        }
    }

    /// An exit as the first event: the record began inside that interrupt.
    fn end_of_first(&mut self, index: u32, context: Context) {
        if !self.fresh {
            return;
        }
        self.occurrences += 1;
        if let Some(slice) = self.slices.last_mut().filter(|slice| slice.context != Context::Lost) {
            slice.context = context;
            slice.occurrence = self.occurrences;
            slice.proof = Some(index);
            slice.inferred = true;
        }
    }

    /// The exit of an interrupt was not recorded: where it ended is unknown.
    fn discard(&mut self, frame: Frame) {
        for slice in self.slices[frame.first_slice..].iter_mut() {
            if slice.occurrence == frame.occurrence {
                slice.context = Context::Unknown;
            }
        }
    }

    fn drop_frames(&mut self) {
        for frame in [self.hard.take(), self.soft.take()].into_iter().flatten() {
            self.discard(frame);
        }
        self.functions = [None; 2];
    }

    fn lose(&mut self) {
        if let Some(slice) = self.slices.last_mut().filter(|slice| slice.end == self.at) {
            *slice = Slice { faults: 0, ..blank(slice.begin, slice.end, Context::Lost) };
        }
        self.hard = None;
        self.soft = None;
        self.functions = [None; 2];
        self.task = None;
        self.idle_state = None;
        self.pending_from = self.slices.len();
        self.sure_from = self.slices.len();
    }

    fn mark_before(&mut self, complete_from: Mono) {
        for slice in self.slices.iter_mut().take_while(|slice| slice.begin < complete_from) {
            *slice = blank(slice.begin, slice.end, Context::Lost);
        }
    }
}

fn task_context(tid: Tid, idle_state: Option<u32>) -> Context {
    if tid == Tid::IDLE {
        Context::Idle(idle_state)
    } else {
        Context::Thread(tid)
    }
}

/// Cuts the NMIs (ascending in their ends) out of the slices.
fn carve(slices: Vec<Slice>, nmis: &[Slice]) -> Vec<Slice> {
    let (Some(first), Some(last)) = (slices.first(), slices.last()) else { return slices };
    let (from, until) = (first.begin, last.end);
    let mut free_from = from;
    let mut cuts: Vec<Slice> = Vec::with_capacity(nmis.len());
    for nmi in nmis {
        let cut = Slice { begin: nmi.begin.max(free_from), end: nmi.end.min(until), ..*nmi };
        if cut.begin < cut.end {
            free_from = cut.end;
            cuts.push(cut);
        }
    }
    let mut carved = Vec::with_capacity(slices.len() + 2 * cuts.len());
    let mut cuts = cuts.into_iter().peekable();
    for slice in slices {
        let mut at = slice.begin;
        while let Some(cut) = cuts.peek_mut().filter(|cut| cut.begin < slice.end) {
            if at < cut.begin {
                carved.push(Slice { begin: at, end: cut.begin, faults: 0, ..slice });
            }
            let end = cut.end.min(slice.end);
            carved.push(Slice { begin: cut.begin, end, ..*cut });
            at = end;
            if cut.end > slice.end {
                cut.begin = slice.end;
                break;
            }
            cuts.next();
        }
        if at < slice.end {
            carved.push(Slice { begin: at, ..slice });
        }
    }
    carved
}
