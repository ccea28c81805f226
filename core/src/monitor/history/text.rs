//! The history on a terminal: each series, its worst windows, and what happened meanwhile.

use super::super::event::Kind;
use super::{History, Row};
use crate::report::figures::{grouped, or_dash};
use crate::report::printable::{cut, line};
use crate::report::text::sentence;
use crate::time::Ns;

/// Worst windows shown.
const WORST: usize = 10;
/// Events shown.
const EVENTS: usize = 10;

impl History {
    /// The table, at most `width` columns wide.
    #[must_use]
    pub fn to_text(&self, width: usize) -> String {
        let (Some((begin, _)), Some((_, end))) = (self.windows.first(), self.windows.last()) else {
            return format!("no window was closed since {}\n{}", self.from, self.happened(width));
        };
        let mut text = format!("{} windows from {begin} to {end}\n\n", grouped(self.windows.len() as u64));
        text.push_str(&self.series(width));
        text.push_str(&self.worst(width));
        text + &self.happened(width)
    }

    fn series(&self, width: usize) -> String {
        let head = ["series", "windows", "samples", "lost", "median max", "p99.9 worst", "largest", "when"];
        let mut text = format!(
            "{:<29}{:>8}{:>15}{:>8}{:>12}{:>12}{:>12}  {}\n",
            head[0], head[1], head[2], head[3], head[4], head[5], head[6], head[7]
        );
        for (key, rows) in self.by_series() {
            let mut maxima: Vec<Ns> = rows.iter().filter_map(|row| row.figures.max).collect();
            maxima.sort_unstable();
            let worst = rows.iter().max_by_key(|row| row.figures.max);
            let sum = |of: &dyn Fn(&Row) -> u64| rows.iter().map(|row| of(row)).fold(0, u64::saturating_add);
            let row = format!(
                "{key:<29}{:>8}{:>15}{:>8}{:>12}{:>12}{:>12}  {}",
                rows.len(),
                grouped(sum(&|row| row.figures.count)),
                grouped(sum(&|row| row.lost)),
                or_dash(maxima.get(maxima.len() / 2).copied()),
                or_dash(rows.iter().filter_map(|row| row.figures.quantiles[2]).max()),
                or_dash(maxima.last().copied()),
                worst.map_or_else(String::new, |row| when(row)),
            );
            text.push_str(&(cut(&row, width) + "\n"));
        }
        text
    }

    fn worst(&self, width: usize) -> String {
        let mut rows: Vec<&Row> = self.rows.iter().filter(|row| row.figures.count > 0).collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.figures.max));
        let mut text = "\nWorst windows\n".to_owned();
        for row in rows.iter().take(WORST) {
            let why = match row.peak() {
                Ok(Some(peak)) => format!("{}: {}", line(&peak.victim.to_string()), line(&sentence(&peak))),
                Ok(None) => "no evidence of this one was kept".to_owned(),
                Err(damage) => damage.to_string(),
            };
            let shown = format!("{:>10}  {:<29}{}  {why}", or_dash(row.figures.max), row.key, when(row));
            text.push_str(&(cut(&shown, width) + "\n"));
        }
        text
    }

    fn happened(&self, width: usize) -> String {
        let told = |kind: Kind| !matches!(kind, Kind::Started | Kind::Stopped);
        let starts = self.events.iter().filter(|event| event.kind == Kind::Started).count();
        let events: Vec<_> = self.events.iter().filter(|event| told(event.kind)).collect();
        if events.is_empty() {
            return String::new();
        }
        let mut text = format!("\nWhat happened (the monitor began {starts} times)\n");
        for event in events.iter().rev().take(EVENTS) {
            text.push_str(&(cut(&line(&event.to_string()), width) + "\n"));
        }
        if events.len() > EVENTS {
            text.push_str(&format!("… {} more before these; --json shows all\n", events.len() - EVENTS));
        }
        text
    }
}

/// The moment of the maximum, or the window it was in.
fn when(row: &Row) -> String {
    match row.max_at {
        Some(at) => at.to_string(),
        None => format!("before {}", row.end),
    }
}
