//! Results of the kernel's own latency tracers, from their text: `wakeup*`, `irqsoff`, `preemptoff`, `preemptirqsoff`,
//! `timerlat`, `osnoise`, `hwlat`, `function`, `function_graph`; and of rtla.
//!
//! The total is the figure of the tracer itself. Its parts are the times between the lines; each belongs to the task
//! that both lines name, or to one of two if they differ. That rule determines the culprit, and the text states it. A
//! tracer does not record the time between two lines: the functions around the gap show where it is, not what filled
//! it.

mod advice;
mod critical;
mod doubts;
mod function;
mod graph;
mod heading;
mod net_noise;
mod noise;
#[cfg(test)]
mod pasted_tests;
#[cfg(test)]
mod published_tests;
mod recorded;
mod rtla;
mod section;
mod stack;
mod steps;
#[cfg(test)]
mod surrounded_tests;
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
    /// Thread of the latency; an empty name if it is that of a CPU.
    pub thread: Thread,
    /// Its CPU.
    pub cpu: Cpu,
    /// Its start, on the clock of the text.
    pub begin: Mono,
    /// Its parts.
    pub explanation: Explanation,
}

/// Contents of the text of a tracer.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// `text of the wakeup_rt tracer, Linux 6.5.0`.
    pub format: String,
    /// The quantity: `latency of the wakeup_rt tracer`.
    pub question: String,
    /// Number of lines with a time.
    pub lines: u64,
    /// Number of latencies in the text.
    pub count: u64,
    /// The worst of them.
    pub worst: Option<Finding>,
    /// Caveats.
    pub limits: Vec<String>,
    /// A line that was not read may have a longer latency, or another culprit.
    pub is_doubtful: bool,
}

/// The report of a tracer in `text`; if there are several, that with the largest latency. `None` for any other text.
#[must_use]
pub fn read(text: &str) -> Option<Report> {
    if let Some(report) = rtla::read(text) {
        return Some(report);
    }
    let Some(heading) = Heading::read(text) else { return read_bare(text) };
    if !is_known(&heading.tracer) || heading.tracer == "function" && has_wakeups(text) {
        return None;
    }
    let texts = heading::each(text);
    if texts.len() < 2 {
        return read_one(text);
    }
    let mut reports: Vec<Report> = texts.into_iter().filter_map(read_one).collect();
    let total = |report: &Report| report.worst.as_ref().map(|worst| worst.explanation.total_ns);
    let largest = (0..reports.len()).max_by_key(|at| total(&reports[*at]))?;
    let (count, is_doubtful) = (reports.len(), reports.iter().any(|report| report.is_doubtful));
    let mut report = reports.swap_remove(largest);
    report.is_doubtful = is_doubtful;
    if count > 1 {
        report.limits.push(format!("the text has {count} reports of tracers: that of the largest latency is explained here, put the others in files of their own"));
    }
    Some(report)
}

/// Whether `beginning` has the heading of a tracer whose text is read here.
#[must_use]
pub fn has_heading(beginning: &str) -> bool {
    Heading::read(beginning).is_some_and(|heading| is_known(&heading.tracer))
}

/// The tracers whose text is read here.
fn is_known(tracer: &str) -> bool {
    let tracers =
        ["wakeup", "wakeup_rt", "wakeup_dl", "irqsoff", "preemptoff", "preemptirqsoff", "preemption"];
    let others = ["timerlat", "osnoise", "hwlat", "function_graph", "function"];
    tracers.contains(&tracer) || others.contains(&tracer) || tracer == heading::SECTIONS
}

/// Lines of a tracer without their heading, if they can be of no other.
fn read_bare(text: &str) -> Option<Report> {
    let of = |tracer: &str| Heading { tracer: tracer.to_owned(), ..Heading::default() };
    let (mut report, heading) = match () {
        () if critical::is_bare(text) => (critical::wakeup(text, &of("wakeup")), of("wakeup")),
        () if graph::is_bare(text) => (graph::read(text, &of("function_graph")), of("function_graph")),
        () if doubts::is_headless(text) => {
            let mut report = function::read(text, &of("function"));
            let limit = "the heading is missing: the tracer, its latency and its victim are unknown";
            report.limits.push(limit.to_owned());
            report.is_doubtful = true;
            (report, of("function"))
        }
        () => return None,
    };
    doubts::add(&mut report, text, &heading);
    Some(report)
}

/// Whether wake-ups and switches are recorded beside functions: they answer more than the functions.
fn has_wakeups(text: &str) -> bool {
    let has = |event: &str| text.contains(event);
    has(": sched_switch: ") && (has(": sched_waking: ") || has(": sched_wakeup: "))
}

/// Whether the latency tracer of old -rt patches measured a wake-up: its first lines may be missing.
fn is_old_wakeup(text: &str) -> bool {
    ["trace_start_sched_wakeup", "trace_stop_sched_switched", "maximum-latency wakeup"]
        .iter()
        .any(|place| text.contains(place))
}

fn read_one(text: &str) -> Option<Report> {
    let heading = Heading::read(text)?;
    let (whole, text) = (text, heading::extent(text, &heading));
    let mut report = match heading.tracer.as_str() {
        "wakeup" | "wakeup_rt" | "wakeup_dl" => critical::wakeup(text, &heading),
        "irqsoff" | "preemptoff" | "preemptirqsoff" | heading::SECTIONS => section::read(text, &heading),
        // The latency tracer of -rt patches before 2.6.27 uses one name for both.
        "preemption" if is_old_wakeup(text) => critical::wakeup(text, &heading),
        "preemption" => section::read(text, &heading),
        "timerlat" => timerlat::read(text, &heading),
        "osnoise" => noise::osnoise(text, &heading),
        "hwlat" => noise::hwlat(text, &heading),
        "function_graph" => graph::read(text, &heading),
        "function" => function::read(text, &heading),
        _ => return None,
    };
    doubts::add(&mut report, text, &heading);
    report.is_doubtful |= heading.tracer == heading::SECTIONS;
    if heading::has_events_around(whole, text) {
        let limit = "the text has lines of another trace beside the report: put them in a file of their own";
        report.limits.push(limit.to_owned());
        report.is_doubtful = true;
    }
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
