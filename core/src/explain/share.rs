//! Shares of a time span of a CPU: slices added up by source.
//!
//! A [`Share`] becomes a leaf of the tree and, with its [`Role`], the input of the rules in `causes`. Slices without
//! information become gaps. Shares and gaps of a span add up to it exactly, as its slices do.

use std::collections::BTreeMap;

use super::cpu::{Context, Slice};
use super::pi_boost;
use super::record::{softirq_name, vector_name, Record};
use super::segment::{Evidence, Kind, Segment};
use crate::series::Thread;
use crate::time::{Cpu, Mono, Ns, Prio, Tid};
use crate::trace::event::{Kind as Event, LeftAs, Level, Sym, TaskRef};

/// Longer than the entry and exit of any interrupt around its functions.
const WAY_IN_AND_OUT: Ns = Ns::from_us(50);

/// Phase of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The timer was due and its interrupt did not come.
    TimerLate,
    /// The timer interrupt.
    TimerInterrupt,
    /// The victim was runnable.
    Waiting,
    /// The victim was on the CPU.
    Running,
    /// The victim was blocked.
    Blocked,
}

/// Effect of a share on the victim.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Role {
    /// An interrupt, which always takes the CPU.
    Interrupt,
    /// It kept interrupts off.
    IrqsOff {
        /// The stack shows where they were re-enabled; else it is inferred from kernel code.
        sure: bool,
    },
    /// It kept the CPU although the victim had a higher priority.
    Keeps {
        /// It was in user mode when the victim was woken.
        in_user: Option<bool>,
        /// How it left the CPU.
        left: Option<LeftAs>,
        /// Timers were due for most of it, but no interrupt came.
        unserved: bool,
    },
    /// It was being switched out, within the time that the scheduler needs.
    Switching,
    /// It was entitled to the CPU: equal or higher priority.
    Wins,
    /// Both are SCHED_OTHER threads, and shared the CPU.
    SharesFairly,
    /// A priority is not recorded.
    Unranked,
    /// The CPU was idle.
    Idle,
    /// It is the victim itself.
    Victim,
    /// The victim was blocked until it acted.
    Awaited,
    /// Steal time: the hypervisor ran something else on this CPU.
    Host,
}

/// The time one source had in one phase.
#[derive(Clone, Debug)]
pub struct Share {
    /// The phase.
    pub phase: Phase,
    /// Effect on the victim.
    pub role: Role,
    /// The source.
    pub context: Context,
    /// The kind of the leaf.
    pub kind: Kind,
    /// The source as text: `hard IRQ 25 (virtio0)`, `hog/99 (RT 98)`.
    pub name: String,
    /// CPU.
    pub cpu: Cpu,
    /// Start of its first slice in this phase.
    pub begin: Mono,
    /// Net time.
    pub net: Ns,
    /// Occurrences.
    pub count: u32,
    /// Its slices (start, end), ascending. Time taken out of `net` remains in them.
    pub pieces: Vec<(Mono, Mono)>,
    /// The thread, if it is one.
    pub thread: Option<Thread>,
    /// Its kernel stack, if recorded.
    pub stack: Vec<String>,
    /// Functions that ran in it (timers, cross-CPU calls), with the time of each.
    pub functions: Vec<(String, Ns)>,
    /// Page faults it took.
    pub faults: u32,
    /// Events that prove it.
    pub evidence: Vec<Evidence>,
    /// Inferred, not recorded.
    pub inferred: bool,
}

impl Share {
    /// Share for a wait on something that is not a thread, with the time of `leaf`.
    #[must_use]
    pub fn awaited(name: &str, cpu: Cpu, leaf: &Segment) -> Share {
        Share {
            phase: Phase::Blocked,
            role: Role::Awaited,
            context: Context::Unknown,
            kind: Kind::Blocked,
            name: name.to_owned(),
            cpu,
            begin: leaf.begin,
            net: leaf.duration_ns,
            count: 1,
            pieces: Vec::new(),
            thread: None,
            stack: Vec::new(),
            functions: Vec::new(),
            faults: 0,
            evidence: leaf.evidence.clone(),
            inferred: leaf.inferred,
        }
    }

    /// The leaf of the tree.
    #[must_use]
    pub fn leaf(&self, label: String) -> Segment {
        let mut leaf = Segment::leaf(self.kind, label, self.begin, self.net);
        leaf.count = self.count;
        leaf.faults = self.faults;
        leaf.pieces.clone_from(&self.pieces);
        leaf.thread.clone_from(&self.thread);
        leaf.stack.clone_from(&self.stack);
        leaf.evidence.clone_from(&self.evidence);
        leaf.inferred = self.inferred;
        leaf
    }

    /// Whether most of it is outside its recorded functions: entry and exit of an interrupt take only some µs.
    #[must_use]
    pub fn is_outside_functions(&self) -> bool {
        let inside: Ns = self.functions.iter().map(|(_, time)| *time).sum();
        let outside = self.net.saturating_sub(inside);
        !self.functions.is_empty() && outside > inside && outside >= WAY_IN_AND_OUT
    }

    /// `name`, with the functions that took most of it.
    #[must_use]
    pub fn label(&self) -> String {
        match self.functions.as_slice() {
            [] => self.name.clone(),
            _ if self.is_outside_functions() => format!("{}, most outside its functions", self.name),
            [(only, _)] => format!("{}: {only}", self.name),
            [(first, _), (second, _)] => format!("{}: {first}, {second}", self.name),
            [(first, _), (second, _), ..] => format!("{}: {first}, {second}, …", self.name),
        }
    }

    /// The name of the thread without its id, for rankings over time.
    #[must_use]
    pub fn comm(&self) -> String {
        match &self.thread {
            Some(thread) if !thread.comm.is_empty() => thread.comm.clone(),
            Some(thread) => format!("thread {}", thread.tid),
            None => self.name.clone(),
        }
    }
}

/// The shares of a span of one CPU, largest first, and its gaps.
pub struct Tally {
    /// By source.
    pub shares: Vec<Share>,
    /// Time without information.
    pub gaps: Vec<Segment>,
}

/// Accumulates slices for a share.
struct Sum {
    share: Share,
    last_occurrence: u32,
    longest: Ns,
    functions: BTreeMap<Sym, Ns>,
}

/// Adds up `slices` of `cpu` by source.
#[must_use]
pub fn tally(record: &Record, phase: Phase, cpu: Cpu, slices: &[Slice]) -> Tally {
    // A thread boosted while the victim waits has one share with the boost and one without.
    let mut sums: BTreeMap<(Context, Option<Prio>), Sum> = BTreeMap::new();
    let mut gaps = Vec::new();
    let split = (phase == Phase::Waiting).then(|| pi_boost::split(record, slices));
    for slice in split.as_deref().unwrap_or(slices) {
        match slice.context {
            Context::Unknown => gaps.push(gap(slice, "the task on the CPU is not recorded")),
            Context::Lost if record.is_before_recording(slice.end) => gaps.push(gap(slice, BEFORE_RECORDING)),
            Context::Lost => gaps.push(gap(slice, "events lost")),
            Context::Stalled => gaps.push(gap(slice, STALLED)),
            context => {
                let source = if let Context::Idle(_) = context { Context::Idle(None) } else { context };
                let lent = lent(record, phase, slice);
                let new = || Sum::new(record, phase, cpu, slice, lent);
                sums.entry((source, lent)).or_insert_with(new).add(record, slice);
            }
        }
    }
    let mut shares: Vec<Share> = sums.into_values().map(|sum| sum.finish(record)).collect();
    shares.sort_by_key(|share| (std::cmp::Reverse(share.net), share.begin));
    Tally { shares, gaps }
}

/// Text for a time before recording.
pub const BEFORE_RECORDING: &str = "before recording began";

/// Text for a stall of the whole machine.
pub const STALLED: &str = "all recorded CPUs stalled: no event on any of them, and ticks of busy CPUs that were due in this time were served after it";

fn gap(slice: &Slice, label: &str) -> Segment {
    Segment::unexplained(Kind::Lost, label, slice.begin, slice.length())
}

impl Sum {
    fn new(record: &Record, phase: Phase, cpu: Cpu, slice: &Slice, lent: Option<Prio>) -> Sum {
        let (kind, name, thread) = source(record, cpu, slice, lent);
        let role = match slice.context {
            Context::Idle(_) => Role::Idle,
            Context::Thread(_) => Role::Unranked,
            _ => Role::Interrupt,
        };
        let share = Share {
            phase,
            role,
            context: slice.context,
            kind,
            name,
            cpu,
            begin: slice.begin,
            net: Ns::ZERO,
            count: 0,
            pieces: Vec::new(),
            thread,
            stack: Vec::new(),
            functions: Vec::new(),
            faults: 0,
            evidence: Vec::new(),
            inferred: false,
        };
        Sum { share, last_occurrence: 0, longest: Ns::ZERO, functions: BTreeMap::new() }
    }

    fn add(&mut self, record: &Record, slice: &Slice) {
        let share = &mut self.share;
        share.net = share.net + slice.length();
        match share.pieces.last_mut() {
            Some((_, end)) if *end == slice.begin => *end = slice.end,
            _ => share.pieces.push((slice.begin, slice.end)),
        }
        share.faults = share.faults.saturating_add(slice.faults);
        share.inferred |= slice.inferred;
        if share.count == 0 || slice.occurrence != self.last_occurrence {
            share.count += 1;
            self.last_occurrence = slice.occurrence;
        }
        if let Context::Idle(Some(state)) = slice.context {
            if share.context == Context::Idle(None) {
                share.context = slice.context;
            }
            share.name = format!("idle in {}", record.idle_state(state));
        }
        if let Some(function) = slice.function {
            let time = self.functions.entry(function).or_default();
            *time = *time + slice.length();
        }
        if let Some(proof) = slice.proof.filter(|_| slice.length() > self.longest) {
            self.longest = slice.length();
            share.evidence = vec![record.evidence(proof)];
        }
    }

    fn finish(self, record: &Record) -> Share {
        let mut share = self.share;
        let functions = self.functions.into_iter();
        share.functions = functions.map(|(sym, time)| (record.text(sym).to_owned(), time)).collect();
        share.functions.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        share
    }
}

impl Share {
    /// A share without time: the source of `slice`, to be filled in.
    #[must_use]
    pub fn of(record: &Record, phase: Phase, cpu: Cpu, slice: &Slice) -> Share {
        Sum::new(record, phase, cpu, slice, lent(record, phase, slice)).finish(record)
    }
}

/// The next task switched out on `cpu` after the start of `slice`, and when.
fn cpu_left(record: &Record, cpu: Cpu, slice: &Slice) -> Option<(TaskRef, Mono)> {
    record.events_on(cpu, slice.begin, Mono(u64::MAX)).find_map(|(_, event)| match event.kind {
        Event::Switch { prev, .. } if event.at > slice.begin => Some((prev, event.at)),
        _ => None,
    })
}

/// The boosted priority of the thread of a slice, while the victim waits for the CPU.
fn lent(record: &Record, phase: Phase, slice: &Slice) -> Option<Prio> {
    if phase == Phase::Waiting {
        pi_boost::shown(record, slice)
    } else {
        None
    }
}

/// Kind, name and thread of a slice's source on `cpu`; a thread has the name with which it leaves the CPU, and its boosted
/// priority, else the highest recorded.
fn source(record: &Record, cpu: Cpu, slice: &Slice, lent: Option<Prio>) -> (Kind, String, Option<Thread>) {
    match slice.context {
        Context::Idle(_) => (Kind::Idle, "idle".to_owned(), None),
        Context::Thread(tid) => {
            // It may change its name and its own priority (sched_setscheduler) while it runs.
            let left = cpu_left(record, cpu, slice).filter(|(prev, _)| prev.tid == tid);
            let end = left.map_or(slice.end, |(_, at)| at);
            let thread = match slice.task.filter(|task| task.tid == tid && tid != Tid::IDLE) {
                Some(task) => record.thread(task, end),
                None => record.thread_by_id(tid, end),
            };
            let highest =
                thread.prio.zip(left.and_then(|(prev, _)| prev.prio)).map(|(a, b)| a.min(b)).or(thread.prio);
            let prio = lent.or(highest);
            let thread = Thread { prio, ..thread };
            (Kind::Thread, thread.to_string(), Some(thread))
        }
        Context::HardIrq(irq) => (Kind::HardIrq, record.irq_name(irq, slice.proof), None),
        Context::Vector(vector) => (Kind::Vector, vector_name(vector), None),
        Context::Softirq(vec) => (Kind::Softirq, format!("softirq {}", softirq_name(vec)), None),
        Context::Nmi => (Kind::Nmi, "NMI".to_owned(), None),
        Context::Unseen(Level::Softirq) => (Kind::Softirq, "a softirq that is not recorded".to_owned(), None),
        Context::Unseen(_) => (Kind::HardIrq, "an interrupt that is not recorded".to_owned(), None),
        Context::Unknown | Context::Lost | Context::Stalled => (Kind::Lost, "not recorded".to_owned(), None),
    }
}
