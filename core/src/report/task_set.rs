//! Measured and analysed response times of a task set, as a table.

use std::fmt::Write as _;

use crate::numbers::counted;
use crate::printable;
use crate::run::Run;
use crate::set_run::{FiberRun, ThreadRun};
use crate::time::Ns;

/// Maximum width of a task name.
const NAME: usize = 24;

/// The table of a run of a task set, with its misses and findings; empty for another run. Makes control characters
/// visible.
#[must_use]
pub fn table(run: &Run) -> String {
    let Some(set) = &run.task_set else { return String::new() };
    let widest = |text: &dyn Fn(&ThreadRun) -> usize| set.threads.iter().map(text).max().unwrap_or(0);
    let name = widest(&|thread| thread.name.chars().count()).clamp(4, NAME);
    let scheduling = widest(&|thread| thread.scheduling.chars().count()).max(10);
    let mut text = format!(
        "{:<name$}  {:<scheduling$} {:>8} {:>7} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>9}\n",
        "task",
        "scheduling",
        "jobs",
        "late",
        "response",
        "analysed",
        "deadline",
        "started",
        "CPU time",
        "blocked",
        "preempted"
    );
    for thread in &set.threads {
        let shown = printable::line(&thread.name);
        let _ = writeln!(
            text,
            "{:<name$}  {:<scheduling$} {:>8} {:>7} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>9}",
            printable::cut(&shown, NAME),
            thread.scheduling,
            thread.jobs,
            thread.misses,
            or_dash(thread.response_max_ns),
            or_dash(thread.analysed_ns),
            or_dash(thread.deadline_ns),
            or_dash(thread.release.map(|release| release.max_ns)),
            or_dash(thread.execution.map(|used| used.max_ns)),
            or_dash(Some(thread.blocked.max_ns).filter(|_| thread.blocked.count > 0)),
            thread.preemptions
        );
    }
    text.push_str("(the largest of each; response and start count from the nominal release, CPU time is that of a job)\n");
    for line in notes(run) {
        let _ = writeln!(text, "{}", printable::line(&line));
    }
    text
}

fn or_dash(time: Option<Ns>) -> String {
    time.map_or_else(|| "-".to_owned(), |time| time.to_string())
}

fn fibers(of: &FiberRun) -> String {
    let carrier = match of.kernel_priority {
        Some(priority) => format!("FIFO {priority}"),
        None => "an ordinary thread".to_owned(),
    };
    format!(
        "fibers of one thread of the kernel ({carrier}), interrupted by: {}; not the fibers' own: {} in which the kernel ran \
         something else, at most {} at a time; timers seen up to {} late",
        of.preemption, of.away_total_ns, of.away_longest_ns, of.late_longest_ns
    )
}

fn notes(run: &Run) -> Vec<String> {
    let Some(set) = &run.task_set else { return Vec::new() };
    let mut lines = Vec::new();
    for thread in &set.threads {
        let going_on = thread.jobs - thread.finished.min(thread.jobs);
        if let Some(late) = thread.lateness_max_ns {
            let part = if thread.not_started > 0 {
                format!("; {} were released and not started", thread.not_started)
            } else {
                String::new()
            };
            lines.push(format!(
                "MISSED: {}: {} of {}, by up to {late}{part}",
                thread.name,
                thread.misses,
                counted(thread.jobs, "job")
            ));
        } else if going_on > 1 {
            lines.push(format!("{}: {going_on} jobs had not ended when the run did", thread.name));
        }
        if thread.missed_releases > 0 {
            lines.push(format!(
                "{}: {} passed without a job (its timer is relative)",
                thread.name,
                counted(thread.missed_releases, "release")
            ));
        }
        if let Some(moves) = thread.migrations.filter(|moves| *moves > 0) {
            lines.push(format!("{}: moved to another CPU {}", thread.name, counted(moves, "time")));
        }
    }
    lines.extend(run.conditions.during.ended_early.iter().map(|why| format!("ENDED EARLY: {why}")));
    lines.extend(set.findings.iter().map(|finding| format!("FINDING: {finding}")));
    lines.extend(set.accounted.clone());
    lines.extend(set.fibers.as_ref().map(fibers));
    lines.extend(set.not_analysed.iter().map(|why| format!("not analysed: {why}")));
    let total = format!(
        "{}: {}, {} missed their deadline",
        run.scheduler.as_deref().unwrap_or("?"),
        counted(run.jobs.unwrap_or(0), "job"),
        run.misses.unwrap_or(0)
    );
    lines.push(match run.conditions.duration_s {
        Some(seconds) => format!("{total} in {seconds:.1} s on CPU {}", set.cpus),
        None => total,
    });
    lines
}
