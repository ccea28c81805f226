//! `wakeup*`: from the wake-up of a thread to its switch-in, and the lines in between.

use std::collections::HashMap;

use super::advice::advise;
use super::stack;
use super::steps::{self, between, gaps, parts, Gap, Owner, Step};
use super::{explanation, Finding, Heading, Report};
use crate::explain::segment::{Kind, Segment};
use crate::printable;
use crate::series::Thread;
use crate::time::{Cpu, Mono, Ns, Prio, Tid};

/// Neither a figure nor two lines.
pub(super) const NONE: &str =
    "no latency is in the text: neither a figure in its heading, nor lines of a latency";

/// Characters of a thread's name in the latency format (kernel/trace/trace_output.c, lat_print_generic).
const CUT_AT: usize = 8;

/// `232:120:R + [000] 217: 0:R cyclictest`, or `==>` instead of `+`.
struct Passed {
    left: Thread,
    right: Thread,
    is_switch: bool,
}

fn passed(what: &str) -> Option<Passed> {
    let (left, right, is_switch) = match what.split_once(" ==> [") {
        Some((left, right)) => (left, right, true),
        None => what.split_once(" + [").map(|(left, right)| (left, right, false))?,
    };
    let (_, right) = right.split_once(']')?;
    Some(Passed { left: ranked(left)?, right: ranked(right)?, is_switch })
}

/// `217:  0:R cyclictest`
fn ranked(text: &str) -> Option<Thread> {
    let mut parts = text.trim().splitn(3, ':');
    let tid = parts.next()?.trim().parse().ok()?;
    // Printed as a byte: 255 is the priority -1 of a SCHED_DEADLINE thread.
    let prio = parts.next()?.trim().parse().ok().map(|prio: i32| if prio == 255 { -1 } else { prio })?;
    let comm = parts.next()?.trim().split_once(' ').map_or("", |(_, comm)| comm.trim());
    Some(Thread { tid: Tid(tid), comm: printable::line(comm).into_owned(), prio: Some(Prio(prio)) })
}

/// Whether the text has a wake-up and its switch-in, as only the wakeup tracers print them.
pub(super) fn is_bare(text: &str) -> bool {
    if !(text.contains(" + [") && text.contains(" ==> [")) {
        return false;
    }
    let mut found = [None, None];
    for step in steps::without_stacks(text) {
        if let Some(passed) = passed(&step.what) {
            found[usize::from(passed.is_switch)] = Some(passed.right.tid);
        }
        if found[0].is_some() && found[0] == found[1] {
            return true;
        }
    }
    false
}

/// Names and priorities of the threads in a text.
pub(super) struct Names(Vec<Thread>);

impl Names {
    fn add(&mut self, thread: &Thread) {
        let known = self.0.iter_mut().find(|known| known.tid == thread.tid);
        let Some(known) = known else { return self.0.push(thread.clone()) };
        if known.comm.is_empty() || known.comm == "<...>" || thread.comm.starts_with(&known.comm) {
            known.comm.clone_from(&thread.comm);
        }
        known.prio = known.prio.or(thread.prio);
    }

    pub(super) fn of(&self, thread: &Thread) -> Thread {
        self.0.iter().find(|known| known.tid == thread.tid).unwrap_or(thread).clone()
    }

    pub(super) fn read(steps: &[Step], heading: &Heading) -> Names {
        let mut names = Names(Vec::new());
        heading.task.iter().for_each(|task| names.add(task));
        for step in steps {
            names.add(&step.task);
            if let Some(Passed { left, right, .. }) = passed(&step.what) {
                names.add(&right);
                names.add(&Thread { comm: step.task.comm.clone(), ..left });
            }
        }
        // A kernel thread without a name in the lines is identified by the last function of its stack.
        for step in steps.iter().filter(|step| step.task.comm == "<...>") {
            if let Some(function) = stack::kernel_thread(&step.stack) {
                names.add(&Thread { comm: function.to_owned(), ..step.task.clone() });
            }
        }
        names
    }
}

/// Start of the latency on the clock of the lines: the latency format counts from there.
pub(super) fn begin_of(steps: &[Step], latency: Option<Ns>) -> Mono {
    let first = steps.first().map_or(Mono(0), |step| step.at);
    match latency {
        Some(latency) if first.0 <= latency.0.saturating_add(1_000_000_000) => Mono(0),
        _ => first,
    }
}

/// The lines of the longest wake-up: a recording of this tracer has all wake-ups that were not lost.
fn longest_wakeup(steps: Vec<Step>) -> Vec<Step> {
    let crossings: Vec<(usize, Passed)> =
        steps.iter().enumerate().filter_map(|(place, step)| Some((place, passed(&step.what)?))).collect();
    let mut woken: HashMap<i32, usize> = HashMap::new();
    let mut longest: Option<(usize, usize)> = None;
    for (place, Passed { right, is_switch, .. }) in &crossings {
        if !is_switch {
            woken.insert(right.tid.0, *place);
            continue;
        }
        let Some(from) = woken.remove(&right.tid.0) else { continue };
        let length = |(from, to): (usize, usize)| steps[to].at.since(steps[from].at);
        if longest.is_none_or(|known| length((from, *place)) > length(known)) {
            longest = Some((from, *place));
        }
    }
    let Some((from, switched)) = longest else { return steps };
    let begin = if crossings.first().is_some_and(|(first, _)| *first == from) { 0 } else { from };
    let behind = steps[switched + 1..].iter().take_while(|step| step.is_stack()).count();
    steps.into_iter().take(switched + 1 + behind).skip(begin).collect()
}

/// Splits off the time after the last line of the latency: the tracer writes stacks before it reads the clock.
fn split_at(gaps: &[Gap], at: Mono) -> (Vec<Gap>, Ns) {
    let before: Vec<Gap> = gaps.iter().copied().filter(|gap| gap.begin < at).collect();
    let after = gaps.iter().filter(|gap| gap.begin >= at).map(|gap| gap.length).sum();
    (before, after)
}

/// From the wake-up of a thread to its switch-in.
pub(super) fn wakeup(text: &str, heading: &Heading) -> Report {
    let mut steps = steps::read(text);
    if heading.latency.is_none() {
        steps = longest_wakeup(steps);
    }
    let names = Names::read(&steps, heading);
    // There may be wake-ups and switches of other threads: the heading names the victim.
    let of_victim = |wanted: bool, place: usize| {
        let passed = passed(&steps[place].what).filter(|passed| passed.is_switch == wanted);
        passed
            .filter(|passed| heading.task.as_ref().is_none_or(|task| task.tid == passed.right.tid))
            .is_some()
    };
    let switched = (0..steps.len()).rfind(|place| of_victim(true, *place));
    let before = switched.unwrap_or(steps.len());
    let woken = (0..before).rfind(|place| of_victim(false, *place));
    let victim = switched
        .or(woken)
        .and_then(|place| passed(&steps[place].what))
        .map(|passed| names.of(&passed.right))
        .or_else(|| heading.task.clone())
        .unwrap_or_default();
    let last = steps.last().map_or(Mono(0), |step| step.at);
    let begin = begin_of(&steps, heading.latency);
    let total = heading.latency.unwrap_or_else(|| last.since(begin));
    if total == Ns::ZERO {
        return finish_without(heading, &steps, NONE);
    }
    let end = begin + total;
    let at_switch = switched.map_or(end, |place| steps[place].at.clamp(begin, end));
    let (before, own) = split_at(&gaps(&steps, begin, end), at_switch);
    let mut tree = parts(&steps, &before, total, |task| names.of(task));
    if own > Ns::ZERO {
        let label = "the switch itself, and the work of the tracer before it reads the clock";
        let mut leaf = Segment::leaf(Kind::Scheduler, label, at_switch, own);
        leaf.inferred = true;
        tree.push(leaf);
    }
    let mut limits = Vec::new();
    let mut tree = if steps.is_empty() {
        limits.push("the text has a header but no lines: the events in between are missing".to_owned());
        let gap = Segment::unexplained(Kind::WakeupWait, "the trace has no lines", begin, total);
        Segment::group(Kind::WakeupWait, format!("{victim} woken → switched in"), begin, total, vec![gap])
    } else {
        Segment::group(Kind::WakeupWait, format!("{victim} woken → switched in"), begin, total, tree)
    };
    tree.thread = Some(victim.clone());
    let cpu = heading.cpu.or(steps.first().map(|step| step.cpu)).unwrap_or_default();
    let told = told_wakeup(
        &steps,
        &before,
        &names,
        &victim,
        (total, &heading.amount(total), cpu),
        (woken, switched),
    );
    if !steps.iter().any(|step| step.caller().is_some() || step.is_graph) && !steps.is_empty() {
        limits.push("no functions are in the trace: `echo 1 > options/function-trace` (or ftrace_enabled) would show where the time went".to_owned());
    }
    if switched.is_none() && !steps.is_empty() {
        limits.push("the switch to the woken thread is not in the text: it was cut".to_owned());
    }
    limits.extend(of_lines(&steps, heading));
    let is_open = heading.latency.is_none() && (woken.is_none() || switched.is_none());
    let report = finish(heading, steps::entries(&steps), victim, cpu, begin, explanation(tree, told, limits));
    Report { is_doubtful: is_open, ..report }
}

fn told_wakeup(
    steps: &[Step],
    gaps: &[Gap],
    names: &Names,
    victim: &Thread,
    (total, amount, cpu): (Ns, &str, Cpu),
    (woken, switched): (Option<usize>, Option<usize>),
) -> (String, String, String) {
    let inside = || gaps.iter().filter(|gap| !gap.is_outside(total));
    let mut of: Vec<(Owner, Ns)> = Vec::new();
    for gap in inside() {
        let owner = gap.owner(steps);
        match of.iter_mut().find(|(known, _)| *known == owner) {
            Some((_, net)) => *net = *net + gap.length,
            None => of.push((owner, gap.length)),
        }
    }
    let Some(&(owner, net)) = of.iter().max_by_key(|(_, net)| *net) else {
        return (format!("{victim} waited {amount} for CPU {cpu}"), "unexplained".to_owned(), String::new());
    };
    let named = |tid: Tid| names.of(&Thread { tid, ..Thread::default() });
    let how = woken.map_or(String::new(), |place| how_woken(steps, place));
    // The wake-up came from this CPU, or from its interrupt: it had left idle before.
    let by_interrupt = || steps.first().is_some_and(|first| first.cpu == cpu && first.in_interrupt());
    let was_awake = woken.map_or_else(by_interrupt, |place| steps[place].cpu == cpu);
    let mut sentence = format!("{victim} waited {amount} for CPU {cpu}{how}");
    let share = percent(net, total);
    let was = match owner {
        Owner::One(Tid::IDLE) if was_awake => {
            sentence.push_str(&format!(
                ": the CPU had left idle before, and took {net} ({share}) from there to the switch"
            ));
            let longest = inside().filter(|gap| gap.owner(steps) == owner).max_by_key(|gap| gap.length);
            match longest.and_then(|gap| Some(steps::state(&steps[gap.from], &steps[gap.to?]))) {
                Some(", in a hard interrupt") => "hard interrupt",
                Some(", in a softirq") => "softirq",
                _ => "unexplained",
            }
            .to_owned()
        }
        Owner::One(Tid::IDLE) => {
            sentence.push_str(&format!(": the CPU was idle, and left that for {net} ({share})"));
            "idle exit".to_owned()
        }
        Owner::One(tid) => {
            let holder = named(tid);
            let stack = woken.filter(|place| steps[*place].task.tid == tid);
            let stack = stack.and_then(|place| stack_of(steps, place));
            let code = stack.map_or(String::new(), interrupted);
            sentence.push_str(&format!(": {holder} had it for {net} ({share}){code}"));
            match (holder.prio, victim.prio) {
                (Some(having), Some(wanting)) if having > wanting => {
                    format!("not preempted: {}", holder.comm)
                }
                _ => format!("thread: {}", holder.comm),
            }
        }
        Owner::Either(before, after) => {
            let (before, after) = (named(before), named(after));
            sentence.push_str(&format!(": {before}, then {after} had it for {net} ({share}); the switch from one to the other is not in the text"));
            "unexplained".to_owned()
        }
    };
    sentence.push_str(&longest_step(steps, gaps, total));
    let gave_up = switched.and_then(|place| stack_of(steps, place)).and_then(stack::gave_up);
    if let (Some(gave_up), Some(place)) = (gave_up, switched) {
        let left = names.of(&steps[place].task);
        let who = if owner == Owner::One(left.tid) { "it".to_owned() } else { left.to_string() };
        sentence.push_str(&format!("; {}", gave_up.replacen("when it gave", &format!("when {who} gave"), 1)));
    }
    let advice = match owner {
        Owner::One(tid) => {
            let longest = inside().filter(|gap| gap.owner(steps) == owner).max_by_key(|gap| gap.length);
            advise(steps, longest, (&named(tid), was_awake), victim)
        }
        Owner::Either(..) => "record the switches beside it (events/sched/sched_switch/enable): this tracer writes down that to its victim alone".to_owned(),
    };
    (sentence, was, advice)
}

/// `, which was in clear_user ← read_zero ← vfs_read, system call read when it was interrupted`
fn interrupted(stack: &[String]) -> String {
    let code = stack::interrupted(stack);
    if code.is_empty() {
        return String::new();
    }
    let first = code.iter().take(3).map(String::as_str).collect::<Vec<_>>().join(" ← ");
    let call = stack::call(code).map_or(String::new(), |call| format!(", system call {call}"));
    format!(", which was in {first}{call} when it was interrupted")
}

/// The stack printed at `place` or just after it.
fn stack_of(steps: &[Step], place: usize) -> Option<&[String]> {
    let near = steps.get(place..)?.iter().take(3);
    near.map(|step| step.stack.as_slice()).find(|stack| !stack.is_empty())
}

/// `; the longest step took …`, and the part of the latency that is not in the text.
pub(super) fn longest_step(steps: &[Step], gaps: &[Gap], total: Ns) -> String {
    let mut told = String::new();
    let inside = gaps.iter().filter(|gap| !gap.is_outside(total));
    let longest = inside.max_by_key(|gap| gap.length).filter(|gap| gap.length.0 * 20 >= total.0);
    if let Some(gap) = longest {
        let (length, share) = (gap.length, percent(gap.length, total));
        told.push_str(&format!("; the longest step took {length} ({share}), {}", between(steps, gap)));
    }
    let outside: Ns = gaps.iter().filter(|gap| gap.is_outside(total)).map(|gap| gap.length).sum();
    if outside > Ns::ZERO {
        let share = percent(outside, total);
        told.push_str(&format!("; the text has no lines for {outside} ({share})"));
    }
    told
}

fn how_woken(steps: &[Step], place: usize) -> String {
    let step = &steps[place];
    let by_timer =
        stack_of(steps, place).is_some_and(|stack| stack.iter().any(|frame| frame == "hrtimer_wakeup"));
    match () {
        () if by_timer => " after its timer woke it".to_owned(),
        () if step.in_interrupt() => " after a hard interrupt woke it".to_owned(),
        () if step.in_softirq() => " after a softirq woke it".to_owned(),
        () => format!(" after {} woke it", step.task),
    }
}

/// Caveats of the lines.
pub(super) fn of_lines(steps: &[Step], heading: &Heading) -> Vec<String> {
    let mut limits = Vec::new();
    if steps.iter().any(|step| step.omitted) {
        limits.push("lines were left out of the text: the task on the CPU there is unknown".to_owned());
    }
    if heading.latency.is_some() && steps.iter().any(|step| step.task.comm.len() == CUT_AT) {
        limits.push("this format cuts names of threads to 8 characters".to_owned());
    }
    limits
}

pub(super) fn finish(
    heading: &Heading,
    lines: u64,
    thread: Thread,
    cpu: Cpu,
    begin: Mono,
    mut explanation: crate::explain::segment::Explanation,
) -> Report {
    let tracer = &heading.tracer;
    let rule =
        "the task on the CPU is the one that the lines name; the activity between two lines is not recorded";
    explanation.limits.push(rule.to_owned());
    if heading.latency.is_none() && tracer != "function" {
        let limit = "the tracer's own latency is missing (its text has it with the option latency-format, and tracing_max_latency): the total is the time from the first line to the last";
        explanation.limits.push(limit.to_owned());
    }
    Report {
        format: format!("text of the {tracer} tracer{}", heading.on()),
        question: format!("latency of the {tracer} tracer"),
        lines,
        count: 1,
        worst: Some(Finding { thread, cpu, begin, explanation }),
        limits: heading.missing(lines).into_iter().collect(),
        is_doubtful: false,
    }
}

pub(super) fn finish_without(heading: &Heading, steps: &[Step], why: &str) -> Report {
    let tracer = &heading.tracer;
    Report {
        format: format!("text of the {tracer} tracer{}", heading.on()),
        question: format!("latency of the {tracer} tracer"),
        lines: steps::entries(steps),
        count: 0,
        worst: None,
        limits: vec![why.to_owned()],
        is_doubtful: false,
    }
}

/// `97 %`.
pub(super) fn percent(part: Ns, total: Ns) -> String {
    format!("{:.0} %", 100.0 * part.0 as f64 / total.0.max(1) as f64)
}
