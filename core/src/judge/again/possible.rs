//! Counts and times that no measurement has: an altered or damaged file, whatever else it says.
//!
//! The limits are wide, because a valid file must never be refused: events are at least 1 ns apart, and nothing takes longer
//! than [`LONGEST`]. A latency may be longer than its measurement: a job may be due long before that, or before the boot.

use crate::application::Task;
use crate::run::{Contradiction, Run};
use crate::series::Series;
use crate::time::Ns;

/// Longest measurement and longest latency, ns: 100 years.
const LONGEST: f64 = 100.0 * 366.0 * 86_400.0 * 1e9;
/// A measurement may run longer than it says by a tenth of its length and by this, ns: it starts and stops slowly on a busy
/// machine.
const SLACK: f64 = 60.0 * 1e9;

/// Checks counts, times and fractions of `run` against its length.
pub(super) fn possible(run: &Run) -> Result<(), Contradiction> {
    let refuse = |what: String| Err(Contradiction(what));
    let length = run.conditions.duration_s;
    if let Some(seconds) = length.filter(|&seconds| !(0.0..=LONGEST / 1e9).contains(&seconds)) {
        return refuse(format!("a duration of {seconds} s"));
    }
    // Merged runs may have the same duration, and together more samples.
    let most = length.filter(|_| run.merged.is_empty()).map_or(LONGEST, |seconds| seconds * 1.1e9 + SLACK);
    let most = Most { ns: most as u64, length: length.filter(|_| run.merged.is_empty()) };
    for series in &run.series {
        most.series(series, &series.label())?;
    }
    for task in &run.tasks {
        most.task(task)?;
    }
    for loss in &run.losses {
        most.count(&loss.counter, "losses", loss.count)?;
    }
    for peak in &run.peaks {
        time(&format!("a worst case on CPU {}", peak.cpu), peak.total_ns)?;
    }
    for one in &run.interference {
        let whose = format!("{} on CPU {}", one.source, one.cpu);
        most.count(&whose, "occurrences", one.count)?;
        if one.max_ns > one.total_ns {
            return refuse(format!("{whose}: {} in total, but {} once", one.total_ns, one.max_ns));
        }
    }
    let mut cpus: Vec<_> = run.path_analysis.iter().map(|path| path.cpu).collect();
    cpus.sort_unstable();
    if let Some(pair) = cpus.windows(2).find(|pair| pair[0] == pair[1]) {
        return refuse(format!("two path analyses of CPU {}", pair[0]));
    }
    for path in &run.path_analysis {
        for one in [&path.poid, &path.paie, &path.psd, &path.dst].into_iter().flatten() {
            time(&format!("a section on CPU {}", path.cpu), one.ns)?;
        }
        if let Some(what) = path.contradiction() {
            return refuse(format!("path analysis of CPU {}: {what}", path.cpu));
        }
    }
    run.merged.iter().flat_map(|one| one.series.iter().map(move |of| (one, of))).try_for_each(|(one, of)| {
        let whose = format!("{}, {}", one.name, of.quantity.name());
        Most { ns: LONGEST as u64, length: None }.count(&whose, "samples", of.samples)
    })
}

fn time(what: &str, time: Ns) -> Result<(), Contradiction> {
    match time.0 <= LONGEST as u64 {
        true => Ok(()),
        false => Err(Contradiction(format!("{what} took {time}, more than 100 years"))),
    }
}

/// The largest count in a measurement of this length: one per nanosecond.
struct Most {
    ns: u64,
    length: Option<f64>,
}

impl Most {
    fn count(&self, whose: &str, what: &str, count: u64) -> Result<(), Contradiction> {
        let within = self.length.map_or("100 years".to_owned(), |seconds| format!("{seconds:.1} s"));
        let fits = count <= self.ns;
        fits.then_some(()).ok_or_else(|| {
            Contradiction(format!("{whose}: {count} {what} in {within}, more than one per nanosecond"))
        })
    }

    fn series(&self, series: &Series, whose: &str) -> Result<(), Contradiction> {
        let histogram = &series.histogram;
        let sum = [series.missed.unwrap_or_default(), series.lost]
            .iter()
            .fold(histogram.count(), |sum, more| sum.saturating_add(*more));
        self.count(whose, "samples, missed and lost", sum)?;
        histogram.max().map_or(Ok(()), |max| time(&format!("a sample of {whose}"), max))?;
        let last = series.seconds.iter().map(|second| second.second).max();
        if let Some(second) = last.filter(|&second| u64::from(second) * 1_000_000_000 > self.ns) {
            let length = self.length.unwrap_or(LONGEST / 1e9);
            return Err(Contradiction(format!(
                "{whose}: a maximum of second {second} in a measurement of {length:.1} s"
            )));
        }
        if let Some(variance) = series.variance_ns2.filter(|variance| *variance < 0.0) {
            return Err(Contradiction(format!("{whose}: a variance of {variance}")));
        }
        let Some(counts) = &series.counts else { return Ok(()) };
        if counts.answered > counts.sent || counts.out_of_order > counts.sent {
            let (answered, out, sent) = (counts.answered, counts.out_of_order, counts.sent);
            return Err(Contradiction(format!(
                "{whose}: {answered} answers, {out} of them out of order, but {sent} stimuli"
            )));
        }
        let all = [counts.sent, counts.late, counts.lost, counts.duplicated, counts.damaged, counts.foreign];
        all.into_iter().try_for_each(|count| self.count(whose, "messages", count))
    }

    fn task(&self, task: &Task) -> Result<(), Contradiction> {
        let whose = task.thread.to_string();
        task.series.iter().try_for_each(|series| self.series(series, &whose))?;
        let counts = [
            ("activations", task.activations),
            ("preemptions", task.preemptions),
            ("page faults", task.page_faults),
            ("misses", task.misses),
            ("late sleeps", task.late_sleeps),
            ("activations that were not recorded", task.not_recorded),
        ];
        counts.into_iter().try_for_each(|(what, count)| self.count(&whose, what, count))?;
        if let Some(span) = task.execution.as_ref().filter(|span| {
            span.min_ns > span.max_ns
                || !(span.min_ns.0 as f64 - 1.0..=span.max_ns.0 as f64 + 1.0).contains(&span.mean_ns)
        }) {
            return Err(Contradiction(format!(
                "{whose}: CPU times from {} to {}, and a mean of {}",
                span.min_ns,
                span.max_ns,
                Ns(span.mean_ns as u64)
            )));
        }
        if let Some(several) = task.several_jobs.filter(|several| several.turns > several.late) {
            return Err(Contradiction(format!(
                "{whose}: {} of {} late jobs may be several jobs",
                several.turns, several.late
            )));
        }
        let (misses, worst) = (task.misses, task.miss_max_ns);
        if worst.is_some_and(|worst| worst > Ns::ZERO) && misses == 0 {
            return Err(Contradiction(format!(
                "{whose}: late by up to {}, but no miss",
                worst.unwrap_or_default()
            )));
        }
        task.blocking.iter().try_for_each(|wait| {
            self.count(&whose, "waits", wait.count)?;
            let fits = wait.max_ns <= wait.total_ns;
            fits.then_some(()).ok_or_else(|| {
                Contradiction(format!(
                    "{whose}: waits in {} of {} in total, but of {} once",
                    wait.place, wait.total_ns, wait.max_ns
                ))
            })
        })
    }
}
