//! The drawing of an explained interval: a lane for each CPU, for each thread in the explanation, and for each level of
//! the explanation. [`crate::export::perfetto`] writes them for the Perfetto UI, [`crate::report::explanation`] draws
//! them.
//!
//! Bars of one lane never overlap. A part with several pieces is drawn piece by piece. For some parts only the amount
//! is known, not the place: steal time is drawn from its earliest start, gaps wherever nothing else is.

use std::collections::{BTreeMap, BTreeSet};

use super::answers::Answer;
use super::cpu::{Context, Slice};
use super::record::{softirq_name, vector_name, Record};
use super::segment::{Gap, Kind, Segment};
use super::thread::{states, State};
use crate::series::Thread;
use crate::time::{Cpu, Mono, Ns, Tid};

/// Appearance of a bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// A thread runs.
    Running,
    /// A thread is runnable.
    Ready,
    /// A thread is blocked.
    Blocked,
    /// An interrupt, softirq or NMI.
    Interrupt,
    /// A CPU idles.
    Idle,
    /// A part of the explanation.
    Part,
    /// Nothing is known.
    Unknown,
}

/// A span `[begin, end)` of a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bar {
    /// Start.
    pub begin: Mono,
    /// End, excluded.
    pub end: Mono,
    /// Its appearance.
    pub look: Look,
    /// Its text.
    pub label: String,
}

/// Subject of a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Of {
    /// The tasks of a CPU.
    Cpu(Cpu),
    /// The interrupts of a CPU.
    Interrupts(Cpu),
    /// The states of a thread.
    Thread(Thread),
    /// A level of the explanation's tree; 1 is the outermost part.
    Path(usize),
}

/// One lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// Its subject.
    pub of: Of,
    /// Ascending, not overlapping.
    pub bars: Vec<Bar>,
}

/// The lanes around one interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lanes {
    /// Start.
    pub begin: Mono,
    /// End.
    pub end: Mono,
    /// The explanation first, then threads, then CPUs.
    pub lanes: Vec<Lane>,
}

/// Maximum number of threads in addition to that of the interval.
const MOST_THREADS: usize = 12;

/// The lanes of `answer`, with a tenth of its length on either side.
#[must_use]
pub fn lanes(record: &Record, answer: &Answer) -> Lanes {
    let margin = Ns((answer.total_ns.0 / 10).max(10_000));
    let begin = Mono(answer.begin.0.saturating_sub(margin.0));
    let end = (answer.end + margin).min(record.until()).max(answer.end);
    let mut lanes = Vec::new();
    let mut threads = vec![answer.thread.clone()];
    if let Some(tree) = &answer.tree {
        path(tree, &mut lanes);
        involved(tree, &mut threads);
    }
    for thread in threads.into_iter().take(MOST_THREADS + 1) {
        let bars = states(record, thread.tid, begin, end).into_iter().filter_map(|stretch| {
            let (look, label) = match stretch.state {
                State::Running => (Look::Running, "running"),
                State::Woken => (Look::Ready, "woken, waits for a CPU"),
                State::Preempted => (Look::Ready, "preempted, waits for a CPU"),
                State::Blocked(_) => (Look::Blocked, "blocked"),
                State::Ended | State::Unborn => return None,
                State::Unknown => (Look::Unknown, "not known"),
            };
            let cpu = stretch.cpu.map_or(String::new(), |cpu| format!(" (CPU {cpu})"));
            Some(Bar { begin: stretch.begin, end: stretch.end, look, label: format!("{label}{cpu}") })
        });
        lanes.push(Lane { bars: bars.collect(), of: Of::Thread(thread) });
    }
    for cpu in record.cpus().collect::<BTreeSet<_>>() {
        let slices = record.slices(cpu, begin, end);
        lanes.push(Lane { of: Of::Cpu(cpu), bars: tasks(record, &slices) });
        lanes.push(Lane { of: Of::Interrupts(cpu), bars: interrupts(record, &slices) });
    }
    Lanes { begin, end, lanes }
}

/// The threads in the tree, in order, without the idle task.
fn involved(node: &Segment, found: &mut Vec<Thread>) {
    if let Some(thread) = &node.thread
        && thread.tid != Tid::IDLE
        && found.iter().all(|known| known.tid != thread.tid)
    {
        found.push(thread.clone());
    }
    node.children.iter().for_each(|child| involved(child, found));
}

/// The levels of the tree, gaps included.
fn path(tree: &Segment, lanes: &mut Vec<Lane>) {
    let mut level: Vec<&Segment> = vec![tree];
    for depth in 1.. {
        let (whole, pieced): (Vec<&Segment>, Vec<&Segment>) =
            level.iter().flat_map(|node| &node.children).partition(|child| child.pieces.is_empty());
        let mut line = Line::default();
        for child in whole.into_iter().chain(pieced) {
            let look = if child.kind == Kind::Lost { Look::Unknown } else { Look::Part };
            let all = [(child.begin, child.begin + child.duration_ns)];
            let pieces = if child.pieces.is_empty() { &all[..] } else { &child.pieces };
            pieces.iter().for_each(|&piece| line.add(piece, look, &child.label));
        }
        let gaps = || level.iter().flat_map(|&node| node.gaps.iter().map(move |gap| (node, gap)));
        let is_rest = |node: &Segment, gap: &Gap| gap.begin == node.begin && gap.label == node.label;
        let (rests, others): (Vec<_>, Vec<_>) = gaps().partition(|(node, gap)| is_rest(node, gap));
        for (node, gap) in others.into_iter().chain(rests) {
            let length = if is_rest(node, gap) { node.duration_ns } else { gap.duration_ns };
            let label = format!("unexplained: {}", gap.label);
            line.add((gap.begin, gap.begin + length), Look::Unknown, &label);
        }
        if line.0.is_empty() {
            return;
        }
        lanes.push(Lane { of: Of::Path(depth), bars: line.0.into_values().collect() });
        level = level.iter().flat_map(|node| &node.children).collect();
    }
}

/// Bars by their start.
#[derive(Default)]
struct Line(BTreeMap<Mono, Bar>);

impl Line {
    /// Draws `[begin, end)` where nothing is drawn yet.
    fn add(&mut self, (begin, end): (Mono, Mono), look: Look, label: &str) {
        let before = self.0.range(..=begin).next_back().map_or(begin, |(_, bar)| bar.end);
        let mut from = begin.max(before);
        let within: Vec<(Mono, Mono)> = match from < end {
            true => self.0.range(from..end).map(|(_, bar)| (bar.begin, bar.end)).collect(),
            false => Vec::new(),
        };
        for (taken, free) in within.into_iter().chain([(end, end)]) {
            if from < taken {
                let bar = Bar { begin: from, end: taken, look, label: label.to_owned() };
                self.0.insert(from, bar);
            }
            from = from.max(free);
        }
    }
}

/// Slices of the same task, joined across interrupts.
fn tasks(record: &Record, slices: &[Slice]) -> Vec<Bar> {
    let mut bars: Vec<Bar> = Vec::new();
    for slice in slices {
        let (look, label) = match (slice.context, slice.task) {
            (Context::Stalled, _) => (Look::Unknown, "all recorded CPUs stalled".to_owned()),
            (Context::Lost | Context::Unknown, _) | (_, None) => (Look::Unknown, "not known".to_owned()),
            (_, Some(task)) if task.tid == Tid::IDLE => (Look::Idle, "idle".to_owned()),
            (_, Some(task)) => (Look::Running, record.thread(task, slice.end).to_string()),
        };
        match bars.last_mut() {
            Some(last) if last.label == label && last.end == slice.begin => last.end = slice.end,
            _ => bars.push(Bar { begin: slice.begin, end: slice.end, look, label }),
        }
    }
    bars
}

fn interrupts(record: &Record, slices: &[Slice]) -> Vec<Bar> {
    let bar = |slice: &Slice| {
        let label = match slice.context {
            Context::HardIrq(irq) => record.irq_name(irq, slice.proof),
            Context::Vector(vector) => vector_name(vector),
            Context::Softirq(vec) => softirq_name(vec),
            Context::Nmi => "NMI".to_owned(),
            _ => return None,
        };
        let function = slice.function.map_or(String::new(), |sym| format!(": {}", record.text(sym)));
        let label = format!("{label}{function}");
        Some(Bar { begin: slice.begin, end: slice.end, look: Look::Interrupt, label })
    };
    slices.iter().filter_map(bar).collect()
}
