//! `function`: the longest gap between two functions of one CPU.

use super::critical::{finish, finish_without};
use super::steps::{self, between, Gap, Step};
use super::{explanation, Heading, Report};
use crate::explain::segment::{Kind, Segment};
use crate::time::Tid;

/// The longest gap between two functions of one CPU. Keeps two lines per CPU, because these texts are long.
pub(super) fn read(text: &str, heading: &Heading) -> Report {
    let mut longest: Option<[Step; 2]> = None;
    let mut before: Vec<Step> = Vec::new();
    let (mut lines, mut is_omitted) = (0, false);
    let length = |from: &Step, to: &Step| to.at.since(from.at);
    for step in steps::without_stacks(text) {
        lines += 1;
        is_omitted |= step.omitted;
        let Some(last) = before.iter_mut().find(|last| last.cpu == step.cpu) else {
            before.push(step);
            continue;
        };
        let is_longest = longest.as_ref().is_none_or(|[from, to]| length(last, &step) > length(from, to));
        if is_longest && has_cpu(last, &step) {
            longest = Some([last.clone(), step.clone()]);
        }
        *last = step;
    }
    let Some([from, to]) = longest else {
        let why = "no two functions of one task follow each other on a CPU in the text";
        return Report { lines, ..finish_without(heading, &[], why) };
    };
    let (cpu, begin, total, task) = (from.cpu, from.at, length(&from, &to), from.task.clone());
    let steps = [from, to];
    let gap = Gap { begin, length: total, from: 0, to: Some(1) };
    let label = between(&steps, &gap);
    let tree = Segment::leaf(Kind::Thread, format!("{task}: {label}"), begin, total);
    let sentence = format!("{task} had CPU {cpu} for {total} without calling a traced function, {label}");
    let advice = "a function trace alone does not show what filled it: record function_graph, or scheduler and interrupt events".to_owned();
    let told = (sentence, format!("thread: {}", task.comm), advice);
    let mut limits = Vec::new();
    if is_omitted {
        limits.push("lines were left out of the text: the task on the CPU there is unknown".to_owned());
    }
    finish(heading, lines, task, cpu, begin, explanation(tree, told, limits))
}

/// Whether the task of `from` had the CPU until `to`: not if it was idle, gave up the CPU, or was replaced.
fn has_cpu(from: &Step, to: &Step) -> bool {
    let is_same = from.task.tid == to.task.tid && from.task.tid != Tid::IDLE;
    is_same && (from.in_interrupt() && to.in_interrupt() || !from.in_interrupt() && !from.is_leaving())
}
