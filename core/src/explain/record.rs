//! The events of a window, indexed once for many look-ups: by CPU, by thread, with names.
//!
//! Built in one pass; every explanation of the same window shares it.

mod contradictions;
pub mod describe;
mod kinds;
mod names;
mod stalls;
mod unseen;

pub use contradictions::Contradiction;
use contradictions::Contradictions;
pub use describe::{softirq_name, vector_name};

use std::collections::BTreeMap;

use self::describe::does_softirqs;
use self::kinds::Kinds;
use self::names::Names;
use super::cpu::{Context, Slice, Timeline};
use super::segment::Evidence;
use crate::hash::{HashMap, HashSet};
use crate::series::Thread;
use crate::time::{Cpu, Mono, Ns, Tid};
use crate::trace::event::{Event, Kind, Level, Sym, TaskRef};
use crate::trace::window::{StackSample, Window};

/// A window with its indices.
pub struct Record<'w> {
    /// The events.
    pub window: &'w Window,
    timelines: BTreeMap<Cpu, Timeline>,
    on_cpu: BTreeMap<Cpu, Vec<u32>>,
    of_thread: HashMap<Tid, Vec<u32>>,
    names: Names,
    /// Which kinds of events there are.
    pub has: Kinds,
    until: Mono,
    losses: Vec<u32>,
    contradictions: Vec<Contradiction>,
    /// Threads that were boosted.
    borrowers: HashSet<Tid>,
}

/// Minimum number of contradictions in an interval that prove a loss.
const LOSSY: usize = 2;
/// Minimum number in the record, if they are a hundredth of its events.
const FEW_QUIRKS: usize = 8;
/// Assumed maximum length of an interrupt without a recorded start.
const UNSEEN: Ns = Ns::from_us(500);
/// Maximum time from the end of an interrupt to a waking in its exit path, for threads that any context may wake;
/// emulated CPUs take some 10 µs.
const WAY_OUT: Ns = Ns::from_us(100);
/// Maximum time for the interrupt's own thread, which no other context wakes; emulated CPUs take some 100 µs.
const WAY_TO_ITS_THREAD: Ns = Ns::from_ms(1);

impl<'w> Record<'w> {
    /// Indexes `window`, and sorts its events if they are out of order.
    #[must_use]
    pub fn new(window: &'w Window) -> Record<'w> {
        let mut record = Record {
            window,
            timelines: BTreeMap::new(),
            on_cpu: BTreeMap::new(),
            of_thread: HashMap::default(),
            names: Names::default(),
            has: Kinds::of(&window.events),
            until: window.events.iter().map(|event| event.at).max().unwrap_or_default(),
            losses: Vec::new(),
            contradictions: Vec::new(),
            borrowers: HashSet::default(),
        };
        let mut order: Vec<u32> = (0..window.events.len() as u32).collect();
        order.sort_by_key(|&index| window.events[index as usize].at); // stable; linear when already sorted
        for &index in &order {
            record.index(index);
        }
        for (&cpu, indices) in &record.on_cpu {
            let events: Vec<(u32, &Event)> =
                indices.iter().map(|&i| (i, &window.events[i as usize])).collect();
            let complete_from = window.complete_from.get(&cpu).copied();
            record.timelines.insert(cpu, Timeline::read(&events, complete_from, record.until));
        }
        record.contradictions = record.contradict(&order);
        record.forget_unseen_turns();
        record.mark_stalls(&order);
        record
    }

    fn index(&mut self, index: u32) {
        let event = &self.window.events[index as usize];
        match event.kind {
            Kind::Lost { .. } => self.losses.push(index),
            Kind::PiSetprio { task, .. } => _ = self.borrowers.insert(task.tid),
            Kind::Rename { tid, comm: Some(comm) } => self.names.rename(tid, comm, event.at),
            _ => {}
        }
        let of_cpu = self.on_cpu.entry(event.cpu).or_default();
        // After a switch the other thread runs, even without an event of its own.
        let before = of_cpu.last().and_then(|&before| match self.window.events[before as usize] {
            Event { kind: Kind::Switch { next, .. }, .. } => Some(next.tid),
            Event { current, .. } => current,
        });
        of_cpu.push(index);
        let mut of_threads: [Option<Tid>; 3] = [None; 3];
        if event.current.is_some() && event.current != before {
            of_threads[2] = event.current;
        }
        for (task, place) in tasks(&event.kind).into_iter().flatten().zip(0..) {
            of_threads[place] = Some(task.tid);
            if task.tid != Tid::IDLE {
                self.names.see(task, event);
            }
        }
        for place in 0..of_threads.len() {
            let Some(tid) = of_threads[place].filter(|tid| !of_threads[..place].contains(&Some(*tid))) else {
                continue;
            };
            self.of_thread.entry(tid).or_default().push(index);
        }
    }

    /// The event at `index`.
    #[must_use]
    pub fn event(&self, index: u32) -> &'w Event {
        &self.window.events[index as usize]
    }

    /// Time of the last event on any CPU.
    #[must_use]
    pub fn until(&self) -> Mono {
        self.until
    }

    /// Whether this thread was boosted anywhere in the record.
    #[must_use]
    pub fn was_lent(&self, tid: Tid) -> bool {
        self.borrowers.contains(&tid)
    }

    /// Start of the complete record of `cpu`; `None` if it has no event.
    #[must_use]
    pub fn complete_from(&self, cpu: Cpu) -> Option<Mono> {
        self.timelines.get(&cpu).map(Timeline::complete_from)
    }

    /// Whether recording began at `at` or later.
    #[must_use]
    pub fn is_before_recording(&self, at: Mono) -> bool {
        self.window.began.is_some_and(|began| at <= began)
    }

    /// End of the last loss of `cpu` in `[a, b]`.
    #[must_use]
    pub fn lost_until(&self, cpu: Cpu, a: Mono, b: Mono) -> Option<Mono> {
        let until = |event: &Event| match event.kind {
            Kind::Lost { after, .. } if event.at <= b || after.is_some_and(|after| after < b) => event.at,
            _ => Mono(0),
        };
        let of_cpu = self.losses.iter().map(|&index| self.event(index)).filter(|event| event.cpu == cpu);
        of_cpu.map(until).filter(|&until| until > a).max().map(|until| until.min(b))
    }

    fn contradict(&self, order: &[u32]) -> Vec<Contradiction> {
        let mut read = Contradictions::new(self.has.wakings, self.window.is_selective);
        let whole = |event: &&Event| {
            self.window.complete_from.get(&event.cpu).is_none_or(|complete_from| event.at >= *complete_from)
        };
        order.iter().map(|&index| self.event(index)).filter(whole).for_each(|event| read.step(event));
        read.found()
    }

    /// Contradictions between events in `[a, b]`: events were lost there, and the trace does not report it.
    #[must_use]
    pub fn contradictions(&self, a: Mono, b: Mono) -> &[Contradiction] {
        let from = self.contradictions.partition_point(|found| found.at < a);
        let until = self.contradictions.partition_point(|found| found.at <= b).max(from);
        &self.contradictions[from..until]
    }

    /// Whether events were lost around `[a, b]` that the trace does not report. Kernels have quirks: one contradiction proves
    /// nothing, nor do a few in a long record.
    #[must_use]
    pub fn lacks_events(&self, a: Mono, b: Mono) -> bool {
        let all = self.contradictions.len();
        self.contradictions(a, b).len() >= LOSSY || all >= FEW_QUIRKS && all * 100 >= self.window.events.len()
    }

    /// All CPUs with events.
    pub fn cpus(&self) -> impl Iterator<Item = Cpu> + '_ {
        self.timelines.keys().copied()
    }

    /// The slices of `cpu` in `[a, b)`, covering it exactly.
    #[must_use]
    pub fn slices(&self, cpu: Cpu, a: Mono, b: Mono) -> Vec<Slice> {
        match self.timelines.get(&cpu) {
            Some(timeline) => timeline.between(a, b),
            None => Timeline::read(&[], None, self.until).between(a, b),
        }
    }

    /// The context of an event of `cpu` at `at`.
    #[must_use]
    pub fn slice_before(&self, cpu: Cpu, at: Mono) -> Option<&Slice> {
        self.timelines.get(&cpu).and_then(|timeline| timeline.before(at))
    }

    /// The context of the waking at this index. A waking in the exit path of an interrupt, after its handler, is by the
    /// interrupt, not by the interrupted task.
    #[must_use]
    pub fn waker(&self, waking: u32) -> Option<Slice> {
        let event = self.event(waking);
        let slice = self.timelines.get(&event.cpu).and_then(|timeline| timeline.waker(waking)).copied();
        if slice.is_some_and(|slice| slice.context.is_hard() || matches!(slice.context, Context::Softirq(_)))
        {
            return slice;
        }
        self.way_out(waking, event).or(slice).map(|slice| self.seen_by_flags(event, slice))
    }

    /// The slice of an event's context, corrected by the flags of the event.
    fn seen_by_flags(&self, event: &Event, slice: Slice) -> Slice {
        let is_own = |tid| does_softirqs(&self.thread_by_id(tid, event.at).comm);
        let context = match (event.level, slice.context) {
            (Level::Softirq, Context::Thread(tid)) if is_own(tid) => slice.context,
            (Level::Softirq | Level::Hard, Context::Thread(_) | Context::Idle(_) | Context::Unknown) => {
                Context::Unseen(event.level)
            }
            (Level::Thread, Context::Unknown | Context::Lost) => {
                event.current.map_or(slice.context, Context::Thread)
            }
            (_, context) => context,
        };
        if context == slice.context {
            return slice;
        }
        let begin = Mono(event.at.0.saturating_sub(UNSEEN.0));
        Slice { context, begin, proof: None, ..slice }
    }

    /// The interrupt that woke its own thread, or that of softirqs, in its exit path.
    fn way_out(&self, waking: u32, event: &Event) -> Option<Slice> {
        let (Kind::Waking { task, .. } | Kind::Wakeup { task, .. }) = event.kind else { return None };
        let comm = self.thread(task, event.at).comm;
        let by_any = ["ksoftirqd/", "ktimers/", "ktimersd/", "rcuc/"].iter().any(|own| comm.starts_with(own));
        let from = Mono(event.at.0.saturating_sub(WAY_TO_ITS_THREAD.0));
        let before =
            self.events_on(event.cpu, from, event.at).rev().skip_while(|(index, _)| *index != waking);
        for (_, earlier) in before.skip(1) {
            match earlier.kind {
                _ if by_any && event.at.since(earlier.at) > WAY_OUT => return None,
                Kind::IrqExit { irq } if by_any || comm.starts_with(&format!("irq/{irq}-")) => {
                    return self.slice_before(event.cpu, earlier.at).copied();
                }
                Kind::VectorExit(_) if by_any => return self.slice_before(event.cpu, earlier.at).copied(),
                Kind::Waking { .. }
                | Kind::Wakeup { .. }
                | Kind::SoftirqRaise { .. }
                | Kind::Other { .. } => {}
                _ => return None,
            }
        }
        None
    }

    /// Events of one CPU in `[a, b]`, ascending in time, with their indices.
    pub fn events_on(
        &self,
        cpu: Cpu,
        a: Mono,
        b: Mono,
    ) -> impl DoubleEndedIterator<Item = (u32, &'w Event)> + '_ {
        let indices = self.on_cpu.get(&cpu).map_or(&[][..], Vec::as_slice);
        self.range(indices, a, b)
    }

    /// Events that concern a thread (switch, waking, migration, or the first that names it as running) in `[a, b]`.
    pub fn events_of(
        &self,
        tid: Tid,
        a: Mono,
        b: Mono,
    ) -> impl DoubleEndedIterator<Item = (u32, &'w Event)> + '_ {
        let indices = self.of_thread.get(&tid).map_or(&[][..], Vec::as_slice);
        self.range(indices, a, b)
    }

    fn range<'r>(
        &'r self,
        indices: &'r [u32],
        a: Mono,
        b: Mono,
    ) -> impl DoubleEndedIterator<Item = (u32, &'w Event)> + 'r {
        let window = self.window;
        let from = indices.partition_point(|&index| window.events[index as usize].at < a);
        let until = indices.partition_point(|&index| window.events[index as usize].at <= b).max(from);
        indices[from..until].iter().map(move |&index| (index, &window.events[index as usize]))
    }

    /// Stack samples of a CPU in `[a, b]`.
    pub fn stacks(&self, cpu: Cpu, a: Mono, b: Mono) -> impl Iterator<Item = &'w StackSample> {
        self.window.stacks.iter().filter(move |stack| stack.cpu == cpu && stack.at >= a && stack.at <= b)
    }

    /// Start of the interrupt at `at`; `at` itself if there is none.
    #[must_use]
    pub fn interrupt_begin(&self, cpu: Cpu, at: Mono) -> Mono {
        match self.slice_before(cpu, at).filter(|slice| slice.context.is_hard()) {
            Some(slice) => slice.proof.map_or(slice.begin, |proof| self.event(proof).at.min(slice.begin)),
            None => at,
        }
    }

    /// A thread with the name that it had at `at`, and its priority: from this event, else the last one.
    #[must_use]
    pub fn thread(&self, task: TaskRef, at: Mono) -> Thread {
        let comm = match self.names.at(task.tid, at).or(task.comm) {
            Some(sym) => self.window.strings.get(sym).to_owned(),
            None => self.window.comms.get(&task.tid).cloned().unwrap_or_default(),
        };
        Thread { tid: task.tid, comm, prio: task.prio.or_else(|| self.names.prio(task.tid)) }
    }

    /// A thread known by its id alone, with the name that it had at `at`.
    #[must_use]
    pub fn thread_by_id(&self, tid: Tid, at: Mono) -> Thread {
        self.thread(TaskRef { tid, prio: None, comm: None }, at)
    }

    /// `hard IRQ 25 (virtio0)`.
    #[must_use]
    pub fn irq_name(&self, irq: u32, proof: Option<u32>) -> String {
        let recorded = proof.and_then(|index| match self.event(index).kind {
            Kind::IrqEntry { name: Some(name), .. } => Some(self.window.strings.get(name)),
            _ => None,
        });
        match recorded.filter(|name| !name.is_empty()).or(self.window.irq_names.get(&irq).map(String::as_str))
        {
            Some(name) => format!("hard IRQ {irq} ({name})"),
            None => format!("hard IRQ {irq}"),
        }
    }

    /// The name of an idle state: `C1`.
    #[must_use]
    pub fn idle_state(&self, state: u32) -> String {
        self.window.idle_states.get(&state).cloned().unwrap_or_else(|| format!("state {state}"))
    }

    /// The text of a symbol.
    #[must_use]
    pub fn text(&self, sym: Sym) -> &'w str {
        self.window.strings.get(sym)
    }

    /// Name of a system call; `sys 600` for an unknown number.
    #[must_use]
    pub fn call_name(&self, id: i32) -> String {
        self.window.syscalls.name(id).map_or_else(|| format!("sys {id}"), str::to_owned)
    }

    /// Whether this system call is `futex`, whose first argument is an address and the second the operation.
    #[must_use]
    pub fn is_futex(&self, id: i32) -> bool {
        self.window.syscalls.name(id) == Some("futex")
    }

    /// The event at `index` as evidence.
    #[must_use]
    pub fn evidence(&self, index: u32) -> Evidence {
        let event = self.event(index);
        Evidence { event: self.describe(&event.kind), cpu: event.cpu, at: event.at }
    }
}

fn tasks(kind: &Kind) -> [Option<TaskRef>; 2] {
    match *kind {
        Kind::Switch { prev, next, .. } => [Some(prev), Some(next)],
        Kind::Waking { task, .. }
        | Kind::Wakeup { task, .. }
        | Kind::Migrate { task, .. }
        | Kind::PiSetprio { task, .. }
        | Kind::TaskExit { task } => [Some(task), None],
        Kind::Fork { child, .. } => [Some(child), None],
        _ => [None, None],
    }
}
