//! Figures of one series that a file has twice.

use std::collections::BTreeSet;

use crate::histogram::Histogram;
use crate::numbers::counted;
use crate::peak::Peak;
use crate::run::{Contradiction, Run};
use crate::series::{Quantity, Series};
use crate::time::Ns;

/// Checks the figures of a series against each other.
pub(super) fn consistent(series: &Series) -> Result<(), Contradiction> {
    let histograms = std::iter::once(&series.histogram).chain(&series.replayed);
    let wrong = missed(series).or_else(|| histograms.into_iter().find_map(mean)).or_else(|| seconds(series));
    wrong.map_or(Ok(()), |what| Err(Contradiction(format!("{}: {what}", series.label()))))
}

/// A series is in a file once, and no worst case of an instrument is longer than the largest sample of its CPU.
pub(super) fn agree(run: &Run) -> Result<(), Contradiction> {
    let mut known = BTreeSet::new();
    for series in run.series.iter().filter(|series| series.cpu.is_some() && run.merged.is_empty()) {
        let thread = series.thread.as_ref().map(|thread| (thread.tid, thread.comm.as_str()));
        if !known.insert((series.quantity, series.cpu, thread, series.channel.as_deref())) {
            let (label, name) = (series.label(), series.quantity.name());
            return Err(Contradiction(format!("{label}: it has two series of {name} latencies")));
        }
    }
    let counted =
        |peak: &&Peak| peak.quantity == Quantity::Cyclic && !peak.during_action && peak.counted_as.is_none();
    for peak in run.peaks.iter().filter(counted) {
        let of_it = run.of(peak.quantity).filter(|series| series.cpu == Some(peak.cpu));
        let histograms = of_it.flat_map(|series| std::iter::once(&series.histogram).chain(&series.replayed));
        let Some(max) = histograms.filter_map(Histogram::max).max().filter(|&max| max < peak.total_ns) else {
            continue;
        };
        let (max, took) = max.told_apart(peak.total_ns);
        return Err(Contradiction(format!(
            "CPU {}: its largest sample is {max}, but one of its worst cases took {took}",
            peak.cpu
        )));
    }
    Ok(())
}

/// Samples, missed activations, and both together.
fn missed(series: &Series) -> Option<String> {
    let (all, histogram) = (series.replayed.as_ref()?, &series.histogram);
    let max = |of: &Histogram| of.max().unwrap_or(Ns::ZERO);
    let (samples, activations) = (counted(histogram.count(), "sample"), counted(all.count(), "activation"));
    if all.count() < histogram.count() || all.max() < histogram.max() {
        let (max, most) = (max(histogram), max(all));
        return Some(format!("{samples} up to {max}, but {activations} with the missed ones up to {most}"));
    }
    // In round trips, `missed` counts other things.
    let missed = series.missed.filter(|_| series.counts.is_none())?;
    (all.count() != histogram.count().saturating_add(missed)).then(|| {
        let missed = counted(missed, "missed release");
        format!("{samples} and {missed}, but {activations} with the missed ones")
    })
}

/// The lengths of gaps are converted twice, with different rounding; an average of another program is truncated to 1 µs.
fn tolerance(of: Ns) -> u64 {
    of.0 / 1_000 + 1_000
}

/// The mean of samples is between the smallest and the largest. The sum saturates.
fn mean(of: &Histogram) -> Option<String> {
    let (min, max, mean) = (of.min()?, of.max()?, of.mean_ns()?);
    let is_too_small = mean < min.0.saturating_sub(tolerance(min)) as f64 && of.sum_ns() < u64::MAX;
    (is_too_small || mean > max.0.saturating_add(tolerance(max)) as f64)
        .then(|| format!("latencies from {min} to {max}, but by their sum a mean of {}", Ns(mean as u64)))
}

/// The largest latency of a second is not above that of all, and not below the smallest of all.
fn seconds(series: &Series) -> Option<String> {
    let (least, max) =
        (series.histogram.min().unwrap_or_default(), series.histogram.max().unwrap_or(Ns::ZERO));
    let (from, to) = (least.0.saturating_sub(tolerance(least)), max.0.saturating_add(tolerance(max)));
    let wrong = |of: Ns| !(from..=to).contains(&of.0);
    let second =
        series.seconds.iter().filter(|second| wrong(second.max_ns)).max_by_key(|second| second.max_ns)?;
    let (which, all) = if second.max_ns > max { ("largest", max) } else { ("smallest", least) };
    Some(format!("the {which} latency is {all}, but that of second {} is {}", second.second, second.max_ns))
}
