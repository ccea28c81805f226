//! One program for all decoders and parsers of what others wrote; `LATHUNT_FUZZ` names the one to feed.
//!
//! A finding is a panic, an overflow, a failed assertion, more than 5 s or more than 512 MB for one input. Inputs that
//! consist of several files have [`SEPARATOR`] between them. `scripts/fuzz` makes the first inputs out of the fixtures of core.
#![no_main]
#![allow(missing_docs)]

#[path = "../../core/tests/damaged/open.rs"]
mod open;

use std::sync::OnceLock;

use lathunt_core::application::Deadlines;
use lathunt_core::check::{self, Profile, Shown, Snapshot};
use lathunt_core::elf::Elf;
use lathunt_core::explain::tracers;
use lathunt_core::import::{self, Unit};
use lathunt_core::latency_box::lines;
use lathunt_core::latency_box::message::{crc32, Message, SIZE};
use lathunt_core::monitor::moment;
use lathunt_core::monitor::window::UnixMs;
use lathunt_core::report;
use lathunt_core::run::Run;
use lathunt_core::tasks::analyse::{analyse, Costs};
use lathunt_core::tasks::set::TaskSet;
use lathunt_core::time::{parse_duration, Ns};
use lathunt_core::trace::user_ring::{Packet, Records};
use lathunt_core::cyclictest;
use libfuzzer_sys::fuzz_target;

/// Between the files of an input; in none of the fixtures.
const SEPARATOR: &[u8] = b"\n=====\n";
type Target = fn(&[u8]);

const TARGETS: [(&str, Target); 17] = [
    ("trace.dat", |input| drop(open::trace_dat(&parts(input)))),
    ("perf.data", |input| drop(open::perf_data(&parts(input)))),
    ("ctf", |input| drop(open::ctf(&parts(input)))),
    ("flight", flight),
    ("text", |input| drop(open::text(&parts(input)))),
    ("tracer", |input| drop(text(input).map(|text| tracers::read(&text)))),
    ("user", user),
    ("run", run),
    ("import", |input| drop(text(input).map(|text| import::read(&text, Unit::Guess)))),
    ("lines", |input| drop(text(input).map(|text| lines::read(&text)))),
    ("message", message),
    ("tasks", tasks),
    ("check", snapshot),
    ("deadlines", |input| drop(text(input).map(|text| Deadlines::parse(&text, time)))),
    ("moment", |input| drop(text(input).map(|text| moment::parse(&text, UnixMs(1_700_000_000_000))))),
    ("options", |input| drop(cyclictest::options::parse(&words(input)))),
    ("elf", elf),
];

fuzz_target!(|input: &[u8]| {
    static TARGET: OnceLock<Target> = OnceLock::new();
    let target = TARGET.get_or_init(|| {
        let name = std::env::var("LATHUNT_FUZZ").unwrap_or_default();
        let names = TARGETS.map(|(name, _)| name).join(" ");
        TARGETS.iter().find(|(it, _)| *it == name).unwrap_or_else(|| panic!("LATHUNT_FUZZ is one of {names}")).1
    });
    target(input);
});

fn text(input: &[u8]) -> Option<String> {
    std::str::from_utf8(input).ok().map(str::to_owned)
}

fn time(text: &str) -> Result<Ns, String> {
    parse_duration(text, Ns(1_000)).map_err(|error| error.to_string())
}

fn words(input: &[u8]) -> Vec<Vec<u8>> {
    input.split(|&byte| byte == b' ').map(<[u8]>::to_vec).collect()
}

/// At least two of them, so that each target finds those it takes.
fn parts(input: &[u8]) -> Vec<Vec<u8>> {
    let (mut parts, mut rest) = (Vec::new(), input);
    while let Some(at) = rest.windows(SEPARATOR.len()).position(|it| it == SEPARATOR) {
        parts.push(rest[..at].to_vec());
        rest = &rest[at + SEPARATOR.len()..];
    }
    parts.push(rest.to_vec());
    parts.push(Vec::new());
    parts
}

fn flight(input: &[u8]) {
    let parts = parts(input);
    drop(open::flight(&parts));
}

/// The memory of the tracer: a packet with its records.
fn user(input: &[u8]) {
    if let Some(packet) = Packet::parse(input) {
        let records = Records::new(input, 11, packet.words as usize);
        assert!(records.count() <= input.len());
    }
}

/// What is read and judged can be written, read again with the same answer, and shown.
fn run(input: &[u8]) {
    let Some(Ok(run)) = text(input).map(|text| Run::from_json(&text)) else { return };
    let again = Run::from_json(&run.to_json()).expect("what was written is read");
    assert_eq!(again.verdict, run.verdict);
    let _ = report::text::summary(&run, &report::text::Screen::default());
    let _ = report::html::report(&run).expect("a report");
    let _ = report::ci::junit("run", &run);
}

/// With a checksum that fits, or no change would come past it.
fn message(input: &[u8]) {
    let mut bytes = input.to_vec();
    bytes.resize(SIZE, 0);
    let sum = crc32(&bytes[..SIZE - 4]).to_be_bytes();
    bytes[SIZE - 4..].copy_from_slice(&sum);
    if let Ok(message) = Message::decode(&bytes) {
        assert_eq!(message.encode()[..], bytes);
    }
}

fn tasks(input: &[u8]) {
    let Some(Ok(set)) = text(input).map(|text| TaskSet::from_json(&text)) else { return };
    let _ = analyse(&set, Costs::default());
    assert!(TaskSet::from_json(&set.to_json(true)).is_ok(), "what was written is read");
}

fn snapshot(input: &[u8]) {
    let Some(Ok(snapshot)) = text(input).map(|text| Snapshot::from_json(&text)) else { return };
    for profile in Profile::ALL {
        let facts = check::facts::Facts::new(&snapshot, profile, None);
        let shown = Shown { width: 80, colour: false, all: true, only_bad: false };
        assert!(!check::text(&facts, &check::answers(&facts), &check::check(&facts), shown).is_empty());
    }
}

fn elf(input: &[u8]) {
    let read = |at: u64, len: usize| {
        let at = usize::try_from(at).ok()?;
        input.get(at..at.checked_add(len)?).map(<[u8]>::to_vec)
    };
    let Some(elf) = Elf::read(&read) else { return };
    for address in [0, 0x4010, 0x60_0000, u64::MAX] {
        let _ = (elf.bias(address), elf.is_loaded(address), elf.variable(&read, address));
    }
}
