//! Jobs in the history on a terminal: deadline of each task, number of late jobs, and the longest.

use super::text::{when, WHOLE};
use super::{History, Row};
use crate::numbers::{grouped, or_dash};
use crate::printable::{cut, line};
use crate::series::Quantity;
use crate::time::Ns;

impl History {
    /// One line per task with a deadline, at most `width` columns wide; empty if there are none.
    pub(super) fn jobs(&self, width: usize) -> String {
        let by_series = self.by_series();
        let of_jobs = by_series.iter().filter(|(key, _)| key.quantity == Quantity::Response);
        let name_width = if width < WHOLE { 18 } else { 29 };
        let shown = |name: &str, figures: [String; 5], when: &str| {
            let [deadline, jobs, lost, late, longest] = figures;
            let shown =
                format!("{name:<name_width$}{deadline:>10}{jobs:>12}{lost:>6}{late:>8}{longest:>10}  {when}");
            cut(shown.trim_end(), width) + "\n"
        };
        let lines: Vec<String> = of_jobs
            .map(|(key, rows)| {
                let name = key.whose.task().map_or_else(String::new, |name| line(&name.text()).into_owned());
                let sum =
                    |of: &dyn Fn(&Row) -> u64| rows.iter().map(|row| of(row)).fold(0, u64::saturating_add);
                let worst = rows.iter().max_by_key(|row| row.figures.max);
                let figures = [
                    deadlines(rows),
                    grouped(sum(&|row| row.figures.count)),
                    grouped(sum(&|row| row.lost)),
                    grouped(sum(&|row| row.held.map_or(0, |held| held.misses))),
                    or_dash(worst.and_then(|row| row.figures.max)),
                ];
                shown(&name, figures, &worst.map_or_else(String::new, |row| when(row, width)))
            })
            .collect();
        if lines.is_empty() {
            return String::new();
        }
        let head = ["deadline", "jobs", "lost", "late", "max"].map(str::to_owned);
        format!("\n{}{}", shown("response", head, "when (UTC)"), lines.concat())
    }
}

/// `500 µs`; with a `+` if it differed in some windows.
fn deadlines(rows: &[&Row]) -> String {
    let mut all: Vec<Ns> = rows.iter().filter_map(|row| Some(row.held?.deadline)).collect();
    all.sort_unstable();
    match (all.first(), all.last()) {
        (Some(least), Some(most)) if least != most => format!("{least}+"),
        (least, _) => or_dash(least.copied()),
    }
}
