//! The JSON of jitterdebugger: timer wake-up latency, one histogram per CPU.

use serde::Deserialize;

use super::rt_json::Pairs;
use super::{File, FromFile, NotImportable, MOST_THREADS};
use crate::series::Quantity;

#[derive(Deserialize)]
struct Top {
    #[serde(default)]
    sysinfo: System,
    cpu: Pairs<Entry>,
}

#[derive(Deserialize, Default)]
struct System {
    nodename: Option<String>,
    release: Option<String>,
    version: Option<String>,
    machine: Option<String>,
    resolution_in_ns: Option<u64>,
}

#[derive(Deserialize)]
struct Entry {
    histogram: Pairs<u64>,
    count: u64,
    min: Option<u64>,
    max: Option<u64>,
    avg: Option<f64>,
}

/// `None` where this is not its JSON.
pub(super) fn recognised(text: &str) -> Option<Result<File, NotImportable>> {
    let is_json = text.trim_start().starts_with('{') && text.contains("\"cpu\"");
    let value = is_json.then(|| serde_json::from_str::<serde_json::Value>(text).ok()).flatten()?;
    value.get("cpu").is_some_and(serde_json::Value::is_object).then(|| parse(text))
}

fn parse(text: &str) -> Result<File, NotImportable> {
    let top: Top = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
    let unit = top.sysinfo.resolution_in_ns.unwrap_or(1_000);
    if !matches!(unit, 1 | 1_000) {
        return Err(wrong(format!("resolution_in_ns is {unit}, neither 1 nor 1000")));
    }
    let mut file = File::of("jitterdebugger", Quantity::Cyclic, unit);
    file.unit_assumed = top.sysinfo.resolution_in_ns.is_none();
    file.conditions.host = top.sysinfo.nodename;
    file.conditions.kernel.release = top.sysinfo.release;
    file.conditions.kernel.version = top.sysinfo.version;
    file.conditions.machine.architecture = top.sysinfo.machine;
    for (cpu, entry) in top.cpu.0 {
        let thread = of_cpu(&cpu, entry)?;
        if file.threads.iter().any(|other| other.cpu == thread.cpu) {
            return Err(wrong(format!("CPU {cpu} appears twice")));
        }
        file.rows = file.rows.max(thread.rows.last().map_or(0, |(row, _)| row.saturating_add(1)));
        file.threads.push(thread);
    }
    match file.threads.len() {
        1..=MOST_THREADS => Ok(file),
        cpus => Err(wrong(format!("it has {cpus} CPUs"))),
    }
}

fn of_cpu(cpu: &str, entry: Entry) -> Result<FromFile, NotImportable> {
    let number = cpu.parse().map_err(|_| wrong(format!("CPU '{cpu}' is not a number")))?;
    let mut rows = Vec::with_capacity(entry.histogram.0.len());
    for (row, count) in entry.histogram.0 {
        let row = row.parse().map_err(|_| wrong(format!("histogram row '{row}' is not a latency")))?;
        rows.push((row, count));
    }
    rows.sort_unstable();
    if let Some(pair) = rows.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(wrong(format!("histogram row {} of CPU {cpu} appears twice", pair[0].0)));
    }
    let mut thread = FromFile { cpu: Some(number), cycles: Some(entry.count), rows, ..FromFile::default() };
    let any = entry.count > 0;
    (thread.min, thread.avg, thread.max) =
        (entry.min.filter(|_| any), entry.avg.filter(|_| any), entry.max.filter(|_| any));
    let inside = thread.inside().filter(|inside| *inside <= entry.count);
    let Some(inside) = inside else {
        return Err(wrong(format!("count of CPU {cpu} is {}, but the histogram has more", entry.count)));
    };
    thread.overflows = Some(entry.count - inside);
    let end = thread.rows.last().map_or(0, |(row, _)| row.saturating_add(1));
    match thread.contradiction(end) {
        Some(what) => Err(wrong(format!("CPU {cpu}: {what}"))),
        None => Ok(thread),
    }
}

fn wrong(what: String) -> NotImportable {
    NotImportable { line: None, what: format!("not the JSON of jitterdebugger: {what}") }
}

#[cfg(test)]
mod tests {
    use crate::import::{read, Unit};
    use crate::series::Quantity;
    use crate::time::Ns;

    const JSON: &str = r#"{"version": 3, "sysinfo": {"nodename": "board", "resolution_in_ns": 1000}, "cpu": {
        "0": {"histogram": {"2": 100, "3": 900, "22": 1}, "count": 1001, "min": 2, "max": 22, "avg": 2.92},
        "1": {"histogram": {"2": 500, "3": 500}, "count": 1003, "min": 2, "max": 1520, "avg": 4.01}}}"#;

    #[test]
    fn the_maximum_above_the_rows_is_kept_and_the_others_there_are_lost() {
        let run = read(JSON, Unit::Guess).unwrap();
        let series: Vec<_> = run.of(Quantity::Cyclic).collect();
        assert_eq!((series[0].histogram.count(), series[0].histogram.max()), (1001, Some(Ns::from_us(22))));
        assert_eq!((series[1].histogram.count(), series[1].lost), (1001, 2));
        assert_eq!(series[1].histogram.max(), Some(Ns::from_us(1520)));
        assert!(series.iter().all(|one| one.missed.is_none()), "it does not count them");
        assert_eq!(run.conditions.host.as_deref(), Some("board"));
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let refused =
            |from: &str, to: &str| read(&JSON.replace(from, to), Unit::Guess).unwrap_err().to_string();
        assert!(refused("\"max\": 22", "\"max\": 3").contains("sample at 22"));
        assert!(refused("\"count\": 1001", "\"count\": 10").contains("histogram has more"));
        assert!(refused("\"3\": 900", "\"2\": 900").contains("twice"));
        assert!(refused("1000}", "17}").contains("neither 1 nor 1000"));
    }
}
