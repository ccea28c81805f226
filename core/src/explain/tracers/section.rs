//! `irqsoff`, `preemptoff` and `preemptirqsoff`: the longest critical section.

use super::critical::{begin_of, finish, finish_without, longest_step, of_lines, Names, NONE};
use super::stack;
use super::steps::{self, gaps, parts};
use super::{explanation, Heading, Report};
use crate::explain::segment::{Kind, Segment};
use crate::series::Thread;
use crate::time::{Mono, Ns, Tid};

/// Reads a section with interrupts or preemption off.
pub(super) fn read(text: &str, heading: &Heading) -> Report {
    let steps = steps::read(text);
    let names = Names::read(&steps, heading);
    let last = steps.iter().rfind(|step| !step.is_stack()).map_or(Mono(0), |step| step.at);
    let begin = begin_of(&steps, heading.latency);
    let total = heading.latency.unwrap_or_else(|| last.since(begin));
    if total == Ns::ZERO {
        return finish_without(heading, &steps, NONE);
    }
    let what = match heading.tracer.as_str() {
        "irqsoff" => "interrupts off",
        "preemptoff" => "preemption off",
        _ => "interrupts or preemption off",
    };
    let all = gaps(&steps, begin, begin + total);
    let inside = parts(&steps, &all, total, |task| names.of(task));
    let who =
        heading.task.clone().or_else(|| steps.first().map(|step| names.of(&step.task))).unwrap_or_default();
    let kind = if heading.tracer == "preemptoff" { Kind::Thread } else { Kind::IrqsOff };
    let mut limits = Vec::new();
    let inside = if steps.is_empty() {
        limits.push("the text has a header but no lines: the events in between are missing".to_owned());
        vec![Segment::unexplained(kind, "the trace has no lines", begin, total)]
    } else {
        inside
    };
    let mut tree = Segment::group(kind, format!("{what} in {who}"), begin, total, inside);
    tree.thread = Some(who.clone());
    let cpu = heading.cpu.or(steps.first().map(|step| step.cpu)).unwrap_or_default();
    let place =
        |place: &Option<String>| place.clone().unwrap_or_else(|| "a function that is not printed".to_owned());
    let (started, ended) = (place(&heading.started), place(&heading.ended));
    let amount = heading.amount(total);
    let mut sentence = format!("{what} for {amount} on CPU {cpu} by {who}, from {started} to {ended}");
    sentence.push_str(&longest_step(&steps, &all, total));
    let stack = steps.iter().rev().find(|step| !step.stack.is_empty()).map(|step| step.stack.as_slice());
    if let Some(call) = stack.and_then(stack::call) {
        sentence.push_str(&format!("; in system call {call}"));
    }
    tree.stack = stack.unwrap_or_default().to_vec();
    if !steps.iter().skip(1).any(|step| step.caller().is_some() || step.is_graph) {
        limits.push(
            "no functions are in the trace: `echo 1 > options/function-trace` would show where the time went"
                .to_owned(),
        );
    }
    let advice = advise(&who, &started, &ended);
    let told = (sentence, format!("{what}: {}", who.comm), advice);
    limits.extend(of_lines(&steps, heading));
    finish(heading, steps::entries(&steps), who, cpu, begin, explanation(tree, told, limits))
}

fn advise(who: &Thread, started: &str, ended: &str) -> String {
    let is_idle = who.tid == Tid::IDLE;
    let place = format!("between {started} and {ended}");
    if is_idle && [started, ended].iter().any(|place| place.contains("idle")) {
        return format!("{place} the CPU may have slept, and an interrupt ends that: forbid deep idle states (0 in /dev/cpu_dma_latency), and measure again");
    }
    let keep = if is_idle { String::new() } else { format!(", or keep {} off it", who.comm) };
    format!("{place} a real-time thread cannot run on this CPU: bound what is done there{keep}")
}
