//! Periodic threads: release, start and end of each job, missed periods and overruns.
//!
//! A release is the programmed expiry of the timer that wakes the thread (if it is recorded on the clock of the trace;
//! else the event of the expiry). The job starts at the next switch-in and ends where the thread blocks. A sleep until
//! a time that has passed still arms its timer, which expires at once: if that happens on the way to sleep, the job has
//! ended there and the next one, which is late, starts. A thread is periodic if most intervals between its releases are
//! one period or a multiple; a missing release is a missed period: its timer was not armed for it. If more than a third
//! of the intervals skip more than three periods each while the thread sleeps, it sleeps for any number of ticks
//! (rcu_preempt): it has no period.
//!
//! A job without a recorded switch-in has a response but no start. A job without a known end (events were lost, or its
//! switch-out was not recorded) is not part of any quantity; the maximum length of such a job is reported.
//!
//! Constant memory per thread: intervals and jobs are kept up to a limit. Counts and extremes cover all; medians and
//! the period cover those kept.

mod jobs;

use std::iter;

use serde::{Deserialize, Serialize};

use self::jobs::Task;
use super::intervals::Whose;
use super::text::{cut, wrap};
use crate::numbers::more;
use crate::time::{Mono, Ns, Tid};
use crate::trace::source::Source;

/// Minimum number of releases for a period.
const FEWEST: usize = 4;
/// An interval fits a multiple of the period if it deviates by at most this fraction of the period.
const FIT: f64 = 0.25;
/// Share of intervals that must fit.
const MOSTLY: f64 = 0.8;

/// All periodic threads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Periods {
    /// `lathunt-periods`.
    pub format: String,
    /// Version of this format.
    pub version: u32,
    /// Shortest period first.
    pub threads: Vec<Periodic>,
    /// Number of periodic threads that were not selected.
    #[serde(default)]
    pub others: u64,
    /// Damage found: jobs may be missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damage: Vec<String>,
    /// An event that the trace lacks, without which no job is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unanswerable: Option<String>,
}

/// One periodic thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Periodic {
    /// Thread id.
    pub tid: Tid,
    /// Its last name.
    pub comm: String,
    /// Median interval between its releases.
    pub period_ns: Ns,
    /// Jobs that ended within the trace.
    pub jobs: u64,
    /// Periods without a release.
    pub missed: u64,
    /// Jobs that ended after the next release was due.
    pub overruns: u64,
    /// Jobs whose switch-in was not recorded: they have only a response.
    #[serde(default)]
    pub unseen_starts: u64,
    /// Additional jobs without a known end: events were lost, or the switch-out was not recorded.
    #[serde(default)]
    pub unseen_ends: u64,
    /// Maximum length of one of these, from its release to when the thread had certainly blocked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_unseen_ns: Option<Ns>,
    /// Release → switched in; `None`: not known for any job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Spread>,
    /// Release → blocked.
    pub response: Spread,
    /// CPU time, including interrupts; `None`: not known for any job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Spread>,
    /// The job with the longest response.
    pub worst: Job,
}

/// A quantity over all jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Spread {
    /// The shortest.
    pub least_ns: Ns,
    /// The upper median; with more than 1048576 jobs that of the first ones.
    pub median_ns: Ns,
    /// The longest.
    pub worst_ns: Ns,
}

/// One job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Job {
    /// Its release.
    pub release: Mono,
    /// Its switch-in; `None`: not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Mono>,
    /// Its end: when the thread blocked.
    pub end: Mono,
    /// CPU time; `None`: not completely recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_ns: Option<Ns>,
}

/// The periodic threads of `source` that `whose` selects.
#[must_use]
pub fn periods(source: &dyn Source, whose: &Whose) -> Periods {
    let (tasks, damage) = jobs::of_threads(source);
    let (threads, others): (Vec<_>, Vec<_>) = tasks
        .into_iter()
        .filter_map(|(tid, task)| {
            let comm = if task.comm.is_empty() { source.info().comms.get(&tid).cloned() } else { None };
            let comm = comm.unwrap_or_else(|| task.comm.clone());
            let is_selected = iter::once(&comm).chain(&task.earlier).any(|name| whose.fits(tid, name));
            Some((is_selected, periodic(tid, comm, task)?))
        })
        .partition(|(is_selected, _)| *is_selected);
    let mut threads: Vec<Periodic> = threads.into_iter().map(|(_, thread)| thread).collect();
    threads.sort_by_key(|thread| (thread.period_ns, thread.tid));
    let others = others.len() as u64;
    let format = "lathunt-periods".to_owned();
    Periods { format, version: 1, threads, others, damage, unanswerable: unanswerable(source) }
}

/// The event that the trace would need, if it lacks one.
fn unanswerable(source: &dyn Source) -> Option<String> {
    let needed = [
        ("hrtimer_expire_entry", "the releases of the jobs are unknown"),
        ("sched_waking", "the threads that the timers wake are unknown"),
        ("sched_switch", "the ends of the jobs are unknown"),
    ];
    let classes = source.catalogue().classes();
    let is_missing = |name: &str| !classes.iter().any(|class| class.name.ends_with(name));
    let (name, why) = needed.into_iter().find(|(name, _)| is_missing(name))?;
    Some(format!("{name} is not recorded: {why}"))
}

impl Job {
    fn response(&self) -> Ns {
        self.end.since(self.release)
    }

    /// Start, response and run.
    fn quantities(&self) -> [Option<Ns>; 3] {
        [self.start.map(|start| start.since(self.release)), Some(self.response()), self.run_ns]
    }
}

/// Number of periods in an interval, if it is about a multiple.
fn periods_in(distance: Ns, period: Ns) -> Option<u64> {
    let count = (distance.0 as f64 / period.0 as f64).round();
    let off = (distance.0 as f64 - count * period.0 as f64).abs() / period.0 as f64;
    (count >= 1.0 && off <= FIT).then_some(count as u64)
}

/// `None`: not periodic, or too few releases.
fn periodic(tid: Tid, comm: String, task: Task) -> Option<Periodic> {
    let Task { distances, jobs, beyond, worst, .. } = &task;
    if task.releases < FEWEST as u64 {
        return None;
    }
    let period = median(distances.iter().copied());
    if period == Ns::ZERO {
        return None;
    }
    let fitting: Vec<u64> = distances.iter().filter_map(|distance| periods_in(*distance, period)).collect();
    let fit = fitting.len() as u64 + beyond.fitting;
    if (fit as f64) < MOSTLY * (distances.len() as u64 + beyond.distances) as f64 {
        return None;
    }
    if sleeps_any_number(jobs, period) {
        return None;
    }
    let spread = |of: usize| {
        let (least_ns, worst_ns) = task.extremes[of]?;
        let median_ns = median(jobs.iter().filter_map(|job| job.quantities()[of]));
        Some(Spread { least_ns, median_ns, worst_ns })
    };
    let overruns = jobs.iter().filter(|job| job.response() > period).count() as u64;
    Some(Periodic {
        tid,
        comm,
        period_ns: period,
        jobs: task.ended,
        missed: fitting.iter().fold(beyond.missed, |missed, count| missed.saturating_add(count - 1)),
        overruns: overruns + beyond.overruns,
        unseen_starts: task.unseen_starts,
        unseen_ends: task.unseen_ends,
        longest_unseen_ns: task.longest_unseen,
        start: spread(0),
        response: spread(1)?,
        run: spread(2),
        worst: *worst,
    })
}

/// Whether the thread sleeps for any number of ticks (a kernel thread, a poll with a back-off): its releases are on
/// ticks, but it has no period. Periods missed because a job overran do not count.
fn sleeps_any_number(jobs: &[Job], period: Ns) -> bool {
    let asleep = jobs.windows(2).filter(|pair| pair[0].response() <= period);
    let skips: Vec<u64> = asleep
        .filter_map(|pair| periods_in(pair[1].release.since(pair[0].release), period))
        .filter(|count| *count > 1)
        .collect();
    let skipped = skips.iter().fold(0u64, |sum, count| sum.saturating_add(count - 1));
    skips.len() * 3 > jobs.len() && skipped > 3 * skips.len() as u64
}

/// The upper median; 0 without values.
fn median(values: impl Iterator<Item = Ns>) -> Ns {
    let mut sorted: Vec<Ns> = values.collect();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

impl Periods {
    /// The terminal text: a line for each thread, and caveats.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = if self.threads.is_empty() { self.none() } else { self.table() };
        if let Some(missing) = &self.unanswerable {
            wrap(&mut text, "! ", missing);
        }
        for damage in &self.damage {
            wrap(&mut text, "! ", &format!("the file is damaged at {damage}"));
        }
        text
    }

    fn table(&self) -> String {
        let mut text = format!(
            "{:<26} {:>11} {:>7} {:>6} {:>8} {:>11} {:>11} {:>11}\n",
            "thread", "period", "jobs", "missed", "overruns", "max start", "max resp.", "max run"
        );
        for thread in &self.threads {
            let name: String = format!("{}/{}", thread.comm, thread.tid).chars().take(26).collect();
            let worst =
                |spread: Option<Spread>| spread.map_or("-".to_owned(), |spread| spread.worst_ns.to_string());
            text.push_str(&format!(
                "{name:<26} {:>11} {:>7} {:>6} {:>8} {:>11} {:>11} {:>11}\n",
                thread.period_ns.to_string(),
                thread.jobs,
                thread.missed,
                thread.overruns,
                worst(thread.start),
                thread.response.worst_ns.to_string(),
                worst(thread.run)
            ));
        }
        for thread in &self.threads {
            let Job { release, start, end, .. } = thread.worst;
            let name = format!("{}/{}", thread.comm, thread.tid);
            let started = start.map_or("started unrecorded".to_owned(), |start| format!("started {start}"));
            let worst = format!("longest response released {release}, {started}, ended {end}");
            wrap(&mut text, &format!("{}: ", cut(&name, 40)), &worst);
            for limit in thread.limits() {
                wrap(&mut text, "! ", &format!("{}: {limit}", cut(&name, 40)));
            }
        }
        text
    }

    fn none(&self) -> String {
        match self.others {
            0 => "no periodic thread: no thread was woken by timers at regular intervals\n".to_owned(),
            1 => "the only periodic thread is not the selected one (--tid, --comm)\n".to_owned(),
            others => {
                format!("none of the {others} periodic threads is selected (--tid, --comm)\n")
            }
        }
    }
}

impl Periodic {
    fn limits(&self) -> Vec<String> {
        let mut limits = Vec::new();
        if self.unseen_starts > 0 {
            let jobs = self.unseen_starts;
            limits.push(format!(
                "the switch-in of {jobs} of its jobs was not recorded: these count in jobs, overruns and response only"
            ));
        }
        if let Some(longest) = self.longest_unseen_ns {
            let jobs = more(self.unseen_ends, "job");
            limits.push(format!(
                "of {jobs} the end is not known (events were lost, or a switch was not recorded), and they are not counted: \
                 the longest took at most {longest}"
            ));
        }
        limits
    }
}

#[cfg(test)]
mod tests;
