//! `function`: the longest silence between two functions of one CPU.

use super::critical::{finish, finish_without};
use super::steps::{self, between, Gap, Step};
use super::{explanation, Heading, Report};
use crate::explain::segment::{Kind, Segment};
use crate::time::{Cpu, Tid};

/// The longest silence between two functions of one CPU.
pub(super) fn read(text: &str, heading: &Heading) -> Report {
    let steps = steps::read(text);
    let mut longest: Option<(usize, usize)> = None;
    let mut before: Vec<(Cpu, usize)> = Vec::new();
    let length = |(from, to): (usize, usize)| steps[to].at.since(steps[from].at);
    for (place, step) in steps.iter().enumerate() {
        match before.iter_mut().find(|(cpu, _)| *cpu == step.cpu) {
            Some((_, last)) => {
                let gap = (*last, place);
                if has_cpu(&steps[*last], step) && longest.is_none_or(|known| length(gap) > length(known)) {
                    longest = Some(gap);
                }
                *last = place;
            }
            None => before.push((step.cpu, place)),
        }
    }
    let Some((from, to)) = longest else {
        return finish_without(heading, &steps, "no two functions of one CPU follow each other in the text");
    };
    let (begin, total) = (steps[from].at, length((from, to)));
    let gap = Gap { begin, length: total, from, to: Some(to) };
    let task = steps[from].task.clone();
    let label = between(&steps, &gap);
    let tree = Segment::leaf(Kind::Thread, format!("{task}: {label}"), begin, total);
    let sentence =
        format!("{task} had CPU {} for {total} without calling a traced function, {label}", steps[from].cpu);
    let advice = "a function trace alone does not show what filled it: record function_graph, or scheduler and interrupt events".to_owned();
    let told = (sentence, format!("thread: {}", task.comm), advice);
    let cpu = steps[from].cpu;
    finish(heading, &steps, task, cpu, begin, explanation(tree, told, Vec::new()))
}

/// Whether the task of `from` had the CPU until `to`: not where it was idle, and not where it gave the CPU up.
fn has_cpu(from: &Step, to: &Step) -> bool {
    let gave_up = ["schedule", "__schedule", "do_idle"].iter().any(|name| from.function().starts_with(name));
    from.task.tid != Tid::IDLE && !(gave_up && from.task.tid != to.task.tid) && !from.in_interrupt()
        || from.in_interrupt() && to.in_interrupt() && from.task.tid != Tid::IDLE
}
