//! Plots of `lathunt bound`: the exceedance plot with the fitted tail, and diagnostics of the fit.

use crate::bound::curves::{Curves, Estimate, Level};
use crate::report::plot::{reach, Axis, Deadline, Line, Plot, Step, BOTTOM, LEFT, RIGHT, TOP};
use crate::report::scale::{tick_label, Kind, Scale};

/// The displayed unit of the samples.
#[derive(Clone, Debug)]
pub struct Unit {
    /// `µs`; empty if unknown.
    pub name: &'static str,
    /// Sample units per displayed unit: 1000 for nanoseconds on an axis of µs.
    pub divisor: f64,
}

/// Common data of all plots.
#[derive(Clone, Debug)]
pub struct Subject<'a> {
    /// The measurement, one line.
    pub about: &'a str,
    /// Unit of the samples.
    pub unit: Unit,
    /// Deadline in the unit of the samples.
    pub deadline: Option<f64>,
    /// Bound of a path analysis in the unit of the samples.
    pub bound: Option<f64>,
    /// The sentence about the extrapolation: the basis of the curve, or why it ends at the last sample.
    pub extrapolated: &'a str,
}

/// All plots, the exceedance plot first, which answers the question.
#[must_use]
pub fn plots(curves: &Curves, subject: &Subject) -> Vec<Plot> {
    let made = [
        exceedance(curves, subject),
        quantiles(curves, subject),
        mean_excess(curves, subject),
        shape(curves, subject),
        in_time(curves, subject),
    ];
    made.into_iter().flatten().collect()
}

/// How often each level is exceeded: observed, fitted, and the upper limit.
#[must_use]
pub fn exceedance(curves: &Curves, subject: &Subject) -> Option<Plot> {
    let unit = &subject.unit;
    let (largest, rarest) = *curves.observed.last()?;
    let mut lines = vec![line(0, "observed", levels(curves.observed.iter().copied(), unit))];
    let fitted = &curves.fitted;
    if fitted.len() > 1 {
        let of = |value: fn(&Level) -> Option<f64>| {
            levels(fitted.iter().filter_map(|level| Some((value(level)?, level.probability))), unit)
        };
        lines.push(line(1, "fitted tail, largest likelihood", of(|level| Some(level.value))));
        lines.push(line(2, "upper limit", of(|level| level.upper)));
    }
    let lowest_share = fitted.last().map_or(rarest, |level| rarest.min(level.probability));
    if let Some(at) = subject.bound.map(|at| at / unit.divisor) {
        // No share above it.
        let [begin, end] = [at * 0.998, at * 1.002];
        let steps =
            vec![Step { from: begin, to: at, value: 1.0 }, Step { from: at, to: end, value: lowest_share }];
        lines.push(line(3, &format!("bound {}", number(at, unit.name)), steps));
    }
    let ends = lines.iter().flat_map(|line| &line.steps);
    let max = ends.map(|step| step.to).fold(largest / unit.divisor, f64::max);
    let lowest = curves.observed.first().map_or(largest, |(lowest, _)| *lowest) / unit.divisor;
    let deadline = subject.deadline.map(|at| Deadline {
        at: at / unit.divisor,
        on_x: true,
        text: format!("deadline {}", number(at / unit.divisor, unit.name)),
    });
    let reach = reach(max, deadline.as_ref());
    let is_wide = lowest > 0.0 && reach > 20.0 * lowest;
    let x = match is_wide {
        true => Scale::log(lowest, reach, LEFT, RIGHT),
        false => Scale::linear(reach, LEFT, RIGHT),
    };
    let mut plot = blank(
        "exceedance",
        "How often a level is exceeded",
        subject,
        lines,
        x,
        Scale::log(lowest_share, 1.0, BOTTOM, TOP),
    );
    plot.y.label = "share of the samples above (logarithmic)".to_owned();
    plot.deadline = deadline;
    plot.notes.push(subject.extrapolated.to_owned());
    Some(plot)
}

fn quantiles(curves: &Curves, subject: &Subject) -> Option<Plot> {
    let (largest, _) = extent(&curves.quantiles)?;
    let unit = &subject.unit;
    let mut lines = estimates(
        &curves.quantiles,
        unit,
        unit.divisor,
        ["samples", "lower end of 95 %", "upper end of 95 %"],
    );
    let diagonal = curves.quantiles.iter().map(|one| (one.at, one.at / unit.divisor));
    lines.push(line(3, "the fitted tail itself", joined(diagonal, unit)));
    let least = curves.quantiles.iter().map(|one| one.at.min(one.lower.unwrap_or(one.value)).min(one.value));
    let least = least.fold(f64::INFINITY, f64::min) / unit.divisor;
    let furthest = curves.quantiles.last().map_or(largest, |one| one.at);
    let x = between(least, furthest / unit.divisor, LEFT, RIGHT);
    let y = between(least, largest / unit.divisor, BOTTOM, TOP);
    let mut plot =
        blank("quantiles", "Quantiles of the samples against the fitted tail", subject, lines, x, y);
    plot.x.label = named("of the fitted tail", unit.name);
    plot.y.label = named("of the samples", unit.name);
    plot.notes.push("Outside the envelope of simulated samples the tail does not fit.".to_owned());
    Some(plot)
}

fn mean_excess(curves: &Curves, subject: &Subject) -> Option<Plot> {
    let (largest, _) = extent(&curves.mean_excess)?;
    let unit = &subject.unit;
    let lines = estimates(
        &curves.mean_excess,
        unit,
        unit.divisor,
        ["mean", "lower end of 95 %", "upper end of 95 %"],
    );
    let y = Scale::linear(largest / unit.divisor, BOTTOM, TOP);
    let mut plot =
        blank("mean-excess", "Mean residual life", subject, lines, thresholds(&curves.mean_excess, unit), y);
    plot.x.label = named("threshold", unit.name);
    plot.y.label = named("mean excess", unit.name);
    plot.notes
        .push("Straight above a threshold: one tail from there on. A bend: another mechanism.".to_owned());
    Some(plot)
}

fn shape(curves: &Curves, subject: &Subject) -> Option<Plot> {
    let (largest, least) = extent(&curves.shape)?;
    let unit = &subject.unit;
    let lines = estimates(&curves.shape, unit, 1.0, ["shape", "lower end", "upper end"]);
    let y = between(least.max(-1.5), largest.min(1.5), BOTTOM, TOP);
    let mut plot = blank(
        "shape",
        "Shape of the tail over each threshold",
        subject,
        lines,
        thresholds(&curves.shape, unit),
        y,
    );
    plot.x.label = named("threshold", unit.name);
    plot.y.label = "shape (xi)".to_owned();
    plot.value_unit = "";
    plot.notes.push(
        "Below 0 the tail ends, above 0 it falls as a power. One tail has one shape over every threshold."
            .to_owned(),
    );
    Some(plot)
}

fn in_time(curves: &Curves, subject: &Subject) -> Option<Plot> {
    let unit = &subject.unit;
    let largest = curves.in_time.iter().copied().reduce(f64::max)?;
    let step = |(at, value): (usize, &f64)| Step {
        from: at as f64,
        to: (at + 1) as f64,
        value: value / unit.divisor,
    };
    let lines = vec![line(0, "largest", curves.in_time.iter().enumerate().map(step).collect())];
    let x = Scale::linear(curves.in_time.len() as f64, LEFT, RIGHT);
    let mut plot = blank(
        "in-time",
        "In the order of time",
        subject,
        lines,
        x,
        Scale::linear(largest / unit.divisor, BOTTOM, TOP),
    );
    plot.x.label = "stretch of the record, in order".to_owned();
    plot.x.unit = "";
    plot.y.label = named("latency", unit.name);
    plot.deadline = curves.threshold.map(|at| Deadline {
        at: at / unit.divisor,
        on_x: false,
        text: format!("threshold {}", number(at / unit.divisor, unit.name)),
    });
    Some(plot)
}

fn blank(id: &str, title: &str, subject: &Subject, lines: Vec<Line>, x: Scale, y: Scale) -> Plot {
    let unit = subject.unit.name;
    Plot {
        id: format!("bound-{id}"),
        title: title.to_owned(),
        subtitle: subject.about.to_owned(),
        x: Axis { label: named("latency", unit), unit, scale: x },
        y: Axis { label: String::new(), unit: "", scale: y },
        lines,
        deadline: None,
        notes: Vec::new(),
        columns: false,
        value_unit: if id == "exceedance" { "" } else { unit },
    }
}

fn line(index: usize, legend: &str, steps: Vec<Step>) -> Line {
    Line {
        label: legend.to_owned(),
        legend: legend.to_owned(),
        colour: index,
        dash: index % 4,
        steps,
        max: None,
    }
}

/// A share is drawn from its level to the next one, so that it is never too small.
fn levels(shares: impl Iterator<Item = (f64, f64)>, unit: &Unit) -> Vec<Step> {
    let shares: Vec<(f64, f64)> = shares.collect();
    let ends = shares.iter().skip(1).map(|(level, _)| *level);
    let last = shares.last().map(|(level, _)| level * 1.005);
    let steps = shares.iter().zip(ends.chain(last));
    steps
        .filter(|((from, _), to)| to > from)
        .map(|((from, share), to)| Step { from: from / unit.divisor, to: to / unit.divisor, value: *share })
        .collect()
}

/// From each point to the next one.
fn joined(points: impl Iterator<Item = (f64, f64)>, unit: &Unit) -> Vec<Step> {
    levels(points, unit)
}

/// The estimate and the ends of its interval; the latter are divided by `divisor`, as the estimate is.
fn estimates(all: &[Estimate], unit: &Unit, divisor: f64, names: [&str; 3]) -> Vec<Line> {
    let of = |value: fn(&Estimate) -> Option<f64>| {
        joined(all.iter().filter_map(|one| Some((one.at, value(one)? / divisor))), unit)
    };
    let steps = [of(|one| Some(one.value)), of(|one| one.lower), of(|one| one.upper)];
    steps.into_iter().zip(names).enumerate().map(|(index, (steps, name))| line(index, name, steps)).collect()
}

/// The largest and the smallest value of all intervals.
fn extent(all: &[Estimate]) -> Option<(f64, f64)> {
    let values = || all.iter().flat_map(|one| [Some(one.value), one.lower, one.upper]).flatten();
    Some((values().reduce(f64::max)?, values().reduce(f64::min)?))
}

fn thresholds(all: &[Estimate], unit: &Unit) -> Scale {
    let places = || all.iter().map(|one| one.at / unit.divisor);
    between(places().fold(f64::INFINITY, f64::min), places().fold(0.0, f64::max), LEFT, RIGHT)
}

/// Linear, with a margin at both ends.
fn between(lo: f64, hi: f64, from: f64, to: f64) -> Scale {
    let room = if hi > lo { (hi - lo) * 0.03 } else { hi.abs().max(1.0) * 0.03 };
    Scale { kind: Kind::Linear, lo: lo - room, hi: hi + room, from, to }
}

/// `threshold, µs`; plain numbers are values, not latencies.
fn named(what: &str, unit: &str) -> String {
    match (what, unit) {
        ("latency", "") => "value".to_owned(),
        (what, "") => what.to_owned(),
        (what, unit) => format!("{what}, {unit}"),
    }
}

fn number(value: f64, unit: &str) -> String {
    format!("{} {unit}", tick_label(value)).trim_end().to_owned()
}
