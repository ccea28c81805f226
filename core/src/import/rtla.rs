//! rtla's histograms (`rtla timerlat hist`, `rtla osnoise hist`) and the table of `rtla timerlat top`.
//!
//! The latency of the interrupt is from the timer's expiry to its handler, that of the thread from the expiry to the
//! thread, that of the return from the expiry to user space. A bin is printed with its lower edge; the samples of one
//! that is wider than the unit may be as large as its upper edge, and count as that.

use std::collections::BTreeMap;

use super::{at, File, FromFile, NotImportable, MOST_THREADS};
use crate::series::Quantity;

/// `None` if the text is from another program.
pub(super) fn recognised(text: &str) -> Option<Result<File, NotImportable>> {
    let has = |what: &str| text.lines().any(|line| line.contains(what));
    if has("# RTLA timerlat histogram")
        || has("# RTLA osnoise histogram")
        || text.lines().any(|line| columns(line).is_some())
    {
        return Some(histogram(text));
    }
    if has("Timer Latency") && has("IRQ Timer Latency") {
        return Some(table(text));
    }
    has("Operating System Noise").then(|| {
        let what = "this is the table of rtla osnoise top, which has no latencies; 'rtla osnoise hist' has"
            .to_owned();
        Err(NotImportable { line: None, what })
    })
}

/// `Index   IRQ-000   Thr-000`: a quantity and a CPU each.
pub(super) fn columns(line: &str) -> Option<Vec<(Quantity, u32)>> {
    let names = line.trim().strip_prefix("Index")?.split_whitespace();
    let columns: Option<Vec<_>> = names
        .map(|name| {
            let (what, cpu) = name.split_once('-')?;
            let quantity = match what {
                "IRQ" => Quantity::Timer,
                "Thr" => Quantity::TimerWakeup,
                "Usr" => Quantity::Cyclic,
                "CPU" => Quantity::Npt,
                _ => return None,
            };
            Some((quantity, cpu.parse().ok()?))
        })
        .collect();
    columns.filter(|columns| !columns.is_empty() && columns.len() <= 3 * MOST_THREADS)
}

fn histogram(text: &str) -> Result<File, NotImportable> {
    let mut file = File::of("rtla", Quantity::TimerWakeup, 1_000);
    let mut widths: Vec<u64> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let line = line.trim();
        if let Some(comment) = line.strip_prefix('#') {
            let comment = comment.trim();
            if comment.starts_with("Time unit is nanoseconds") {
                file.unit = 1;
            }
            if comment.starts_with("Duration") || comment.starts_with("RTLA") {
                file.conditions.notes.push(format!("rtla: {comment}"));
            }
            continue;
        }
        if let Some(columns) = columns(line) {
            let thread = |(quantity, cpu)| FromFile {
                quantity: Some(quantity),
                cpu: Some(cpu),
                ..FromFile::default()
            };
            file.threads = columns.into_iter().map(thread).collect();
            continue;
        }
        if line.starts_with("ALL") || file.threads.iter().any(|thread| thread.max.is_some()) {
            break; // sums over all CPUs, an analysis, words
        }
        if file.threads.is_empty() && line == "count: 0" {
            return Err(at(
                number,
                "rtla saw no noise above its threshold (-T): the histogram has no CPU and no sample",
            ));
        }
        let mut words = line.split_whitespace();
        let Some(label) = words.next().filter(|_| !file.threads.is_empty()) else { continue };
        let row = label.parse::<u64>().ok();
        if row.is_none() && !matches!(label, "over:" | "count:" | "min:" | "avg:" | "max:") {
            continue;
        }
        let values: Vec<&str> = words.collect();
        if values.len() != file.threads.len() {
            return Err(at(number, format!("{} figures for {} columns", values.len(), file.threads.len())));
        }
        for (thread, value) in file.threads.iter_mut().zip(values) {
            let value = match value {
                "-" => None,
                value => Some(
                    value
                        .parse::<u64>()
                        .map_err(|_| at(number, format!("'{value}' is not a whole number")))?,
                ),
            };
            match (row, label) {
                (Some(row), _) => {
                    thread.rows.extend(value.filter(|count| *count > 0).map(|count| (row, count)))
                }
                (None, "over:") => thread.overflows = value,
                (None, "count:") => thread.cycles = value,
                (None, "min:") => thread.min = value,
                (None, "avg:") => thread.avg = value.map(|avg| avg as f64),
                _ => thread.max = value,
            }
        }
        widths.extend(row);
    }
    checked(file, &widths)
}

fn checked(mut file: File, rows: &[u64]) -> Result<File, NotImportable> {
    let wrong = |what: String| NotImportable { line: None, what };
    if file.threads.is_empty() || file.threads.iter().all(|thread| thread.cycles.is_none()) {
        return Err(wrong("the histogram of rtla has no line 'count:': it is cut off".to_owned()));
    }
    // Rows without a sample may be left out, but each is a multiple of the width.
    let width = rows.iter().fold(0, |width, row| greatest_common_divisor(width, *row)).max(1);
    if width > 1 {
        let unit = if file.unit == 1 { "ns" } else { "µs" };
        file.conditions.notes.push(format!(
            "rtla: samples are in classes of {width} {unit} or less, counted at their upper edge; extremes are exact"
        ));
    }
    file.rows = rows.iter().max().map_or(0, |row| row.saturating_add(1));
    for thread in &mut file.threads {
        let inside =
            thread.inside().ok_or_else(|| wrong("its counts add up to more than 2^64".to_owned()))?;
        let all = thread.cycles.unwrap_or(0);
        if inside.saturating_add(thread.overflows.unwrap_or(0)) > all {
            return Err(wrong(format!("count is {all}, but the histogram has {inside} samples")));
        }
        thread.overflows = Some(all - inside);
        // A bin may start at the maximum, not above it.
        if let Some(what) = thread.contradiction(0) {
            return Err(wrong(what));
        }
        tell_by_upper_edge(thread, width);
    }
    file.rows = file.rows.saturating_add(width - 1);
    Ok(file)
}

/// No sample is above the maximum, and one is the minimum.
fn tell_by_upper_edge(thread: &mut FromFile, width: u64) {
    let lowest = thread.rows.first_mut();
    let least = thread
        .min
        .zip(lowest)
        .filter(|(min, (row, _))| min.checked_sub(*row).is_some_and(|above| above < width));
    let least = least.map(|(min, (_, count))| {
        *count -= 1;
        (min, 1)
    });
    for (row, _) in &mut thread.rows {
        *row = row.saturating_add(width - 1).min(thread.max.unwrap_or(u64::MAX));
    }
    thread.rows.retain(|(_, count)| *count > 0);
    thread.rows.extend(least);
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 {
        a
    } else {
        greatest_common_divisor(b, a % b)
    }
}

/// `rtla timerlat top` repeats its screen: the last line of each CPU is used, unless an earlier one has seen more.
fn table(text: &str) -> Result<File, NotImportable> {
    let mut last: BTreeMap<(u32, usize), FromFile> = BTreeMap::new();
    // Of all CPUs, since Linux 6.10: line and maxima.
    let mut all: (usize, Vec<Option<u64>>) = (0, Vec::new());
    for (index, line) in text.lines().enumerate() {
        let mut groups = line.split('|');
        let mut head = groups.next().unwrap_or_default().split_whitespace();
        let (Some(cpu), Some(count)) = (head.next(), head.next().and_then(|count| count.strip_prefix('#')))
        else {
            continue;
        };
        if cpu == "ALL" {
            let largest = |figures: &str| figures.split_whitespace().next_back()?.parse().ok();
            all = (index + 1, groups.map(largest).collect());
            continue;
        }
        let wrong = || at(index + 1, format!("not a line of rtla timerlat top: {}", line.trim()));
        let (cpu, cycles) = (cpu.parse().map_err(|_| wrong())?, count.parse().map_err(|_| wrong())?);
        for (group, figures) in groups.enumerate() {
            let quantity =
                *[Quantity::Timer, Quantity::TimerWakeup, Quantity::Cyclic].get(group).ok_or_else(wrong)?;
            let values: Vec<&str> = figures.split_whitespace().collect();
            let [_, min, avg, max] = values[..] else { return Err(wrong()) };
            if max == "-" {
                continue; // no sample yet
            }
            let value = |text: &str| text.parse::<u64>().map_err(|_| wrong());
            let thread = FromFile {
                quantity: Some(quantity),
                cpu: Some(cpu),
                cycles: Some(cycles),
                min: Some(value(min)?),
                avg: Some(value(avg)? as f64),
                max: Some(value(max)?).filter(|max| value(min).is_ok_and(|min| min <= *max)),
                ..FromFile::default()
            };
            if thread.max.is_none() {
                return Err(wrong());
            }
            let before = last.get(&(cpu, group));
            if before.is_some_and(|before| before.max > thread.max || before.cycles > thread.cycles) {
                // Within one run, neither gets smaller.
                return Err(at(index + 1, "a second result of rtla timerlat top: import each by itself"));
            }
            last.insert((cpu, group), thread);
        }
    }
    if last.is_empty() {
        let what = "this is the head of rtla timerlat top without a line of a CPU".to_owned();
        return Err(NotImportable { line: None, what });
    }
    for (group, all_max) in all.1.iter().enumerate() {
        let listed =
            last.iter().filter(|((_, of), _)| *of == group).filter_map(|(_, thread)| thread.max).max();
        if *all_max > listed {
            return Err(at(
                all.0,
                "a larger maximum than that of any CPU in the text: lines of CPUs are missing",
            ));
        }
    }
    let unit = if text.contains("Latency (ns)") { 1 } else { 1_000 };
    let mut file = File::of("rtla", Quantity::TimerWakeup, unit);
    file.threads = last.into_values().collect();
    Ok(file)
}

#[cfg(test)]
mod tests {
    use crate::import::{read, Unit};
    use crate::series::{Quantity, Series};
    use crate::time::{Cpu, Ns};

    const HIST: &str = "# RTLA timerlat histogram\n# Time unit is microseconds (us)\n# Duration:   0 00:00:05\n\
                        Index   IRQ-000   Thr-000   IRQ-001   Thr-001\n0          1871       133      1069         2 \n\
                        50         1733      1784      2257      1820 \nover:         1         2         0         0 \n\
                        count:     3605      1919      3326      1822 \nmin:         10        25         4        46 \n\
                        avg:         91       139       104       147 \nmax:       3503      3631        84        62 \n";

    #[test]
    fn each_column_is_a_series_with_its_exact_maximum() {
        let run = read(HIST, Unit::Guess).unwrap();
        let handler: Vec<_> = run.of(Quantity::Timer).collect();
        let thread: Vec<_> = run.of(Quantity::TimerWakeup).collect();
        assert_eq!((handler[0].cpu, thread[1].cpu), (Some(Cpu(0)), Some(Cpu(1))));
        assert_eq!(
            (handler[0].histogram.count(), handler[0].lost),
            (3605, 0),
            "the one beyond is the maximum"
        );
        assert_eq!((thread[0].histogram.count(), thread[0].lost), (1918, 1));
        assert_eq!(thread[0].histogram.max(), Some(Ns::from_us(3631)));
        assert!(run.conditions.notes.iter().any(|note| note.contains("classes of 50 µs")));
        // A sample may be as large as the upper edge of its class, and no larger than the maximum.
        let median = |of: &Series| of.histogram.quantile(0.5).unwrap();
        assert_eq!(median(handler[0]), Ns(49_999));
        assert_eq!((thread[1].histogram.min(), median(thread[1])), (Some(Ns::from_us(46)), Ns::from_us(62)));
        let refused = |text: &str| read(text, Unit::Guess).unwrap_err().to_string();
        assert!(refused(&HIST[..HIST.find("over").unwrap()]).contains("cut off"));
        assert!(refused(&HIST.replace("3605", "360")).contains("count is 360"));
        assert!(refused(&HIST.replace("1733", "17.33")).contains("line 6"));
        let none = "# RTLA osnoise histogram\n# Time unit is microseconds (us)\nIndex\nover: 0\ncount: 0\nmin: 0\nmax: 0\n";
        assert!(refused(none).contains("no noise above its threshold"), "{}", refused(none));
        let twice = HIST.to_owned() + &HIST.replace("3631", "9999");
        assert!(refused(&twice).contains("a second result of rtla"), "its maximum is not left out");
    }

    /// Rows without samples are left out (`--skip-zeros`): their distance is not the width.
    #[test]
    fn the_width_of_the_classes_divides_every_row() {
        let text = "# RTLA timerlat histogram\n# Time unit is microseconds (us)\nIndex   Thr-000\n2   1\n33   4\n36   1\n\
                    over:   0\ncount:   6\nmin:   2\navg:   30\nmax:   36\n";
        let run = read(text, Unit::Guess).unwrap();
        assert!(
            !run.conditions.notes.iter().any(|note| note.contains("classes of")),
            "{:?}",
            run.conditions.notes
        );
        let text = text.replace("\n2 ", "\n10 ").replace("\n33 ", "\n40 ").replace("\n36 ", "\n60 ");
        let run = read(&text.replace("min:   2", "min:   15").replace("max:   36", "max:   61"), Unit::Guess)
            .unwrap();
        assert!(run.conditions.notes.iter().any(|note| note.contains("classes of 10 µs or less")));
        let histogram = &run.series[0].histogram;
        assert_eq!((histogram.min(), histogram.max()), (Some(Ns::from_us(15)), Some(Ns::from_us(61))));
        assert_eq!(histogram.quantile(0.5), Some(Ns(49_999)));
    }

    #[test]
    fn of_a_table_the_last_screen_counts() {
        let line = |count, max| {
            format!("  0 #{count}      |       86         2        76      {max} |      259        29       116      3782\n")
        };
        let head = "                 Timer Latency\n  0 00:00:05   |          IRQ Timer Latency (us)        |         Thread Timer Latency (us)\n\
                    CPU COUNT      |      cur       min       avg       max |      cur       min       avg       max\n";
        let sum = "---------------|----------------------------------------|---------------------------------------\n\
                   ALL #4999   e0 |                  2        76      3681 |                 29       116      3782\n";
        let text = format!("{head}{}{head}{}{sum}", line(10, 90), line(4999, 3681));
        let run = read(&text, Unit::Guess).unwrap();
        assert_eq!(run.series.len(), 2, "the sum over all CPUs is not another CPU");
        let handler = run.of(Quantity::Timer).next().unwrap();
        assert_eq!(handler.histogram.count() + handler.lost, 4999);
        assert_eq!(handler.histogram.max(), Some(Ns::from_us(3681)));
        assert_eq!(run.max_of(Quantity::TimerWakeup), Some(Ns::from_us(3782)));
        // A later run has fewer samples, or a smaller maximum.
        for text in [
            format!("{head}{}{head}{}", line(4999, 3681), line(10, 3700)),
            head.to_owned() + &line(9, 90) + &line(10, 80),
        ] {
            let error = read(&text, Unit::Guess).unwrap_err();
            assert!(error.what.contains("a second result of rtla"), "{error}");
        }
        assert!(read("    Operating System Noise\n", Unit::Guess)
            .unwrap_err()
            .to_string()
            .contains("rtla osnoise hist"));
    }

    #[test]
    fn a_table_that_lacks_the_cpu_with_the_largest_latency_is_refused() {
        let table = "  0 12:00:00   |          IRQ Timer Latency (us)        |         Thread Timer Latency (us)\n\
                     CPU COUNT      |      cur       min       avg       max |      cur       min       avg       max\n \
                     1 #43200096  |        0         0         1         2 |        3         2         6        12\n\
                     ALL #119144 e4 |                  0         5         2 |                  2        28        16\n";
        let error = read(table, Unit::Guess).unwrap_err();
        assert_eq!(error.line, Some(4), "{error}");
        assert!(read(&table.replace("        16\n", "        12\n"), Unit::Guess).is_ok());
    }
}
