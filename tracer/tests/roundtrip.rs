//! Random events with random values, written with the Rust API, come out of babeltrace2 with equal names, times and
//! fields. One process: the consumer reads the memory of the very process it runs in.

use std::ffi::{CStr, CString};
use std::fmt::Write;
use std::process::Command;

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
fn random_events_come_out_of_babeltrace_as_they_went_in() {
    let missing =
        Command::new("babeltrace2").arg("--version").output().err().map(|_| "babeltrace2 is not installed");
    if !testing::may_run("random events come out of babeltrace2", missing) {
        return;
    }
    let memory = tempfile::tempdir().unwrap();
    std::env::set_var("LATHUNT_TRACE_DIR", memory.path());
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
