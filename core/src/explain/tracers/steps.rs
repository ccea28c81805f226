//! The lines of a tracer's text in order, with their stacks, and the gaps between them as parts.

use super::stack;
use crate::explain::segment::{Kind, Segment};
use crate::printable;
use crate::series::Thread;
use crate::time::{Cpu, Mono, Ns, Tid};
use crate::trace::ftrace_text::line::{parse, EventLine, Line};

/// Maximum number of gaps that are separate parts.
const MOST_GAPS: usize = 8;

/// One line with a time.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub at: Mono,
    pub cpu: Cpu,
    pub task: Thread,
    /// The columns of flags: `dNh2.`.
    pub columns: String,
    /// The event: `__schedule <-schedule`.
    pub what: String,
    /// The stack printed after it, innermost first.
    pub stack: Vec<String>,
    /// Lines before it were omitted from the text: `[...]`.
    pub omitted: bool,
    /// A line of the display-graph option: a function without its caller.
    pub is_graph: bool,
    /// A leaf function of such a line, with its return.
    pub is_leaf: bool,
}

/// All lines, in the order of the text.
pub(super) fn read(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut omitted = false;
    for line in text.lines() {
        let trimmed = line.trim();
        if let Some(frame) = trimmed.strip_prefix("=>") {
            let name = stack::name(frame);
            if let Some(step) = steps.last_mut().filter(|_| stack::is_frame(name)) {
                step.stack.push(printable::line(name).into_owned());
            }
            continue;
        }
        let step = match parse(line) {
            Some(Line::Event(event)) => Some(Step::of(&event)),
            Some(Line::Omission) => {
                omitted = true;
                None
            }
            Some(_) => None,
            None => Step::of_graph(trimmed),
        };
        // Lines of the display-graph option count from the start, but a stack among them may have an absolute time.
        let after = steps.last().filter(|last| last.is_graph).map(|last| last.at);
        let step = step.map(|step| match after {
            Some(at) if step.is_stack() && !is_relative(trimmed) => Step { at, is_graph: true, ..step },
            _ => step,
        });
        steps.extend(step.map(|step| Step { omitted: std::mem::take(&mut omitted), ..step }));
    }
    steps
}

/// Number of ring buffer entries of the lines: a leaf function has two, entry and return.
pub(super) fn entries(steps: &[Step]) -> u64 {
    steps.iter().map(|step| 1 + u64::from(step.is_leaf)).sum()
}

/// Whether a line has the time of the latency format: `dd-156  0dn.h4..   76us+: <stack trace>`.
fn is_relative(line: &str) -> bool {
    line.split_once(": <")
        .is_some_and(|(head, _)| head.trim_end_matches(['+', '!', '#', '*', '@', '$', ' ']).ends_with("us"))
}

/// The lines one by one, without stacks and graph lines.
pub(super) fn without_stacks(text: &str) -> impl Iterator<Item = Step> + '_ {
    let mut omitted = false;
    text.lines().filter_map(move |line| match parse(line) {
        Some(Line::Event(event)) => Some(Step { omitted: std::mem::take(&mut omitted), ..Step::of(&event) }),
        other => {
            omitted |= other == Some(Line::Omission);
            None
        }
    })
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
            what: with_arrow(&printable::line(&what)),
            stack: Vec::new(),
            omitted: false,
            is_graph: false,
            is_leaf: false,
        }
    }

    /// ` 3750 us | 0) bash-1507 | d..1 | 0.516 us | do_raw_spin_unlock();` of the display-graph option.
    fn of_graph(line: &str) -> Option<Step> {
        let mut columns = line.split('|').map(str::trim);
        let micros: u64 = columns.next()?.strip_suffix(" us")?.trim().parse().ok()?;
        let (cpu, who) = columns.next()?.split_once(')')?;
        let (comm, tid) = who.trim().rsplit_once('-')?;
        let flags = columns.next().filter(|flags| !flags.contains(' ')).unwrap_or_default();
        let code = columns.next_back().filter(|code| !code.is_empty())?;
        let comment = code.strip_prefix("/*").and_then(|code| code.strip_suffix("*/"));
        let what = match (comment, code.strip_prefix('}')) {
            // Other events, as printed without this option.
            (Some(comment), _) => printable::line(comment.trim()).into_owned(),
            (None, Some(_)) => "the return of a function".to_owned(),
            (None, None) => printable::line(stack::name(code)).into_owned(),
        };
        Some(Step {
            at: Mono(micros.checked_mul(1000)?),
            cpu: Cpu(cpu.trim().parse().ok()?),
            task: Thread {
                tid: Tid(tid.trim().parse().ok()?),
                comm: printable::line(comm.trim()).into_owned(),
                prio: None,
            },
            columns: flags.to_owned(),
            what,
            stack: Vec::new(),
            omitted: false,
            is_graph: true,
            is_leaf: code.ends_with(");"),
        })
    }

    /// The function of the line, or the line itself.
    pub(super) fn function(&self) -> &str {
        match self.what.split_once(" <-") {
            Some((function, _)) => stack::name(function),
            None if self.is_stack() => "its stack",
            None if self.is_wakeup() => "the wake-up",
            None if self.is_switch() => "the switch",
            // The wakeup tracers print the address of the waker: 0 on some machines.
            None if self.what == "0" || self.what == "0x0" => "the end of the wake-up",
            None => &self.what,
        }
    }

    /// `549:120:R   + [001]      28: 98:R ktimers/1` of the wakeup tracers.
    fn is_wakeup(&self) -> bool {
        self.what.contains(" + [")
    }

    /// `549:120:R ==> [001]      28: 98:R ktimers/1`.
    pub(super) fn is_switch(&self) -> bool {
        self.what.contains(" ==> [")
    }

    /// Whether the scheduler is about to switch out the task of the line.
    pub(super) fn is_leaving(&self) -> bool {
        let places =
            ["schedule", "schedule_idle", "schedule_rtlock", "schedule_preempt_disabled", "__schedule"];
        let starts = ["preempt_schedule", "__traceiter_sched_switch", "sched_switch: "];
        let function = self.function();
        self.is_switch()
            || places.contains(&function)
            || starts.iter().any(|start| function.starts_with(start))
    }

    /// `shrink_inactive_list`, the caller of the function.
    pub(super) fn caller(&self) -> Option<&str> {
        self.what.split_once(" <-").map(|(_, caller)| stack::name(caller))
    }

    pub(super) fn is_stack(&self) -> bool {
        self.what.contains("<stack trace>")
    }

    /// The function with its caller.
    pub(super) fn place(&self) -> String {
        match self.caller() {
            Some(caller) => format!("{} ← {caller}", self.function()),
            None => self.function().to_owned(),
        }
    }

    /// The columns of interrupt level and preemption depth: on PREEMPT_RT there is one more before them.
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

/// `run_timer_softirq (do_softirq)` of kernels before 2.6.29, as later ones print it.
fn with_arrow(what: &str) -> String {
    let is_name = |text: &str| {
        !text.is_empty()
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'+'))
    };
    let parts = what.trim_end().strip_suffix(')').and_then(|what| what.split_once(" ("));
    match parts.filter(|(function, caller)| is_name(function) && is_name(caller)) {
        Some((function, caller)) => format!("{function} <-{caller}"),
        None => what.to_owned(),
    }
}

/// What prevents a switch between two lines, according to both: a line of the scheduler always has interrupts off, so
/// it does not show what ran before it.
pub(super) fn state(from: &Step, to: &Step) -> &'static str {
    let scheduler =
        ["__schedule", "__traceiter_sched_switch"].iter().any(|name| to.function().starts_with(name));
    match () {
        () if scheduler || to.is_switch() || to.omitted || to.columns.is_empty() => "",
        // In between another task or the interrupt came, which needs interrupts on.
        () if from.task.tid != to.task.tid || to.in_interrupt() && !from.in_interrupt() => "",
        () if from.in_interrupt() && to.in_interrupt() => ", in a hard interrupt",
        // The interrupt has returned: to code with interrupts on.
        () if from.in_interrupt() && !to.preemption_off() => "",
        () if from.in_interrupt() => ", preemption off at both ends",
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
    /// The lines around it; without `to`, it ends with the latency.
    pub from: usize,
    pub to: Option<usize>,
}

/// Owner of a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// The task that both lines name, or the next one if the first was leaving.
    One(Tid),
    /// Another task came in between, at an unknown time: the tracers only print the switch to the victim.
    Either(Tid, Tid),
}

impl Gap {
    pub(super) fn owner(&self, steps: &[Step]) -> Owner {
        let from = &steps[self.from];
        let before = from.task.tid;
        // The switch itself belongs to the task that leaves, although it is recorded for the other.
        let switches = ["__switch_to", "finish_task_switch", "schedule_tail"];
        let to = self.to.map(|to| &steps[to]).filter(|to| !switches.contains(&to.function()));
        match to.map(|to| to.task.tid).filter(|after| *after != before) {
            Some(after) if from.is_leaving() => Owner::One(after),
            Some(after) => Owner::Either(before, after),
            None => Owner::One(before),
        }
    }

    /// Whether it is outside the text: before the first line, or after the last.
    pub(super) fn is_outside(&self, total: Ns) -> bool {
        let is_edge = self.to.is_none_or(|to| to == self.from);
        is_edge && self.length.0.saturating_mul(20) > total.0
    }

    /// Whether it is the time in which a wakeup tracer records a stack, with interrupts off
    /// (kernel/trace/trace_sched_wakeup.c, probe_wakeup).
    pub(super) fn is_tracers(&self, steps: &[Step]) -> bool {
        let from = &steps[self.from];
        (from.is_wakeup() || from.is_switch())
            && self.to.is_some_and(|to| to > self.from && steps[to].is_stack())
    }
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

/// The gaps as parts: one group per run of a task on the CPU, with its longest gaps as separate parts.
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
        if first.is_outside(total) {
            let label = format!("{}: not in the text", between(steps, first));
            parts.push(Segment::unexplained(Kind::Thread, label, first.begin, first.length));
            rest = &rest[1..];
            continue;
        }
        let owner = first.owner(steps);
        let ends = |gap: &Gap| gap.owner(steps) != owner || gap.is_outside(total);
        let until = rest.iter().position(ends).unwrap_or(rest.len());
        let (turn, behind) = rest.split_at(until);
        rest = behind;
        let of = |tid: Tid| name(&Thread { tid, ..Thread::default() });
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
        let (task, label) = match owner {
            Owner::One(tid) => (Some(of(tid)), format!("{} has CPU {cpu}", of(tid))),
            Owner::Either(before, after) => (
                None,
                format!("{}, then {} has CPU {cpu}: the switch is not in the text", of(before), of(after)),
            ),
        };
        let mut group = Segment::group(Kind::Thread, label, first.begin, net, inside);
        group.thread = task;
        parts.push(group);
    }
    parts
}

/// `between isolate_lru_folios ← shrink_inactive_list and __mod_node_page_state, interrupts off at both ends`
pub(super) fn between(steps: &[Step], gap: &Gap) -> String {
    let from = &steps[gap.from];
    match gap.to.map(|to| &steps[to]) {
        Some(to) if gap.from == gap.to.unwrap_or(gap.from) => format!("before {}", to.place()),
        Some(_) if gap.is_tracers(steps) => {
            format!("while the tracer wrote down the stack of {}", from.function())
        }
        Some(to) if to.omitted => {
            format!("between {} and {}, where lines were left out of the text", from.place(), to.place())
        }
        Some(to) => format!("between {} and {}{}", from.place(), to.place(), state(from, to)),
        None => format!("after {}", from.place()),
    }
}
