//! The worst cases of the history, each event once.
//!
//! A late wake-up may be the maximum of timer, wake-up, and both together, on its CPU and of its task, and within a
//! job. It is reported for the series with the longest time, with the names of the others.

use super::text::{when, WORST};
use super::{History, Row};
use crate::monitor::packed::Damaged;
use crate::numbers::or_dash;
use crate::peak::Peak;
use crate::printable::{cut, hanging, line};

/// One event.
struct Case<'h> {
    row: &'h Row,
    peak: Result<Option<Peak>, Damaged>,
    /// Other series of which it is the maximum.
    also: Vec<String>,
}

impl Case<'_> {
    /// Whether the maximum of `row` is of this event.
    fn is(&self, row: &Row, peak: &Result<Option<Peak>, Damaged>) -> bool {
        if (self.row.begin, self.row.end) != (row.begin, row.end) {
            return false;
        }
        match (&self.peak, peak) {
            (Ok(Some(known)), Ok(Some(peak))) => {
                let end = |peak: &Peak| peak.begin + peak.total_ns;
                (known.victim.tid, &known.victim.comm) == (peak.victim.tid, &peak.victim.comm)
                    && known.begin < end(peak)
                    && peak.begin < end(known)
            }
            _ => self.row.key.quantity == row.key.quantity && self.row.figures.max == row.figures.max,
        }
    }

    fn why(&self) -> String {
        match &self.peak {
            Ok(Some(peak)) => told(peak),
            Ok(None) => "no evidence of this one was kept".to_owned(),
            Err(damage) => damage.to_string(),
        }
    }

    fn lines(&self, width: usize) -> Vec<String> {
        let indent = " ".repeat(12);
        let shown =
            format!("{:>10}  {:<29}{}", or_dash(self.row.figures.max), self.row.key, when(self.row, width));
        let mut lines = vec![cut(&shown, width)];
        if !self.also.is_empty() {
            lines.extend(hanging(&indent, &format!("also the largest {}", self.also.join(", ")), width));
        }
        lines.extend(hanging(&indent, &self.why(), width));
        lines
    }
}

/// A worst case for an HTML page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorstCase {
    /// The largest latency.
    pub max: String,
    /// Its series.
    pub series: String,
    /// Time (UTC).
    pub when: String,
    /// Other series of which it is the maximum, separated by commas; may be empty.
    pub also: String,
    /// Its explanation, or why there is none.
    pub why: String,
}

/// `motion/7 (RT 80): waited 245 µs: …`; the sentence is about this latency.
fn told(peak: &Peak) -> String {
    let (victim, told) = (peak.victim.to_string(), peak.sentence());
    let told = told.strip_prefix(&format!("{victim} ")).unwrap_or(&told);
    // Windows of older versions have the sentence of the whole event for its parts.
    let whole = peak.explanation.as_ref().map(|explanation| explanation.total_ns);
    let part = whole.filter(|whole| *whole > peak.total_ns);
    let part =
        part.map(|whole| format!("{} of {whole}, of which is told: ", peak.total_ns)).unwrap_or_default();
    format!("{}: {part}{}", line(&victim), line(told))
}

impl History {
    /// The worst cases, each event once, the largest first.
    #[must_use]
    pub fn worst_cases(&self) -> Vec<WorstCase> {
        let of = |case: Case| WorstCase {
            max: or_dash(case.row.figures.max),
            series: case.row.key.to_string(),
            when: when(case.row, usize::MAX),
            also: case.also.join(", "),
            why: case.why(),
        };
        self.cases().into_iter().map(of).collect()
    }

    /// The worst, at most `width` columns wide.
    pub(super) fn worst(&self, width: usize) -> String {
        let cases = self.cases();
        let lines = cases.iter().flat_map(|case| case.lines(width)).map(|line| line + "\n");
        format!("\nWorst windows\n{}", lines.collect::<String>())
    }

    fn cases(&self) -> Vec<Case<'_>> {
        let mut rows: Vec<&Row> = self.rows.iter().filter(|row| row.figures.count > 0).collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.figures.max));
        let mut cases: Vec<Case> = Vec::new();
        let mut allowance = self.allowance();
        for row in rows {
            let peak = row.peak(&mut allowance);
            if let Some(case) = cases.iter_mut().find(|case| case.is(row, &peak)) {
                case.also.push(row.key.to_string());
            } else if cases.len() < WORST {
                cases.push(Case { row, peak, also: Vec::new() });
            } else {
                break;
            }
        }
        cases
    }
}
