//! The export for Perfetto, decoded strictly by the schema in data/perfetto.proto: every field has its number, its type
//! and its place, slices close, and the decoded events equal those of the recording.
#![allow(clippy::disallowed_methods)] // tests read their recordings; the crate itself reads no file

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use lathunt_core::explain::answers::Answer;
use lathunt_core::explain::explain_interval;
use lathunt_core::explain::intervals::{find, Question, Whose};
use lathunt_core::explain::lanes::{lanes, Lanes, Of};
use lathunt_core::explain::load::window;
use lathunt_core::explain::record::Record;
use lathunt_core::explain::Interval;
use lathunt_core::export::perfetto;
use lathunt_core::time::Ns;
use lathunt_core::trace::event::{Event, Kind, LeftAs, Level};
use lathunt_core::trace::trace_dat::TraceDat;
use lathunt_core::trace::window::Window;

/// Field number → (name, type), by message.
type Schema = HashMap<String, BTreeMap<u64, (String, String)>>;

#[derive(Clone, Debug, PartialEq)]
enum Value {
    Number(u64),
    Text(String),
    Message(Vec<(String, Value)>),
}

fn schema() -> Schema {
    let text =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/perfetto.proto")).unwrap();
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let text = lines.collect::<Vec<_>>().join(" ");
    let mut schema = Schema::new();
    for message in text.split("message ").skip(1) {
        let (name, body) = message.split_once('{').unwrap();
        let fields = body.trim().trim_end_matches('}').split(';').filter(|field| field.contains('='));
        let fields = fields.map(|field| {
            let words: Vec<&str> = field.split_whitespace().collect();
            (words[4].parse().unwrap(), (words[2].to_owned(), words[1].to_owned()))
        });
        schema.insert(name.trim().to_owned(), fields.collect());
    }
    schema
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = bytes[0];
        *bytes = &bytes[1..];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return value;
        }
    }
    panic!("a number of more than ten bytes");
}

fn decode(schema: &Schema, message: &str, mut bytes: &[u8]) -> Vec<(String, Value)> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let (name, kind) =
            schema[message].get(&(tag >> 3)).unwrap_or_else(|| panic!("{message} has no field {}", tag >> 3));
        let value = match (tag & 7, kind.as_str()) {
            (0, "uint64" | "int64" | "uint32" | "int32") => Value::Number(varint(&mut bytes)),
            (2, kind) => {
                let (block, rest) = {
                    let len = varint(&mut bytes) as usize;
                    bytes.split_at(len)
                };
                bytes = rest;
                match kind {
                    "string" => Value::Text(String::from_utf8(block.to_vec()).unwrap()),
                    message => Value::Message(decode(schema, message, block)),
                }
            }
            other => panic!("{message}.{name} is written as {other:?}"),
        };
        fields.push((name.clone(), value));
    }
    fields
}

fn get<'v>(message: &'v [(String, Value)], name: &str) -> Option<&'v Value> {
    message.iter().find(|(field, _)| field == name).map(|(_, value)| value)
}

fn number(message: &[(String, Value)], name: &str) -> u64 {
    match get(message, name) {
        Some(Value::Number(number)) => *number,
        other => panic!("{name}: {other:?}"),
    }
}

/// The worst interval between the system calls 600 and 601 of a recorded case.
fn worst(case: &str) -> (Window, Answer, Lanes) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/cases/{case}.dat"));
    let bytes = fs::read(path).unwrap();
    let source = TraceDat::open(&bytes).unwrap();
    let question =
        Question::Between { from: "sys:600".parse().unwrap(), to: "sys:601".parse().unwrap(), pair: None };
    let found = find(&source, &question, &Whose::default());
    let worst = &found.intervals[0];
    let window = window(&source, &found, worst.begin, worst.end);
    let record = Record::new(&window);
    let interval = Interval { tid: worst.tid, cpu: worst.cpu, begin: worst.begin, end: worst.end };
    let answer = Answer::explained(worst, explain_interval(&record, &interval));
    let drawn = lanes(&record, &answer);
    (window, answer, drawn)
}

#[test]
fn each_part_is_drawn_with_all_its_pieces() {
    for case in ["inversion", "pi_preempted", "softirq_storm", "munmap_ipi", "lock_spin", "throttling"] {
        let (_, answer, drawn) = worst(case);
        let mut nodes = vec![answer.tree.as_deref().unwrap()];
        for lane in drawn.lanes.iter().filter(|lane| matches!(lane.of, Of::Path(_))) {
            let parts = || nodes.iter().flat_map(|node| &node.children);
            let gaps = nodes.iter().flat_map(|node| &node.gaps).map(|gap| gap.duration_ns);
            let told: Ns = parts().map(|part| part.duration_ns).chain(gaps).sum();
            let bars: Ns = lane.bars.iter().map(|bar| bar.end.since(bar.begin)).sum();
            assert_eq!(bars, told, "{case}: {lane:#?}");
            for part in parts().filter(|part| part.children.is_empty()) {
                let own = lane.bars.iter().filter(|bar| bar.label == part.label);
                let own: Ns = own.map(|bar| bar.end.since(bar.begin)).sum();
                assert!(own >= part.duration_ns, "{case}: {own} of {part:#?}");
            }
            nodes = nodes.iter().flat_map(|node| &node.children).collect();
        }
    }
}

#[test]
fn perfetto_reads_the_switches_of_the_recording_and_the_critical_path() {
    let (window, _, drawn) = worst("inversion");
    for lane in &drawn.lanes {
        assert!(lane.bars.iter().all(|bar| bar.begin < bar.end || lane.of == Of::Path(1)), "{lane:?}");
        assert!(lane.bars.windows(2).all(|pair| pair[0].end <= pair[1].begin), "{lane:?}");
    }
    let file = perfetto::trace(&window, 1, "interval 1", &drawn, &[]);
    assert!(
        perfetto::trace(&window, 2, "interval 2", &drawn, &[&drawn]).len() < file.len(),
        "events stand once"
    );
    let Value::Message(trace) = Value::Message(decode(&schema(), "Trace", &file)) else { unreachable!() };

    let (mut switches, mut open, mut slices, mut names) = (Vec::new(), BTreeMap::new(), 0, Vec::new());
    for (_, packet) in &trace {
        let Value::Message(packet) = packet else { panic!("{packet:?}") };
        assert_eq!(number(packet, "trusted_packet_sequence_id"), 1);
        if let Some(Value::Message(bundle)) = get(packet, "ftrace_events") {
            let events = bundle.iter().filter(|(name, _)| name == "event");
            switches.extend(events.filter_map(|(_, event)| match event {
                Value::Message(event) => match get(event, "sched_switch")? {
                    Value::Message(switch) => {
                        Some((number(event, "timestamp"), number(switch, "prev_state")))
                    }
                    other => panic!("{other:?}"),
                },
                other => panic!("{other:?}"),
            }));
        }
        if let Some(Value::Message(track)) = get(packet, "track_descriptor") {
            names.push(get(track, "name").cloned());
            open.insert(number(track, "uuid"), 0);
        }
        if let Some(Value::Message(event)) = get(packet, "track_event") {
            let depth: &mut i32 =
                open.get_mut(&number(event, "track_uuid")).expect("a track that was described");
            *depth += if number(event, "type") == 1 { 1 } else { -1 };
            assert!((0..=1).contains(depth), "slices of one level follow one another");
            assert!((drawn.begin.0..=drawn.end.0).contains(&number(packet, "timestamp")));
            slices += usize::from(number(event, "type") == 1);
        }
    }
    let within = |at| at >= drawn.begin && at <= drawn.end;
    let recorded = window.events.iter().filter(|event| within(event.at));
    // Without a kernel's version Perfetto reads the states as those of Linux 4.4, where 0x100 is TASK_WAKING.
    let mut recorded: Vec<(u64, u64)> = recorded
        .filter_map(|event| match event.kind {
            Kind::Switch { left_as: LeftAs::Runnable, .. } => Some((event.at.0, 0x800)),
            Kind::Switch { left_as: LeftAs::Blocked(0x80), .. } => Some((event.at.0, 0x402)), // idle: D without load
            Kind::Switch { left_as: LeftAs::Blocked(bits), .. } => Some((event.at.0, u64::from(bits))),
            Kind::Switch { left_as: LeftAs::Dead, .. } => Some((event.at.0, 0x10)),
            _ => None,
        })
        .collect();
    recorded.sort_unstable();
    switches.sort_unstable();
    assert_eq!(switches, recorded);
    assert!(open.values().all(|depth| *depth == 0), "every slice ends");
    let tracks = drawn.lanes.iter().filter(|lane| matches!(lane.of, Of::Path(_) | Of::Interrupts(_)));
    assert_eq!(slices, tracks.map(|lane| lane.bars.len()).sum::<usize>(), "vectors too have a track");
    assert!(names.contains(&Some(Value::Text("CPU 1, all interrupts".to_owned()))), "{names:?}");
    assert!(
        slices >= 3 && names.contains(&Some(Value::Text("critical path, level 1".to_owned()))),
        "{names:?}"
    );
}

/// Time, waker and woken thread of each `sched_waking`.
fn wakings(file: &[u8]) -> Vec<(u64, u64, u64)> {
    let mut found = Vec::new();
    for (_, packet) in decode(&schema(), "Trace", file) {
        let Value::Message(packet) = packet else { panic!("{packet:?}") };
        let Some(Value::Message(bundle)) = get(&packet, "ftrace_events") else { continue };
        for (_, event) in bundle.iter().filter(|(name, _)| name == "event") {
            let Value::Message(event) = event else { panic!("{event:?}") };
            if let Some(Value::Message(waking)) = get(event, "sched_waking") {
                found.push((number(event, "timestamp"), number(event, "pid"), number(waking, "pid")));
            }
        }
    }
    found.sort_unstable();
    found
}

#[test]
fn wakeups_are_drawn_with_their_waker_but_for_interrupts_also_without_sched_waking() {
    let (mut window, _, drawn) = worst("inversion");
    let with = wakings(&perfetto::trace(&window, 1, "interval 1", &drawn, &[]));
    let within = |event: &&Event| event.at >= drawn.begin && event.at <= drawn.end;
    let waker = |event: &Event| match event.level {
        Level::Thread => event.current.map_or(0, |tid| tid.0 as u64),
        _ => 0,
    };
    let recorded = |window: &Window, of: fn(&Kind) -> Option<i32>| {
        let events = window.events.iter().filter(within);
        let mut found: Vec<(u64, u64, u64)> =
            events.filter_map(|event| Some((event.at.0, waker(event), of(&event.kind)? as u64))).collect();
        found.sort_unstable();
        found
    };
    let of_waking = |kind: &Kind| match kind {
        Kind::Waking { task, .. } => Some(task.tid.0),
        _ => None,
    };
    assert_eq!(with, recorded(&window, of_waking));
    assert!(with.iter().any(|(_, by, _)| *by != 0) && with.iter().any(|(_, by, _)| *by == 0), "{with:?}");
    window.events.retain(|event| !matches!(event.kind, Kind::Waking { .. }));
    let of_wakeup = |kind: &Kind| match kind {
        Kind::Wakeup { task, .. } => Some(task.tid.0),
        _ => None,
    };
    let without = wakings(&perfetto::trace(&window, 1, "interval 1", &drawn, &[]));
    assert_eq!(without, recorded(&window, of_wakeup));
    assert!(without.len() > 3, "{without:?}");
}
