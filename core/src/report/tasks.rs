//! The threads of a recorded system as text: one block for each active thread, the worst first.

use std::fmt::Write;

use super::figures::counted;
use crate::application::{Blocking, Class, FaultPlace, Task, OTHERS};
use crate::numbers::{more, or_dash};
use crate::printable::wrap;
use crate::run::Run;
use crate::series::Quantity;

/// Maximum number of threads shown, unless all are wanted; the run file has all of them.
const SHOWN: usize = 12;
/// Number of threads shown if there are more.
const FEW: usize = 4;
/// Maximum number of other waits shown per thread.
const WAITS: usize = 4;
/// Maximum number of kinds of memory with page faults.
const MEMORIES: usize = 3;

/// The text, of `all` threads or of the worst; empty for a run without threads. Ends with an empty line.
#[must_use]
pub fn text(run: &Run, width: usize, all: bool) -> String {
    let mut lines: Vec<String> = Vec::new();
    let shown = match run.tasks.len() {
        count if all || count <= SHOWN => count,
        _ => FEW,
    };
    for task in run.tasks.iter().take(shown) {
        lines.extend(block(task));
    }
    if run.tasks.len() > shown {
        lines.push(format!(
            "… {}, none with a larger latency",
            more((run.tasks.len() - shown) as u64, "thread")
        ));
    }
    if let Some(penalty) = &run.penalty {
        lines.push(format!(
            "Cost of recording: a round trip through a pipe takes {} bare and {} recorded ({:.3} ×)",
            penalty.bare_ns, penalty.recorded_ns, penalty.ratio
        ));
    }
    if lines.is_empty() {
        return String::new();
    }
    let mut text = String::new();
    for line in &lines {
        let indent = line.len() - line.trim_start().len();
        for (nth, part) in wrap(line.trim_start(), width.saturating_sub(indent + 4)).iter().enumerate() {
            let _ = writeln!(text, "{}{part}", " ".repeat(indent + if nth > 0 { 4 } else { 0 }));
        }
    }
    text + "\n"
}

fn block(task: &Task) -> Vec<String> {
    let max = |quantity| task.of(quantity).and_then(|series| series.histogram.max());
    let latency = max(Quantity::TimerWakeup).max(max(Quantity::Wakeup));
    let mut first = match task.thread.comm == OTHERS {
        true => format!("{OTHERS}, threads not tracked separately"),
        false => format!("{} {}: {}", task.thread, task.policy, counted(task.activations, "activation")),
    };
    if let Some(period) = &task.period {
        let _ = write!(
            first,
            ", period {} (jitter {}, at most {}, {} missed)",
            period.median_ns, period.jitter_median_ns, period.jitter_max_ns, period.missed
        );
    }
    if task.period.as_ref().is_some_and(|period| period.changed) {
        first += ", a different period for a while";
    }
    if let Some(place) = &task.waits_in {
        let timer = if task.timer_driven { " on a timer" } else { "" };
        let _ = write!(first, ", waits in {place}{timer}");
    }
    let second = format!(
        "    worst: latency {}, response {}, execution {}",
        or_dash(latency),
        or_dash(max(Quantity::Response)),
        or_dash(task.execution.as_ref().map(|span| span.max_ns)),
    );
    let behind = max(Quantity::SharedPrio).map(|max| format!(", behind a task of its priority {max}"));
    let second = second + &behind.unwrap_or_default();
    let mut lines = vec![first, second, in_all(task)];
    lines.extend(task.late_end().map(|end| format!("    {end}")));
    lines.extend(page_faults(task));
    // Without a main wait, no wait is unexpected; nor are sleeps and waits for events, which come last.
    let planned = |one: &&Blocking| matches!(one.class, Class::Sleep | Class::Wait);
    let (planned, unexpected): (Vec<_>, Vec<_>) = task.blocking.iter().partition(planned);
    let what = if task.waits_in.is_some() { ["unexpected wait", "further wait"] } else { ["wait"; 2] };
    let unexpected = unexpected.iter().map(|one| wait(one, what[0]));
    lines.extend(unexpected.chain(planned.iter().map(|one| wait(one, what[1]))).take(WAITS));
    if task.blocking.len() > WAITS {
        lines.push(format!("    … {}", more((task.blocking.len() - WAITS) as u64, "place")));
    }
    lines
}

/// The line with counts.
fn in_all(task: &Task) -> String {
    let mut line = format!("    in all: {}", counted(task.preemptions, "preemption"));
    if let Some(deadline) = task.deadline_ns {
        let least = if task.not_recorded > 0 { "at least " } else { "" };
        let by_phase =
            task.period.as_ref().is_some_and(|of| of.longest_ns.is_some() && of.median_ns == deadline);
        let after = if by_phase { "the period of its time".to_owned() } else { deadline.to_string() };
        let _ = write!(line, "; {least}{} after {after}", counted(task.misses, "response"));
    }
    if let Some(most) = task.miss_max_ns {
        let _ = write!(line, ", by {most} at most");
    }
    if task.late_sleeps > 0 {
        let _ = write!(line, "; {} (its next expiry had passed)", counted(task.late_sleeps, "overrun"));
    }
    if let Some(slack) = task.slack_max_ns {
        let _ = write!(line, "; up to {slack} of timer slack in its latencies");
    }
    if let Some(rounded) = task.rounded_ns {
        let _ = write!(line, "; its timeouts count in ticks: a response may be up to {rounded} longer");
    }
    if task.not_recorded > 0 {
        let _ = write!(line, "; {} NOT RECORDED", counted(task.not_recorded, "activation"));
    }
    line
}

/// Page faults; unexpected in a thread with jobs, which should have its memory locked before.
fn page_faults(task: &Task) -> Option<String> {
    let faulting = task.faulting.as_ref()?;
    let what = if task.waits_in.is_some() { "unexpected page faults" } else { "page faults" };
    let most = match faulting.wakeups {
        1 => String::new(),
        _ => format!(", at most {} after one", faulting.most),
    };
    let place = |place: &FaultPlace| match &place.memory {
        Some(memory) => format!("{memory} {} ×", place.wakeups),
        None => format!("{:#x} {} ×", place.address, place.wakeups),
    };
    let places: Vec<String> = faulting.places.iter().take(MEMORIES).map(place).collect();
    let after = counted(faulting.wakeups, "wake-up");
    Some(format!("    {what}: {}, after {after}{most}; in {}", task.page_faults, places.join(", ")))
}

fn wait(blocking: &Blocking, what: &str) -> String {
    let by = blocking.released_by.as_ref().map(|by| format!(", released by {by}")).unwrap_or_default();
    format!(
        "    {what} in {}: {}, {} in all, longest {}{by}",
        blocking.place,
        counted(blocking.count, "time"),
        blocking.total_ns,
        blocking.max_ns
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::application::{State, Unfinished};
    use crate::conditions::Conditions;
    use crate::histogram::{Histogram, Layout};
    use crate::series::Series;
    use crate::time::{Mono, Ns};

    #[test]
    fn waits_behind_an_equal_and_the_turn_without_an_end_are_told() {
        let series = |quantity, ns| {
            let mut histogram = Histogram::new(Layout::LATENCY);
            histogram.record(Ns(ns));
            Series::new(quantity, None, histogram)
        };
        let bare: Task = serde_json::from_value(serde_json::json!({
            "thread": { "tid": 7, "comm": "control", "prio": 79 }, "process": 7, "policy": "SCHED_FIFO",
            "waits_in": null, "timer_driven": true, "activations": 1, "period": null, "series": [], "execution": null,
            "preemptions": 0, "page_faults": 0, "deadline_ns": 5_000_000, "misses": 0,
        }))
        .unwrap();
        let unfinished = |after_ns| {
            Some(Unfinished {
                state: State::Runs,
                since: Mono(1),
                after_ns: Ns(after_ns),
                place: None,
                out_of_quota: false,
                locked_ns: None,
            })
        };
        let told = |after_ns| {
            let series =
                vec![series(Quantity::TimerWakeup, 20_000), series(Quantity::SharedPrio, 15_000_000)];
            let task = Task { series, unfinished: unfinished(after_ns), ..bare.clone() };
            text(&Run { tasks: vec![task], ..Run::new(Conditions::default()) }, 200, false)
        };
        let late = told(6_000_000);
        assert!(late.contains("execution –, behind a task of its priority 15.000 ms\n"), "{late}");
        assert!(late.contains(
            "    its last job was not finished after 6.000 ms, when recording ended: it had a CPU\n"
        ));
        assert!(!told(5_000_000).contains("last job"), "it may yet be over in time");
    }
}
