//! The causes of all late jobs of an application: by which they are counted, and what explains them.

use std::collections::BTreeMap;

use super::late::{held_to, missed};
use super::row;
use crate::application::{is_coarse, is_same_cause, Task};
use crate::numbers::grouped;
use crate::peak::Peak;
use crate::run::Run;
use crate::time::{Ns, Tid};

/// A row of the causes.
pub struct LateRow {
    /// `mutex without inheritance, held by logger`; prefixed with the name of the thread if there are several.
    pub cause: String,
    /// Number of late jobs.
    pub jobs: u64,
    /// Its total time in them.
    pub time_ns: Ns,
    /// The longest response time of them.
    pub worst_ns: Ns,
}

/// Causes of the late jobs of all judged threads, the most frequent first. If some are late for certain: of these.
#[must_use]
pub fn causes(run: &Run) -> Vec<LateRow> {
    let common = run.verdict.as_ref().and_then(|verdict| verdict.deadline_ns);
    let certain: Vec<Tid> =
        missed(run).iter().filter(|missed| !missed.is_start).map(|missed| missed.task.thread.tid).collect();
    let counts = |task: &Task| certain.is_empty() || certain.contains(&task.thread.tid);
    let judged = || run.tasks.iter().filter(|task| held_to(task, common).is_some() && counts(task));
    let several = judged().filter(|task| !task.late_causes.is_empty()).count() > 1;
    let mut rows: Vec<(LateRow, &str, Vec<Tid>)> = Vec::new();
    for (task, of) in judged().flat_map(|task| task.late_causes.iter().map(move |of| (task, of))) {
        let cause = if several { format!("{}: {}", task.thread.comm, of.cause) } else { of.cause.clone() };
        match rows.iter_mut().find(|(row, ..)| row.cause == cause) {
            Some((row, _, threads)) => {
                (row.jobs, row.time_ns) = (row.jobs + of.jobs, row.time_ns + of.time_ns);
                row.worst_ns = row.worst_ns.max(of.worst_ns);
                threads.push(task.thread.tid);
            }
            None => {
                let row = LateRow { cause, jobs: of.jobs, time_ns: of.time_ns, worst_ns: of.worst_ns };
                rows.push((row, &of.cause, vec![task.thread.tid]));
            }
        }
    }
    rows.iter_mut().for_each(|(row, counted, threads)| row.cause.extend(explained(run, counted, threads)));
    let mut rows: Vec<LateRow> = rows.into_iter().map(|(row, ..)| row).collect();
    rows.sort_by(|a, b| (b.jobs, b.time_ns, &a.cause).cmp(&(a.jobs, a.time_ns, &b.cause)));
    rows
}

/// ` (irqs off: vnd in 9 of 10 explained)`: the cause that explains most of those jobs of `threads` that are counted as
/// `counted`, if that says more.
fn explained(run: &Run, counted: &str, threads: &[Tid]) -> Option<String> {
    if !is_coarse(counted) {
        return None;
    }
    let counted_so =
        |peak: &&Peak| peak.counted_as.as_deref() == Some(counted) && threads.contains(&peak.victim.tid);
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    for told in run.peaks.iter().filter(counted_so).filter_map(|peak| peak.explanation.as_ref()) {
        *times.entry(&told.cause).or_default() += 1;
    }
    let (cause, most) = times.iter().max_by_key(|(_, times)| **times)?;
    let all: usize = times.values().sum();
    (!is_same_cause(counted, cause)).then(|| format!(" ({cause} in {most} of {all} explained)"))
}

/// The causes as a table, with its heading; empty without late jobs.
#[must_use]
pub fn cause_lines(run: &Run, width: usize) -> (String, Vec<Vec<String>>) {
    let name = width.saturating_sub(33).min(56);
    let cause_row = |row: &LateRow| {
        let LateRow { cause, jobs, time_ns, worst_ns } = row;
        let figures =
            format!("{:>8} {:>10} {:>10}", grouped(*jobs), time_ns.to_string(), worst_ns.to_string());
        row::named(cause, name, &figures)
    };
    let heading =
        format!("{:<1$} {2:>8} {3:>10} {4:>10}", "Why jobs were late", name + 2, "jobs", "time", "worst job");
    (heading, causes(run).iter().map(cause_row).collect())
}

#[cfg(test)]
mod tests {
    use super::super::late::tests::late_run;
    use super::*;
    use crate::application::LateCause;

    #[test]
    fn what_explains_late_jobs_is_told_beside_the_cause_by_which_they_are_counted() {
        let mut run = late_run();
        let late = run.tasks[1].late_causes[1].clone();
        let (timer, held) = ("timer late", "CPU held by hog");
        let counted = [(timer, 7), (held, 6), ("preempted", 5)];
        let late = counted.map(|(cause, jobs)| LateCause { cause: cause.to_owned(), jobs, ..late.clone() });
        run.tasks[1].late_causes.splice(..0, late);
        let rows = |run: &Run| causes(run).into_iter().map(|row| row.cause).collect::<Vec<_>>();
        assert_eq!(rows(&run)[..3], [timer, held, "preempted"].map(str::to_owned));
        let job = |counted: &str, cause: &str, tid| {
            let mut peak = run.peaks[0].clone();
            cause.clone_into(&mut peak.explanation.as_mut().unwrap().cause);
            (peak.victim.tid, peak.counted_as) = (Tid(tid), Some(counted.to_owned()));
            peak
        };
        let off = "irqs off: vnd";
        run.peaks = vec![
            job(timer, off, 7),
            job(timer, timer, 7),
            job(timer, off, 7),
            job(held, "thread: hog", 7),
            job("page fault", "page fault of a file", 7),
            job("preempted", "softirq NET_RX", 8),
        ];
        let said = ["timer late (irqs off: vnd in 2 of 3 explained)", held, "preempted"];
        assert_eq!(rows(&run)[..3], said.map(str::to_owned));
        assert!(rows(&run).contains(&"page fault".to_owned()), "{:?}", rows(&run));
    }
}
