//! The table of a histogram that the kernel keeps of events: the file `hist` of an event with a `hist` trigger
//! (Documentation/trace/histogram.rst), as of the synthetic event wakeup_latency.
//!
//! A latency is a key of the table, or the `max` of onmax(), beside which the other samples are unknown. The table states
//! neither units nor what its keys mean: the latency is the only key that does not name a thread, a priority or a CPU.

use std::collections::BTreeMap;

use super::{at, File, FromFile, NotImportable, Unit, MOST_THREADS};
use crate::series::Quantity;

/// Keys that say whose the latency is. The first two separate series.
const WHOSE: [&str; 3] = ["cpu", "pid", "tid"];
const OTHERS: [&str; 4] = ["prio", "comm", "tgid", "stacktrace"];

/// `None` if the text is not such a table.
pub(super) fn recognised(text: &str, unit: Unit) -> Option<Result<File, NotImportable>> {
    is_table(text).then(|| parse(text, unit))
}

fn is_table(text: &str) -> bool {
    text.lines().any(|line| line.starts_with("# trigger info: hist:"))
        || text.lines().any(|line| entry(line).is_some())
}

/// Whether a line begins a table; several events have several.
pub(super) fn begins(line: &str) -> bool {
    line.starts_with("# trigger info: hist:")
}

fn parse(text: &str, unit: Unit) -> Result<File, NotImportable> {
    let mut table = Table::default();
    let mut threads: BTreeMap<(Option<u32>, Option<i32>), FromFile> = BTreeMap::new();
    let mut last = None;
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        if let Some(entry) = entry(line) {
            let hits = entry.hits.ok_or_else(|| at(number, format!("no hitcount: {}", line.trim())))?;
            let latency = table.latency(&entry.keys).map_err(|what| at(number, what))?;
            let whose = whose(&entry.keys);
            let thread = threads.entry(whose).or_insert_with(|| FromFile {
                cpu: whose.0,
                tid: whose.1,
                cycles: Some(0),
                ..FromFile::default()
            });
            let sum = |sum: Option<u64>| sum.unwrap_or(0).checked_add(hits);
            thread.cycles = Some(sum(thread.cycles).ok_or_else(|| at(number, "too many hits"))?);
            table.entered = sum(Some(table.entered)).ok_or_else(|| at(number, "too many hits"))?;
            thread.rows.extend(latency.map(|latency| (latency, hits)));
            last = Some((whose, latency.is_some()));
        }
        let Some((name, value)) = line.split_once(':') else { continue };
        let value = || value.split_whitespace().next().and_then(|value| value.parse::<u64>().ok());
        match name.trim() {
            "max" => {
                let (Some((whose, false)), Some(max)) = (last, value()) else { continue };
                threads.entry(whose).and_modify(|thread| thread.max = thread.max.max(Some(max)));
            }
            "Hits" => table.hits = value(),
            "Dropped" => table.dropped = value(),
            _ => {}
        }
    }
    table.into_file(threads.into_values().collect(), unit)
}

/// One line of the table.
struct Entry<'t> {
    keys: Vec<(&'t str, &'t str)>,
    hits: Option<u64>,
}

/// `{ pid: 2085, lat: 7 } hitcount: 1`
fn entry(line: &str) -> Option<Entry<'_>> {
    let (keys, values) = line.trim().strip_prefix("{ ")?.split_once(" } hitcount:")?;
    let keys = keys.split(", ").filter_map(|key| key.split_once(':'));
    let keys = keys.map(|(name, value)| (name.trim(), value.trim())).collect();
    Some(Entry { keys, hits: values.split_whitespace().next().and_then(|hits| hits.parse().ok()) })
}

fn is_one_of(key: &str, names: &[&str]) -> bool {
    let bare = key.rsplit_once('.').map_or(key, |(bare, _)| bare);
    names.iter().any(|name| bare == *name || bare.ends_with(&format!("_{name}")))
}

/// CPU and thread of an entry; a thread may be printed as `cyclictest[2085]`.
fn whose(keys: &[(&str, &str)]) -> (Option<u32>, Option<i32>) {
    let of = |names: &[&str]| keys.iter().find(|(key, _)| is_one_of(key, names)).map(|(_, value)| *value);
    let tid = of(&WHOSE[1..]).and_then(|value| {
        let number = value.rsplit_once('[').map_or(value, |(_, number)| number.trim_end_matches(']'));
        number.trim().parse().ok()
    });
    (of(&WHOSE[..1]).and_then(|cpu| cpu.parse().ok()), tid)
}

/// The upper edge of a value: `~ 2^3` is above 4 and up to 8, `~ 10-19` up to 19.
fn upper_edge(value: &str) -> Option<u64> {
    let Some(class) = value.strip_prefix("~ ") else {
        return match value.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => value.parse().ok(),
        };
    };
    match class.trim().strip_prefix("2^") {
        Some(power) => power.trim().parse().ok().and_then(|power| 1u64.checked_shl(power)),
        None => class.split_once('-')?.1.trim().parse().ok(),
    }
}

/// What belongs to the whole table.
#[derive(Default)]
struct Table {
    /// The key that is the latency; `Some("")`: none is.
    key: Option<String>,
    entered: u64,
    hits: Option<u64>,
    dropped: Option<u64>,
}

impl Table {
    /// The latency of an entry; `None`: its keys have none.
    fn latency(&mut self, keys: &[(&str, &str)]) -> Result<Option<u64>, String> {
        let is_measure = |key: &str| !is_one_of(key, &WHOSE) && !is_one_of(key, &OTHERS);
        let measures: Vec<_> = keys.iter().filter(|(key, _)| is_measure(key)).collect();
        let (name, value) = match measures[..] {
            [] => ("", None),
            [(key, value)] => (*key, Some(*value)),
            [(a, _), (b, _), ..] => {
                return Err(format!(
                    "'{a}' and '{b}' are keys of this histogram: which of them is the latency?"
                ))
            }
        };
        if self.key.get_or_insert_with(|| name.to_owned()) != name {
            return Err("this entry has other keys than the one before".to_owned());
        }
        match value.map(|value| upper_edge(value).ok_or(value)) {
            None => Ok(None),
            Some(Ok(latency)) => Ok(Some(latency)),
            Some(Err(value)) => Err(format!("the value of key '{name}' is not a latency: {value}")),
        }
    }

    fn into_file(self, mut threads: Vec<FromFile>, unit: Unit) -> Result<File, NotImportable> {
        let wrong = |what: &str| Err(NotImportable { line: None, what: what.to_owned() });
        let (Some(hits), Some(dropped)) = (self.hits, self.dropped) else {
            return wrong("the histogram of events has no totals (Hits, Dropped): it is cut off");
        };
        // Read while it counts, it may have more hits than entries, whose latencies are not known; never fewer.
        let Some(unknown) = hits.checked_sub(self.entered) else {
            return wrong(
                "the histogram of events has more samples than hits: lines of two tables, or damage",
            );
        };
        let unknown = unknown.max(dropped);
        let key = self.key.unwrap_or_default();
        if key.is_empty() && threads.iter().all(|thread| thread.max.is_none()) {
            return wrong("no key of this histogram of events is a latency, and it has no maxima (onmax)");
        }
        if threads.len() > MOST_THREADS {
            return wrong("too many threads");
        }
        let ns = match unit {
            Unit::Us => 1_000,
            Unit::Ns => 1,
            Unit::Guess if ["_ns", "nsecs", "nsec"].iter().any(|end| key.ends_with(end)) => 1,
            Unit::Guess => 1_000,
        };
        let mut file = File::of("a hist trigger of the kernel", Quantity::Wakeup, ns);
        file.unit_assumed = unit == Unit::Guess
            && ns == 1_000
            && !["_us", "usecs", "usec"].iter().any(|end| key.ends_with(end));
        for thread in &mut threads {
            merge(&mut thread.rows);
            file.rows = file.rows.max(thread.rows.last().map_or(0, |(row, _)| row.saturating_add(1)));
            thread.overflows = match thread.rows.is_empty() {
                true => None,
                false => Some(0),
            };
        }
        if let Some(first) = threads.first_mut() {
            first.absent = unknown;
        }
        file.threads = threads;
        Ok(file)
    }
}

/// One row for each value, ascending.
fn merge(rows: &mut Vec<(u64, u64)>) {
    rows.sort_unstable();
    rows.dedup_by(|(value, count), (kept, sum)| {
        let same = value == kept;
        *sum += if same { *count } else { 0 };
        same
    });
}

#[cfg(test)]
mod tests {
    use crate::import::{read, Unit};
    use crate::series::Quantity;
    use crate::time::{Cpu, Ns, Tid};

    const TABLE: &str = "# event histogram\n#\n# trigger info: hist:keys=pid,prio,lat:vals=hitcount:sort=pid,lat:size=2048 [active]\n#\n\n\
        { pid:       2085, prio:        120, lat:          7 } hitcount:          1\n\
        { pid:       2085, prio:        120, lat:         19 } hitcount:         12\n\
        { pid:       2085, prio:         19, lat:          7 } hitcount:          3\n\
        { pid:       2086, prio:         19, lat:         41 } hitcount:        250\n\n\
        Totals:\n    Hits: 266\n    Entries: 4\n    Dropped: 0\n";

    #[test]
    fn the_latency_is_the_key_that_is_no_thread_and_each_thread_has_its_own() {
        let run = read(TABLE, Unit::Guess).unwrap();
        let of: Vec<_> = run
            .of(Quantity::Wakeup)
            .map(|one| {
                (one.thread.as_ref().unwrap().tid, one.histogram.count(), one.histogram.max(), one.lost)
            })
            .collect();
        let us = |us| Some(Ns::from_us(us));
        assert_eq!(of, [(Tid(2085), 16, us(19), 0), (Tid(2086), 250, us(41), 0)]);
        assert!(run.complete && run.conditions.notes.iter().any(|note| note.contains("µs are assumed")));
        let run = read(TABLE, Unit::Ns).unwrap();
        assert_eq!(run.of(Quantity::Wakeup).filter_map(|one| one.histogram.max()).max(), Some(Ns(41)));
        let by_cpu = TABLE.replace("pid:       2085, ", "cpu: 3, ").replace("pid:       2086, ", "cpu: 4, ");
        let run = read(&by_cpu.replace(" lat:", " lat_ns:"), Unit::Guess).unwrap();
        let cpus: Vec<_> = run.of(Quantity::Wakeup).map(|one| (one.cpu, one.histogram.max())).collect();
        assert_eq!(cpus, [(Some(Cpu(3)), Some(Ns(19))), (Some(Cpu(4)), Some(Ns(41)))]);
    }

    #[test]
    fn a_class_counts_as_its_upper_edge() {
        let class = |value: &str| {
            let run = read(&TABLE.replace("        41 ", value), Unit::Us).unwrap();
            run.of(Quantity::Wakeup).filter_map(|one| one.histogram.max()).max().unwrap()
        };
        assert_eq!(class("~ 2^6 "), Ns::from_us(64));
        assert_eq!(class("~ 40-49 "), Ns::from_us(49));
        assert_eq!(class("0x29 "), Ns::from_us(41));
    }

    #[test]
    fn of_a_maximum_the_other_samples_are_missing_but_not_larger() {
        let onmax = "# event histogram\n#\n# trigger info: hist:keys=next_pid:vals=hitcount:wakeup_lat=common_timestamp.usecs-$ts0:onmax($wakeup_lat).save(next_comm):sort=hitcount:size=2048 [active]\n#\n\n\
            { next_pid:       2255 } hitcount:        239\n  common_timestamp-ts0:          0\n  max:         27\n  next_comm: cyclictest\n\
            { next_pid:       2256 } hitcount:       2355\n  common_timestamp-ts0: 0\n  max:         49  next_comm: cyclictest\n\n\
            Totals:\n    Hits: 12970\n    Entries: 2\n    Dropped: 0\n";
        let all = onmax.replace("12970", "2594");
        let run = read(&all, Unit::Guess).unwrap();
        let of: Vec<_> = run
            .of(Quantity::Wakeup)
            .map(|one| (one.histogram.max(), one.histogram.count() + one.lost, one.lost_below_max))
            .collect();
        let us = |us| Some(Ns::from_us(us));
        assert_eq!(of, [(us(27), 239, true), (us(49), 2355, true)]);
        // Hits that are in no entry may be larger.
        let run = read(onmax, Unit::Guess).unwrap();
        assert!(!run.complete && !run.series[0].lost_below_max && run.series[0].lost >= 12970 - 2594);
    }

    #[test]
    fn what_is_dropped_is_missing_and_what_is_unclear_is_refused() {
        let dropped = TABLE.replace("Hits: 266", "Hits: 269").replace("Dropped: 0", "Dropped: 3");
        let run = read(&dropped, Unit::Guess).unwrap();
        assert_eq!((run.series[0].lost, run.series[0].lost_below_max, run.complete), (3, false, false));
        let refused = |text: &str| read(text, Unit::Guess).unwrap_err().to_string();
        for (text, why) in [
            (TABLE.replace("Hits: 266", "Hits: 200"), "more samples than hits"),
            (TABLE[..TABLE.find("Totals").unwrap()].to_owned(), "cut off"),
            (TABLE.replace("lat: ", "delta: 1, lat: "), "which of them"),
            (TABLE.replace("         41 ", "soon "), "not a latency: soon"),
            (TABLE.replace("prio:         19, lat:         41 ", "prio: 19 "), "other keys"),
            (
                TABLE
                    .replace(", lat:          7", "")
                    .replace(", lat:         19", "")
                    .replace(", lat:         41", ""),
                "no key",
            ),
            (format!("{TABLE}{TABLE}"), "import each by itself"),
        ] {
            assert!(refused(&text).contains(why), "{}: {text}", refused(&text));
        }
    }
}
