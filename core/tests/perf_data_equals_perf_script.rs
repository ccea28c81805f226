//! Our reading of perf.data against `perf script` of the same file (see tests/data/perf_data/README.md).

use lathunt_core::trace::perf_data::PerfData;
use lathunt_core::trace::source::{Item, Source, Span};

const FILE: &[u8] = include_bytes!("data/perf_data/small.data");
const SCRIPT: &str = include_str!("data/perf_data/small.script");

/// ` 123 [001] 12.000000345: sched:sched_waking: comm=x pid=5 …` as (tid, CPU, ns, event, fields).
fn parts(line: &str) -> (i64, u32, u64, &str, &str) {
    let (tid, rest) = line.trim_start().split_once(char::is_whitespace).unwrap();
    let (cpu, rest) = rest.trim_start().strip_prefix('[').unwrap().split_once(']').unwrap();
    let (time, rest) = rest.trim_start().split_once(": ").unwrap();
    let (event, fields) = rest.trim_start().split_once(": ").unwrap();
    let (secs, nanos) = time.split_once('.').unwrap();
    let ns = secs.parse::<u64>().unwrap() * 1_000_000_000 + nanos.parse::<u64>().unwrap();
    (tid.parse().unwrap(), cpu.parse().unwrap(), ns, event, fields)
}

#[test]
fn every_event_with_its_time_and_numbers_equals_perf_script() {
    let trace = PerfData::open(FILE).unwrap();
    assert_eq!(trace.info().damage, vec![]);
    assert_eq!(trace.info().clock.name, "mono");
    let mut lines = SCRIPT.lines();
    let (mut events, mut fields_compared) = (0, 0);
    let mut walk = trace.events(Span::ALL);
    while let Some(item) = walk.next() {
        let Item::Event(record) = item else { panic!("{item:?}") };
        let (tid, cpu, ns, event, fields) = parts(lines.next().expect("perf script has as many events"));
        let class = trace.class(&record).unwrap();
        let field = |name: &str| class.value(class.field(name)?, &record);
        assert_eq!((record.at.0, record.cpu.0, class.full_name().as_str()), (ns, cpu, event));
        assert_eq!(field("common_pid").unwrap().bits(), Some(tid as u64));
        for (name, value) in fields.split(' ').filter_map(|word| word.split_once('=')) {
            let Some(ours) = field(name) else { continue };
            if value.parse::<i64>().is_ok() {
                assert!(
                    ours.matches(value.trim_start_matches('0')) || ours.bits() == Some(0),
                    "{name}: {ours} {value}"
                );
                fields_compared += 1;
            }
        }
        events += 1;
    }
    assert_eq!(lines.next(), None, "perf script has more events");
    assert!(events > 50 && fields_compared > 200, "{events} {fields_compared}");
}

#[test]
fn other_forms_of_perf_data_are_refused_by_name() {
    let mut pipe = FILE.to_vec();
    pipe[8..16].copy_from_slice(&16u64.to_le_bytes());
    assert!(PerfData::open(&pipe).unwrap_err().to_string().contains("perf inject"));
    assert!(PerfData::open(b"PERF").unwrap_err().to_string().starts_with("not a perf.data"));
}
