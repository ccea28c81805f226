//! Opens a trace from its parts, reads all of it, and runs the usual queries. Also used by the fuzz targets (`fuzz/`).

use std::cell::Cell;
use std::convert::Infallible;

use lathunt_core::explain::answers::Answer;
use lathunt_core::explain::explain_interval;
use lathunt_core::explain::intervals::{find, FoundInterval, Question, Whose};
use lathunt_core::explain::lanes::lanes;
use lathunt_core::explain::load::window;
use lathunt_core::explain::periods::periods;
use lathunt_core::explain::record::Record;
use lathunt_core::explain::summary::summarize;
use lathunt_core::explain::Interval;
use lathunt_core::export::kernel_ctf;
use lathunt_core::time::Mono;
use lathunt_core::trace::ctf::{Ctf, TraceFiles};
use lathunt_core::trace::flight::source::Flight;
use lathunt_core::trace::ftrace_text::FtraceText;
use lathunt_core::trace::item::{Item, Span};
use lathunt_core::trace::kallsyms::Symbols;
use lathunt_core::trace::normalize::Normalizer;
use lathunt_core::trace::perf_data::{plain, PerfData};
use lathunt_core::trace::source::Source;
use lathunt_core::trace::trace_dat::TraceDat;

/// What a walk over one (damaged) trace met.
#[derive(Debug, Default)]
pub struct Met {
    /// Events.
    pub events: usize,
    /// Reports of damage.
    pub damage: usize,
}

/// Walks over everything and touches every field.
pub fn walk(source: &dyn Source, bytes: usize) -> Met {
    let mut met = Met { events: 0, damage: source.info().damage.len() };
    let mut normalizer = Normalizer::new(source);
    let mut events = source.events(Span::ALL);
    let mut items = 0usize;
    while let Some(item) = events.next() {
        items += 1;
        // No item without a bit of the file; compressed chunks may hold more than they weigh.
        assert!(items <= 64 * bytes + 64, "more items than the file can hold");
        match &item {
            Item::Event(record) => {
                met.events += 1;
                let class = source.class(record).expect("a record has a class");
                for field in &class.fields {
                    let _ = class.field(&field.name).and_then(|field| class.value(field, record));
                }
            }
            Item::Damage(damage) => {
                assert!(!damage.what.is_empty());
                met.damage += 1;
            }
            Item::Lost(_) => {}
        }
        let _ = normalizer.item(&item);
    }
    // A late start must be as safe as a full walk.
    let mut late = source.events(Span { from: Mono(1 << 42), to: Mono(u64::MAX) });
    for _ in 0..3 {
        if late.next().is_none() {
            break;
        }
    }
    if met.events > 0 && WALKED.replace(WALKED.get() + 1).is_multiple_of(16) {
        ask(source);
    }
    met
}

thread_local! {
    /// Walks of the case that this thread works on: the same ones are asked in each run.
    pub static WALKED: Cell<usize> = const { Cell::new(0) };
}

/// What users ask, of damaged traces too: the summary, what is periodic, another format, and the worst wake-up
/// explained and drawn.
fn ask(source: &dyn Source) {
    let summary = summarize(source);
    assert!(summary.cpus.iter().map(|cpu| cpu.events).sum::<u64>() <= summary.events);
    assert!(!summary.to_text().is_empty());
    let _ = periods(source, &Whose::default());
    if kernel_ctf::is_possible(source) {
        assert!(!kernel_ctf::metadata(source).is_empty());
        let written = kernel_ctf::streams(source, |_, _| Ok::<_, Infallible>(()));
        assert!(written.is_ok_and(|written| written.events <= summary.events));
    }
    let found = find(source, &Question::Wakeups, &Whose::default());
    assert_eq!(found.events, summary.events);
    let Some(interval) = found.intervals.first() else { return };
    let FoundInterval { tid, cpu, begin, end, .. } = *interval;
    let window = window(source, &found, begin, end);
    let record = Record::new(&window);
    let explanation = explain_interval(&record, &Interval { tid, cpu, begin, end });
    assert!(explanation.tree.adds_up(), "{explanation:#?}");
    assert_eq!(explanation.tree.total_explained() + explanation.unexplained_ns, explanation.total_ns);
    let lanes = lanes(&record, &Answer::explained(interval, explanation));
    assert!(lanes.begin <= begin && end <= lanes.end);
}

/// A trace.dat of trace-cmd.
pub fn trace_dat(parts: &[Vec<u8>]) -> Option<Met> {
    TraceDat::open(&parts[0]).ok().map(|trace| walk(&trace, parts[0].len()))
}

/// A perf.data, packed or not.
pub fn perf_data(parts: &[Vec<u8>]) -> Option<Met> {
    match plain(&parts[0]).ok()? {
        None => PerfData::open(&parts[0]).ok().map(|trace| walk(&trace, parts[0].len())),
        Some(plain) => {
            assert!(plain.bytes.len() <= 257 * parts[0].len() + (33 << 20), "{}", plain.bytes.len());
            let trace = PerfData::open(&plain.bytes).ok()?;
            Some(walk(&trace.with(plain.damage), plain.bytes.len()))
        }
    }
}

/// A flight recording, with the text of kernel symbols beside it.
pub fn flight(parts: &[Vec<u8>]) -> Option<Met> {
    let symbols = Symbols::new(&parts[1][..]);
    for page in 0..64 {
        let _ = symbols.resolve(0xffff_ffff_8100_0000 + (page << 12));
    }
    Flight::open(&parts[0], symbols).ok().map(|trace| walk(&trace, parts[0].len()))
}

/// Text of ftrace.
pub fn text(parts: &[Vec<u8>]) -> Option<Met> {
    FtraceText::open(&parts[0]).ok().map(|trace| walk(&trace, parts[0].len()))
}

/// A CTF trace: its metadata, and its streams.
pub fn ctf(parts: &[Vec<u8>]) -> Option<Met> {
    let streams = parts[1..].iter().enumerate();
    let files = TraceFiles {
        name: "trace".into(),
        metadata: &parts[0],
        streams: streams.map(|(index, bytes)| (format!("stream_{index}"), bytes.as_slice())).collect(),
        ..TraceFiles::default()
    };
    let bytes = parts.iter().map(Vec::len).sum();
    Ctf::open(&[files]).ok().map(|trace| walk(&trace, bytes))
}
