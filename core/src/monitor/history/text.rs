//! The history on a terminal: each series, its worst windows, and events of the monitor.

use super::super::event::{Event, Kind};
use super::super::window::{SeriesKey, QUANTITIES};
use super::{quantile_of_all, History, Row};
use crate::numbers::{grouped, or_dash, plural};
use crate::printable::{cut, hanging, wrap};
use crate::series::Quantity;
use crate::time::Ns;

/// Number of worst windows shown.
pub(super) const WORST: usize = 10;
/// Number of events shown.
const EVENTS: usize = 10;
/// Columns of the whole table; a narrower one omits the number of windows and the median of their maxima.
pub(super) const WHOLE: usize = 124;

impl History {
    /// The table, at most `width` columns wide.
    #[must_use]
    pub fn to_text(&self, width: usize) -> String {
        let (Some((begin, _)), Some((_, end))) = (self.windows.first(), self.windows.last()) else {
            return format!("no window was closed {}\n{}", self.asked(), self.happened(width));
        };
        let count = self.windows.len() as u64;
        let mut text = format!("{} {} from {begin} to {end}\n\n", grouped(count), plural(count, "window"));
        if self.rows.iter().all(|row| row.figures.count == 0) {
            text.push_str(&format!("no sample in them: {}\n", self.why_none()));
        } else {
            text.push_str(&self.series(width));
            text.push_str(&self.jobs(width));
            text.push_str(&self.exceeded(width));
            text.push_str(&self.worst(width));
        }
        text + &self.happened(width)
    }

    /// Why no window has samples.
    fn why_none(&self) -> String {
        // A lost wake-up is missing in each quantity.
        let of = |quantity| self.rows.iter().filter(move |row| row.key.quantity == quantity);
        let lost = QUANTITIES.map(|quantity| of(quantity).map(|row| row.lost).fold(0, u64::saturating_add));
        let unread = self.events.iter().any(|event| event.kind == Kind::ActivationsLost);
        match lost.into_iter().max() {
            Some(lost @ 1..) => format!("{} wake-ups were lost, none was measured", grouped(lost)),
            _ if unread => "what some tasks did was lost (see below)".to_owned(),
            _ => "no such task was woken".to_owned(),
        }
    }

    fn series(&self, width: usize) -> String {
        let columns =
            |key: &str, [windows, median]: [String; 2], [samples, lost, p999, largest]: [String; 4], when| {
                match width < WHOLE {
                    true => format!("{key:<22}{samples:>12}{lost:>6}{p999:>11}{largest:>10}  {when}"),
                    false => format!(
                    "{key:<29}{windows:>8}{samples:>15}{lost:>8}{median:>17}{p999:>12}{largest:>12}  {when}"
                ),
                }
            };
        let head = ["samples", "lost", "p99.9", "max"].map(str::to_owned);
        let mut text = columns(
            "series",
            ["windows", "median of maxima"].map(str::to_owned),
            head,
            "when (UTC)".to_owned(),
        ) + "\n";
        let by_series = self.by_series();
        let latencies = by_series.iter().filter(|(key, _)| key.quantity != Quantity::Response);
        let (measured, empty): (Vec<_>, Vec<_>) =
            latencies.partition(|(_, rows)| rows.iter().any(|row| row.figures.count > 0));
        for (key, rows) in measured {
            let mut maxima: Vec<Ns> = rows.iter().filter_map(|row| row.figures.max).collect();
            maxima.sort_unstable();
            let worst = rows.iter().max_by_key(|row| row.figures.max);
            let sum = |of: &dyn Fn(&Row) -> u64| rows.iter().map(|row| of(row)).fold(0, u64::saturating_add);
            let whole = [rows.len().to_string(), or_dash(maxima.get(maxima.len() / 2).copied())];
            let figures = [
                grouped(sum(&|row| row.figures.count)),
                grouped(sum(&|row| row.lost)),
                or_dash(quantile_of_all(rows, 0.999)),
                or_dash(maxima.last().copied()),
            ];
            let row = columns(
                &key.to_string(),
                whole,
                figures,
                worst.map_or_else(String::new, |row| when(row, width)),
            );
            text.push_str(&(cut(&row, width) + "\n"));
        }
        text + &without_samples(&empty, width)
    }

    /// The last ten events of the monitor, oldest first, and the number of earlier ones.
    #[must_use]
    pub fn last_events(&self) -> (Vec<String>, usize) {
        let told = |event: &&Event| !matches!(event.kind, Kind::Started | Kind::Stopped);
        let events: Vec<_> = self.events.iter().filter(told).collect();
        let before = events.len().saturating_sub(EVENTS);
        (events[before..].iter().map(|event| event.to_string()).collect(), before)
    }

    fn happened(&self, width: usize) -> String {
        let starts = self.events.iter().filter(|event| event.kind == Kind::Started).count();
        let (events, before) = self.last_events();
        if events.is_empty() {
            return String::new();
        }
        let mut text = format!("\nWhat happened (the monitor began {starts} times)\n");
        for event in events.iter().rev() {
            let (at, told) = event.split_once(' ').unwrap_or(("", event));
            text.extend(hanging(&format!("{at} "), told, width).iter().map(|line| format!("{line}\n")));
        }
        if before > 0 {
            text.push_str(&format!("… {before} more before these; --json shows all\n"));
        }
        text
    }
}

/// The series without samples, in one line.
fn without_samples(empty: &[(&SeriesKey, &Vec<&Row>)], width: usize) -> String {
    if empty.is_empty() {
        return String::new();
    }
    let lost =
        empty.iter().flat_map(|(_, rows)| rows.iter()).fold(0, |sum: u64, row| sum.saturating_add(row.lost));
    let names: Vec<String> = empty.iter().map(|(key, _)| key.to_string()).collect();
    let text = format!("not listed, without a sample ({} lost): {}", grouped(lost), names.join(", "));
    wrap(&text, width).iter().map(|line| format!("{line}\n")).collect()
}

/// Time of the maximum, or its window; in a narrow table without year and milliseconds.
pub(super) fn when(row: &Row, width: usize) -> String {
    let (before, at) = match row.max_at {
        Some(at) => ("", at.to_string()),
        None => ("before ", row.end.to_string()),
    };
    match at.get(5..19).filter(|_| width < WHOLE) {
        Some(short) => format!("{before}{}", short.replace('T', " ")),
        None => format!("{before}{at}"),
    }
}
