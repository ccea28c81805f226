//! The lines of Xenomai's `latency` and EVL's `latmus` (RTT, RTH, RTD, RTS): extremes and mean of each second, in µs with three
//! decimals.
//!
//! The number of samples is not printed: it is computed from the time and the period, to within a second. Both extremes
//! of each second are samples; of the others only the overall mean is known. The histogram of `latency -h` has all samples.

use super::{at, File, FromFile, NotImportable};
use crate::series::Quantity;

mod histogram;

/// `None` if the text is from another program.
pub(super) fn recognised(text: &str) -> Option<Result<File, NotImportable>> {
    let has = |what: &str| text.lines().any(|line| line.contains(what));
    if has("RTD|") && ["ovl min|", "ovl max|", "jit fast|"].iter().any(|column| has(column)) {
        let what = "this is the output of RTAI's latency or preempt test, which is not read (its number of samples is not in it): measure with `lathunt cyclic`";
        return Some(Err(NotImportable { line: None, what: what.to_owned() }));
    }
    (has("RTH|") && has("RTD|") || has("HSD|") && has("RTS|")).then(|| parse(text))
}

fn parse(text: &str) -> Result<File, NotImportable> {
    let mut file = File::of("Xenomai's latency or EVL's latmus", Quantity::Cyclic, 1);
    let mut thread = FromFile::default();
    let (mut seconds, mut total, mut classes) = (0u64, None, histogram::Classes::default());
    let mut worst = None;
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        if let Some(at) = line.find("RTT|") {
            (thread.interval_us, thread.priority) = (before(line, " us period"), after(line, "priority "));
            file.conditions.notes.push(format!("measured: {}", line[at + 4..].trim()));
        } else if let Some((_, period)) = line.split_once("== Sampling period:") {
            thread.interval_us = period.trim().strip_suffix(" us").and_then(|us| us.parse().ok());
        } else if classes.add((number, line))? {
            continue;
        } else if let Some((_, figures)) = line.split_once("RTD|") {
            let columns: Vec<&str> = figures.split('|').map(str::trim).collect();
            let [min, avg, max, overrun, ..] = columns[..] else {
                return Err(at(number, format!("not a line of latencies: {}", line.trim())));
            };
            let (min, max) = (ns(number, min)?, ns(number, max)?);
            if max < min {
                return Err(at(number, format!("the maximum is {max} ns, but the minimum is {min} ns")));
            }
            ns(number, avg)?;
            // The largest until then (lat worst), which may be of a second before the text starts.
            if let Some(largest) = columns[4..].iter().rfind(|column| column.contains('.')) {
                worst = worst.max(Some(ns(number, largest)?));
            }
            thread.rows.extend([(min, 1), (max, 1)]);
            thread.missed = Some(count(number, overrun)?);
            seconds += 1;
        } else if let Some((_, figures)) = line.split_once("RTS|") {
            let columns: Vec<&str> = figures.split('|').map(str::trim).collect();
            let [min, avg, max, overrun, ..] = columns[..] else {
                return Err(at(number, format!("not a summary: {}", line.trim())));
            };
            (thread.min, thread.max) = (Some(ns(number, min)?), Some(ns(number, max)?));
            thread.avg = Some(ns(number, avg)? as f64);
            thread.missed = Some(count(number, overrun)?);
            // Tables of Markdown have more bars at the end.
            total = columns.iter().rev().find_map(|time| duration(time));
        }
    }
    let all = classes.checked(&thread)?;
    let listed = thread.rows.iter().map(|(value, _)| *value).max().max(worst);
    if let (Some(told), Some(listed)) = (thread.max, listed)
        && listed > told
    {
        let what = format!("the summary's maximum is {told} ns, but there is a sample of {listed} ns");
        return Err(NotImportable { line: None, what });
    }
    if thread.max.is_none() {
        file.conditions.notes.push("there is no summary (RTS): the measurement was cut off".to_owned());
    }
    thread.max = thread.max.or(listed);
    if let Some(all) = all {
        thread.are_rows_rounded = true;
        (thread.rows, thread.overflows, thread.cycles) = (all.rows, Some(all.overflows), Some(all.cycles));
    } else {
        let period = thread.interval_us.filter(|period| *period > 0);
        let known = thread.rows.len() as u64;
        let expected =
            period.map_or(known, |period| total.unwrap_or(seconds).saturating_mul(1_000_000) / period);
        thread.cycles = Some(expected.max(known));
        thread.overflows = thread.cycles.map(|all| all - known);
        file.conditions
            .notes
            .push("the number of samples is computed from the time and the period".to_owned());
    }
    file.rows = 1 << 20;
    thread.rows.sort_unstable();
    file.threads.push(thread);
    Ok(file)
}

/// `1.393` µs, exactly.
fn ns(line: usize, text: &str) -> Result<u64, NotImportable> {
    let wrong = || at(line, format!("'{text}' is not a latency in µs"));
    // Early wake-ups have latency 0.
    let (whole, part) = text.trim_start_matches('-').split_once('.').ok_or_else(wrong)?;
    let (whole, part) =
        (whole.parse::<u64>().map_err(|_| wrong())?, Some(part).filter(|part| part.len() == 3));
    let part = part.and_then(|part| part.parse::<u64>().ok()).ok_or_else(wrong)?;
    let value = whole.checked_mul(1_000).and_then(|us| us.checked_add(part)).ok_or_else(wrong)?;
    Ok(if text.starts_with('-') { 0 } else { value })
}

fn count(line: usize, text: &str) -> Result<u64, NotImportable> {
    text.parse().map_err(|_| at(line, format!("'{text}' is not a number of overruns")))
}

/// `00:00:04/00:00:04`: the seconds measured.
fn duration(text: &str) -> Option<u64> {
    let mut parts = text.split('/').next()?.trim().split(':').map(|part| part.parse::<u64>().ok());
    let (hours, minutes, seconds) = (parts.next()??, parts.next()??, parts.next()??);
    hours.checked_mul(3_600)?.checked_add(minutes.checked_mul(60)?)?.checked_add(seconds)
}

fn before(line: &str, what: &str) -> Option<u64> {
    line.split_once(what)?.0.rsplit(' ').next()?.parse().ok()
}

fn after(line: &str, what: &str) -> Option<i32> {
    line.split_once(what)?.1.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use crate::import::{read, Unit};
    use crate::series::Quantity;
    use crate::time::Ns;

    const TEXT: &str =
        "== Sampling period: 100 us\nRTT|  00:00:01  (periodic user-mode task, 100 us period, priority 99)\n\
                        RTH|----lat min|----lat avg|----lat max|-overrun|---msw|---lat best|--lat worst\n\
                        RTD|      1.393|      2.908|     21.765|       0|     0|      1.393|     21.765\n\
                        RTD|     -0.740|      2.933|    119.253|       2|     0|     -0.740|    119.253\n\
                        ^C---|-----------|-----------|-----------|--------|------|-------------------------\n\
                        RTS|     -0.740|      2.955|    119.253|       2|     0|    00:00:02/00:00:02\n";

    #[test]
    fn the_extremes_of_each_second_are_samples_and_overruns_are_missed() {
        let run = read(TEXT, Unit::Guess).unwrap();
        let one = run.of(Quantity::Cyclic).next().unwrap();
        assert_eq!(one.histogram.max(), Some(Ns(119_253)));
        assert_eq!((one.histogram.count(), one.histogram.count() + one.lost), (4, 20_000));
        assert_eq!((one.missed, one.interval_ns), (Some(2), Some(Ns::from_us(100))));
        assert!(one.lost_below_max);
        let barred = TEXT.replace("00:00:02/00:00:02", "00:00:09/00:00:09||");
        let one = read(&barred, Unit::Guess).unwrap().series.remove(0);
        assert_eq!(one.histogram.count() + one.lost, 90_000, "bars after the time that was measured");
        let refused = |text: &str| read(text, Unit::Guess).unwrap_err().to_string();
        assert!(refused(&TEXT.replace("119.253|       2|     0|    00", "21.253|       2|     0|    00"))
            .contains("a sample of 119253"));
        assert!(refused(&TEXT.replace("21.765|       0", "21,765|       0")).contains("line 4"));
        // The seconds before are not in the text, but their largest latency is.
        let later = TEXT[..TEXT.find("RTS|").unwrap()]
            .replace("119.253\n", "204.500\n")
            .replace("21.765\n", "204.500\n");
        let one = read(&later, Unit::Guess).unwrap().series.remove(0);
        assert_eq!((one.histogram.max(), one.lost_below_max), (Some(Ns(204_500)), true));
    }
}
