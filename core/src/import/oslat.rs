//! The text of oslat (rt-tests, src/oslat/oslat.c): gaps of a busy loop, one column per core.
//!
//! A gap of N - 1 to N µs is in row N, and its extremes are also N: values are used as printed, which is never too
//! small. The last row includes everything above, so that only the largest of its gaps is known.

use super::{at, File, FromFile, NotImportable, MOST_THREADS};
use crate::series::Quantity;

/// `None` where this is not its text.
pub(super) fn recognised(text: &str) -> Option<Result<File, NotImportable>> {
    let is_text = text.lines().any(|line| line.trim_start().starts_with("Counter Freq:"));
    is_text.then(|| parse(text))
}

fn parse(text: &str) -> Result<File, NotImportable> {
    let mut file = File::of("oslat", Quantity::Npt, 1_000);
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let Some((label, values)) = line.split_once(':') else { continue };
        let label = label.trim();
        if label == "Core" {
            file.threads = cores(number, values)?;
            continue;
        }
        let row = label.strip_suffix("(us)").map(str::trim).and_then(|row| row.parse::<u64>().ok());
        if row.is_none() && !matches!(label, "Minimum" | "Average" | "Maximum") {
            continue;
        }
        let values = figures(number, values, file.threads.len())?;
        let next = file.rows;
        if let Some(row) = row.filter(|row| *row < next) {
            return Err(at(number, format!("row {row} where row {next} or a later one is expected")));
        }
        for (thread, value) in file.threads.iter_mut().zip(values) {
            match (row, label) {
                (Some(row), _) => thread.rows.push((row, whole(number, value)?)),
                (None, "Minimum") => thread.min = Some(whole(number, value)?),
                (None, "Average") => thread.avg = value.parse().ok(),
                _ => thread.max = Some(whole(number, value)?),
            }
        }
        file.rows = file.rows.max(row.map_or(0, |row| row.saturating_add(1)));
    }
    if file.threads.is_empty() || file.threads.iter().any(|thread| thread.max.is_none()) {
        let what = "this is the output of oslat without its line of maxima: it is cut off".to_owned();
        return Err(NotImportable { line: None, what });
    }
    for thread in &mut file.threads {
        thread.rows.sort_unstable();
        without_overflows(thread);
        if let Some(what) = thread.contradiction(file.rows) {
            return Err(NotImportable { line: None, what });
        }
    }
    Ok(file)
}

/// The last row counts gaps at or above its value, up to the maximum.
pub(super) fn without_overflows(thread: &mut FromFile) {
    let Some(max) = thread.max else { return };
    let above = thread.rows.last().is_some_and(|(row, _)| *row < max);
    if let Some((_, count)) = thread.rows.pop_if(|_| above) {
        thread.overflows = Some(count);
        thread.cycles = thread.inside().and_then(|inside| inside.checked_add(count));
    }
    thread.rows.retain(|(_, count)| *count > 0);
}

fn cores(number: usize, values: &str) -> Result<Vec<FromFile>, NotImportable> {
    let cpus: Result<Vec<u32>, _> = values.split_whitespace().map(str::parse).collect();
    match cpus {
        Ok(cpus) if (1..=MOST_THREADS).contains(&cpus.len()) => {
            Ok(cpus.into_iter().map(|cpu| FromFile { cpu: Some(cpu), ..FromFile::default() }).collect())
        }
        _ => Err(at(number, format!("not the cores of oslat: {}", values.trim()))),
    }
}

/// One word per core; the unit follows in parentheses.
fn figures(number: usize, values: &str, cores: usize) -> Result<Vec<&str>, NotImportable> {
    let values: Vec<&str> = values.split('(').next().unwrap_or_default().split_whitespace().collect();
    match values.len() == cores && cores > 0 {
        true => Ok(values),
        false => Err(at(number, format!("{} figures for {cores} cores", values.len()))),
    }
}

fn whole(number: usize, value: &str) -> Result<u64, NotImportable> {
    value.parse().map_err(|_| at(number, format!("'{value}' is not a whole number")))
}

#[cfg(test)]
mod tests {
    use crate::import::{read, Unit};
    use crate::series::Quantity;
    use crate::time::{Cpu, Ns};

    const TEXT: &str = "oslat V 2.60\nTest completed.\n\n        Core:\t 1 3\nCounter Freq:\t 2096 2096 (Mhz)\n    001 (us):\t 0 7\n    \
                        002 (us):\t 500 0\n    003 (us):\t 10 0 (including overflows)\n     Minimum:\t 2 1 (us)\n     Average:\t \
                        2.200 1.000 (us)\n     Maximum:\t 41 1 (us)\n     Max-Min:\t 39 0 (us)\n    Duration:\t 59.8 59.8 (sec)\n";

    #[test]
    fn the_largest_gap_is_kept_and_what_the_last_row_hides_is_lost() {
        let run = read(TEXT, Unit::Guess).unwrap();
        let series: Vec<_> = run.of(Quantity::Npt).collect();
        assert_eq!((series[0].cpu, series[1].cpu), (Some(Cpu(1)), Some(Cpu(3))));
        assert_eq!((series[0].histogram.count(), series[0].lost, series[0].lost_below_max), (501, 9, true));
        assert_eq!(series[0].histogram.max(), Some(Ns::from_us(41)));
        assert_eq!((series[1].histogram.count(), series[1].lost), (7, 0));
        assert!(run.complete);
    }

    #[test]
    fn json_is_read_by_the_same_rule() {
        let json = r#"{"cmdline:": "oslat -D 2 -b 3", "num_threads": 1, "thread": {"0": {"cpu": 2, "min": 1, "avg": 1.2,
            "max": 36, "histogram": {"1": 100, "2": 5, "3": 8}}}}"#;
        let run = read(json, Unit::Guess).unwrap();
        let one = run.of(Quantity::Npt).next().unwrap();
        assert_eq!((one.histogram.count(), one.lost, one.histogram.max()), (106, 7, Some(Ns::from_us(36))));
    }

    #[test]
    fn a_cut_or_altered_text_is_refused_with_its_line() {
        let refused = |text: &str| read(text, Unit::Guess).unwrap_err().to_string();
        assert!(refused(&TEXT[..TEXT.find("     Maximum").unwrap()]).contains("cut off"));
        assert!(refused(&TEXT.replace("500 0", "500")).contains("line 7: 1 figures for 2 cores"));
        assert!(refused(&TEXT.replace("500", "5,00")).contains("not a whole number"));
        assert!(refused(&TEXT.replace("41 1", "1 1")).contains("maximum is 1"));
        let row = "    002 (us):\t 500 0\n";
        assert!(refused(&TEXT.replace(row, &row.repeat(2))).contains("line 8: row 2 where row 3"));
    }
}
