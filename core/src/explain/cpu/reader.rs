//! Converts the events of one CPU to slices: a state machine with a state for the thread and one for each interrupt
//! level.

mod silent;

use super::carve::carve;
use super::hard::{task_context, Frame, Hard};
use super::lost::mark_lost;
use super::{blank, Context, Slice};
use crate::hash::HashMap;
use crate::time::{Mono, Tid};
use crate::trace::event::{Event, Kind, Level, Sym, TaskRef, Vector};

/// Reads the events of one CPU, in time order.
pub(super) fn read(events: &[(u32, &Event)], complete_from: Mono, recorded_until: Mono) -> Read {
    let first = events.first().map_or(complete_from, |(_, event)| event.at);
    let mut reader = Reader::new(first.min(complete_from));
    reader.leaves_idle_seen =
        events.iter().any(|(_, of)| matches!(of.kind, Kind::Switch { prev, .. } if prev.tid == Tid::IDLE));
    reader.timers_end = events.iter().any(|(_, of)| matches!(of.kind, Kind::TimerExpireExit { .. }));
    for &(index, event) in events {
        reader.step(index, event);
    }
    for frame in std::mem::take(&mut reader.suspended).into_values() {
        reader.discard(Some(frame));
    }
    reader.mark_before(complete_from);
    let last = reader.top(recorded_until, recorded_until);
    Read { slices: carve(reader.slices, &reader.nmis), last, wakers: reader.wakers }
}

/// The result for a CPU.
pub(super) struct Read {
    /// Ascending and without holes.
    pub slices: Vec<Slice>,
    /// Context after its last event.
    pub last: Slice,
    /// The context of each waking, by the index of its event.
    pub wakers: HashMap<u32, Slice>,
}

struct Reader {
    slices: Vec<Slice>,
    nmis: Vec<Slice>,
    wakers: HashMap<u32, Slice>,
    at: Mono,
    task: Option<TaskRef>,
    task_proof: Option<u32>,
    task_occurrence: u32,
    sure_from: usize,    // slices from here depend on the last proof of `task`
    pending_from: usize, // slices from here wait for a first proof (while `task` is None)
    idle_state: Option<u32>,
    hard: Hard,
    soft: Option<Frame>,
    // PREEMPT_RT: softirqs whose thread was preempted in them, by thread.
    suspended: HashMap<Tid, Frame>,
    functions: [Option<(u64, Option<Sym>)>; 2], // timer, cross-CPU call
    expired: Vec<u64>,                          // timers of the last interrupt that started
    occurrences: u32,
    level: Level, // of the event
    // Number of slices up to the last event that cannot be in a hard interrupt (in a softirq).
    hard_free: usize,
    soft_free: usize,
    leaves_idle_seen: bool, // this CPU reports switches from the idle task
    timers_end: bool,       // the ends of timer handlers are recorded
    leaves_idle: bool,      // the previous event was one that makes an idle CPU reschedule
    // First slice in which a hard interrupt (a softirq) without a recorded entry may be open, after the start of the
    // record or a loss. `None`: an event has ruled that out.
    hard_open_since: Option<usize>,
    soft_open_since: Option<usize>,
}

const TIMER: usize = 0;
const CALL: usize = 1;

impl Reader {
    fn new(at: Mono) -> Reader {
        Reader {
            slices: Vec::new(),
            nmis: Vec::new(),
            wakers: HashMap::default(),
            at,
            task: None,
            task_proof: None,
            task_occurrence: 0,
            sure_from: 0,
            pending_from: 0,
            idle_state: None,
            hard: Hard::default(),
            soft: None,
            suspended: HashMap::default(),
            functions: [None; 2],
            expired: Vec::new(),
            occurrences: 0,
            level: Level::Unsaid,
            hard_free: 0,
            soft_free: 0,
            leaves_idle_seen: false,
            timers_end: false,
            leaves_idle: false,
            hard_open_since: Some(0),
            soft_open_since: Some(0),
        }
    }

    fn step(&mut self, index: u32, event: &Event) {
        if event.at > self.at {
            let slice = self.top(self.at, event.at);
            self.slices.push(slice);
            self.at = event.at;
        }
        self.level = event.level;
        self.rule_out(event);
        match event.kind {
            Kind::Switch { prev, .. } => self.see_task(index, prev, true),
            Kind::IdleEnter { .. } | Kind::IdleExit => self.see_task(index, TaskRef::default(), true),
            Kind::Lost { .. } => {}
            _ => {
                if let Some(tid) = event.current {
                    // A call may have changed its priority since its switch-in.
                    let prio = event.kind.waker_prio();
                    self.see_task(index, TaskRef { tid, prio, comm: None }, false);
                }
            }
        }
        self.apply(index, event);
        self.note_free(event);
        self.leaves_idle = matches!(
            event.kind,
            Kind::IdleExit | Kind::VectorExit(Vector::Reschedule | Vector::CallFunctionSingle)
        );
    }

    fn apply(&mut self, index: u32, event: &Event) {
        match event.kind {
            Kind::Switch { prev, next, .. } => self.switch(index, prev.tid, next),
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
            Kind::TimerExpireEntry { timer, function, .. } => {
                if self.is_interrupt_unseen(event.level) {
                    self.enter_hard(index, Context::Unseen(Level::Hard));
                }
                self.expires(timer);
                self.functions[TIMER] = Some((timer, function));
            }
            Kind::TimerExpireExit { .. } => {
                self.functions[TIMER] = None;
                if self.hard.top().is_some_and(|open| open.context == Context::Unseen(Level::Hard)) {
                    self.leave_hard(index, Context::Unseen(Level::Hard));
                }
            }
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
            Kind::Lost { after, .. } => self.lose(after),
            Kind::Waking { .. } | Kind::Wakeup { .. } => {
                let context = self.waker(event.at);
                self.wakers.insert(index, context);
            }
            _ => {}
        }
    }

    /// Whether a timer handler that starts here runs in an interrupt whose events are not recorded.
    fn is_interrupt_unseen(&self, level: Level) -> bool {
        self.timers_end
            && self.hard_open_since.or(self.soft_open_since).is_none()
            && self.hard.top().or(self.soft).is_none()
            && level != Level::Thread
    }

    /// The current context, as a slice.
    fn top(&self, begin: Mono, end: Mono) -> Slice {
        let function = self.functions[CALL].or(self.functions[TIMER]).and_then(|(_, function)| function);
        let mut slice = blank(begin, end, Context::Unknown);
        slice.task = self.task;
        if let Some(frame) = self.hard.top().or(self.soft) {
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

    /// The current context, if it is certain: not a thread if an unrecorded interrupt may be open.
    fn waker(&self, at: Mono) -> Slice {
        let mut slice = self.top(at, at);
        let unsure = self.hard_open_since.is_some() || self.soft_open_since.is_some();
        if slice.context.is_task() && unsure {
            slice.context = Context::Unknown;
        }
        slice.function = slice.function.or(self.functions[TIMER].and_then(|(_, function)| function));
        slice
    }

    /// An event shows that `task` was on the CPU just before it.
    fn see_task(&mut self, index: u32, task: TaskRef, by_scheduler: bool) {
        match self.task {
            Some(known) if known.tid == task.tid => {
                if let Some(known) = self.task.as_mut() {
                    known.comm = task.comm.or(known.comm);
                    known.prio = task.prio.or(known.prio);
                }
            }
            Some(known) => {
                let from_idle = known.tid == Tid::IDLE && !by_scheduler && !self.leaves_idle_seen;
                self.contradict(from_idle);
                self.drop_frames();
                self.set_task(index, task);
                if from_idle && self.leaves_idle {
                    self.ran_since_the_kick(index, task);
                }
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

    /// On PREEMPT_RT a softirq may be preempted, and continues when its thread runs again. Only its exit proves that:
    /// without it, the open softirq is discarded.
    fn switch(&mut self, index: u32, prev: Tid, next: TaskRef) {
        let open = self.soft.take().filter(|_| self.hard.top().is_none() && prev != Tid::IDLE);
        self.drop_frames();
        if let Some(frame) = open {
            self.suspended.insert(prev, frame);
        }
        self.set_task(index, next);
        self.soft = self.suspended.remove(&next.tid);
    }

    fn enter_idle(&mut self, state: Option<u32>) {
        self.drop_frames();
        self.idle_state = state;
    }

    fn frame(&mut self, index: u32, context: Context) -> Frame {
        self.occurrences += 1;
        self.functions = [None; 2];
        self.expired.clear();
        let (first_slice, level) = (self.slices.len(), self.level);
        Frame { context, occurrence: self.occurrences, first_slice, proof: index, level }
    }

    fn enter_hard(&mut self, index: u32, context: Context) {
        self.hard_open_since = None;
        self.end_unseen();
        let frame = self.frame(index, context);
        let lost = self.hard.enter(frame);
        self.discard(lost);
    }

    fn leave_hard(&mut self, index: u32, context: Context) {
        let since = self.hard_open_since.take();
        if context != Context::Unseen(Level::Hard) {
            self.end_unseen();
        }
        if let Some(inside) = self.hard.leave(context) {
            self.discard(inside);
            self.functions = [None; 2];
        } else if let Some(since) = since {
            self.was_open(index, context, since);
        } else {
            self.was_entered_unseen(context);
        }
    }

    fn leave_soft(&mut self, index: u32, context: Context) {
        self.hard_open_since = None;
        let since = self.soft_open_since.take();
        let open = self.hard.take();
        self.discard(open);
        if self.soft.is_some_and(|open| open.context == context) {
            self.soft = None;
            self.functions = [None; 2];
        } else if let Some(since) = since {
            self.was_open(index, context, since);
        } else {
            self.was_entered_unseen(context);
        }
    }

    /// An exit whose entry is before the record or in a loss: the slices attributed to the thread were that interrupt.
    fn was_open(&mut self, index: u32, context: Context, since: usize) {
        self.occurrences += 1;
        for slice in &mut self.slices[since..] {
            if slice.context.is_task() || (slice.context == Context::Unknown && self.task.is_none()) {
                slice.context = context;
                slice.occurrence = self.occurrences;
                slice.proof = Some(index);
                slice.inferred = true;
            }
        }
    }

    /// The exits of interrupts were not recorded: their ends are unknown.
    fn discard(&mut self, frames: impl IntoIterator<Item = Frame>) {
        for frame in frames {
            for slice in self.slices[frame.first_slice..].iter_mut() {
                if slice.occurrence == frame.occurrence {
                    slice.context = Context::Unknown;
                }
            }
        }
    }

    /// No interrupt is open here: a softirq starts, or the scheduler runs.
    fn drop_frames(&mut self) {
        self.hard_open_since = None;
        self.soft_open_since = None;
        let open = self.hard.take();
        self.discard(open);
        let open = self.soft.take();
        self.discard(open);
        self.functions = [None; 2];
    }

    /// Events after `after` are missing; if that is not known, after the previous event.
    fn lose(&mut self, after: Option<Mono>) {
        self.suspended.clear();
        let (hard, soft) = (self.hard.take(), self.soft);
        let is_open = |occurrence| hard.iter().chain(&soft).any(|open: &Frame| open.occurrence == occurrence);
        mark_lost(&mut self.slices, self.at, after, is_open);
        self.soft = None;
        self.functions = [None; 2];
        self.task = None;
        self.idle_state = None;
        self.pending_from = self.slices.len();
        self.sure_from = self.slices.len();
        self.hard_open_since = Some(self.slices.len());
        self.soft_open_since = Some(self.slices.len());
    }

    /// Events before the start of the complete record only determine the thread that ran at its start.
    fn mark_before(&mut self, complete_from: Mono) {
        let known = self.slices.partition_point(|slice| slice.end <= complete_from);
        let begin = self.slices.first().map_or(complete_from, |slice| slice.begin);
        if let Some(straddling) = self.slices.get_mut(known) {
            straddling.begin = straddling.begin.max(complete_from);
        }
        self.slices.drain(..known);
        if begin < complete_from {
            self.slices.insert(0, blank(begin, complete_from, Context::Lost));
        }
    }
}
