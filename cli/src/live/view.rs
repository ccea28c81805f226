//! The table and the line of a running measurement. Draws, never computes.

use lathunt_core::time::Ns;

use super::state::{Progress, Row};

/// Rows shown at most: more CPUs than this are summed up in one line, the worst shown.
const ROWS: usize = 16;

/// The table, one string a line, none wider than `columns`.
#[must_use]
pub fn table(progress: &Progress, columns: usize) -> Vec<String> {
    let mut lines = vec![bar(progress)];
    lines.push(format!(
        "{:<8} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>7}  {}",
        "", "count", "min", "now", "avg", "p99.9", "max", "missed", "last culprit"
    ));
    let mut rows: Vec<&Row> = progress.rows.iter().collect();
    if rows.len() > ROWS {
        rows.sort_by_key(|row| std::cmp::Reverse(row.max));
        rows.truncate(ROWS);
    }
    lines.extend(rows.iter().map(|row| row_line(row)));
    if progress.rows.len() > ROWS {
        lines.push(format!("… {} more CPUs, none with a larger maximum", progress.rows.len() - ROWS));
    }
    lines.iter().map(|line| line.chars().take(columns.saturating_sub(1)).collect()).collect()
}

/// One line for logs and pipes.
#[must_use]
pub fn line(progress: &Progress) -> String {
    let count: u64 = progress.rows.iter().map(|row| row.count).sum();
    let missed: u64 = progress.rows.iter().map(|row| row.missed).sum();
    let worst = progress.worst().map_or_else(String::new, |row| {
        let culprit =
            if row.culprit.is_empty() { String::new() } else { format!(", last culprit {}", row.culprit) };
        format!(", max {} on {}{culprit}", shown(row.max), row.label)
    });
    let planned =
        progress.planned.map_or_else(String::new, |planned| format!(" of {:.0} s", planned.as_secs()));
    format!(
        "{}: {:.0} s{planned}, {count} samples, {missed} missed{worst}",
        progress.phase,
        progress.elapsed.as_secs()
    )
}

fn bar(progress: &Progress) -> String {
    const WIDTH: usize = 40;
    match progress.share() {
        Some(share) => {
            let done = (share * WIDTH as f64) as usize;
            format!(
                "{} [{}{}] {:.0} s of {:.0} s",
                progress.phase,
                "#".repeat(done),
                "-".repeat(WIDTH - done),
                progress.elapsed.as_secs(),
                progress.planned.unwrap_or_default().as_secs()
            )
        }
        None => {
            format!("{} {:.0} s (Ctrl-C ends with the summary)", progress.phase, progress.elapsed.as_secs())
        }
    }
}

fn row_line(row: &Row) -> String {
    format!(
        "{:<8} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>7}  {}",
        row.label,
        row.count,
        shown(row.min),
        shown(row.now),
        row.mean_ns.map_or_else(|| "-".to_owned(), |mean| Ns(mean as u64).to_string()),
        shown(row.p999),
        shown(row.max),
        row.missed,
        row.culprit
    )
}

fn shown(value: Option<Ns>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(cpus: u64) -> Progress {
        let rows = (0..cpus)
            .map(|cpu| Row {
                label: format!("CPU {cpu}"),
                count: 100,
                max: Some(Ns(1_000 * (cpu + 1))),
                culprit: "thread: hog".to_owned(),
                ..Row::default()
            })
            .collect();
        Progress {
            phase: "measuring".into(),
            elapsed: Ns(30_000_000_000),
            planned: Some(Ns(60_000_000_000)),
            rows,
        }
    }

    #[test]
    fn a_machine_with_many_cpus_still_fits_and_shows_the_worst() {
        let lines = table(&progress(64), 100);
        assert!(lines.len() <= 20);
        assert!(lines.iter().any(|line| line.starts_with("CPU 63")));
        assert!(lines.last().unwrap().contains("48 more"));
        assert!(lines.iter().all(|line| line.chars().count() < 100));
    }

    #[test]
    fn nothing_measured_yet_is_a_dash_and_not_a_zero() {
        let mut empty = progress(1);
        empty.rows[0] = Row { label: "CPU 0".into(), ..Row::default() };
        assert!(table(&empty, 100)[2].contains(" - "));
        assert!(line(&empty).contains("max - on CPU 0"));
    }
}
