//! The lines of a tracer's text in order, with their stacks, and the times between them as parts.

use super::stack;
use crate::explain::segment::{Kind, Segment};
use crate::printable;
use crate::series::Thread;
use crate::time::{Cpu, Mono, Ns, Tid};
use crate::trace::ftrace_text::line::{parse, EventLine, Line};

/// Most gaps that are parts of their own.
const MOST_GAPS: usize = 8;

/// One line with a time.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub at: Mono,
    pub cpu: Cpu,
    pub task: Thread,
    /// The columns of flags: `dNh2.`.
    pub columns: String,
    /// What was recorded: `__schedule <-schedule`.
    pub what: String,
    /// The stack printed behind it, innermost first.
    pub stack: Vec<String>,
}

/// All of them, in the order of the text.
pub(super) fn read(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in text.lines() {
        let trimmed = line.trim();
        if let Some(frame) = trimmed.strip_prefix("=>") {
            let name = stack::name(frame);
            if let Some(step) = steps.last_mut().filter(|_| !matches!(name, "" | "0")) {
                step.stack.push(printable::line(name).into_owned());
            }
            continue;
        }
        if let Some(Line::Event(event)) = parse(line) {
            steps.push(Step::of(&event));
        }
    }
    steps
}

impl Step {
    fn of(event: &EventLine) -> Step {
        let what = match event.name {
            "text" | "function" | "timerlat" => event.fields.to_owned(),
            name => format!("{name}: {}", event.fields),
        };
        let comm = printable::line(event.comm).into_owned();
        Step {
            at: Mono(event.at),
            cpu: Cpu(event.cpu),
            task: Thread { tid: Tid(event.tid), comm, prio: None },
            columns: event.columns.to_owned(),
            what: printable::line(&what).into_owned(),
            stack: Vec::new(),
        }
    }

    /// The function of the line, or the line itself.
    pub(super) fn function(&self) -> &str {
        match self.what.split_once(" <-") {
            Some((function, _)) => stack::name(function),
            None if self.is_stack() => "its stack",
            None => &self.what,
        }
    }

    /// `shrink_inactive_list`, who called the function.
    pub(super) fn caller(&self) -> Option<&str> {
        self.what.split_once(" <-").map(|(_, caller)| stack::name(caller))
    }

    pub(super) fn is_stack(&self) -> bool {
        self.what.contains("<stack trace>")
    }

    /// The same place with its caller.
    pub(super) fn place(&self) -> String {
        match self.caller() {
            Some(caller) => format!("{} ← {caller}", self.function()),
            None => self.function().to_owned(),
        }
    }

    /// The columns of interrupt level and preemption depth: there is one more before them on PREEMPT_RT.
    fn level_and_depth(&self) -> (char, char) {
        let columns: Vec<char> = self.columns.chars().collect();
        let at = if columns.len() >= 7 { 3 } else { 2 };
        let of = |at: usize| columns.get(at).copied().unwrap_or('?');
        (of(at), of(at + 1))
    }

    /// Interrupts are off.
    pub(super) fn irqs_off(&self) -> bool {
        self.columns.starts_with(['d', 'D'])
    }

    /// In a hard interrupt.
    pub(super) fn in_interrupt(&self) -> bool {
        matches!(self.level_and_depth().0, 'h' | 'H' | 'z' | 'Z')
    }

    /// In a softirq.
    pub(super) fn in_softirq(&self) -> bool {
        self.level_and_depth().0 == 's'
    }

    /// Preemption is off.
    pub(super) fn preemption_off(&self) -> bool {
        self.level_and_depth().1.is_ascii_digit() && self.level_and_depth().1 != '0'
    }
}

/// What keeps the CPU from switching between two lines, as both have it: a line of the scheduler has interrupts off by
/// itself, and so says nothing of the time before it.
pub(super) fn state(from: &Step, to: &Step) -> &'static str {
    let scheduler = to.function().starts_with("__schedule") || to.what.contains("==>");
    match () {
        () if scheduler || to.columns.is_empty() => "",
        () if from.in_interrupt() && to.in_interrupt() => ", in a hard interrupt",
        () if from.irqs_off() && to.irqs_off() => ", interrupts off at both ends",
        () if from.in_softirq() && to.in_softirq() => ", in a softirq",
        () if from.preemption_off() && to.preemption_off() => ", preemption off at both ends",
        () => "",
    }
}

/// The time between two lines.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gap {
    pub begin: Mono,
    pub length: Ns,
    /// The lines around it: the second is the end where there is no line.
    pub from: usize,
    pub to: Option<usize>,
}

/// The gaps of `[begin, end)`, which cover it; `None` without any line.
pub(super) fn gaps(steps: &[Step], begin: Mono, end: Mono) -> Vec<Gap> {
    let mut gaps = Vec::new();
    let mut at = begin;
    for (place, step) in steps.iter().enumerate() {
        let to = step.at.clamp(at, end.max(at));
        if to > at {
            gaps.push(Gap {
                begin: at,
                length: to.since(at),
                from: place.saturating_sub(1),
                to: Some(place),
            });
            at = to;
        }
    }
    if end > at && !steps.is_empty() {
        gaps.push(Gap { begin: at, length: end.since(at), from: steps.len() - 1, to: None });
    }
    gaps
}

/// The same as parts: one group for each turn of a task on the CPU, its longest gaps by themselves.
pub(super) fn parts(
    steps: &[Step],
    gaps: &[Gap],
    total: Ns,
    name: impl Fn(&Thread) -> Thread,
) -> Vec<Segment> {
    let mut longest: Vec<Ns> = gaps.iter().map(|gap| gap.length).collect();
    longest.sort_unstable_by_key(|length| std::cmp::Reverse(*length));
    let least = longest.get(MOST_GAPS).copied().unwrap_or_default().max(Ns(total.0 / 20)).max(Ns(1));
    let mut parts: Vec<Segment> = Vec::new();
    let mut rest = gaps;
    while let Some(first) = rest.first() {
        let tid = steps[first.from].task.tid;
        let until = rest.iter().position(|gap| steps[gap.from].task.tid != tid).unwrap_or(rest.len());
        let (turn, behind) = rest.split_at(until);
        rest = behind;
        let task = name(&steps[first.from].task);
        let net: Ns = turn.iter().map(|gap| gap.length).sum();
        let cpu = steps[first.from].cpu;
        let mut inside = Vec::new();
        let mut short = (Ns::ZERO, 0u32, first.begin);
        for gap in turn {
            if gap.length < least {
                short = (short.0 + gap.length, short.1 + 1, short.2);
                continue;
            }
            inside.push(Segment::leaf(Kind::Thread, between(steps, gap), gap.begin, gap.length));
        }
        if short.1 > 0 {
            let label = format!("{} shorter steps of its lines", short.1);
            inside.push(Segment::leaf(Kind::Thread, label, short.2, short.0));
        }
        let label = format!("{task} has CPU {cpu}");
        let mut group = Segment::group(Kind::Thread, label, first.begin, net, inside);
        group.thread = Some(task);
        parts.push(group);
    }
    parts
}

/// `between isolate_lru_folios ← shrink_inactive_list and __mod_node_page_state, interrupts off at both ends`
pub(super) fn between(steps: &[Step], gap: &Gap) -> String {
    let from = &steps[gap.from];
    match gap.to.map(|to| &steps[to]) {
        Some(to) if gap.from == gap.to.unwrap_or(gap.from) => format!("before {}", to.place()),
        Some(to) => format!("between {} and {}{}", from.place(), to.place(), state(from, to)),
        None => format!("after {}", from.place()),
    }
}
