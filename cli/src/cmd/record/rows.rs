//! Rows of the display while recording: CPUs, and with `--live` tasks, worst first.

use lathunt_core::application::Task;
use lathunt_core::series::{Quantity, Series};
use lathunt_core::time::{Mono, Ns};
use lathunt_host::recorder::Starving;
use lathunt_host::recording::{Recording, Snapshot};

use super::session::Plan;
use crate::live::state::{Progress, Row};
use crate::until::Until;

/// Maximum number of tasks shown.
const TASKS: usize = 10;

/// The state of the recording.
#[must_use]
pub fn progress(
    plan: &Plan,
    until: Option<Until>,
    recording: &Recording,
    snapshot: &Snapshot,
    elapsed: Ns,
) -> Progress {
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
    let now = lathunt_host::clock::mono();
    rows.splice(0..0, recording.starving().iter().map(|starving| waits(starving, now)));
    let phase = until.map_or("recording".to_owned(), |until| until.phase("recording"));
    let phase = if plan.live { format!("{phase} (q ends, ? keys)") } else { phase };
    let planned = until.map_or(plan.duration, |until| until.estimate());
    Progress { phase, elapsed, planned, remark: None, rows }
}

/// Uses the larger latency: a thread may be woken by timers and by others.
fn of_task(task: &Task) -> Option<Row> {
    let latencies = [Quantity::Wakeup, Quantity::TimerWakeup].into_iter().filter_map(|of| task.of(of));
    let latency = latencies.max_by_key(|series| series.histogram.max())?;
    let missed = task.period.as_ref().map_or(0, |period| period.missed);
    let culprit = task.worst.as_ref().and_then(|worst| worst.culprit.clone()).unwrap_or_default();
    Some(Row { missed, culprit, ..row(task.thread.to_string(), latency) })
}

/// An unfinished wait, listed first: it is not in the figures yet.
fn waits(starving: &Starving, now: Mono) -> Row {
    let so_far = Some(now.since(starving.since));
    let holder = starving.holder.as_ref().map_or("not known".to_owned(), ToString::to_string);
    Row {
        label: format!("{} waits for CPU {}", starving.thread, starving.cpu),
        count: 0,
        min: None,
        now: so_far,
        mean_ns: None,
        p999: None,
        max: so_far,
        missed: 0,
        culprit: format!("{holder} has it"),
    }
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
        missed: series.missed.unwrap_or(0), // always known for our own recorder
        culprit: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use lathunt_core::histogram::{Histogram, Layout};

    use super::*;

    #[test]
    fn a_thread_is_shown_with_the_larger_of_its_latencies() {
        let task = serde_json::json!({
            "thread": { "tid": 7, "comm": "control", "prio": null }, "process": 7, "policy": "SCHED_FIFO",
            "waits_in": null, "timer_driven": true, "activations": 2, "period": null, "series": [],
            "execution": null, "preemptions": 0, "page_faults": 0, "deadline_ns": null, "misses": 0
        });
        let mut task: Task = serde_json::from_value(task).unwrap();
        assert_eq!(of_task(&task), None);
        let of = |quantity, us| {
            let mut histogram = Histogram::new(Layout::LATENCY);
            histogram.record(Ns::from_us(us));
            Series::new(quantity, None, histogram)
        };
        for (timed, woken) in [(60, 5_000), (5_000, 60)] {
            task.series = vec![of(Quantity::Wakeup, woken), of(Quantity::TimerWakeup, timed)];
            assert_eq!(of_task(&task).unwrap().max, Some(Ns::from_ms(5)));
        }
    }
}
