//! Maxima over time: the largest latency of each second, one line per CPU.
//!
//! It shows whether peaks occur in bursts, periodically, or only at the start.

use std::collections::BTreeMap;

use super::latency::Curve;
use super::plot::{axis_of_maxima, reach, style, Axis, Deadline, Line, Plot, Step, Wanted, LEFT, RIGHT};
use super::scale::{Kind, Scale};
use crate::series::Quantity;
use crate::time::Ns;

/// Maximum number of columns, about the pixels of a screen; in longer runs a column is the maximum of several seconds.
const COLUMNS: u64 = 2_048;

/// The plot of `curves`, which are all of `quantity`; `None` without maxima.
#[must_use]
pub fn plot(quantity: Quantity, curves: &[Curve], deadline: Option<Ns>, wanted: Wanted) -> Option<Plot> {
    let maxima = || curves.iter().flat_map(|c| &c.series.seconds);
    let max = maxima().map(|s| s.max_ns).max()?;
    let least = maxima().map(|s| s.max_ns).min()?;
    let span = maxima().map(|s| u64::from(s.second) + 1).max()?;
    let (unit, unit_ns) = if max.0 < 20_000 && least.0 < 1_000 { ("ns", 1.0) } else { ("µs", 1e3) };
    let (time_unit, seconds) = time_unit(span);
    let stretch = curves.iter().map(|c| u64::from(c.series.seconds_stretch.max(1))).max()?;
    let per_column = span.div_ceil(COLUMNS).next_multiple_of(stretch);
    let lines: Vec<Line> = curves.iter().map(|c| line(c, curves, per_column, seconds, unit_ns)).collect();
    let deadline = deadline.map(|deadline| Deadline::new(deadline, unit_ns, false));
    let end = reach(max.0 as f64 / unit_ns, deadline.as_ref());
    let mut notes = Vec::new();
    if per_column > 1 {
        notes.push(format!("Each column is the largest latency of {per_column} seconds."));
    }
    let y = axis_of_maxima(maxima().map(|s| s.max_ns), (end, unit_ns), wanted, &mut notes);
    let hi = span.div_ceil(per_column) as f64 * per_column as f64 / seconds;
    Some(Plot {
        id: format!("seconds-{}", quantity.name().replace('+', "-")),
        title: format!("Maxima over time: {}", quantity.name()),
        subtitle: String::new(),
        x: Axis {
            label: format!("time since the series began [{time_unit}]"),
            unit: time_unit,
            scale: Scale { kind: Kind::Linear, lo: 0.0, hi, from: LEFT, to: RIGHT },
        },
        y: Axis { label: format!("largest latency [{unit}]"), unit, scale: y },
        lines,
        deadline,
        notes,
        columns: false,
        value_unit: unit,
    })
}

/// Unit of the time axis, and its length in seconds.
fn time_unit(span: u64) -> (&'static str, f64) {
    match span {
        0..=7_200 => ("s", 1.0),
        7_201..=172_800 => ("min", 60.0),
        _ => ("h", 3_600.0),
    }
}

fn line(curve: &Curve, all: &[Curve], per_column: u64, seconds: f64, unit_ns: f64) -> Line {
    let mut columns: BTreeMap<u64, Ns> = BTreeMap::new();
    for second in &curve.series.seconds {
        let column = columns.entry(u64::from(second.second) / per_column).or_default();
        *column = (*column).max(second.max_ns);
    }
    let steps: Vec<Step> = columns
        .iter()
        .map(|(&column, &max)| Step {
            from: (column * per_column) as f64 / seconds,
            to: ((column + 1) * per_column) as f64 / seconds,
            value: max.0 as f64 / unit_ns,
        })
        .collect();
    let runs = all.iter().map(|c| c.run).max().unwrap_or(0) + 1;
    let (colour, dash) = style(curve.index, curve.run, runs);
    let worst = curve.series.seconds.iter().max_by_key(|s| (s.max_ns, std::cmp::Reverse(s.second)));
    let legend = match worst {
        Some(worst) => format!("{}: max {} at {} s", curve.label, worst.max_ns, worst.second),
        None => format!("{}: no maxima kept", curve.label),
    };
    let max = worst.map(|w| ((f64::from(w.second) + 0.5) / seconds, w.max_ns.0 as f64 / unit_ns));
    Line { label: curve.label.clone(), legend, colour, dash, steps, max }
}
