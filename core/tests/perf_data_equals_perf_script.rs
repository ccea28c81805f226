//! Our reading of perf.data against `perf script` of the same file (see tests/data/perf_data/README.md).

use lathunt_core::trace::item::{Item, Span};
use lathunt_core::trace::perf_data::{plain, PerfData};
use lathunt_core::trace::source::Source;

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
    compare(&PerfData::open(FILE).unwrap(), SCRIPT);
}

/// What decodes its events is at the end: a cut file is not one that was recorded without tracepoints.
#[test]
fn a_file_that_is_cut_before_its_tracing_data_says_so() {
    let mut unfinished = FILE.to_vec();
    unfinished[48..56].fill(0); // as perf leaves it that is killed
    for file in [&FILE[..FILE.len() / 10], &unfinished] {
        let error = PerfData::open(file).unwrap_err().to_string();
        assert!(error.contains("the file ends here, before its tracing data"), "{error}");
    }
}

const PACKED: &[u8] = include_bytes!("data/perf_data/packed.data");
const PIPED: &[u8] = include_bytes!("data/perf_data/piped.data");

#[test]
fn compressed_records_and_pipe_mode_hold_the_events_that_perf_script_shows() {
    for (file, script) in [
        (PACKED, include_str!("data/perf_data/packed.script")),
        (PIPED, include_str!("data/perf_data/piped.script")),
    ] {
        let plain = plain(file).unwrap().unwrap();
        assert_eq!(plain.damage, None);
        compare(&PerfData::open(&plain.bytes).unwrap(), script);
    }
    assert!(plain(FILE).unwrap().is_none(), "the usual form is read as it is");
}

#[test]
fn a_stream_that_breaks_off_is_read_up_to_there() {
    for file in [PACKED, PIPED] {
        let whole = count(&plain(file).unwrap().unwrap().bytes);
        let (mut most, mut damaged) = (0, 0);
        for length in (0..file.len()).step_by(97) {
            let Ok(Some(plain)) = plain(&file[..length]) else { continue };
            damaged += usize::from(plain.damage.is_some());
            most = most.max(count(&plain.bytes));
        }
        assert!(most > 0 && most <= whole && damaged > 10, "{most} of {whole}, {damaged} damaged");
    }
}

fn count(file: &[u8]) -> usize {
    let Ok(trace) = PerfData::open(file) else { return 0 };
    let mut walk = trace.events(Span::ALL);
    let mut events = 0;
    while let Some(item) = walk.next() {
        events += usize::from(matches!(item, Item::Event(_)));
    }
    events
}

fn compare(trace: &PerfData<'_>, script: &str) {
    assert_eq!(trace.info().damage, vec![]);
    assert_eq!(trace.info().clock.name, "mono");
    let mut lines = script.lines();
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
    assert!(events > 30 && fields_compared > 100, "{events} {fields_compared}");
}

#[test]
fn another_file_is_refused_by_name() {
    assert!(PerfData::open(b"PERF").unwrap_err().to_string().starts_with("not a perf.data"));
}
