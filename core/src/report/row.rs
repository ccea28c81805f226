//! One row of figures on a terminal: a series and its heading.
//!
//! On a narrow screen without the least important columns; a maximum or a loss is never truncated.

use super::figures::{fitting, mean, Figures};
use crate::numbers::or_dash;
use crate::printable::{cut, wrap};

/// The names of the columns.
#[must_use]
pub fn heading(label: &str, width: usize) -> String {
    let names = ["samples", "min", "avg", "p99.9", "max", "missed", "lost"];
    row(label, names.map(str::to_owned), width)
}

/// The figures of one series, or of several together.
#[must_use]
pub fn figures(label: &str, f: &Figures, width: usize) -> String {
    let [samples, missed, lost] = columns_of_counts(width);
    let cells = [
        fitting(f.samples, samples),
        or_dash(f.min_ns),
        mean(f.avg_ns),
        or_dash(f.p99_9_ns),
        or_dash(f.max_ns),
        f.missed.map_or("?".to_owned(), |count| fitting(count, missed)),
        fitting(f.lost, lost),
    ];
    row(label, cells, width)
}

/// Widths of the columns samples, missed and lost.
fn columns_of_counts(width: usize) -> [usize; 3] {
    match width {
        99.. => [15, 9, 8],
        73.. => [13, 8, 7],
        _ => [12, 7, 6],
    }
}

/// A row of a table of causes: `name` in `columns` columns, wrapped, with `figures` after its last line.
#[must_use]
pub fn named(name: &str, columns: usize, figures: &str) -> Vec<String> {
    let mut lines = wrap(name, columns);
    let last = lines.pop().unwrap_or_default();
    lines.push(format!("{last:<columns$} {figures}"));
    lines.into_iter().map(|line| format!("  {line}")).collect()
}

fn row(label: &str, cells: [String; 7], width: usize) -> String {
    let [samples, min, avg, p99_9, max, missed, lost] = cells;
    let [a, b, c] = columns_of_counts(width);
    let between = match width {
        99.. => format!("{min:>10} {avg:>10} {p99_9:>10} "),
        73.. => format!("{p99_9:>10} "),
        _ => String::new(),
    };
    let label = cut(label, 20);
    format!("{label:<20} {samples:>a$} {between}{max:>10} {missed:>b$} {lost:>c$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Ns;

    #[test]
    fn a_count_of_any_size_leaves_maximum_and_losses_on_the_screen() {
        let figures_of = |count| Figures {
            samples: count,
            missed: Some(count),
            lost: count,
            min_ns: Some(Ns(1)),
            avg_ns: Some(2.0),
            median_ns: None,
            p99_9_ns: None,
            max_ns: Some(Ns::from_us(85)),
        };
        for width in [100, 80, 60] {
            for count in [0, 10_000_000, 1_000_000_000_000, u64::MAX] {
                let line = figures("CPU 0", &figures_of(count), width);
                assert_eq!(line.chars().count(), heading("", width).chars().count(), "{line}");
                assert!(line.contains(" 85.0 µs "), "{line}");
            }
            let many = figures("all", &figures_of(1_234_567_890_123), width);
            assert!(many.ends_with(" 1.2e12"), "{many}");
        }
    }
}
