//! The plot file of EVL's latmus (`-g FILE`, libevl, benchmarks/latmus.c): comments, then `CELL COUNT` in cells of 1 µs.
//!
//! latmus adds 1 to each count except the last, for a logarithmic axis; lathunt's own plot files have exact counts. The
//! number of samples in the comments decides. The last cell has a `+` when it also counts all latencies above it.

use super::{at, File, FromFile, NotImportable};
use crate::series::Quantity;

/// `None` if the text is from another program.
pub(super) fn recognised(text: &str) -> Option<Result<File, NotImportable>> {
    let comment = |name: &str| text.lines().any(|line| said(line, name).is_some());
    (comment("sampling period") && comment("sample count")).then(|| parse(text))
}

/// The value of the comment `# NAME: VALUE`.
pub(super) fn said<'t>(line: &'t str, name: &str) -> Option<&'t str> {
    let rest = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix(name)?;
    Some(rest.trim_start().strip_prefix(':')?.trim())
}

fn parse(text: &str) -> Result<File, NotImportable> {
    let mut file = File::of("EVL's latmus", Quantity::Cyclic, 1);
    let mut thread = FromFile::default();
    let (mut rows, mut samples, mut is_open) = (Vec::new(), None, false);
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let first = |value: &str| value.split_whitespace().next().map(str::to_owned);
        if let Some(value) = said(line, "sampling period") {
            thread.interval_us = first(value).and_then(|value| value.parse().ok());
        } else if let Some(value) = said(line, "context") {
            file.conditions.notes.push(format!("latmus: context {value}"));
        } else if let Some(value) = said(line, "thread priority") {
            thread.priority = value.parse().ok();
        } else if let Some(value) = said(line, "thread affinity") {
            thread.cpu = value.strip_prefix("CPU").and_then(|cpu| cpu.parse().ok());
        } else if let Some(value) = said(line, "OVERRUNS") {
            thread.missed = Some(
                value.parse().map_err(|_| at(number, format!("'{value}' is not a number of overruns")))?,
            );
        } else if let Some(value) = said(line, "min latency") {
            thread.min = Some(ns(number, value)?);
        } else if let Some(value) = said(line, "avg latency") {
            thread.avg = Some(ns(number, value)? as f64);
        } else if let Some(value) = said(line, "max latency") {
            thread.max = Some(ns(number, value)?);
        } else if let Some(value) = said(line, "sample count") {
            samples = value.parse::<u64>().ok();
        } else if !line.trim().is_empty() && !line.trim_start().starts_with('#') {
            if is_open {
                return Err(at(number, "a cell after that of all higher latencies"));
            }
            let (cell, count) =
                row(line).ok_or_else(|| at(number, format!("not a cell and its count: {}", line.trim())))?;
            is_open = cell.ends_with('+');
            let cell: u64 = cell
                .trim_end_matches('+')
                .parse()
                .map_err(|_| at(number, format!("'{cell}' is not a cell")))?;
            if rows.last().is_some_and(|(before, _)| *before >= cell) {
                return Err(at(number, format!("cell {cell} is not above the one before it")));
            }
            rows.push((cell, count));
        }
    }
    let Some(samples) = samples.filter(|_| thread.max.is_some()) else {
        let what = "this is a plot file of latmus without its number of samples or its maximum".to_owned();
        return Err(NotImportable { line: None, what });
    };
    exact(&mut rows, samples)?;
    thread.cycles = Some(samples);
    thread.overflows = if is_open { rows.pop().map(|(_, count)| count) } else { None };
    thread.rows = rows.into_iter().map(|(cell, count)| (cell.saturating_mul(1_000), count)).collect();
    with_extremes(&mut thread, is_open)?;
    file.rows = 1 << 20;
    file.threads.push(thread);
    Ok(file)
}

fn row(line: &str) -> Option<(&str, u64)> {
    let mut words = line.split_whitespace();
    let (cell, count) = (words.next()?, words.next()?.parse().ok()?);
    words.next().is_none().then_some((cell, count))
}

/// The counts without what latmus added to them.
fn exact(rows: &mut [(u64, u64)], samples: u64) -> Result<(), NotImportable> {
    let sum = rows.iter().try_fold(0u64, |sum, (_, count)| sum.checked_add(*count));
    let added = (rows.len() as u64).saturating_sub(1);
    match sum {
        Some(sum) if sum == samples => Ok(()),
        Some(sum) if sum.checked_sub(added) == Some(samples) => {
            let last = rows.len() - 1;
            for (_, count) in &mut rows[..last] {
                *count = count.saturating_sub(1);
            }
            Ok(())
        }
        _ => {
            let what = format!("the cells of latmus do not add up to its {samples} samples: it is cut off");
            Err(NotImportable { line: None, what })
        }
    }
}

/// A cell has no more than a count, so each latency is taken at the upper edge of its cell, and no higher than the maximum; one
/// sample of the lowest cell is the minimum.
fn with_extremes(thread: &mut FromFile, is_open: bool) -> Result<(), NotImportable> {
    thread.rows.retain(|(_, count)| *count > 0);
    let within = |cell: u64, value: u64| value / 1_000 * 1_000 == cell;
    let max = thread.max.filter(|_| !is_open);
    if let (Some(max), Some(&(cell, _))) = (max, thread.rows.last())
        && !within(cell, max)
    {
        let what = format!("the maximum is {max} ns, but the last cell is {} µs", cell / 1_000);
        return Err(NotImportable { line: None, what });
    }
    let has_min = thread.min.zip(thread.rows.first()).is_some_and(|(min, &(cell, _))| within(cell, min));
    for (cell, _) in &mut thread.rows {
        *cell = cell.saturating_add(999).min(max.unwrap_or(u64::MAX));
    }
    if let (true, Some(min), Some((edge, count))) = (has_min, thread.min, thread.rows.first_mut())
        && *edge > min
    {
        *count -= 1;
        thread.rows.insert(0, (min, 1));
    }
    thread.rows.retain(|(_, count)| *count > 0);
    Ok(())
}

/// `5.801` µs, exactly; early wake-ups have latency 0.
fn ns(line: usize, text: &str) -> Result<u64, NotImportable> {
    let wrong = || at(line, format!("'{text}' is not a latency in µs"));
    let (whole, part) = text.trim_start_matches('-').split_once('.').ok_or_else(wrong)?;
    let whole = whole.parse::<u64>().map_err(|_| wrong())?;
    let part = Some(part)
        .filter(|part| part.len() == 3)
        .and_then(|part| part.parse::<u64>().ok())
        .ok_or_else(wrong)?;
    let value = whole.checked_mul(1_000).and_then(|us| us.checked_add(part)).ok_or_else(wrong)?;
    Ok(if text.starts_with('-') { 0 } else { value })
}

#[cfg(test)]
mod tests {
    use crate::import::{read, Unit};
    use crate::series::Quantity;
    use crate::time::{Cpu, Ns};

    const HEAD: &str = "# test started on: Tue Jan 19 17:26:38 2021\n# Linux version 5.10.8\n# sampling period: 1000 microseconds\n\
                        # context: user\n# thread priority: 98\n# thread affinity: CPU1\n# min latency: 1.205\n# avg latency: 1.839\n\
                        # max latency: 5.801\n# sample count: 100\n";

    #[test]
    fn cells_are_read_with_their_exact_extremes_whether_or_not_1_was_added() {
        for rows in ["1 90\n2 8\n5 2\n", "1 91\n2 9\n3 1\n4 1\n5 2\n"] {
            let run = read(&format!("{HEAD}{rows}"), Unit::Guess).unwrap();
            let one = run.of(Quantity::Cyclic).next().unwrap();
            let all = (one.histogram.count(), one.lost, one.histogram.min(), one.histogram.max());
            assert_eq!(all, (100, 0, Some(Ns(1_205)), Some(Ns(5_801))), "{rows}");
            assert_eq!((one.cpu, one.interval_ns), (Some(Cpu(1)), Some(Ns::from_us(1_000))));
            // A sample of the cell of 2 µs may be of 2.999 µs.
            assert_eq!(one.histogram.count_from(Ns(2_500)), 10, "{rows}");
        }
    }

    #[test]
    fn latencies_above_the_cells_are_lost_except_the_maximum_and_a_cut_file_is_refused() {
        let run = read(&format!("{HEAD}1 91\n2 9\n3+ 2\n"), Unit::Guess).unwrap();
        let one = run.of(Quantity::Cyclic).next().unwrap();
        assert_eq!((one.histogram.count(), one.lost, one.histogram.max()), (99, 1, Some(Ns(5_801))));
        assert!(one.lost_below_max);
        let refused = |rows: &str| read(&format!("{HEAD}{rows}"), Unit::Guess).unwrap_err().to_string();
        assert!(refused("1 90\n").contains("do not add up to its 100 samples"));
        assert!(refused("1 90\nx 8\n").contains("line 12"));
        assert!(refused("1 90\n2 8\n4 2\n").contains("the maximum is 5801 ns"));
    }
}
