//! The result as text, from the same run as `--json` and the run file.

use std::fmt::Write;

use super::ledger::{ELSEWHERE, OUTSIDE, UNEXPLAINED, UNEXPLAINED_PROBE, UNEXPLAINED_WORK, UNRECORDED};
use crate::numbers::{grouped, or_dash};
use crate::printable;
use crate::run::Run;
use crate::series::{Quantity, Series};
use crate::time::Ns;

/// Rows of the table of sources, and of the worst gaps.
const ROWS: usize = 12;

/// Counter of gaps dropped because the queue was full.
pub const GAPS_DROPPED: &str = "gap_queue_full";

/// The whole text, with the `listed` worst gaps and the `notes` for this measurement.
#[must_use]
pub fn text(run: &Run, listed: usize, notes: &[String]) -> String {
    let mut text = format!(
        "{:<8}{:>14}{:>9}{:>10}{:>11}{:>14}{:>11}{:>9}{:>9}{:>10}{:>10}\n",
        "ns", "samples", "min", "avg", "max", "variance", "deviation", "median", "p99", "p99.9", "p99.99"
    );
    for series in run.of(Quantity::Npt) {
        row(&mut text, series);
    }
    sources(&mut text, run);
    if listed > 0 && !run.peaks.is_empty() {
        text.push_str("\nWorst gaps\n");
    }
    for peak in run.peaks.iter().take(listed) {
        let why = match (&peak.explanation, &peak.no_evidence) {
            (Some(explanation), _) => printable::line(&explanation.sentence),
            (None, reason) => reason.as_deref().unwrap_or_default().into(),
        };
        let _ = writeln!(
            text,
            "  CPU {:<3} at {} {:>10}  {why}",
            peak.cpu,
            peak.begin,
            peak.total_ns.to_string()
        );
    }
    for loss in &run.losses {
        let _ = writeln!(text, "! lost: {} {} ({})", grouped(loss.count), loss.counter, loss.meaning);
    }
    for note in notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

/// Non-empty bins of the histogram of each CPU: 1 ns wide up to 32 µs.
#[must_use]
pub fn histogram(run: &Run) -> String {
    let mut text = String::new();
    for series in run.of(Quantity::Npt) {
        let _ = writeln!(text, "{}", series.label());
        for (low, high, count) in series.histogram.occupied() {
            let _ = writeln!(text, "  {:>12} to {:>12} ns {count:>14}", low.0, high.0);
        }
    }
    text
}

fn row(text: &mut String, series: &Series) {
    let histogram = &series.histogram;
    let whole = |value: Option<Ns>| value.map_or("–".to_owned(), |ns| ns.0.to_string());
    let float =
        |value: Option<f64>, digits: usize| value.map_or("–".to_owned(), |v| format!("{v:.digits$}"));
    let variance = series.variance_ns2;
    let _ = writeln!(
        text,
        "{:<8}{:>14}{:>9}{:>10}{:>11}{:>14}{:>11}{:>9}{:>9}{:>10}{:>10}",
        series.label(),
        grouped(histogram.count()),
        whole(histogram.min()),
        float(histogram.mean_ns(), 2),
        whole(histogram.max()),
        float(variance, 1),
        float(variance.map(f64::sqrt), 1),
        whole(histogram.quantile(0.5)),
        whole(histogram.quantile(0.99)),
        whole(histogram.quantile(0.999)),
        whole(histogram.quantile(0.9999)),
    );
}

/// Gap time by source, over all CPUs.
fn sources(text: &mut String, run: &Run) {
    let total: Ns = run.interference.iter().map(|row| row.total_ns).sum();
    if total == Ns::ZERO {
        text.push_str("\nNo gap at or above the threshold.\n");
        return;
    }
    const OPEN: [&str; 6] =
        [OUTSIDE, UNEXPLAINED, UNEXPLAINED_PROBE, UNEXPLAINED_WORK, UNRECORDED, ELSEWHERE];
    let open = |name: &str| OPEN.contains(&name);
    let unknown: Ns = run.interference.iter().filter(|row| open(&row.source)).map(|row| row.total_ns).sum();
    let which = match run.losses.iter().any(|loss| loss.counter == GAPS_DROPPED) {
        true => "the recorded gaps (others were lost, see below)",
        false => "the gaps",
    };
    let _ = writeln!(
        text,
        "\nTime of {which}: {total}, of which {:.1} % has a cause",
        100.0 * (1.0 - unknown.0 as f64 / total.0 as f64)
    );
    let _ =
        writeln!(text, "  {:<8}{:>8}  {:>10}  {:>10}  {:>6}  who", "", "gaps", "total", "longest", "share");
    for row in run.interference.iter().take(ROWS) {
        let _ = writeln!(
            text,
            "  CPU {:<4}{:>8}  {:>10}  {:>10}  {:>5.1}%  {}",
            row.cpu,
            row.count,
            row.total_ns.to_string(),
            or_dash(Some(row.max_ns)),
            100.0 * row.total_ns.0 as f64 / total.0 as f64,
            printable::line(&row.source)
        );
    }
    if let Some(more) = run.interference.len().checked_sub(ROWS).filter(|&more| more > 0) {
        let _ = writeln!(text, "  … {more} more");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions::Conditions;
    use crate::run::{Interference, Loss};
    use crate::time::Cpu;

    #[test]
    fn lost_gaps_are_said_and_a_share_is_that_of_the_others() {
        let mut run = Run::new(Conditions::default());
        let (total_ns, max_ns) = (Ns(9_000), Ns(9_000));
        run.interference =
            vec![Interference { cpu: Cpu(1), source: "NMI".to_owned(), count: 1, total_ns, max_ns }];
        let whole = text(&run, 1, &[]);
        assert!(whole.contains("Time of the gaps: 9.0 µs") && !whole.contains("lost"), "{whole}");
        let (counter, meaning) = (GAPS_DROPPED.to_owned(), "came too fast".to_owned());
        run.losses.push(Loss { counter, count: 12_345, meaning, evidence_only: true });
        let lossy = text(&run, 1, &[]);
        assert!(lossy.contains("Time of the recorded gaps (others were lost, see below): 9.0 µs"), "{lossy}");
        assert!(lossy.contains("! lost: 12 345 gap_queue_full (came too fast)"), "{lossy}");
    }
}
