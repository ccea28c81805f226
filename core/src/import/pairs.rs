//! ptsematest, svsematest, pmqtest and sigwaittest (rt-tests): latency from the sender's call to the receiver's return
//! from its wait. They report extremes and mean of each pair, without histogram.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::rt_json::Pairs;
use super::{at, File, FromFile, NotImportable, MOST_THREADS};
use crate::series::Quantity;

#[derive(Deserialize)]
struct Top {
    #[serde(rename = "cmdline:")]
    command: Option<String>,
    thread: Pairs<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    sender: Sender,
    receiver: Receiver,
}

#[derive(Deserialize)]
struct Sender {
    samples: u64,
    interval: Option<u64>,
}

#[derive(Deserialize)]
struct Receiver {
    cpu: Option<i64>,
    priority: Option<i32>,
    min: Option<u64>,
    avg: Option<f64>,
    max: Option<u64>,
}

/// `None` if the text is from another program.
pub(super) fn recognised(text: &str) -> Option<Result<File, NotImportable>> {
    if text.trim_start().starts_with('{') {
        let is_one = text.contains("\"sender\"") && text.contains("\"receiver\"");
        return is_one.then(|| of_json(text));
    }
    text.lines().any(|line| result(line).is_some()).then(|| of_text(text))
}

fn of_json(text: &str) -> Result<File, NotImportable> {
    let wrong =
        |what: String| NotImportable { line: None, what: format!("not the JSON of rt-tests: {what}") };
    let top: Top = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
    let mut file = File::of("rt-tests", Quantity::Wakeup, 1_000);
    file.conditions.command = top.command;
    for (_, Entry { sender, receiver }) in top.thread.0.into_iter().take(MOST_THREADS) {
        let any = sender.samples > 0;
        let thread = FromFile {
            cpu: receiver.cpu.and_then(|cpu| u32::try_from(cpu).ok()),
            priority: receiver.priority,
            interval_us: sender.interval,
            cycles: Some(sender.samples),
            min: receiver.min.filter(|_| any),
            avg: receiver.avg.filter(|_| any),
            max: receiver.max.filter(|_| any),
            ..FromFile::default()
        };
        file.threads.push(sound(None, thread)?);
    }
    if file.threads.is_empty() {
        return Err(wrong("it has no thread".to_owned()));
    }
    Ok(file)
}

/// The screen repeats the lines of each pair: the last one is used.
fn of_text(text: &str) -> Result<File, NotImportable> {
    let mut receivers: BTreeMap<u64, FromFile> = BTreeMap::new();
    let mut results: BTreeMap<u64, FromFile> = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        // Within one run, neither the cycles nor the maximum get smaller.
        let is_another_run = if let Some((receiver, thread)) = described(line) {
            let cycles = thread.cycles;
            receivers.insert(receiver, thread).is_some_and(|before| before.cycles > cycles)
        } else if let Some(fields) = result(line) {
            let (receiver, thread) = figures(index + 1, fields)?;
            let max = thread.max;
            results.insert(receiver, thread).is_some_and(|before| before.max > max)
        } else {
            false
        };
        if is_another_run {
            return Err(at(index + 1, "a second result of these programs: import each by itself"));
        }
    }
    let mut file = File::of("rt-tests", Quantity::Wakeup, 1_000);
    for (receiver, result) in results.into_iter().take(MOST_THREADS) {
        let Some(known) = receivers.remove(&receiver) else {
            let what = format!("there is no line with the number of cycles of thread #{receiver}");
            return Err(NotImportable { line: None, what });
        };
        file.threads
            .push(sound(None, FromFile { min: result.min, avg: result.avg, max: result.max, ..known })?);
    }
    Ok(file)
}

/// `#0: ID29750, P0, CPU0, I1000; #1: ID29751, P0, CPU0, Cycles 1000`: number and figures of the second.
fn described(line: &str) -> Option<(u64, FromFile)> {
    let (sender, receiver) = line.trim().strip_prefix('#')?.split_once("; #")?;
    let (number, receiver) = receiver.split_once(':')?;
    let field = |of: &str, name: &str| {
        of.split(", ").find_map(|field| field.trim().strip_prefix(name)?.trim().parse::<u64>().ok())
    };
    let thread = FromFile {
        tid: field(receiver, "ID").and_then(|tid| i32::try_from(tid).ok()),
        priority: field(receiver, "P").and_then(|priority| i32::try_from(priority).ok()),
        cpu: field(receiver, "CPU").and_then(|cpu| u32::try_from(cpu).ok()),
        interval_us: field(sender, "I").or_else(|| field(sender.split_once(':')?.1, "I")),
        cycles: Some(field(receiver, "Cycles ")?),
        ..FromFile::default()
    };
    Some((number.parse().ok()?, thread))
}

/// `#1 -> #0, Min 3, Cur 45, Avg 4, Max 45`: the number of the pair and the figures.
pub(super) fn result(line: &str) -> Option<(u64, &str)> {
    let (receiver, rest) = line.trim().strip_prefix('#')?.split_once(" -> #")?;
    let (_, figures) = rest.split_once(", ")?;
    figures.starts_with("Min").then_some((receiver.parse().ok()?, figures))
}

fn figures(number: usize, (receiver, text): (u64, &str)) -> Result<(u64, FromFile), NotImportable> {
    let value = |name: &str| -> Result<u64, NotImportable> {
        let field = text.split(", ").find_map(|field| field.trim().strip_prefix(name));
        let value = field.and_then(|value| value.trim().parse().ok());
        value.ok_or_else(|| at(number, format!("no whole number after '{name}': {text}")))
    };
    let avg = Some(value("Avg")? as f64);
    let thread = FromFile { min: Some(value("Min")?), avg, max: Some(value("Max")?), ..FromFile::default() };
    Ok((receiver, sound(Some(number), thread)?))
}

fn sound(line: Option<usize>, thread: FromFile) -> Result<FromFile, NotImportable> {
    match (thread.min, thread.max) {
        (Some(min), Some(max)) if max < min => {
            Err(NotImportable { line, what: format!("the maximum is {max}, but the minimum is {min}") })
        }
        _ => Ok(thread),
    }
}

#[cfg(test)]
mod tests {
    use crate::import::{read, Unit};
    use crate::series::Quantity;
    use crate::time::{Cpu, Ns};

    const TEXT: &str = "#0: ID29760, P80, CPU0, I1000; #1: ID29761, P80, CPU0, TO 0, Cycles 1000\n\
                        #2: ID29762, P80, CPU1, I1500; #3: ID29763, P80, CPU1, TO 0, Cycles 710\n\
                        #1 -> #0, Min    4, Cur    6, Avg   18, Max 11983\n#3 -> #2, Min    4, Cur    7, Avg    7, Max  148\n";

    #[test]
    fn a_pair_has_its_extremes_and_the_number_of_its_samples() {
        let run = read(TEXT, Unit::Guess).unwrap();
        let series: Vec<_> = run.of(Quantity::Wakeup).collect();
        assert_eq!((series[0].cpu, series[0].interval_ns), (Some(Cpu(0)), Some(Ns::from_us(1000))));
        assert_eq!(series[0].histogram.max(), Some(Ns::from_us(11_983)));
        assert_eq!(series[0].histogram.count() + series[0].lost, 1000);
        assert!(series[0].lost_below_max);
        assert_eq!(series[1].histogram.max(), Some(Ns::from_us(148)));
        let refused = |text: &str| read(text, Unit::Guess).unwrap_err().to_string();
        assert!(refused(&TEXT.replace("Max  148", "Max  1.48")).contains("line 4"));
        assert!(refused(&TEXT.replace("Max  148", "Max    1")).contains("maximum is 1"));
        let worse = TEXT.replace("11983", "91983");
        assert!(refused(&(worse + TEXT)).contains("line 7: a second result"), "its maximum is not left out");
        assert!(
            refused(&(TEXT.replace("Cycles 1000", "Cycles 2000") + TEXT)).contains("line 5: a second result")
        );
        assert!(read(&TEXT.repeat(2), Unit::Guess).is_ok(), "a screen");
    }

    #[test]
    fn so_does_the_json() {
        let json = r#"{"cmdline:": "ptsematest -S", "num_threads": 1, "thread": {"0": {"sender": {"cpu": 0, "priority": 0,
            "samples": 1000, "interval": 1000}, "receiver": {"cpu": 0, "priority": 0, "min": 3, "avg": 3.93, "max": 45}}}}"#;
        let run = read(json, Unit::Guess).unwrap();
        let one = run.of(Quantity::Wakeup).next().unwrap();
        assert_eq!((one.histogram.max(), one.histogram.count() + one.lost), (Some(Ns::from_us(45)), 1000));
    }
}
