//! The histogram of Xenomai's `latency -h`: the lines HSD, with all samples in classes of 1 µs.
//!
//! The lines have the number of a class. Its width, 1 µs or the argument of `-B`, is not printed, so the summary must
//! agree with 1 µs. A sample is in the class of its absolute value, and the last class has all samples above it, too.
//! Samples count at the upper end of their class, or as the stated maximum: never too small.

use super::{at, FromFile, NotImportable};

/// Sizes of a histogram (`-H`) are multiples of it; the default is 200 classes.
const STEP_OF_SIZES: u64 = 50;

/// The classes of all samples: number and samples, in rising order.
#[derive(Default)]
pub(super) struct Classes {
    rows: Vec<(u64, u64)>,
    /// The number of samples by the statistics (HSS).
    total: Option<u64>,
}

/// All samples of the measurement, in ns.
pub(super) struct Samples {
    pub(super) rows: Vec<(u64, u64)>,
    /// Samples of the last class that are above it.
    pub(super) overflows: u64,
    pub(super) cycles: u64,
}

impl Classes {
    /// Takes a line of the histograms, also of those with the extremes of each second. `false` if it is another line.
    pub(super) fn add(&mut self, (number, line): (usize, &str)) -> Result<bool, NotImportable> {
        let find = |mark: &str| line.split_once(mark).map(|(_, figures)| figures);
        let Some(figures) = find("HSD|").or_else(|| find("HSS|")) else { return Ok(false) };
        let columns: Vec<&str> = figures.split('|').map(str::trim).collect();
        let [kind, first, second, ..] = columns[..] else { return Err(wrong(number, line)) };
        if kind != "avg" {
            return Ok(true);
        }
        if find("HSS|").is_some() {
            self.total = Some(first.parse().map_err(|_| wrong(number, line))?);
            return Ok(true);
        }
        let range = first.split_once('-').and_then(|(class, next)| {
            let (class, next) = (class.trim().parse::<u64>().ok()?, next.trim().parse::<u64>().ok()?);
            (class.checked_add(1) == Some(next)).then_some(class)
        });
        let is_next = |class: &u64| self.rows.last().is_none_or(|(last, _)| last < class);
        let class = range.filter(is_next).ok_or_else(|| wrong(number, line))?;
        self.rows.push((class, second.parse().map_err(|_| wrong(number, line))?));
        Ok(true)
    }

    /// The samples, if there is a histogram and it agrees with the summary of the `thread`.
    pub(super) fn checked(mut self, thread: &FromFile) -> Result<Option<Samples>, NotImportable> {
        let refuse = |what: String| Err(NotImportable { line: None, what });
        let (Some(&(first, _)), Some(&(last, most))) = (self.rows.first(), self.rows.last()) else {
            return Ok(None);
        };
        let (Some(min), Some(max), Some(avg)) = (thread.min, thread.max, thread.avg) else {
            return refuse(
                "the histogram of latency has no summary (RTS) after it: it is cut off".to_owned(),
            );
        };
        let Some(cycles) = self.rows.iter().try_fold(0u64, |sum, (_, samples)| sum.checked_add(*samples))
        else {
            return refuse("its counts add up to more than 2^64".to_owned());
        };
        if let Some(total) = self.total.filter(|total| *total != cycles) {
            return refuse(format!("'HSS' says {total}, the classes add up to {cycles}: truncated?"));
        }
        let start = |class: u64| class.saturating_mul(1_000);
        let mean = self.rows.iter().map(|(class, n)| *class as f64 * *n as f64).sum::<f64>() / cycles as f64;
        let is_above = start(last + 1) <= max;
        let is_full = (last + 1).is_multiple_of(STEP_OF_SIZES);
        if start(last) > max || is_above && !is_full || !is_above && avg > (mean + 1.01) * 1e3 {
            return refuse(format!(
                "the classes of latency end at {last}, the summary at {max} ns with a mean of {avg} ns: the classes are \
                 not of 1 µs (-B), or lines are missing"
            ));
        }
        let overflows = if is_above { most } else { 0 };
        if is_above {
            self.rows.pop();
        }
        let end = |class: u64| (start(class + 1) - 1).min(max);
        let mut rows: Vec<(u64, u64)> = self.rows.iter().map(|(class, n)| (end(*class), *n)).collect();
        // The least is known exactly.
        if let Some((_, samples)) = rows.first_mut().filter(|(_, n)| *n > 0 && min / 1_000 == first) {
            *samples -= 1;
            rows.insert(0, (min, 1));
        }
        rows.retain(|(_, samples)| *samples > 0);
        Ok(Some(Samples { rows, overflows, cycles }))
    }
}

fn wrong(number: usize, line: &str) -> NotImportable {
    at(number, format!("not a class of latencies, or not after the one before: {}", line.trim()))
}

#[cfg(test)]
mod tests {
    use crate::import::{read, Unit};
    use crate::time::Ns;

    /// As src/testsuite/latency/latency.c prints it.
    const TEXT: &str = "== Sampling period: 1000 us\n== Test mode: periodic user-mode task\n\
                        == All results in microseconds\n---|--param|----range-|--samples\n\
                        HSD|    min|   0 -  1 |        3\n---|--param|----range-|--samples\n\
                        HSD|    avg|   0 -  1 |        4\nHSD|    avg|   1 -  2 |     2691\n\
                        HSD|    avg|   2 -  3 |      300\nHSD|    avg|   5 -  6 |        5\n\
                        ---|--param|----range-|--samples\nHSD|    max|   5 -  6 |        3\n\
                        HSH|--param|--samples-|--average--|---stddev--\nHSS|    min|         3|      0.000|      0.000\n\
                        HSS|    avg|      3000|      1.105|      0.330\nHSS|    max|         3|      5.000|      0.000\n\
                        ---|-----------|-----------|-----------|--------|------|-------------------------\n\
                        RTS|      0.340|      1.606|      5.120|       1|     0|    00:00:03/00:00:03\n";

    #[test]
    fn the_histogram_has_all_samples_and_exact_extremes() {
        let run = read(TEXT, Unit::Guess).unwrap();
        let one = &run.series[0];
        assert_eq!((one.histogram.count(), one.lost, one.missed), (3_000, 0, Some(1)));
        assert_eq!((one.histogram.min(), one.histogram.max()), (Some(Ns(340)), Some(Ns(5_120))));
        let from = [1_000, 2_500, 3_000, 5_000].map(|ns| one.histogram.count_from(Ns(ns)));
        assert_eq!(from, [2_996, 305, 5, 5], "a sample from 2 to 3 µs may be late for 2.5 µs");
        assert_eq!(one.histogram.mean_ns(), Some(1_606.0), "of the file: the classes do not have it");
        assert_eq!(one.interval_ns, Some(Ns::from_us(1_000)));
        // The lines of each second come first, unless -q.
        let seconds = "RTT|  00:00:01  (periodic user-mode task, 1000 us period, priority 99)\n\
                       RTH|----lat min|----lat avg|----lat max|-overrun|---msw|---lat best|--lat worst\n\
                       RTD|      0.340|      1.606|      5.120|       1|     0|      0.340|      5.120\n";
        let whole = read(&TEXT.replacen("---|", &format!("{seconds}---|"), 1), Unit::Guess).unwrap();
        assert_eq!(whole.series[0].histogram, one.histogram);
    }

    #[test]
    fn the_samples_above_the_last_class_are_lost_but_for_the_largest() {
        let full = TEXT.replace("   5 -  6", " 199 -200").replace("5.120", "912.345");
        let run = read(&full, Unit::Guess).unwrap();
        let one = &run.series[0];
        assert_eq!((one.histogram.count(), one.lost, one.lost_below_max), (2_996, 4, true));
        assert_eq!(one.histogram.max(), Some(Ns(912_345)));
    }

    #[test]
    fn classes_of_another_width_and_damaged_ones_are_refused() {
        let refused = |text: &str| read(text, Unit::Guess).unwrap_err().to_string();
        for wrong in [
            TEXT.replace("5.120", "10.240"), // -B 2000: the values are twice as large
            TEXT.replace("5.120", "2.560"),  // -B 500
            TEXT.replace("1.606|      5.120", "2.900|      5.900"), // -B 2000 with a maximum that fits
        ] {
            assert!(refused(&wrong).contains("not of 1 µs"), "{wrong}");
        }
        assert!(refused(&TEXT.replace("HSD|    avg|   2 -  3 |      300\n", "")).contains("add up to 2700"));
        let cut = format!(
            "{}RTH|\nRTD|      0.340|      1.606|      5.120|       1\n",
            TEXT.split("RTS|").next().unwrap()
        );
        assert!(refused(&cut).contains("no summary (RTS)"), "{cut}");
        assert!(refused(&TEXT.replace("   1 -  2 |", "   6 -  7 |")).contains("line 9"));
        assert!(refused(&TEXT.replace("   1 -  2 |", "   1 -  3 |")).contains("line 8"));
    }
}
