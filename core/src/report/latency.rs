//! The standard latency plot: number of samples per latency, one line per CPU, on a logarithmic count axis.
//!
//! As in OSADL's `mklatencyplot`: 1 µs classes, log count, maxima in the legend, because engineers know this form.
//! Unlike there, the range follows the data: no value is omitted.

use super::plot::{reach, style, Axis, Deadline, Line, Plot, Step, Wanted, BOTTOM, LEFT, RIGHT, TOP};
use super::scale::{Kind, Scale};
use crate::numbers::{grouped, quantile};
use crate::run::Run;
use crate::series::{Quantity, Series};
use crate::time::Ns;

/// The body of a distribution: up to this quantile, so that no tail is part of it, however heavy. On a loaded machine, one
/// sample in fifty may be of 5 ms where all others are of 50 µs: with such a tail in it, the body was drawn in 1 % of the width.
const BODY: f64 = 0.75;
/// Ratio of the maximum to the end of the body above which the body would shrink to a few pixels.
const SQUEEZED: f64 = 8.0;
/// Maximum number of classes with a linear axis: a class must be a few pixels wide.
const CLASSES_ON_PAPER: f64 = 200.0;

/// Input of one line of the plot.
#[derive(Clone, Debug)]
pub struct Curve<'a> {
    /// Its name in the legend.
    pub label: String,
    /// Its data.
    pub series: &'a Series,
    /// Index of its run, from 0.
    pub run: usize,
    /// Its index among the lines of its run.
    pub index: usize,
}

/// The series of `quantity` of all `runs`; with several runs, labels are prefixed with their names.
#[must_use]
pub fn curves<'a>(runs: &[(&str, &'a Run)], quantity: Quantity) -> Vec<Curve<'a>> {
    let named = runs.len() > 1;
    let of_run = |(run, (name, data)): (usize, &(&str, &'a Run))| {
        let name = if named { format!("{name}: ") } else { String::new() };
        let series: Vec<&'a Series> = data.of(quantity).filter(|s| s.histogram.count() > 0).collect();
        series
            .into_iter()
            .enumerate()
            .map(move |(index, series)| Curve {
                label: format!("{name}{}", series.label()),
                series,
                run,
                index,
            })
            .collect::<Vec<_>>()
    };
    runs.iter().enumerate().flat_map(of_run).collect()
}

/// The sum of the series of `quantity` of a run, without a CPU; `None`: there are not two that can be added.
#[must_use]
pub fn merged(run: &Run, quantity: Quantity) -> Option<Series> {
    let mut all = run.of(quantity).filter(|series| series.histogram.count() > 0);
    let first = all.next()?;
    let mut sum = Series { cpu: None, thread: None, channel: None, ..first.clone() };
    let mut added = false;
    for series in all {
        sum.histogram.count().checked_add(series.histogram.count())?;
        sum.add_samples(series).ok()?;
        added = true;
        // Maxima of stretches of different lengths cannot be combined.
        if sum.seconds_stretch == series.seconds_stretch {
            sum.seconds.extend_from_slice(&series.seconds);
        } else {
            sum.seconds.clear();
        }
    }
    let stretch = sum.seconds_stretch.max(1);
    sum.seconds.sort_by_key(|one| (one.second / stretch, std::cmp::Reverse(one.max_ns)));
    sum.seconds.dedup_by_key(|one| one.second / stretch);
    added.then_some(sum)
}

/// The plot of `curves`, which are all of `quantity`; `None` without samples.
#[must_use]
pub fn plot(quantity: Quantity, curves: &[Curve], deadline: Option<Ns>, wanted: Wanted) -> Option<Plot> {
    let max = curves.iter().filter_map(|c| c.series.histogram.max()).max()?;
    let width = curves.iter().map(|c| c.series.histogram.layout().width()).min()?;
    let (unit, unit_ns) = unit_of(width, max);
    let lines: Vec<Line> = curves.iter().map(|curve| line(curve, curves, unit_ns)).collect();
    let steps = || lines.iter().flat_map(|line| &line.steps);
    let deadline = deadline.map(|deadline| Deadline::new(deadline, unit_ns, true));
    let end = reach(steps().map(|s| s.to).fold(0.0, f64::max), deadline.as_ref());
    // Of the curve that a linear axis would squeeze most.
    let body = curves.iter().filter_map(|c| c.series.histogram.quantile(BODY)).min()?;
    let mut notes = vec![classes_note(curves, max, width)];
    if curves.iter().any(|curve| curve.series.lost > 0) {
        notes.push("Lost samples are not shown: their values are unknown.".to_owned());
    }
    let x = if logarithmic(wanted, max, body, width) {
        // Omitted, as in the table, if lost samples may be larger.
        let known: Option<Vec<Ns>> =
            curves.iter().map(|c| quantile(&c.series.histogram, c.series.lost, BODY)).collect();
        let up_to = known.and_then(|known| known.into_iter().max());
        notes.push(format!(
            "The x axis is logarithmic so that the maximum ({max}) and the body of the distribution{} are both visible; \
             nothing is cut off.",
            up_to.map(|body| format!(" ({} % up to {body})", BODY * 100.0)).unwrap_or_default()
        ));
        let least = curves.iter().filter_map(|c| c.series.histogram.min()).min().unwrap_or_default();
        Scale::log((least.0 as f64 / unit_ns).max(width.0 as f64 / unit_ns / 10.0), end, LEFT, RIGHT)
    } else {
        Scale::linear(end, LEFT, RIGHT)
    };
    let most = steps().map(|s| s.value).fold(1.0, f64::max);
    let top = 10f64.powf((most * 1.05).log10().ceil()).max(10.0);
    Some(Plot {
        id: format!("latency-{}", quantity.name().replace('+', "-")),
        title: format!("Latency: {}", quantity.name()),
        subtitle: String::new(),
        x: Axis { label: format!("latency [{unit}]: {}", quantity.facts().meaning), unit, scale: x },
        y: Axis {
            label: format!("samples per class of {}", whole(width)),
            unit: "",
            scale: Scale { kind: Kind::Log, lo: 0.7, hi: top, from: BOTTOM, to: TOP },
        },
        lines,
        deadline,
        notes,
        columns: true,
        value_unit: "samples",
    })
}

/// µs for latencies; ns if classes are finer and all values are small.
fn unit_of(width: Ns, max: Ns) -> (&'static str, f64) {
    if width.0 < 1_000 && max.0 < 20_000 {
        ("ns", 1.0)
    } else {
        ("µs", 1e3)
    }
}

fn logarithmic(wanted: Wanted, max: Ns, body: Ns, width: Ns) -> bool {
    match wanted {
        Wanted::Linear => false,
        Wanted::Log => true,
        Wanted::Auto => {
            max.0 as f64 > body.0 as f64 * SQUEEZED && max.0 as f64 > width.0 as f64 * CLASSES_ON_PAPER
        }
    }
}

fn line(curve: &Curve, all: &[Curve], unit_ns: f64) -> Line {
    let histogram = &curve.series.histogram;
    let runs = all.iter().map(|c| c.run).max().unwrap_or(0) + 1;
    let (colour, dash) = style(curve.index, curve.run, runs);
    let steps: Vec<Step> = histogram
        .occupied()
        .map(|(lower, upper, count)| Step {
            from: lower.0 as f64 / unit_ns,
            to: (upper.0 as f64 + 1.0) / unit_ns,
            value: count as f64,
        })
        .collect();
    let max = histogram.max().zip(steps.last()).map(|(max, step)| (max.0 as f64 / unit_ns, step.value));
    let lost = match curve.series.lost {
        0 => String::new(),
        lost => format!(", {} lost", grouped(lost)),
    };
    let legend = match histogram.max() {
        Some(max) => format!("{}: max {max} ({} samples{lost})", curve.label, grouped(histogram.count())),
        None => format!("{}: no sample", curve.label),
    };
    Line { label: curve.label.clone(), legend, colour, dash, steps, max }
}

fn classes_note(curves: &[Curve], max: Ns, width: Ns) -> String {
    let linear_to = |c: &Curve| {
        let layout = c.series.histogram.layout();
        Ns(layout.width().0.saturating_mul(layout.linear_bins() as u64))
    };
    match curves.iter().map(linear_to).min() {
        Some(edge) if max >= edge => {
            format!(
                "Classes of {} up to {edge}; above, a class is up to 3.1 % of its value wide.",
                whole(width)
            )
        }
        _ if curves.iter().any(|curve| curve.series.lost > 0) => format!("Classes of {}.", whole(width)),
        _ => format!("Classes of {}, all values shown.", whole(width)),
    }
}

/// A class width without unnecessary decimals: `1 µs`, not `1.0 µs`.
fn whole(width: Ns) -> String {
    match width.0 {
        us if us % 1_000 == 0 => format!("{} µs", us / 1_000),
        ns => format!("{ns} ns"),
    }
}
