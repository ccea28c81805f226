//! The text of oslat (rt-tests, src/oslat/oslat.c): gaps of a busy loop, one column per core.
//!
//! A gap of N - 1 to N µs is in row N, and its extremes are also N: values are used as printed, which is never too
//! small. The last row includes everything above, so that only the largest of its gaps is known. Classes below 1 µs
//! (`-W`) are printed with decimals.

use super::{at, File, FromFile, NotImportable, MOST_THREADS};
use crate::series::Quantity;

/// `None` where this is not its text.
pub(super) fn recognised(text: &str) -> Option<Result<File, NotImportable>> {
    let starts = |what: fn(&str) -> bool| text.lines().any(|line| what(line.trim_start()));
    (starts(is_frequency) && starts(|line| line.starts_with("Core:"))).then(|| parse(text))
}

/// The one line of a result with the frequency of the clock, which rt-tests 1.10 called that of the CPU.
pub(super) fn is_frequency(line: &str) -> bool {
    ["Counter Freq:", "CPU Freq:"].iter().any(|name| line.starts_with(name))
}

fn parse(text: &str) -> Result<File, NotImportable> {
    // In ns, until it is known that no class is smaller than 1 µs.
    let mut file = File::of("oslat", Quantity::Npt, 1);
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let Some((label, values)) = line.split_once(':') else { continue };
        let label = label.trim();
        if label == "Core" {
            file.threads = cores(number, values)?;
            continue;
        }
        let row = label.strip_suffix("(us)").and_then(|row| ns(row.trim()));
        if row.is_none() && !matches!(label, "Minimum" | "Average" | "Maximum") {
            continue;
        }
        let values = figures(number, values, file.threads.len())?;
        let next = file.rows;
        if let Some(row) = row.filter(|row| *row < next) {
            let (row, last) = (us(row), us(next - 1));
            return Err(at(number, format!("row {row} where a row after {last} is expected")));
        }
        for (thread, value) in file.threads.iter_mut().zip(values) {
            match (row, label) {
                (Some(row), _) => thread.rows.push((row, whole(number, value)?)),
                (None, "Minimum") => thread.min = Some(time(number, value)?),
                (None, "Average") => thread.avg = value.parse().ok().map(|us: f64| us * 1e3),
                _ => thread.max = Some(time(number, value)?),
            }
        }
        file.rows = file.rows.max(row.map_or(0, |row| row.saturating_add(1)));
    }
    if file.threads.is_empty() || file.threads.iter().any(|thread| thread.max.is_none()) {
        let what = "this is the output of oslat without its line of maxima: it is cut off".to_owned();
        return Err(NotImportable { line: None, what });
    }
    in_us_if_whole(&mut file);
    for thread in &mut file.threads {
        thread.rows.sort_unstable();
        without_overflows(thread);
        if let Some(what) = thread.contradiction(file.rows) {
            return Err(NotImportable { line: None, what });
        }
    }
    Ok(file)
}

/// Classes of 1 µs need no finer unit.
pub(super) fn in_us_if_whole(file: &mut File) {
    let times = |thread: &FromFile| {
        thread.rows.iter().map(|(row, _)| *row).chain(thread.min).chain(thread.max).collect::<Vec<u64>>()
    };
    if file.threads.iter().flat_map(times).any(|ns| ns % 1_000 != 0) {
        return;
    }
    file.unit = 1_000;
    file.rows = file.rows.div_ceil(1_000);
    for thread in &mut file.threads {
        let to_us = |ns: &mut u64| *ns /= 1_000;
        thread.rows.iter_mut().map(|(row, _)| row).for_each(to_us);
        thread.min.iter_mut().chain(&mut thread.max).for_each(to_us);
        thread.avg = thread.avg.map(|ns| ns / 1e3);
    }
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

fn time(number: usize, value: &str) -> Result<u64, NotImportable> {
    ns(value).ok_or_else(|| at(number, format!("'{value}' is not a time in µs")))
}

/// `3` or `0.25` µs in ns, exactly.
pub(super) fn ns(us: &str) -> Option<u64> {
    let (whole, part) = us.split_once('.').unwrap_or((us, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !is_number(whole) || !is_number(part) || part.len() > 3 {
        return None;
    }
    whole.parse::<u64>().ok()?.checked_mul(1_000)?.checked_add(format!("{part:0<3}").parse().ok()?)
}

/// As printed: `3` or `0.25`.
fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
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

    /// `oslat -W 250 --json`
    #[test]
    fn json_of_classes_below_a_microsecond_is_read_exactly() {
        let json = r#"{"cmdline:": "oslat -W 250", "num_threads": 1, "thread": {"0": {"cpu": 6, "histogram": {"0.250": 31200,
            "0.500": 1, "0.750": 2}, "min": 0.250, "avg": 0.252, "max": 91.250}}}"#;
        let run = read(json, Unit::Guess).unwrap();
        let one = run.of(Quantity::Npt).next().unwrap();
        assert_eq!((one.histogram.count(), one.lost, one.lost_below_max), (31_202, 1, true));
        assert_eq!((one.histogram.min(), one.histogram.max()), (Some(Ns(250)), Some(Ns(91_250))));
        assert_eq!(one.histogram.count_from(Ns(500)), 2);
        let of_cyclictest = json.replace("oslat", "cyclictest");
        assert!(read(&of_cyclictest, Unit::Guess).is_err());
    }

    #[test]
    fn a_cut_or_altered_text_is_refused_with_its_line() {
        let refused = |text: &str| read(text, Unit::Guess).unwrap_err().to_string();
        assert!(refused(&TEXT[..TEXT.find("     Maximum").unwrap()]).contains("cut off"));
        assert!(refused(&TEXT.replace("500 0", "500")).contains("line 7: 1 figures for 2 cores"));
        assert!(refused(&TEXT.replace("500", "5,00")).contains("not a whole number"));
        assert!(refused(&TEXT.replace("41 1", "41,5 1")).contains("not a time in µs"));
        assert!(refused(&TEXT.replace("41 1", "1 1")).contains("maximum is 1"));
        let row = "    002 (us):\t 500 0\n";
        assert!(refused(&TEXT.replace(row, &row.repeat(2))).contains("line 8: row 2 where a row after 2"));
    }

    #[test]
    fn the_frequency_has_another_name_in_old_versions() {
        let old = TEXT.replace("Counter Freq:", "    CPU Freq:");
        assert_eq!(read(&old, Unit::Guess).unwrap().series, read(TEXT, Unit::Guess).unwrap().series);
    }

    #[test]
    fn classes_below_a_microsecond_are_read_exactly() {
        let text = "oslat V 2.70\nBucket width: \t\t250 (ns)\n        Core:\t 4 6\nCounter Freq:\t 2095 2095 (Mhz)\n    \
                    0.25 (us):\t 32231 31200\n    0.50 (us):\t 0 1\n    0.75 (us):\t 0 2 (including overflows)\n     \
                    Minimum:\t 0.25 0.25 (us)\n     Average:\t 0.250 0.252 (us)\n     Maximum:\t 0.25 91.25 (us)\n";
        let run = read(text, Unit::Guess).unwrap();
        let [first, second] = &run.series[..] else { panic!("{run:?}") };
        assert_eq!((first.histogram.count(), first.lost), (32_231, 0));
        assert_eq!((first.histogram.min(), first.histogram.max()), (Some(Ns(250)), Some(Ns(250))));
        assert_eq!(
            (second.histogram.count(), second.lost),
            (31_202, 1),
            "the row at its end, but for the maximum"
        );
        assert_eq!(second.histogram.max(), Some(Ns(91_250)));
        assert_eq!(second.histogram.count_from(Ns(500)), 2);
        let refused = read(&text.replace("0.50", "0.25"), Unit::Guess).unwrap_err().to_string();
        assert!(refused.contains("line 6: row 0.25 where a row after 0.25"), "{refused}");
    }
}
