//! What is drawn of an explained passage: a lane for each CPU, for each thread that the explanation names, and for each
//! level of the explanation itself. [`crate::export::perfetto`] writes lanes for the Perfetto UI,
//! [`super::html`] draws them.
//!
//! Bars of one lane never overlap: a part that was added up from several occurrences is drawn from its first one, and
//! ends where the next part begins.

use std::collections::BTreeSet;

use super::answers::Answer;
use super::cpu::{Context, Slice};
use super::record::{softirq_name, vector_name, Record};
use super::segment::{Kind, Segment};
use super::thread::{states, State};
use crate::series::Thread;
use crate::time::{Cpu, Mono, Ns, Tid};

/// How a bar looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// A thread runs.
    Running,
    /// A thread wants a CPU.
    Ready,
    /// A thread waits for something.
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

/// A stretch `[begin, end)` of a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bar {
    /// First moment.
    pub begin: Mono,
    /// First moment after it.
    pub end: Mono,
    /// What it is.
    pub look: Look,
    /// The same in words.
    pub label: String,
}

/// What a lane is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Of {
    /// What the CPU's tasks did.
    Cpu(Cpu),
    /// What interrupted them.
    Interrupts(Cpu),
    /// The states of a thread.
    Thread(Thread),
    /// A level of the explanation's tree; 1 is the outermost part.
    Path(usize),
}

/// One lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// Of what.
    pub of: Of,
    /// Ascending, not overlapping.
    pub bars: Vec<Bar>,
}

/// The lanes around one passage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lanes {
    /// Where they begin.
    pub begin: Mono,
    /// Where they end.
    pub end: Mono,
    /// The explanation first, then threads, then CPUs.
    pub lanes: Vec<Lane>,
}

/// Threads drawn beside the passage's own.
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
                State::Ended => return None,
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

/// Whoever the tree names, in its order, the idle task apart.
fn involved(node: &Segment, found: &mut Vec<Thread>) {
    if let Some(thread) = &node.thread {
        if thread.tid != Tid::IDLE && found.iter().all(|known| known.tid != thread.tid) {
            found.push(thread.clone());
        }
    }
    node.children.iter().for_each(|child| involved(child, found));
}

/// The levels of the tree, gaps included.
fn path(tree: &Segment, lanes: &mut Vec<Lane>) {
    let mut level: Vec<&Segment> = vec![tree];
    for depth in 1.. {
        let mut bars: Vec<Bar> = Vec::new();
        for node in &level {
            for child in &node.children {
                let look = if child.kind == Kind::Lost { Look::Unknown } else { Look::Part };
                let (begin, label) = (child.begin, child.label.clone());
                bars.push(Bar { begin, end: begin + child.duration_ns, look, label });
            }
            for gap in &node.gaps {
                let label = format!("unexplained: {}", gap.label);
                bars.push(Bar {
                    begin: gap.begin,
                    end: gap.begin + gap.duration_ns,
                    look: Look::Unknown,
                    label,
                });
            }
        }
        if bars.is_empty() {
            return;
        }
        bars.sort_by_key(|bar| (bar.begin, bar.end));
        for index in 1..bars.len() {
            let next = bars[index].begin;
            bars[index - 1].end = bars[index - 1].end.min(next);
        }
        bars.retain(|bar| bar.end > bar.begin);
        lanes.push(Lane { of: Of::Path(depth), bars });
        level = level.iter().flat_map(|node| &node.children).collect();
    }
}

/// Slices of the same task joined over what interrupted it.
fn tasks(record: &Record, slices: &[Slice]) -> Vec<Bar> {
    let mut bars: Vec<Bar> = Vec::new();
    for slice in slices {
        let (look, label) = match (slice.context, slice.task) {
            (Context::Lost | Context::Unknown, _) | (_, None) => (Look::Unknown, "not known".to_owned()),
            (_, Some(task)) if task.tid == Tid::IDLE => (Look::Idle, "idle".to_owned()),
            (_, Some(task)) => (Look::Running, record.thread(task).to_string()),
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
