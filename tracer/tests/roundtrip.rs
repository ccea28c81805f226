//! Random events with random values, written with the Rust API, come out of babeltrace2 and of our own CTF reader with
//! equal names, times and fields. One process: the consumer reads the memory of the very process it runs in.

use std::ffi::{CStr, CString};
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use lathunt_core::trace::ctf::{Ctf, TraceFiles};
use lathunt_core::trace::item::{Item, Span};
use lathunt_core::trace::source::Source;
use lathunt_core::trace::value::Value;
use lathunt_host::channel::clock;
use lathunt_host::channel::consumer::Consumer;
use lathunt_host::channel::place::Place;
use lathunt_host::channel::session::Session;
use lathunt_host::testing;
use lathunt_tracer::declare::{register, Event, Field, Label};
use lathunt_tracer::Record;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

/// A field's declaration, its bytes in the record, and how babeltrace2 prints it.
#[derive(Clone, Debug)]
struct Sample {
    kind: &'static str,
    base: Option<&'static str>,
    size: u32,
    bytes: Vec<u8>,
    shown: Shown,
}

#[derive(Clone, Debug)]
enum Shown {
    Text(String),
    Number(f64),
}

const LABELS: [(&str, i64); 3] = [("ZERO", 0), ("ONE", 1), ("MANY", 100)];

fn sample(kind: &'static str, size: u32, bytes: Vec<u8>, shown: String) -> Sample {
    Sample { kind, base: None, size, bytes, shown: Shown::Text(shown) }
}

/// As babeltrace2 prints text: like a literal of C.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\'', "\\'").replace('?', "\\?"))
}

fn hex(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "[ ]".to_owned();
    }
    let items = bytes.iter().enumerate().map(|(index, byte)| format!("[{index}] = 0x{byte:X}"));
    format!("[ {} ]", items.collect::<Vec<_>>().join(", "))
}

macro_rules! integer {
    ($type:ty, $kind:literal) => {
        any::<$type>()
            .prop_map(|value| sample($kind, 0, value.to_le_bytes().to_vec(), value.to_string()))
            .boxed()
    };
}

fn field() -> impl Strategy<Value = Sample> {
    let text = "[ -!#-Z^-~]{0,40}";
    prop_oneof![
        integer!(u8, "u8"),
        integer!(u16, "u16"),
        integer!(u32, "u32"),
        integer!(u64, "u64"),
        integer!(i8, "s8"),
        integer!(i16, "s16"),
        integer!(i32, "s32"),
        integer!(i64, "s64"),
        any::<bool>().prop_map(|value| sample("bool", 0, vec![value.into()], u8::from(value).to_string())),
        (-1e30f64..1e30).prop_map(|value| Sample {
            kind: "f64",
            base: None,
            size: 0,
            bytes: value.to_le_bytes().to_vec(),
            shown: Shown::Number(value),
        }),
        (-1e30f32..1e30).prop_map(|value| Sample {
            kind: "f32",
            base: None,
            size: 0,
            bytes: value.to_le_bytes().to_vec(),
            shown: Shown::Number(value.into()),
        }),
        any::<u8>().prop_map(|value| {
            let label = LABELS.iter().find(|(_, of)| *of == i64::from(value));
            let name = label.map_or("<unknown>".to_owned(), |(name, _)| format!("\"{name}\""));
            let shown = format!("( {name} : container = {value} )");
            Sample { base: Some("u8"), ..sample("enum", 0, vec![value], shown) }
        }),
        text.prop_map(|text| {
            let mut bytes = text.clone().into_bytes();
            bytes.push(0);
            sample("str", 40, bytes, quoted(&text))
        }),
        text.prop_map(|text| {
            let mut bytes = text.clone().into_bytes();
            bytes.resize(40, 0);
            sample("chars", 40, bytes, quoted(&text))
        }),
        vec(any::<u8>(), 1..9).prop_map(|bytes| sample(
            "bytes",
            bytes.len() as u32,
            bytes.clone(),
            hex(&bytes)
        )),
        vec(any::<u8>(), 0..9).prop_map(|content| {
            let mut bytes = (content.len() as u16).to_le_bytes().to_vec();
            bytes.extend(&content);
            sample("blob", 9, bytes, hex(&content))
        }),
    ]
}

fn leak(text: &str) -> &'static CStr {
    Box::leak(CString::new(text).unwrap().into_boxed_c_str())
}

fn declare(name: &str, fields: &[Sample]) -> &'static Event {
    let labels: Vec<Label> =
        LABELS.iter().map(|(name, value)| Label { name: leak(name).as_ptr(), value: *value }).collect();
    let labels: &'static [Label] = labels.leak();
    let fields: Vec<Field> = fields
        .iter()
        .enumerate()
        .map(|(index, field)| Field {
            name: leak(&format!("f{index}")).as_ptr(),
            kind: leak(field.kind).as_ptr(),
            base: field.base.map_or(std::ptr::null(), |base| leak(base).as_ptr()),
            labels: labels.as_ptr(),
            label_count: if field.base.is_some() { labels.len() as u32 } else { 0 },
            size: field.size,
        })
        .collect();
    let event: &'static Event = Box::leak(Box::new(Event::new(leak(name), fields.leak())));
    register(event);
    event
}

#[test]
fn random_events_come_out_of_babeltrace_and_of_our_own_reader_as_they_went_in() {
    let memory = tempfile::tempdir().unwrap();
    // SAFETY: the only test of this program; no other thread reads the environment.
    unsafe { std::env::set_var("LATHUNT_TRACE_DIR", memory.path()) };
    let out = tempfile::tempdir().unwrap();
    let session = Session { clock_offset_ns: 0, ..Session::new(out.path().join("trace")) };
    let mut consumer = Consumer::start(Place::new(memory.path().into()), session).unwrap();
    let mut runner = TestRunner::default();
    let mut expected = Vec::new();
    for number in 0..300 {
        let fields = vec(field(), 0..10).new_tree(&mut runner).unwrap().current();
        let name = format!("random:event_{number}");
        let event = declare(&name, &fields);
        assert!(event.wanted(), "the session wants every event");
        let bytes: Vec<u8> = fields.iter().flat_map(|field| field.bytes.clone()).collect();
        let before = clock::anchor(false).ns;
        let record = Record::begin(event, bytes.len()).unwrap();
        // SAFETY: as many bytes are reserved.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), record.payload(), bytes.len()) };
        record.commit();
        expected.push((name, before, clock::anchor(false).ns, fields));
        if number % 37 == 0 {
            consumer.poll(); // events declared after the first metadata must get into it as well
        }
    }
    let status = consumer.finish().unwrap();
    assert_eq!((status.tally.recorded, status.tally.damaged), (300, 0));
    read_by_ourselves(&out.path().join("trace"), &expected);
    let missing =
        Command::new("babeltrace2").arg("--version").output().err().map(|_| "babeltrace2 is not installed");
    if !testing::may_run("random events come out of babeltrace2", missing) {
        return;
    }
    let printed = Command::new("babeltrace2").arg("--clock-cycles").arg(out.path()).output().unwrap();
    assert!(
        printed.status.success() && printed.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&printed.stderr)
    );
    let text = String::from_utf8(printed.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), expected.len());
    for (line, (name, before, after, fields)) in lines.iter().zip(expected) {
        let at: u64 = line[1..line.find(']').unwrap()].parse().unwrap();
        let slack = 1_000; // reading an anchor takes a moment
        assert!((before - slack..=after + slack).contains(&at), "{before} {at} {after}: {line}");
        assert!(line.contains(&format!(" {name}: ")), "{name}: {line}");
        let payload = &line[line.rfind("procname = ").unwrap()..];
        let payload = &payload[payload.find(" }, {").unwrap() + 5..payload.len() - 1];
        compare(payload, &fields);
    }
}

/// Name, earliest and latest time, fields.
type Expected = (String, u64, u64, Vec<Sample>);

fn read_by_ourselves(out: &Path, expected: &[Expected]) {
    let entries =
        |path: &Path| -> Vec<_> { std::fs::read_dir(path).unwrap().flatten().map(|e| e.path()).collect() };
    let traces = entries(out);
    assert_eq!(traces.len(), 1, "one program, one trace");
    let files: Vec<_> =
        entries(&traces[0]).into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect();
    let metadata = files.iter().find(|(path, _)| path.ends_with("metadata")).unwrap();
    let streams = files.iter().filter(|(path, _)| !path.ends_with("metadata"));
    let trace = TraceFiles {
        name: "random".to_owned(),
        metadata: &metadata.1,
        streams: streams.map(|(path, bytes)| (path.display().to_string(), &bytes[..])).collect(),
        ..TraceFiles::default()
    };
    let ctf = Ctf::open(&[trace]).unwrap();
    assert!(ctf.info().damage.is_empty() && ctf.info().clock.is_monotonic(), "{:?}", ctf.info());
    let mut walk = ctf.events(Span::ALL);
    let mut read = 0;
    while let Some(item) = walk.next() {
        let Item::Event(record) = item else { panic!("{item:?}") };
        let (name, before, after, fields) = &expected[read];
        let class = ctf.class(&record).unwrap();
        assert_eq!(class.full_name(), *name);
        assert!((before - 1_000..=after + 1_000).contains(&record.at.0), "{before} {} {after}", record.at);
        for (index, field) in fields.iter().enumerate() {
            let place = class.field(&format!("f{index}")).unwrap_or_else(|| panic!("{name} has no f{index}"));
            let value = class.value(place, &record).unwrap();
            assert!(holds(&value, field), "{name} f{index}: {value:?} against {field:?}");
        }
        read += 1;
    }
    assert_eq!(read, expected.len());
}

/// Whether the value is what the field's bytes say.
fn holds(value: &Value, field: &Sample) -> bool {
    let bytes = &field.bytes;
    let number = || {
        let negative = field.kind.starts_with('s') && bytes.last().is_some_and(|&byte| byte >= 0x80);
        let mut wide = [if negative { 0xff } else { 0 }; 8];
        wide[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(wide)
    };
    match (field.kind, value) {
        ("f64", Value::Float(read)) => read.to_le_bytes()[..] == bytes[..],
        ("f32", Value::Float(read)) => (*read as f32).to_le_bytes()[..] == bytes[..],
        ("str" | "chars", Value::Text(text)) => bytes.split(|&byte| byte == 0).next() == Some(*text),
        ("bytes", Value::Array(array)) => array.bytes == &bytes[..],
        ("blob", Value::Array(array)) => array.bytes == &bytes[2..],
        _ => value.bits() == Some(number()),
    }
}

/// The payload is exactly the fields, in order.
fn compare(payload: &str, fields: &[Sample]) {
    let mut rest = payload;
    for (index, field) in fields.iter().enumerate() {
        let mut head = format!(" f{index} = ");
        if field.kind == "blob" {
            head.clear();
            let _ = write!(head, " _f{index}_length = {}, f{index} = ", field.bytes.len() - 2);
        }
        rest = rest.strip_prefix(&*head).unwrap_or_else(|| panic!("{head}: {rest}"));
        rest = match &field.shown {
            Shown::Text(shown) => rest.strip_prefix(&**shown).unwrap_or_else(|| panic!("{shown}: {rest}")),
            Shown::Number(value) => {
                let end = rest.find([',', ' ']).unwrap_or(rest.len());
                let read: f64 = rest[..end].parse().unwrap();
                assert!((read - value).abs() <= value.abs() * 1e-5, "{value}: {rest}");
                &rest[end..]
            }
        };
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
    assert_eq!(rest.trim(), "");
}
