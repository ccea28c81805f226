//! The table and the line of a running measurement. Draws, never computes.

use lathunt_core::time::Ns;

use super::state::{Progress, Row};

/// Rows shown at most: more CPUs than this are summed up in one line, the worst shown.
const ROWS: usize = 16;

/// The table, one string a line, none wider than `columns`.
#[must_use]
pub fn table(progress: &Progress, columns: usize) -> Vec<String> {
    let mut lines = vec![bar(progress)];
    let mut rows: Vec<&Row> = progress.rows.iter().collect();
    if rows.len() > ROWS {
        rows.sort_by_key(|row| std::cmp::Reverse(row.max));
        rows.truncate(ROWS);
    }
    let label = rows.iter().map(|row| row.label.chars().count()).max().unwrap_or_default().clamp(8, 26);
    let shown = fitting(columns.saturating_sub(label));
    let heading = shown.iter().map(|column| format!(" {:>9}", column.name)).collect::<String>();
    lines.push(format!("{:label$}{heading}  last culprit", ""));
    lines.extend(rows.iter().map(|row| {
        let cells = shown.iter().map(|column| format!(" {:>9}", (column.cell)(row))).collect::<String>();
        format!("{:<label$.label$}{cells}  {}", row.label, row.culprit)
    }));
    if progress.rows.len() > ROWS {
        lines.push(format!("… {} more lines, none with a larger maximum", progress.rows.len() - ROWS));
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

/// One figure of each row.
struct Column {
    name: &'static str,
    /// The one with the largest number is left out first where there is no room.
    dispensable: u8,
    cell: fn(&Row) -> String,
}

const COLUMNS: [Column; 7] = [
    Column { name: "count", dispensable: 0, cell: |row| row.count.to_string() },
    Column { name: "min", dispensable: 5, cell: |row| shown(row.min) },
    Column { name: "now", dispensable: 1, cell: |row| shown(row.now) },
    Column { name: "avg", dispensable: 4, cell: |row| shown(row.mean_ns.map(|mean| Ns(mean as u64))) },
    Column { name: "p99.9", dispensable: 3, cell: |row| shown(row.p999) },
    Column { name: "max", dispensable: 0, cell: |row| shown(row.max) },
    Column { name: "missed", dispensable: 2, cell: |row| row.missed.to_string() },
];

/// So much is left for the culprit, before a figure is shown beside it.
const CULPRIT: usize = 22;

fn fitting(columns: usize) -> Vec<&'static Column> {
    let room = columns.saturating_sub(CULPRIT + 3) / 10;
    let mut kept: Vec<&Column> = COLUMNS.iter().collect();
    while kept.len() > room && kept.iter().any(|column| column.dispensable > 0) {
        let most = kept.iter().map(|column| column.dispensable).max();
        kept.retain(|column| Some(column.dispensable) != most);
    }
    kept
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
    fn on_80_columns_the_largest_and_the_culprit_are_there_whole() {
        let mut progress = progress(2);
        progress.rows[1].label = "cyclictest/13846 (RT 80)".into();
        progress.rows[1].max = Some(Ns(16_073_000));
        progress.rows[1].culprit = "thread: hog".into();
        let lines = table(&progress, 80);
        assert!(lines.iter().all(|line| line.chars().count() < 80), "{lines:?}");
        assert!(lines[1].contains("max") && lines[1].ends_with("last culprit"), "{lines:?}");
        assert!(lines[3].contains("16.073 ms") && lines[3].ends_with("thread: hog"), "{lines:?}");
        assert!(lines[2].find("1.0 µs").is_some(), "{lines:?}");
    }

    #[test]
    fn nothing_measured_yet_is_a_dash_and_not_a_zero() {
        let mut empty = progress(1);
        empty.rows[0] = Row { label: "CPU 0".into(), ..Row::default() };
        assert!(table(&empty, 100)[2].contains(" - "));
        assert!(line(&empty).contains("max - on CPU 0"));
    }
}
