//! The histogram of OSADL's Latency Box: 1000 lines, line N holds the number of latencies above N−1 and up to N µs, the last
//! line also everything longer.
//!
//! A line is the count alone, or `N COUNT`. lathunt's bins are [N, N+1) µs; the conversion moves only latencies of
//! exactly N µs (a multiple of 1000 ns), by one line.

use std::fmt::Write as _;

use crate::histogram::{Exact, Histogram, Layout};
use crate::time::Ns;

/// Lines of the file.
pub const LINES: usize = 1_000;

/// The 1000 lines of a histogram with rows of 1 µs; `None` for other rows.
///
/// A histogram has a resolution of 1 µs: values of a row [N−1, N) µs are on line N, including those of exactly N−1 µs,
/// which cannot be distinguished.
#[must_use]
pub fn lines_of(histogram: &Histogram) -> Option<[u64; LINES]> {
    let layout = histogram.layout();
    if layout.width() != Ns(1_000) || layout.linear_bins() < LINES {
        return None;
    }
    let mut lines = [0u64; LINES];
    for (lower, _, count) in histogram.occupied() {
        let line = usize::try_from(lower.0 / 1_000).unwrap_or(usize::MAX).min(LINES - 1);
        lines[line] += count;
    }
    Some(lines)
}

/// The file: one count per line.
#[must_use]
pub fn write(lines: &[u64; LINES]) -> String {
    let mut text = String::with_capacity(4 * LINES);
    for count in lines {
        let _ = writeln!(text, "{count}"); // to a String
    }
    text
}

/// Why a text is not such a histogram.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotLines {
    /// Another number of lines.
    #[error("not a histogram of {LINES} lines: it has {0}")]
    Number(usize),
    /// Not a count, or preceded by a wrong line number.
    #[error("not a histogram of {LINES} lines: line {0} is not a count")]
    Line(usize),
    /// The counts are too large.
    #[error("not a histogram of {LINES} lines: the counts add up to more than 2^64")]
    Overflow,
}

/// Whether a text looks like one: exactly 1000 lines of digits (comments and empty lines aside).
#[must_use]
pub fn looks_like(text: &str) -> bool {
    read(text).is_ok()
}

/// Lines that are neither empty nor a comment, with their numbers in the file.
fn content(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// Reads such a file.
///
/// # Errors
/// The first invalid line.
pub fn read(text: &str) -> Result<[u64; LINES], NotLines> {
    let mut lines = [0u64; LINES];
    let mut number = 0;
    let mut total = 0u64;
    for (at, line) in content(text) {
        let mut words = line.split_whitespace();
        let count = match (words.next(), words.next(), words.next()) {
            (Some(count), None, _) => count,
            (Some(index), Some(count), None) if index.parse() == Ok(number + 1) => count,
            _ => return Err(NotLines::Line(at)),
        };
        let count: u64 = count.parse().map_err(|_| NotLines::Line(at))?;
        total = total.checked_add(count).ok_or(NotLines::Overflow)?;
        *lines.get_mut(number).ok_or(NotLines::Number(number + 1))? = count;
        number += 1;
    }
    if number == LINES {
        Ok(lines)
    } else {
        Err(NotLines::Number(number))
    }
}

/// A histogram of the lines. Each latency is counted at the upper edge of its line, which it can exceed only on the
/// last line; the second value is the count of the last line, whose latencies are unknown.
#[must_use]
pub fn histogram(lines: &[u64; LINES]) -> (Histogram, u64) {
    let mut histogram = Histogram::new(Layout::LATENCY);
    let value = |line: usize| Ns::from_us(line as u64 + 1);
    // The upper edge of line N is N µs, which is in row N: keep it within the line.
    let known = &lines[..LINES - 1];
    let inside = |line: usize| Ns(value(line).0 - 1);
    let counts: Vec<(usize, u64)> = known
        .iter()
        .enumerate()
        .filter(|&(_, &count)| count > 0)
        .map(|(line, &count)| (Layout::LATENCY.index(inside(line)), count))
        .collect();
    let occupied = || (0..LINES - 1).filter(|&line| lines[line] > 0);
    if let (Some(first), Some(last)) = (occupied().next(), occupied().next_back()) {
        let sum =
            occupied().fold(0u64, |sum, line| sum.saturating_add(lines[line].saturating_mul(inside(line).0)));
        let exact = Exact { sum_ns: sum, min: inside(first), max: inside(last) };
        let added = histogram.add_counts(&counts, exact);
        debug_assert!(added.is_ok(), "{added:?}");
    }
    (histogram, lines[LINES - 1])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn line_n_counts_up_to_n_microseconds_and_the_last_one_the_rest() {
        let mut histogram = Histogram::new(Layout::LATENCY);
        for ns in [1, 999, 1_500, 998_999, 999_500, 5_000_000] {
            histogram.record(Ns(ns));
        }
        let lines = lines_of(&histogram).unwrap();
        assert_eq!((lines[0], lines[1], lines[998], lines[999]), (2, 1, 1, 2));
        assert_eq!(write(&lines).lines().count(), LINES);
        assert_eq!(lines_of(&Histogram::new(Layout::new(10, 5_000).unwrap())), None);
    }

    #[test]
    fn what_is_no_such_file_is_told_where() {
        assert_eq!(read("1\n2\n"), Err(NotLines::Number(2)));
        assert_eq!(read(&"0\n".repeat(1_001)), Err(NotLines::Number(1_001)));
        assert_eq!(read(&("0\nx\n".to_owned() + &"0\n".repeat(998))), Err(NotLines::Line(2)));
        assert_eq!(read(&"18446744073709551615\n".repeat(1_000)), Err(NotLines::Overflow));
        let numbered: String = (1..=1_000).map(|n| format!("{n} {}\n", n % 3)).collect();
        assert_eq!(read(&format!("# from the box\n\n{numbered}")).unwrap()[1], 2);
        assert_eq!(read(&numbered.replace("7 1\n", "8 1\n")), Err(NotLines::Line(7)));
    }

    proptest! {
        #[test]
        fn a_written_file_is_read_back(counts in proptest::collection::vec(0u64..1 << 40, LINES)) {
            let lines: [u64; LINES] = counts.try_into().unwrap();
            prop_assert_eq!(read(&write(&lines)).unwrap(), lines);
            let (back, rest) = histogram(&lines);
            let mut again = lines_of(&back).unwrap();
            prop_assert_eq!(again[LINES - 1], 0);
            again[LINES - 1] = rest;
            prop_assert_eq!(again, lines);
        }
    }
}
