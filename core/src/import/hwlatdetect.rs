//! The report of hwlatdetect (rt-tests, src/hwlatdetect/hwlatdetect.py): windows with hardware latency.
//!
//! A window has a gap inside one iteration of the kernel's loop and one between two iterations; the larger is its
//! sample, as for the report's maximum. Windows below the threshold are not reported.

use super::{at, File, FromFile, NotImportable};
use crate::series::Quantity;

/// `None` where this is not its report.
pub(super) fn recognised(text: &str) -> Option<Result<File, NotImportable>> {
    text.lines().any(is_heading).then(|| parse(text))
}

/// The first line of a report. Web pages have one blank for two.
pub(super) fn is_heading(line: &str) -> bool {
    line.split_once("hwlatdetect:").is_some_and(|(_, rest)| rest.trim_start().starts_with("test duration"))
}

fn parse(text: &str) -> Result<File, NotImportable> {
    let mut file = File::of("hwlatdetect", Quantity::Hardware, 1_000);
    let mut thread = FromFile { rows: Vec::new(), ..FromFile::default() };
    let (mut ended, mut recorded) = (false, None);
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        // Quoted in a mail, or as a comment.
        let line = line.trim_start_matches(['>', '#', ' ', '\t']).trim_end();
        if line.starts_with("ts: ") {
            let gap =
                sample(line).ok_or_else(|| at(number, format!("not a sample of hwlatdetect: {line}")))?;
            thread.rows.push((gap, 1));
        } else if let Some(max) = line.strip_prefix("Max Latency:") {
            ended = true;
            if !max.contains("Below threshold") {
                let us = max.trim().strip_suffix("us").and_then(|us| us.parse().ok());
                thread.max = Some(us.ok_or_else(|| at(number, format!("not a maximum in µs: {line}")))?);
            }
        } else if let Some(count) = line.strip_prefix("Samples recorded:") {
            let count = count.trim().parse().map_err(|_| at(number, format!("not a number: {line}")))?;
            recorded = Some(count);
        } else if let Some((name, value)) = setting(line) {
            file.conditions.notes.push(format!("hwlatdetect: {name}: {value}"));
        }
    }
    if !ended {
        let what =
            "the report of hwlatdetect has no 'Max Latency': it is truncated, or the test was still running"
                .to_owned();
        return Err(NotImportable { line: None, what });
    }
    let listed = thread.rows.len() as u64;
    thread.cycles = Some(recorded.unwrap_or(0).max(listed).max(u64::from(thread.max.is_some())));
    thread.overflows = thread.cycles.map(|all| all - listed);
    thread.max = thread.max.or_else(|| thread.rows.iter().map(|(gap, _)| *gap).max());
    file.rows = thread.rows.iter().map(|(gap, _)| gap.saturating_add(1)).max().unwrap_or(0);
    if let Some(what) = thread.contradiction(0) {
        return Err(NotImportable { line: None, what });
    }
    thread.rows.sort_unstable();
    file.threads.push(thread);
    Ok(file)
}

/// `ts: 1646837351.550312752, inner:46, outer:45`, since rt-tests 2.9 with `cpu:` and `count:`, the number of gaps above
/// the threshold in the window: the larger gap, µs.
fn sample(line: &str) -> Option<u64> {
    let value =
        |name: &str| line.split(", ").find_map(|field| field.trim().strip_prefix(name)?.parse::<u64>().ok());
    Some(value("inner:")?.max(value("outer:")?))
}

/// Settings of the measurement for the notes.
fn setting(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once(':')?;
    let known = [
        "Latency threshold",
        "Sample window",
        "Sample width",
        "Samples exceeding threshold",
        "MTBF",
        "SMIs during run",
    ];
    known.contains(&name).then(|| (name, value.trim()))
}

#[cfg(test)]
mod tests {
    use crate::import::{read, Unit};
    use crate::series::Quantity;
    use crate::time::Ns;

    const REPORT: &str = "hwlatdetect:  test duration 900 seconds\n   detector: tracer\n   parameters:\n        Latency threshold: 0us\n\
                          \x20       Sample window:     1000000us\n\nStarting test\ntest finished\nMax Latency: 48us\nSamples recorded: 4\n\
                          Samples exceeding threshold: 4\nSMIs during run: 0\nts: 1646837340.346151918, inner:5, outer:9\n\
                          ts: 1646837351.550312752, inner:46, outer:45\nts: 1646837933.550015925, inner:48, outer:48\n";

    #[test]
    fn the_larger_gap_of_each_window_is_a_sample() {
        let run = read(REPORT, Unit::Guess).unwrap();
        let one = run.of(Quantity::Hardware).next().unwrap();
        assert_eq!((one.histogram.count(), one.lost, one.lost_below_max), (3, 1, true));
        assert_eq!((one.histogram.min(), one.histogram.max()), (Some(Ns::from_us(9)), Some(Ns::from_us(48))));
        assert!(run.conditions.notes.iter().any(|note| note.contains("Latency threshold: 0us")));
    }

    #[test]
    fn a_quoted_report_is_the_same() {
        let run = read(REPORT, Unit::Guess).unwrap();
        for mark in ["# ", "> ", "> > ", "#", "\t"] {
            let quoted: String = REPORT.lines().map(|line| format!("{mark}{line}\n")).collect();
            let told = read(&quoted, Unit::Guess).unwrap_or_else(|error| panic!("{mark:?}: {error}"));
            assert_eq!(
                (told.series, told.conditions.notes),
                (run.series.clone(), run.conditions.notes.clone()),
                "{mark:?}"
            );
        }
    }

    #[test]
    fn several_gaps_in_a_window_are_one_sample() {
        let with_counts = REPORT
            .replace(
                "Samples exceeding threshold: 4",
                "Samples exceeding threshold: 14\nMTBF: 45.631 seconds",
            )
            .replace("outer:9", "outer:9, cpu:3, count:1")
            .replace("outer:45", "outer:45, cpu:3, count:6")
            .replace("outer:48", "outer:48, cpu:5, count:7");
        let run = read(&with_counts, Unit::Guess).unwrap();
        let one = run.of(Quantity::Hardware).next().unwrap();
        assert_eq!((one.histogram.count(), one.histogram.max()), (3, Some(Ns::from_us(48))));
        assert!(run.conditions.notes.iter().any(|note| note.contains("Samples exceeding threshold: 14")));
    }

    #[test]
    fn nothing_above_the_threshold_is_a_result_and_no_end_is_none() {
        let quiet =
            "hwlatdetect:  test duration 9 seconds\nMax Latency: Below threshold\nSamples recorded: 0\n";
        let run = read(quiet, Unit::Guess).unwrap();
        assert_eq!(run.series[0].histogram.count() + run.series[0].lost, 0);
        assert_eq!(read(&quiet.replace("  ", " "), Unit::Guess).unwrap().series, run.series);
        let refused = |text: &str| read(text, Unit::Guess).unwrap_err().to_string();
        assert!(refused(&REPORT[..REPORT.find("Max").unwrap()]).contains("truncated"));
        assert!(refused(&REPORT.replace("inner:46", "inner:4.6")).contains("line 14"));
        assert!(refused(&REPORT.replace("48us", "8us")).contains("maximum is 8"));
    }
}
