//! What the display shows while recording: CPUs, and with `--live` tasks, the worst first.

use lathunt_core::application::Task;
use lathunt_core::series::{Quantity, Series};
use lathunt_core::time::Ns;
use lathunt_host::recording::{Recording, Snapshot};

use super::Plan;
use crate::live::state::{Progress, Row};

/// Tasks shown at most.
const TASKS: usize = 10;

/// The state of the recording.
#[must_use]
pub fn progress(plan: &Plan, recording: &Recording, snapshot: &Snapshot, elapsed: Ns) -> Progress {
    let series = &snapshot.series;
    let busiest = |series: &&Series| matches!(series.quantity, Quantity::TimerWakeup | Quantity::Wakeup);
    let counted = series.iter().filter(busiest);
    let mut rows: Vec<Row> = counted
        .map(|series| {
            let cpu = series.cpu.unwrap_or_default();
            let label = format!("{} {}", series.label(), series.quantity.name());
            Row { culprit: recording.last_culprit(cpu).to_owned(), ..row(label, series) }
        })
        .collect();
    if plan.live {
        rows.extend(snapshot.tasks.iter().take(TASKS).filter_map(of_task));
        rows.sort_by_key(|row| std::cmp::Reverse(row.max));
    }
    let phase = if plan.live { "recording (q ends)" } else { "recording" }.to_owned();
    Progress { phase, elapsed, planned: plan.duration, rows }
}

fn of_task(task: &Task) -> Option<Row> {
    let latency = task.of(Quantity::TimerWakeup).or_else(|| task.of(Quantity::Wakeup))?;
    let missed = task.period.as_ref().map_or(0, |period| period.missed);
    let culprit = task.worst.as_ref().and_then(|worst| worst.culprit.clone()).unwrap_or_default();
    Some(Row { missed, culprit, ..row(task.thread.to_string(), latency) })
}

fn row(label: String, series: &Series) -> Row {
    let histogram = &series.histogram;
    Row {
        label,
        count: histogram.count(),
        min: histogram.min(),
        now: series.seconds.last().map(|second| second.max_ns),
        mean_ns: histogram.mean_ns(),
        p999: histogram.quantile(0.999),
        max: histogram.max(),
        missed: series.missed,
        culprit: String::new(),
    }
}
