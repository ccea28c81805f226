//! Our reading of trace.dat against `trace-cmd report -R -t` of the same files (see tests/data/trace_dat/README.md).

use std::collections::BTreeSet;

use lathunt_core::trace::catalogue::EventClass;
use lathunt_core::trace::event::Kind;
use lathunt_core::trace::item::{Item, Record, Span};
use lathunt_core::trace::normalize::Normalizer;
use lathunt_core::trace::source::Source;
use lathunt_core::trace::trace_dat::TraceDat;
use lathunt_core::trace::value::Value;

const LOST: (&[u8], &str) = fixture!("v7_lost");
const ZSTD: (&[u8], &str) = fixture!("v7_zstd");
const OFFSET: (&[u8], &str) = fixture!("v7_offset");
const TWO_BUFFERS: (&[u8], &str) = fixture!("v6_two_buffers");
const BIG_PAGES: (&[u8], &str) = fixture!("v6_big_pages");

macro_rules! fixture {
    ($name:literal) => {
        (
            include_bytes!(concat!("data/trace_dat/", $name, ".dat")),
            include_str!(concat!("data/trace_dat/", $name, ".report")),
        )
    };
}
use fixture;

/// Events of this recording without a kind.
const NO_KIND: [&str; 4] =
    ["sched_prepare_exec", "sched_process_free", "sched_process_wait", "sched_stat_runtime"];

/// One line of the report: CPU, time in ns, event, and the text of its fields; or CPU and events dropped.
#[derive(Debug, PartialEq)]
enum Line<'a> {
    Event { cpu: u32, at: u64, pid: i64, event: &'a str, fields: &'a str },
    Dropped { cpu: u32, count: u64 },
}

fn lines(report: &str) -> Vec<Line<'_>> {
    report.lines().filter_map(line).collect()
}

fn line(line: &str) -> Option<Line<'_>> {
    if let Some((_, rest)) = line.split_once("CPU:") {
        let (cpu, rest) = rest.split_once(" [")?;
        let count = rest.strip_suffix(" EVENTS DROPPED]")?;
        return Some(Line::Dropped { cpu: cpu.parse().ok()?, count: count.parse().ok()? });
    }
    let (task, rest) = line.split_once(" [")?;
    let (cpu, rest) = rest.split_once("] ")?;
    let (time, rest) = rest.trim_start().split_once(": ")?;
    let (event, fields) = rest.split_once(':')?;
    let (secs, nanos) = time.split_once('.')?;
    let at = secs.parse::<u64>().ok()? * 1_000_000_000 + nanos.parse::<u64>().ok()?;
    let pid = task.rsplit_once('-')?.1.parse().ok()?;
    Some(Line::Event { cpu: cpu.parse().ok()?, at, pid, event, fields: fields.trim() })
}

/// Checks that the fields of the record are those of the report, in their order; gives how many were compared.
fn compare_fields(class: &EventClass, fields: &str, record: &Record<'_>) -> usize {
    let mut rest = fields;
    let mut compared: isize = 0;
    for field in class.fields.iter().filter(|field| !field.name.starts_with("common_")) {
        let Some(after) = rest.strip_prefix(&format!("{}=", field.name)) else {
            panic!("{}: expected {} at '{rest}' of '{fields}'", class.name, field.name);
        };
        let value = class.value(class.field(&field.name).unwrap(), record).expect(&field.name);
        let shown = match value {
            Value::Text(bytes) => String::from_utf8_lossy(bytes).trim_end_matches('\n').to_owned(),
            // Numbers are shown in decimal, pointers in hexadecimal or as a symbol, arrays as bytes.
            _ => after.split(' ').next().unwrap_or("").to_owned(),
        };
        match value {
            Value::Text(_) => {
                assert!(after.starts_with(&shown), "{}: '{shown}' against '{after}'", class.name)
            }
            Value::Array(array) => {
                let bytes: Vec<String> = array.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                let expected = format!("ARRAY[{}]", bytes.join(", "));
                assert!(after.starts_with(&expected), "{}: {expected} against {after}", class.name);
                compared += 1;
                rest = after[expected.len()..].trim_start();
                continue;
            }
            _ if value.matches(&shown) || value.matches(&format!("0x{shown}")) => {}
            _ if shown == "(nil)" && value.bits() == Some(0) => {}
            // What trace-cmd shows as a symbol is no number at all.
            _ => {
                let symbol = shown.contains(|c: char| c.is_ascii_alphabetic()) && shown.contains('_');
                assert!(symbol, "{}.{}: {value} against {shown}", class.name, field.name);
                compared -= 1;
            }
        }
        compared += 1;
        rest = after[shown.len()..].trim_start();
    }
    compared.max(0) as usize
}

/// Compares all of one file; gives (events, lost, fields) compared.
fn compare((bytes, report): (&'static [u8], &'static str)) -> (usize, u64, usize) {
    let trace = TraceDat::open(bytes).expect("a good file opens");
    assert_eq!(trace.info().damage, vec![]);
    let expected = lines(report);
    let mut expected_iter = expected.iter();
    let (mut events, mut lost, mut fields_compared) = (0, 0, 0);
    let mut walk = trace.events(Span::ALL);
    while let Some(item) = walk.next() {
        match item {
            Item::Damage(damage) => panic!("{damage}"),
            Item::Lost(loss) => {
                let count = loss.count.expect("the kernel had room for the count");
                assert_eq!(expected_iter.next(), Some(&Line::Dropped { cpu: loss.cpu.0, count }));
                lost += count;
            }
            Item::Event(record) => {
                let class = trace.class(&record).unwrap();
                let pid = class.field("common_pid").unwrap();
                let pid = class.bits(pid, &record).unwrap() as i64;
                let Some(Line::Event { cpu, at, pid: expected_pid, event, fields }) = expected_iter.next()
                else {
                    panic!("trace-cmd has no event here, we have {} at {}", class.name, record.at);
                };
                let ours = (record.cpu.0, record.at.0, pid, class.name.as_str());
                assert_eq!(ours, (*cpu, *at, *expected_pid, *event));
                fields_compared += compare_fields(class, fields, &record);
                events += 1;
            }
        }
    }
    assert_eq!(expected_iter.next(), None, "trace-cmd has more events");
    (events, lost, fields_compared)
}

#[test]
fn a_named_buffer_compressed_with_zstd_reads_as_trace_cmd_reads_it() {
    let (events, lost, fields) = compare(ZSTD);
    assert!(events > 300 && lost == 0 && fields > 1000, "{events} {lost} {fields}");
    let trace = TraceDat::open(ZSTD.0).unwrap();
    assert_eq!(trace.info().clock.name, "mono");
    assert!(trace.info().origins.contains(&"fx7".to_owned()));
    assert!(!trace.info().comms.is_empty() && trace.info().machine.starts_with("Linux"));
}

#[test]
fn top_and_named_buffer_of_version_6_are_merged_by_time() {
    let (events, lost, fields) = compare(TWO_BUFFERS);
    assert!(events > 500 && lost == 0 && fields > 1000, "{events} {lost} {fields}");
}

#[test]
fn time_offsets_and_uncompressed_version_7_are_read() {
    let (events, ..) = compare(OFFSET);
    assert!(events > 30, "{events}");
    assert_eq!(TraceDat::open(OFFSET.0).unwrap().info().clock.name, "local");
}

#[test]
fn sub_buffers_of_16_kib_are_read_whole() {
    let (events, ..) = compare(BIG_PAGES);
    assert!(events > 200, "{events}");
}

#[test]
fn lost_events_are_counted_at_their_place() {
    let (events, lost, _) = compare(LOST);
    assert!(events > 1000 && lost > 1000, "{events} {lost}");
}

#[test]
fn a_late_start_finds_the_same_events_without_reading_all_before() {
    for (bytes, _) in [ZSTD, TWO_BUFFERS, BIG_PAGES, LOST] {
        let trace = TraceDat::open(bytes).unwrap();
        let times = |span| {
            let mut walk = trace.events(span);
            let mut times = Vec::new();
            while let Some(item) = walk.next() {
                if let Item::Event(record) = item {
                    times.push((record.at, record.cpu, record.class));
                }
            }
            times
        };
        let all = times(Span::ALL);
        for cut in [1, all.len() / 3, all.len() / 2, all.len() - 1] {
            let span = Span { from: all[cut].0, to: all[all.len() - 1].0 };
            let expected: Vec<_> =
                all.iter().copied().filter(|(at, ..)| *at >= span.from && *at < span.to).collect();
            assert_eq!(times(span), expected);
        }
    }
}

#[test]
fn events_become_kinds_with_their_fields() {
    let trace = TraceDat::open(ZSTD.0).unwrap();
    let mut normalizer = Normalizer::new(&trace);
    let mut walk = trace.events(Span::ALL);
    let (mut switches, mut signals, mut markers) = (0, 0, Vec::new());
    let mut others = BTreeSet::new();
    while let Some(item) = walk.next() {
        let event = normalizer.item(&item).unwrap();
        assert!(event.current.is_some());
        match event.kind {
            Kind::Switch { prev, next, .. } => {
                assert_eq!(Some(prev.tid), event.current);
                assert!(next.prio.is_some() && next.comm.is_some());
                switches += 1;
            }
            Kind::SignalGenerate { sig: 10, .. } => signals += 1,
            Kind::Marker { text } => markers.push(text),
            Kind::Other { name } => drop(others.insert(normalizer.strings().get(name).to_owned())),
            _ => {}
        }
    }
    let texts: Vec<&str> = markers.iter().map(|&text| normalizer.strings().get(text)).collect();
    assert_eq!(texts, ["begin of load", "end of load"]);
    assert!(switches > 10 && signals == 1, "{switches} {signals}");
    assert_eq!(others, BTreeSet::from(NO_KIND.map(str::to_owned)));
}
