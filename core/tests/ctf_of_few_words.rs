//! CTF with minimal packets: no context, no stream id, no stream at all; and lost packets. babeltrace2 reads the same,
//! where it is installed.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // babeltrace2 is the oracle; the crate itself starts and reads nothing

use std::path::Path;
use std::process::Command;

use lathunt_core::trace::ctf::{Ctf, TraceFiles};
use lathunt_core::trace::item::{Item, Span};
use lathunt_core::trace::source::Source;

const TYPES: &str = "/* CTF 1.8 */
typealias integer { size = 16; align = 8; signed = false; } := uint16_t;
typealias integer { size = 32; align = 8; signed = false; } := uint32_t;
typealias integer { size = 64; align = 8; signed = false; } := uint64_t;
clock { name = mono; freq = 1000000000; offset = 0; };
typealias integer { size = 64; align = 8; signed = false; map = clock.mono.value; } := ts_t;
";
const MAGIC: &str = "packet.header := struct { uint32_t magic; };";
const NUMBERED: &str = "packet.header := struct { uint32_t magic; uint32_t stream_id; };";
const EVENTS: &str = "event.header := struct { uint16_t id; ts_t timestamp; };";
const CONTEXT: &str =
    "packet.context := struct { ts_t timestamp_begin; ts_t timestamp_end; uint64_t content_size;
    uint64_t packet_size; uint64_t packet_seq_num; uint64_t events_discarded; uint32_t cpu_id; };";

fn metadata(packets: &str, stream: &str) -> String {
    let event = "event { name = \"waking\"; id = 3; fields := struct { uint32_t pid; }; };";
    format!("{TYPES}trace {{ major = 1; minor = 8; byte_order = le; {packets} }};\n{stream}\n{event}\n")
}

/// `count` events, a microsecond apart.
fn events(count: u64, from: u64) -> Vec<u8> {
    let event = |at: u64| [&3u16.to_le_bytes()[..], &at.to_le_bytes(), &7u32.to_le_bytes()].concat();
    (0..count).flat_map(|place| event(from + 1_000 * place)).collect()
}

const START: [u8; 4] = 0xc1fc_1fc1u32.to_le_bytes();

/// A packet with a context, of ten events.
fn packet(number: u64, discarded: u64, from: u64) -> Vec<u8> {
    let events = events(10, from);
    let bits = (8 + 6 * 8 + 4 + events.len() as u64) * 8;
    let context = [from, from + 10_000, bits, bits, number, discarded].map(u64::to_le_bytes).concat();
    [&START[..], &[0; 4], &context, &[0; 4], &events].concat()
}

/// What is there of `streams`: times of the events, losses, notes.
fn read(metadata: &str, streams: &[Vec<u8>]) -> (Vec<u64>, Vec<Option<u64>>, Vec<String>) {
    let streams = streams.iter().enumerate().map(|(at, bytes)| (format!("s{at}"), bytes.as_slice()));
    let files = TraceFiles {
        name: "trace".to_owned(),
        metadata: metadata.as_bytes(),
        streams: streams.collect(),
        ..TraceFiles::default()
    };
    let ctf = Ctf::open(&[files]).unwrap();
    let (mut times, mut losses) = (Vec::new(), Vec::new());
    let mut walk = ctf.events(Span::ALL);
    while let Some(item) = walk.next() {
        match item {
            Item::Event(record) => times.push(record.at.0),
            Item::Lost(loss) => losses.push(loss.count),
            Item::Damage(damage) => panic!("{damage:?}"),
        }
    }
    assert!(ctf.info().damage.is_empty(), "{:?}", ctf.info().damage);
    (times, losses, ctf.info().limits.clone())
}

/// The times that babeltrace2 prints, and what it says of losses; `None` where it is not installed.
fn babeltrace(metadata: &str, streams: &[Vec<u8>]) -> Option<(Vec<u64>, String)> {
    let place = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(Path::join(place.path(), name), bytes).unwrap();
    write("metadata", metadata.as_bytes());
    streams.iter().enumerate().for_each(|(at, bytes)| write(&format!("s{at}"), bytes));
    let output = Command::new("babeltrace2").arg("--clock-seconds").arg(place.path()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let time = |line: &str| {
        let Some((stamp, _)) = line.strip_prefix('[').and_then(|line| line.split_once(']')) else { return 0 };
        stamp.replace('.', "").parse().unwrap()
    };
    Some((text.lines().map(time).collect(), String::from_utf8_lossy(&output.stderr).into_owned()))
}

#[test]
fn packets_that_say_little_are_read_as_babeltrace2_reads_them() {
    let plain = [&START[..], &events(40, 1_000_000)].concat();
    let numbered = |from| [&START[..], &[0; 4], &events(40, from)].concat();
    let sized = |from| {
        let events = events(40, from);
        [&START[..], &[0; 4], &((16 + events.len() as u64) * 8).to_le_bytes(), &events].concat()
    };
    let cases: [(&str, String, Vec<Vec<u8>>); 5] = [
        (
            "no context",
            metadata(NUMBERED, &format!("stream {{ id = 0; {EVENTS} }};")),
            vec![numbered(1_000_000), numbered(1_000_500)],
        ),
        ("no number of the stream", metadata(MAGIC, &format!("stream {{ {EVENTS} }};")), vec![plain.clone()]),
        ("no header", metadata("", &format!("stream {{ {EVENTS} }};")), vec![events(40, 1_000_000)]),
        (
            "a size alone",
            metadata(
                NUMBERED,
                &format!(
                    "stream {{ id = 0; {EVENTS} packet.context := struct {{ uint64_t packet_size; }}; }};"
                ),
            ),
            vec![[sized(1_000_000), sized(2_000_000)].concat()],
        ),
        (
            "no stream",
            metadata(MAGIC, "").replace("id = 3; ", ""),
            vec![[&START[..], &[7, 0, 0, 0].repeat(20)].concat()],
        ),
    ];
    for (name, metadata, streams) in cases {
        let (times, losses, notes) = read(&metadata, &streams);
        assert!(times.len() >= 20 && losses.is_empty(), "{name}: {} events, {losses:?}", times.len());
        assert_eq!(
            notes.iter().any(|note| note.contains("say no time")),
            name == "no stream",
            "{name}: {notes:?}"
        );
        if let Some((expected, said)) = babeltrace(&metadata, &streams) {
            assert_eq!(times, expected, "{name}: {said}");
        }
    }
}

#[test]
fn lost_packets_are_no_lost_event() {
    let metadata = metadata(NUMBERED, &format!("stream {{ id = 0; {EVENTS} {CONTEXT} }};"));
    let streams = [[
        packet(0, 0, 1_000_000),
        packet(1, 0, 2_000_000),
        packet(4, 0, 5_000_000),
        packet(5, 3, 6_000_000),
    ]
    .concat()];
    let (times, losses, notes) = read(&metadata, &streams);
    assert_eq!((times.len(), &losses[..]), (40, &[None, Some(3)][..]));
    assert!(notes.iter().any(|note| note.starts_with("2 packets were lost")), "{notes:?}");
    if let Some((expected, said)) = babeltrace(&metadata, &streams) {
        assert_eq!(times, expected);
        assert!(said.contains("discarded 2 packets") && said.contains("discarded 3 events"), "{said}");
    }
}

/// First times of two traces of ten events, each from 1 ms of its clock on, with these attributes of the clocks.
fn together(clocks: [&str; 2]) -> (String, Vec<u64>) {
    let stream = format!("stream {{ id = 0; {EVENTS} }};");
    let texts =
        clocks.map(|clock| metadata(NUMBERED, &stream).replace("freq = 1000000000; offset = 0;", clock));
    let packet = [&START[..], &[0; 4], &events(10, 1_000_000)].concat();
    let inputs: Vec<TraceFiles> = texts
        .iter()
        .map(|text| TraceFiles {
            name: "trace".to_owned(),
            metadata: text.as_bytes(),
            streams: vec![("s0".to_owned(), packet.as_slice())],
            ..TraceFiles::default()
        })
        .collect();
    let ctf = Ctf::open(&inputs).unwrap();
    let (mut times, mut walk) = (Vec::new(), ctf.events(Span::ALL));
    while let Some(item) = walk.next() {
        match item {
            Item::Event(record) => times.push(record.at.0),
            other => panic!("{other:?}"),
        }
    }
    (ctf.info().clock.name.clone(), times)
}

#[test]
fn clocks_without_a_uuid_are_merged_by_their_offsets() {
    let named = |uuid: &str, offset: u64| format!("freq = 1000000000; offset = {offset};{uuid}");
    let uuid = " uuid = \"8b2e5f3a-0000-4000-8000-000000000001\";";
    let both = |uuid: &str, offsets: [u64; 2]| {
        together(offsets.map(|offset| named(uuid, offset)).each_ref().map(String::as_str))
    };
    let (clock, times) = both("", [0, 500_000_000]);
    assert_eq!((clock.as_str(), times[9], times[10]), ("epoch", 1_009_000, 501_000_000));
    // Measured apart, but the same clock; and nothing distinguishes them.
    for (clock, times) in [both(uuid, [0, 500_000_000]), both("", [7, 7])] {
        assert_eq!((clock.as_str(), times[0], times[19]), ("mono", 1_000_000, 1_009_000));
    }
}

#[test]
fn the_offset_of_a_fast_clock_may_have_64_bits() {
    // 1.7e9 s of a clock of 6 GHz, and 1 s less; events are 1 ms of its cycles after that.
    let clock = |seconds: u64| format!("freq = 6000000000; offset = {};", seconds * 6_000_000_000);
    let (clock_name, times) =
        together([clock(1_700_000_000), clock(1_699_999_999)].each_ref().map(String::as_str));
    assert_eq!(clock_name, "epoch");
    assert_eq!((times[0], times[10]), (1_699_999_999_000_166_666, 1_700_000_000_000_166_666));
}
