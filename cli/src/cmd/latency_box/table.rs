//! The result of `lathunt box` as text.

use std::fmt::Write as _;

use lathunt_core::printable;
use lathunt_core::run::Run;
use lathunt_core::series::{Quantity, Series};
use lathunt_core::time::Ns;

/// One row per series, the counts of stimuli, the verdict.
#[must_use]
pub fn of(run: &Run, quiet: bool) -> String {
    let mut text = String::new();
    for series in run.of(Quantity::Roundtrip) {
        channel(&mut text, run, series);
    }
    text.push_str(&cases(run));
    text.push_str(&verdict(run));
    if !quiet {
        for calibration in &run.calibration {
            let seen = calibration.instrument_ns.map_or("-".to_owned(), |ns| ns.to_string());
            let asked = calibration.injected_ns.map_or("-".to_owned(), |ns| ns.to_string());
            let how = if calibration.passed { "as requested" } else { "NOT as requested" };
            let _ = writeln!(text, "calibration: a delay of {asked} was measured as {seen}, {how}");
        }
    }
    text
}

/// The cases with their causes, worst first.
#[must_use]
pub fn cases(run: &Run) -> String {
    let mut text = String::new();
    for peak in run.peaks.iter().filter(|peak| peak.explanation.is_some()) {
        let _ = writeln!(text, "  case: {}", printable::line(&peak.sentence()));
    }
    text
}

/// The verdict and its reasons; empty if there is none.
#[must_use]
pub fn verdict(run: &Run) -> String {
    let mut text = String::new();
    let judged = run.verdict.as_ref().and_then(|verdict| Some((verdict, verdict.outcome?)));
    if let Some((verdict, outcome)) = judged {
        let _ = writeln!(text, "{}", outcome.name());
        for reason in &verdict.reasons {
            let _ = writeln!(text, "  {reason}");
        }
    }
    text
}

const COLUMNS: [&str; 6] = ["samples", "min", "median", "avg", "p99.9", "max"];

fn channel(text: &mut String, run: &Run, series: &Series) {
    head(text, &series.label());
    let parts = run
        .series
        .iter()
        .filter(|part| part.channel == series.channel && part.quantity != Quantity::Roundtrip);
    for part in std::iter::once(series).chain(parts) {
        row(text, part.quantity.name(), &part.histogram);
    }
    if let Some(all) = series.replayed.as_ref().filter(|_| series.missed != Some(0)) {
        row(text, "per due", all);
    }
    if let Some(counts) = &series.counts {
        let _ = writeln!(
            text,
            "  {} sent, {} answered, {} late, {} lost; {} missed",
            counts.sent,
            counts.answered,
            counts.late,
            counts.lost,
            series.missed.map_or_else(|| "unknown".to_owned(), |missed| missed.to_string())
        );
        let _ = writeln!(
            text,
            "  {} duplicated, {} out of order, {} damaged, {} foreign",
            counts.duplicated, counts.out_of_order, counts.damaged, counts.foreign
        );
    }
}

/// The title and the names of the columns of [`row`]: 80 columns wide.
pub fn head(text: &mut String, title: &str) {
    let _ = write!(text, "{title}\n{:<14}", "");
    for column in COLUMNS {
        let _ = write!(text, "{column:>11}");
    }
    text.push('\n');
}

/// A line of the table.
pub fn row(text: &mut String, name: &str, histogram: &lathunt_core::histogram::Histogram) {
    let average = histogram.mean_ns().map(|ns| Ns(ns as u64));
    let cells =
        [histogram.min(), histogram.quantile(0.5), average, histogram.quantile(0.999), histogram.max()];
    let _ = write!(text, "  {name:<12}{:>11}", histogram.count());
    for cell in cells {
        let _ = write!(text, "{:>11}", cell.map_or("-".to_owned(), |ns| ns.to_string()));
    }
    text.push('\n');
}
