//! What one of the kernel's own latency tracers found, from its text: `wakeup*`, `irqsoff`, `preemptoff`,
//! `preemptirqsoff`, `timerlat`, `osnoise`, `hwlat`, `function`, `function_graph`; and the reports of rtla.
//!
//! The total is the figure of the tracer itself. Its parts are the times between the lines; each belongs to the task that
//! both lines name, or to one of two where another came in between. That is the rule by which a culprit is named, and the
//! text states it. A tracer does not record what is between two lines: the functions around the gap are evidence of where
//! it is, not of what filled it.

mod critical;
mod function;
mod graph;
mod heading;
mod net_noise;
mod noise;
#[cfg(test)]
mod pasted_tests;
mod recorded;
mod rtla;
mod section;
mod stack;
mod steps;
#[cfg(test)]
mod tests;
mod timerlat;

use super::segment::{Explanation, Segment};
use crate::series::Thread;
use crate::time::{Cpu, Mono};

pub use heading::Heading;
pub use recorded::of_source;

/// One latency of a tracer, explained.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Whose latency it is; an empty name where it is a CPU's.
    pub thread: Thread,
    /// On which CPU.
    pub cpu: Cpu,
    /// When it began, on the clock of the text.
    pub begin: Mono,
    /// Its parts.
    pub explanation: Explanation,
}

/// What a text of a tracer holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// `text of the wakeup_rt tracer, Linux 6.5.0`.
    pub format: String,
    /// What is answered: `latency of the wakeup_rt tracer`.
    pub question: String,
    /// Lines with a time.
    pub lines: u64,
    /// How many latencies the text holds.
    pub count: u64,
    /// The worst of them.
    pub worst: Option<Finding>,
    /// What limits the answer.
    pub limits: Vec<String>,
}

/// The tracer that wrote `text`, and what it found; of several reports in it, that of the largest latency. `None` for any
/// other text.
#[must_use]
pub fn read(text: &str) -> Option<Report> {
    if let Some(report) = rtla::read(text) {
        return Some(report);
    }
    let heading = Heading::read(text)?;
    if !is_known(&heading.tracer) {
        return None;
    }
    let texts = heading::each(text);
    if texts.len() < 2 {
        return read_one(text);
    }
    let mut reports: Vec<Report> = texts.into_iter().filter_map(read_one).collect();
    let total = |report: &Report| report.worst.as_ref().map(|worst| worst.explanation.total_ns);
    let largest = (0..reports.len()).max_by_key(|at| total(&reports[*at]))?;
    let count = reports.len();
    let mut report = reports.swap_remove(largest);
    if count > 1 {
        report.limits.push(format!("the text has {count} reports of tracers: that of the largest latency is explained here, put the others in files of their own"));
    }
    Some(report)
}

/// The tracers whose text is read here.
fn is_known(tracer: &str) -> bool {
    let tracers =
        ["wakeup", "wakeup_rt", "wakeup_dl", "irqsoff", "preemptoff", "preemptirqsoff", "preemption"];
    let others = ["timerlat", "osnoise", "hwlat", "function_graph", "function"];
    tracers.contains(&tracer) || others.contains(&tracer)
}

fn read_one(text: &str) -> Option<Report> {
    let heading = Heading::read(text)?;
    let report = match heading.tracer.as_str() {
        "wakeup" | "wakeup_rt" | "wakeup_dl" => critical::wakeup(text, &heading),
        "irqsoff" | "preemptoff" | "preemptirqsoff" => section::read(text, &heading),
        // The latency tracer of the -rt patches before 2.6.27 has one name for both.
        "preemption" if text.contains("trace_start_sched_wakeup") => critical::wakeup(text, &heading),
        "preemption" => section::read(text, &heading),
        "timerlat" => timerlat::read(text, &heading),
        "osnoise" => noise::osnoise(text, &heading),
        "hwlat" => noise::hwlat(text, &heading),
        "function_graph" => graph::read(text, &heading),
        "function" => function::read(text, &heading),
        _ => return None,
    };
    Some(report)
}

/// An explanation of `tree` with its totals.
fn explanation(
    tree: Segment,
    (sentence, cause, advice): (String, String, String),
    limits: Vec<String>,
) -> Explanation {
    let (total_ns, unexplained_ns) = (tree.duration_ns, tree.total_unexplained());
    Explanation { sentence, advice, tree, total_ns, unexplained_ns, cause, limits }
}
