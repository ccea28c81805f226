//! The table and the line of a running measurement. Draws, never computes.

use lathunt_core::numbers;
use lathunt_core::time::Ns;

use super::state::{Progress, Row};

/// Maximum number of rows: further CPUs are summed up in one line, the worst shown.
const ROWS: usize = 16;

/// What the keys do.
pub const KEYS: [&str; 2] = ["q  ends, with the summary (as Ctrl-C)", "?  shows these lines, or hides them"];

/// The table, one string per line, none wider than `columns`, and fewer lines than the terminal has: the heading stays
/// visible.
#[must_use]
pub fn table(progress: &Progress, columns: usize, lines: usize) -> Vec<String> {
    // Bar, heading, the line of omitted rows, and the cursor's.
    let most = lines.saturating_sub(4).clamp(1, ROWS);
    let mut lines = vec![bar(progress, columns)];
    let mut rows: Vec<&Row> = progress.rows.iter().collect();
    if rows.len() > most {
        rows.sort_by_key(|row| std::cmp::Reverse(row.max));
        rows.truncate(most);
    }
    let label = rows.iter().map(|row| row.label.chars().count()).max().unwrap_or_default();
    let label = label.clamp(8, (columns * 2 / 5).clamp(8, 26));
    let shown = fitting(columns.saturating_sub(label));
    let heading = shown.iter().map(|column| format!(" {:>9}", column.name)).collect::<String>();
    let room = columns.saturating_sub(label + 10 * shown.len() + 1);
    let culprit = if room < "  last culprit".len() { "culprit" } else { "last culprit" };
    let culprit = progress.remark.unwrap_or(culprit);
    lines.push(format!("{:label$}{heading}  {culprit}", ""));
    lines.extend(rows.iter().map(|row| {
        let cells = shown.iter().map(|column| format!(" {:>9}", (column.cell)(row))).collect::<String>();
        format!("{:<label$.label$}{cells}  {}", row.label, row.culprit)
    }));
    if progress.rows.len() > rows.len() {
        let left_out = (progress.rows.len() - rows.len()) as u64;
        lines.push(format!("… {}, none with a larger maximum", numbers::more(left_out, "line")));
    }
    lines.iter().map(|line| line.chars().take(columns.saturating_sub(1)).collect()).collect()
}

/// One line for logs and pipes.
#[must_use]
pub fn line(progress: &Progress) -> String {
    let count: u64 = progress.rows.iter().map(|row| row.count).sum();
    let missed: u64 = progress.rows.iter().map(|row| row.missed).sum();
    let worst = progress.worst().map_or_else(String::new, |row| {
        let culprit = match (row.culprit.as_str(), progress.remark) {
            ("", _) => String::new(),
            (remark, Some(_)) => format!(": {remark}"),
            (culprit, None) => format!(", last culprit {culprit}"),
        };
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

fn bar(progress: &Progress, columns: usize) -> String {
    const WIDTH: usize = 40;
    match progress.share() {
        Some(share) => {
            let (elapsed, planned) =
                (progress.elapsed.as_secs(), progress.planned.unwrap_or_default().as_secs());
            let times = format!("{elapsed:.0} s of {planned:.0} s");
            // On a narrow terminal the bar is shorter, and the times stay.
            let room = columns.saturating_sub(progress.phase.chars().count() + times.chars().count() + 5);
            let width = room.min(WIDTH);
            let done = (share * width as f64) as usize;
            format!("{} [{}{}] {times}", progress.phase, "#".repeat(done), "-".repeat(width - done))
        }
        None => {
            format!("{} {:.0} s (Ctrl-C ends with the summary)", progress.phase, progress.elapsed.as_secs())
        }
    }
}

/// One figure of each row.
struct Column {
    name: &'static str,
    /// Without room, the column with the largest number is dropped first.
    dispensable: u8,
    cell: fn(&Row) -> String,
}

const COLUMNS: [Column; 7] = [
    Column { name: "samples", dispensable: 0, cell: |row| row.count.to_string() },
    Column { name: "min", dispensable: 5, cell: |row| shown(row.min) },
    Column { name: "now", dispensable: 1, cell: |row| shown(row.now) },
    Column { name: "avg", dispensable: 4, cell: |row| shown(row.mean_ns.map(|mean| Ns(mean as u64))) },
    Column { name: "p99.9", dispensable: 3, cell: |row| shown(row.p999) },
    Column { name: "max", dispensable: 0, cell: |row| shown(row.max) },
    Column { name: "missed", dispensable: 2, cell: |row| row.missed.to_string() },
];

/// Width reserved for the culprit before a figure is shown beside it.
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
            remark: None,
            rows,
        }
    }

    #[test]
    fn a_machine_with_many_cpus_still_fits_and_shows_the_worst() {
        let lines = table(&progress(64), 100, 40);
        assert!(lines.len() <= 20);
        assert!(lines.iter().any(|line| line.starts_with("CPU 63")));
        assert!(lines.last().unwrap().contains("48 more"));
        assert!(lines.iter().all(|line| line.chars().count() < 100));
    }

    #[test]
    fn on_50_columns_and_14_lines_heading_times_and_the_worst_are_there() {
        let mut progress = progress(64);
        progress.rows[63].label = "CPU 63 timer+wakeup of a long name".to_owned();
        let lines = table(&progress, 50, 14);
        assert!(lines.len() < 14 && lines.iter().all(|line| line.chars().count() < 50), "{lines:?}");
        assert!(lines[0].starts_with("measuring [") && lines[0].ends_with("30 s of 60 s"), "{lines:?}");
        assert!(["samples", "max", "culprit"].iter().all(|name| lines[1].contains(name)), "{lines:?}");
        assert!(lines[2].starts_with("CPU 63") && lines.last().unwrap().contains("54 more"), "{lines:?}");
    }

    #[test]
    fn counts_of_lost_answers_are_not_called_a_culprit() {
        let mut progress = progress(1);
        progress.rows[0].culprit = "2 lost".into();
        progress.remark = Some("late, lost");
        let shown = table(&progress, 80, 24).join("\n") + &line(&progress);
        assert!(shown.contains("  late, lost\n") && shown.ends_with("on CPU 0: 2 lost"), "{shown}");
        assert!(!shown.contains("culprit"), "{shown}");
    }

    #[test]
    fn on_80_columns_the_largest_and_the_culprit_are_there_whole() {
        let mut progress = progress(2);
        progress.rows[1].label = "cyclictest/13846 (RT 80)".into();
        progress.rows[1].max = Some(Ns(16_073_000));
        progress.rows[1].culprit = "thread: hog".into();
        let lines = table(&progress, 80, 24);
        assert!(lines.iter().all(|line| line.chars().count() < 80), "{lines:?}");
        assert!(lines[1].contains("max") && lines[1].ends_with("last culprit"), "{lines:?}");
        assert!(lines[3].contains("16.073 ms") && lines[3].ends_with("thread: hog"), "{lines:?}");
        assert!(lines[2].find("1.0 µs").is_some(), "{lines:?}");
    }

    #[test]
    fn nothing_measured_yet_is_a_dash_and_not_a_zero() {
        let mut empty = progress(1);
        empty.rows[0] = Row { label: "CPU 0".into(), ..Row::default() };
        assert!(table(&empty, 100, 24)[2].contains(" - "));
        assert!(line(&empty).contains("max - on CPU 0"));
    }
}
