//! The JSON of rt-tests, with its two known defects repaired: `-nan`, and quotes that were not escaped in the command.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde::Deserialize;

use super::{oslat, File, FromFile, NotImportable, MOST_THREADS};
use crate::series::Quantity;

#[derive(Deserialize)]
struct Top {
    #[serde(rename = "cmdline:", default)]
    cmdline_colon: Option<String>,
    #[serde(default)]
    cmdline: Option<String>,
    #[serde(default)]
    start_time: Option<String>,
    resolution_in_ns: Option<u8>,
    #[serde(default)]
    sysinfo: System,
    num_threads: Option<usize>,
    thread: Pairs<Entry>,
}

#[derive(Deserialize, Default)]
struct System {
    nodename: Option<String>,
    release: Option<String>,
    version: Option<String>,
    machine: Option<String>,
    realtime: Option<u8>,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    histogram: Pairs<u64>,
    histogram_overflows: Option<u64>,
    cycles: Option<u64>,
    min: Option<Figure>,
    max: Option<Figure>,
    avg: Option<f64>,
    cpu: Option<i64>,
    priority: Option<i32>,
    interval: Option<u64>,
    missed: Option<u64>,
}

/// A latency; oslat prints decimals where its classes are below 1 µs.
#[derive(Clone, Copy, Deserialize)]
#[serde(untagged)]
enum Figure {
    Whole(u64),
    Part(f64),
}

impl Figure {
    /// In units of the file: ns for oslat.
    fn value(self, is_oslat: bool) -> Result<u64, NotImportable> {
        let value = match self {
            Figure::Whole(us) if is_oslat => us.checked_mul(1_000),
            Figure::Whole(value) => Some(value),
            Figure::Part(us) if is_oslat && (0.0..1e12).contains(&us) => Some((us * 1e3).round() as u64),
            Figure::Part(_) => None,
        };
        value.ok_or_else(|| wrong("a latency that is not a whole number".to_owned()))
    }
}

/// An object with all members: a repeated name must be detected.
#[derive(Default)]
pub(super) struct Pairs<V>(pub(super) Vec<(String, V)>);

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Pairs<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Pairs<V>, D::Error> {
        deserializer.deserialize_map(InOrder(PhantomData)).map(Pairs)
    }
}

struct InOrder<V>(PhantomData<V>);

impl<'de, V: Deserialize<'de>> Visitor<'de> for InOrder<V> {
    type Value = Vec<(String, V)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        Ok(pairs)
    }
}

/// Reads a JSON file of rt-tests.
pub(super) fn parse(text: &str) -> Result<File, NotImportable> {
    let top: Top = match serde_json::from_str(text) {
        Ok(top) => top,
        Err(_) => serde_json::from_str(&repaired(text)).map_err(|error| NotImportable {
            line: Some(error.line()),
            what: format!("not the JSON of rt-tests: {error}"),
        })?,
    };
    let command = top.cmdline_colon.or(top.cmdline);
    let (tool, quantity) = command.as_deref().map_or(("rt-tests", Quantity::Cyclic), measures);
    // In ns, until it is known that no class of oslat is below 1 µs.
    let is_oslat = quantity == Quantity::Npt;
    let unit = if is_oslat || top.resolution_in_ns == Some(1) { 1 } else { 1_000 };
    let is_cyclic = quantity == Quantity::Cyclic;
    let unit_assumed = top.resolution_in_ns.is_none() && is_cyclic; // the others always use µs
    let mut file = File { unit_assumed, ..File::of(tool, quantity, unit) };
    let conditions = &mut file.conditions;
    conditions.command = command;
    conditions.started = top.start_time;
    conditions.host = top.sysinfo.nodename;
    conditions.kernel.release = top.sysinfo.release;
    conditions.kernel.version = top.sysinfo.version;
    conditions.kernel.realtime = top.sysinfo.realtime.map(|flag| flag == 1);
    conditions.machine.architecture = top.sysinfo.machine;
    let mut threads: Vec<(u32, Entry)> = Vec::new();
    for (name, entry) in top.thread.0 {
        let number = name.parse().map_err(|_| wrong(format!("thread '{name}' is not a number")))?;
        threads.push((number, entry));
    }
    if threads.len() > MOST_THREADS {
        return Err(wrong(format!("{} threads: no cyclictest has more than {MOST_THREADS}", threads.len())));
    }
    threads.sort_by_key(|(number, _)| *number);
    if let Some(number) = twice(&threads) {
        return Err(wrong(format!("thread {number} appears twice")));
    }
    if let Some(told) = top.num_threads.filter(|told| *told != threads.len()) {
        return Err(wrong(format!(
            "num_threads is {told}, but it has {} threads: truncated?",
            threads.len()
        )));
    }
    for (number, entry) in threads {
        let mut thread = from_entry(number, entry, is_oslat)?;
        if is_oslat {
            oslat::without_overflows(&mut thread);
        }
        let end = thread.rows.last().map_or(0, |(row, _)| row + 1);
        if let Some(what) = thread.contradiction(end) {
            return Err(NotImportable { line: None, what: format!("thread {number}: {what}") });
        }
        file.rows = file.rows.max(end);
        file.threads.push(thread);
    }
    if file.threads.is_empty() {
        return Err(wrong("it has no thread".to_owned()));
    }
    if is_oslat {
        oslat::in_us_if_whole(&mut file);
    }
    Ok(file)
}

/// The program and its quantity, from the command line in the JSON.
fn measures(command: &str) -> (&'static str, Quantity) {
    let program = command.split_whitespace().next().and_then(|word| word.rsplit('/').next());
    match program {
        Some("oslat") => ("oslat", Quantity::Npt),
        Some("signaltest") => ("signaltest", Quantity::Wakeup),
        _ => ("rt-tests", Quantity::Cyclic),
    }
}

fn wrong(what: String) -> NotImportable {
    NotImportable { line: None, what: format!("not the JSON of rt-tests: {what}") }
}

/// The first repeated number in `sorted`.
fn twice<N: Copy + PartialEq, V>(sorted: &[(N, V)]) -> Option<N> {
    sorted.windows(2).find(|pair| pair[0].0 == pair[1].0).map(|pair| pair[0].0)
}

fn from_entry(number: u32, entry: Entry, is_oslat: bool) -> Result<FromFile, NotImportable> {
    let mut rows = Vec::with_capacity(entry.histogram.0.len());
    for (row, count) in entry.histogram.0 {
        let value = if is_oslat { oslat::ns(&row) } else { row.parse().ok() };
        let row: u64 = value
            .filter(|row| *row < if is_oslat { 1_000 << 20 } else { 1 << 20 })
            .ok_or_else(|| wrong(format!("histogram row '{row}' is not a latency below 1048576")))?;
        rows.push((row, count));
    }
    rows.sort_unstable();
    if let Some(row) = twice(&rows) {
        return Err(wrong(format!("histogram row {row} of thread {number} appears twice")));
    }
    rows.retain(|(_, count)| *count > 0);
    let inside = rows.iter().try_fold(0u64, |sum, (_, count)| sum.checked_add(*count));
    let inside = inside.ok_or_else(|| wrong("its counts add up to more than 2^64".to_owned()))?;
    let cycles = entry.cycles.or_else(|| (!rows.is_empty()).then_some(inside)).ok_or_else(|| {
        wrong(format!(
            "thread {number} has neither 'cycles' nor a histogram: its number of samples is unknown"
        ))
    })?;
    if cycles < inside {
        return Err(wrong(format!("cycles is {cycles}, but the histogram has {inside} samples")));
    }
    let any = cycles > 0;
    let extreme =
        |figure: Option<Figure>| figure.filter(|_| any).map(|figure| figure.value(is_oslat)).transpose();
    Ok(FromFile {
        priority: entry.priority,
        interval_us: entry.interval,
        cpu: entry.cpu.and_then(|cpu| u32::try_from(cpu).ok()),
        cycles: Some(cycles),
        min: extreme(entry.min)?,
        avg: entry.avg.filter(|_| any).map(|avg| if is_oslat { avg * 1e3 } else { avg }),
        max: extreme(entry.max)?,
        overflows: entry.histogram_overflows.or_else(|| (!rows.is_empty()).then_some(cycles - inside)),
        rows,
        missed: entry.missed,
        ..FromFile::default()
    })
}

/// Repairs the known defects of rt-tests.
fn repaired(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        let command = line.strip_prefix("  \"cmdline:\": \"").and_then(|rest| rest.strip_suffix("\","));
        match command {
            Some(command) => {
                out += &format!("  \"cmdline:\": {},", serde_json::Value::from(command));
            }
            None => {
                out +=
                    &line.replace("\"avg\": -nan", "\"avg\": null").replace("\"avg\": nan", "\"avg\": null")
            }
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::{read, Unit};
    use crate::series::Quantity;

    #[test]
    fn json_of_other_programs_of_rt_tests_is_not_taken_for_wake_ups_of_a_timer() {
        let quantity = |command: &str| {
            let json = format!(
                "{{\"cmdline:\": \"{command}\", \"thread\": {{\"0\": {{\"cycles\": 9, \"min\": 1, \"max\": 13095}}}}}}"
            );
            read(&json, Unit::Guess).unwrap().series[0].quantity
        };
        for command in ["oslat --cpu-list 1 -D 1", "/usr/bin/oslat"] {
            assert_eq!(quantity(command), Quantity::Npt, "{command}");
        }
        assert_eq!(quantity("./signaltest -q -D 1"), Quantity::Wakeup);
        for command in ["", "cyclictest -q", "/opt/oslat/cyclictest-2.8", "cyclicdeadline -q"] {
            assert_eq!(quantity(command), Quantity::Cyclic, "{command}");
        }
    }
}
