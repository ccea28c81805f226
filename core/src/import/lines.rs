//! The histogram of 1000 lines of OSADL's Latency Box, as `lathunt box` writes and serves it.
//!
//! A line has no more than a count, so each latency is taken at the upper edge of its line; those of the last line are
//! longer than 999 µs by an unknown time: lost samples.

use super::NotImportable;
use crate::conditions::Conditions;
use crate::latency_box::lines::{self, NotLines, LINES};
use crate::numbers::counted;
use crate::run::Run;
use crate::series::{Quantity, Series};

/// The run of such a text; `None` if it is another one: not every line with content is one count, or a number and one.
#[must_use]
pub fn recognised(text: &str) -> Option<Result<Run, NotImportable>> {
    let is_count = |line: &str| line.parse::<u64>().is_ok();
    let mut content = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let has_counts_alone = content.next().is_some_and(is_count) && content.all(is_count);
    (has_counts_alone || lines::looks_like(text)).then(|| read(text))
}

fn read(text: &str) -> Result<Run, NotImportable> {
    let lines = lines::read(text).map_err(|error| {
        let line = if let NotLines::Line(at) = error { Some(at) } else { None };
        NotImportable { line, what: error.to_string() }
    })?;
    let (histogram, longer) = lines::histogram(&lines);
    if histogram.count() == 0 && longer == 0 {
        let what = format!("all {LINES} counts are 0: nothing was measured");
        return Err(NotImportable { line: None, what });
    }
    let mut run = Run::new(Conditions::default());
    let notes = &mut run.conditions.notes;
    notes.push(format!(
        "imported from a histogram of {LINES} lines (OSADL's Latency Box): other conditions are not known"
    ));
    if longer > 0 {
        let samples = counted(longer, "round trip");
        notes.push(format!("{samples} longer than {} µs: the largest latency is not known", LINES - 1));
    }
    let mut series = Series::new(Quantity::Roundtrip, None, histogram);
    (series.lost, series.missed) = (longer, None);
    run.complete = longer == 0;
    run.series.push(series);
    Ok(run)
}

#[cfg(test)]
mod tests {
    use super::super::{read, Unit};
    use super::*;
    use crate::time::Ns;

    /// Counts per line number.
    fn text(counts: &[(usize, u64)]) -> String {
        let count = |line| counts.iter().find(|(of, _)| *of == line).map_or(0, |(_, count)| *count);
        (1..=LINES).map(|line| format!("{}\n", count(line))).collect()
    }

    #[test]
    fn the_lines_of_a_box_are_round_trips_and_longer_ones_are_lost() {
        let run = read(&text(&[(5, 7), (90, 1)]), Unit::Guess).unwrap();
        let series = run.of(Quantity::Roundtrip).next().unwrap();
        assert_eq!((series.histogram.count(), series.lost, series.missed), (8, 0, None));
        assert_eq!((series.histogram.min(), series.histogram.max()), (Some(Ns(4_999)), Some(Ns(89_999))));
        assert!(run.complete);
        let run = read(&text(&[(5, 7), (1_000, 2)]), Unit::Guess).unwrap();
        let series = run.of(Quantity::Roundtrip).next().unwrap();
        assert_eq!((series.histogram.count(), series.lost, run.complete), (7, 2, false));
        assert!(run.conditions.notes.join("; ").contains("2 round trips longer than 999 µs"));
    }

    #[test]
    fn a_damaged_one_is_said_to_be_one_and_cyclictests_rows_are_not_taken_for_one() {
        let short = read("1\n2\n3\n", Unit::Guess).unwrap_err().to_string();
        assert!(short.contains("not a histogram of 1000 lines: it has 3"), "{short}");
        let nothing = read(&text(&[]), Unit::Guess).unwrap_err().to_string();
        assert!(nothing.contains("nothing was measured"), "{nothing}");
        let rows: String = (0..LINES).map(|row| format!("{row:06} {:06}\n", row % 3)).collect();
        assert_eq!(recognised(&rows), None);
        assert_eq!(recognised(""), None);
    }
}
