//! Explained intervals for the Perfetto UI (ui.perfetto.dev): scheduler and interrupt events as in ftrace, and separate
//! tracks for the explanation and, per CPU, for all interrupts: Perfetto itself does not draw x86 vectors and NMIs.
//!
//! A trace is a sequence of `TracePacket` messages (protos/perfetto/trace/trace.proto); the numbers of the fields used
//! here are in `core/tests/data/perfetto.proto`, against which the tests decode. Events are in bundles of up to 512 per
//! CPU; Perfetto sorts them. No clock is specified: all times are those of the trace, which Perfetto assigns to its
//! default clock for events and tracks.

use crate::explain::lanes::{Lanes, Of};
use crate::time::{Cpu, Mono};
use crate::trace::event::{Event, Kind, LeftAs, Level, TaskRef};
use crate::trace::window::Window;

/// Events in one bundle.
const BUNDLE: usize = 512;
/// Sequence of our packets.
const SEQUENCE: u64 = 1;
/// Track numbers per interval.
const TRACKS: u64 = 1 << 40;
/// The first track number for interrupts of CPUs; lower ones are for levels.
const INTERRUPTS: u64 = 1 << 32;

/// One explained interval: the events of `window` in `lanes` but not in `before`, and the explanation under `name`.
/// Traces of several intervals with different `number`s can be concatenated.
#[must_use]
pub fn trace(window: &Window, number: u64, name: &str, lanes: &Lanes, before: &[&Lanes]) -> Vec<u8> {
    let mut out = Message::default();
    let within = |lanes: &Lanes, at: Mono| at >= lanes.begin && at <= lanes.end;
    let mut cpus: std::collections::BTreeMap<Cpu, Vec<&Event>> = std::collections::BTreeMap::new();
    for event in window.events.iter().filter(|event| within(lanes, event.at)) {
        if !before.iter().any(|lanes| within(lanes, event.at)) {
            cpus.entry(event.cpu).or_default().push(event);
        }
    }
    let from_wakeup =
        !window.events.iter().any(|event| matches!(event.kind, Kind::Waking { new: false, .. }));
    for (cpu, events) in &cpus {
        for events in events.chunks(BUNDLE) {
            let mut bundle = Message::default();
            bundle.number(1, u64::from(cpu.0));
            events
                .iter()
                .filter_map(|event| ftrace_event(window, event, from_wakeup))
                .for_each(|event| bundle.message(2, &event));
            let mut packet = Message::default();
            packet.message(1, &bundle);
            packet.number(10, SEQUENCE);
            out.message(1, &packet);
        }
    }
    let group = TRACKS * number;
    descriptor(&mut out, group, None, name);
    for lane in &lanes.lanes {
        let (track, name) = match lane.of {
            Of::Path(depth) => (group + depth as u64, format!("critical path, level {depth}")),
            Of::Interrupts(_) if lane.bars.is_empty() => continue,
            Of::Interrupts(cpu) => {
                (group + INTERRUPTS + u64::from(cpu.0), format!("CPU {cpu}, all interrupts"))
            }
            Of::Cpu(_) | Of::Thread(_) => continue,
        };
        descriptor(&mut out, track, Some(group), &name);
        for bar in &lane.bars {
            slice(&mut out, track, bar.begin, Some(&bar.label));
            slice(&mut out, track, bar.end, None);
        }
    }
    out.bytes
}

/// `TrackDescriptor` {uuid 1, name 2, parent_uuid 5}.
fn descriptor(out: &mut Message, uuid: u64, parent: Option<u64>, name: &str) {
    let mut track = Message::default();
    track.number(1, uuid);
    track.text(2, name);
    parent.into_iter().for_each(|parent| track.number(5, parent));
    let mut packet = Message::default();
    packet.number(10, SEQUENCE);
    packet.message(60, &track);
    out.message(1, &packet);
}

/// `TrackEvent` {type 9, track_uuid 11, categories 22, name 23}: start of a slice with its name, or its end.
fn slice(out: &mut Message, track: u64, at: Mono, name: Option<&str>) {
    let mut event = Message::default();
    event.number(9, if name.is_some() { 1 } else { 2 });
    event.number(11, track);
    if let Some(name) = name {
        event.text(22, "explanation");
        event.text(23, name);
    }
    let mut packet = Message::default();
    packet.number(8, at.0);
    packet.number(10, SEQUENCE);
    packet.message(11, &event);
    out.message(1, &packet);
}

/// `FtraceEvent` {timestamp 1, pid 2, and one of the events}; `None` for events that Perfetto does not draw. It shows
/// wake-ups only from `sched_waking`: without it, `from_wakeup` events are used.
fn ftrace_event(window: &Window, event: &Event, from_wakeup: bool) -> Option<Message> {
    let text = |sym: Option<crate::trace::event::Sym>| sym.map_or("", |sym| window.strings.get(sym));
    let name = |task: &TaskRef| match text(task.comm) {
        "" => window.comms.get(&task.tid).map_or("", String::as_str),
        name => name,
    };
    let mut body = Message::default();
    let prio = |task: &TaskRef| i64::from(task.prio.map_or(120, |prio| prio.0));
    let field = match &event.kind {
        Kind::Switch { prev, left_as, next } => {
            body.text(1, name(prev));
            body.signed(2, i64::from(prev.tid.0));
            body.signed(3, prio(prev));
            body.signed(4, prev_state(*left_as));
            body.text(5, name(next));
            body.signed(6, i64::from(next.tid.0));
            body.signed(7, prio(next));
            4
        }
        Kind::Wakeup { .. } if !from_wakeup => return None,
        Kind::Waking { task, target_cpu, .. } | Kind::Wakeup { task, target_cpu } => {
            body.text(1, name(task));
            body.signed(2, i64::from(task.tid.0));
            body.signed(3, prio(task));
            body.signed(4, 1);
            body.signed(5, i64::from(target_cpu.unwrap_or(event.cpu).0));
            20
        }
        Kind::IrqEntry { irq, name } => {
            body.signed(1, i64::from(*irq));
            body.text(2, text(*name));
            36
        }
        Kind::IrqExit { irq } => {
            body.signed(1, i64::from(*irq));
            body.signed(2, 1);
            37
        }
        Kind::SoftirqEntry { vec } => {
            body.number(1, u64::from(*vec));
            24
        }
        Kind::SoftirqExit { vec } => {
            body.number(1, u64::from(*vec));
            25
        }
        _ => return None,
    };
    let mut message = Message::default();
    message.number(1, event.at.0);
    // Perfetto shows it as the waker, which it is not in an interrupt or if another CPU may have queued the wake-up.
    let is_bystander = match event.kind {
        Kind::Wakeup { .. } => event.level != Level::Thread,
        Kind::Waking { .. } => event.level.is_interrupt(),
        _ => false,
    };
    let current = event.current.filter(|_| !is_bystander);
    message.number(2, current.map_or(0, |tid| tid.0.max(0) as u64));
    message.message(field, &body);
    Some(message)
}

/// As Linux 4.4 wrote it: Perfetto reads a trace without kernel version this way (its
/// src/trace_processor/types/task_state.cc). 0x800 is preempted; parked (0x40 since 4.14) is 0x200, idle (0x80) is D
/// without load.
fn prev_state(left_as: LeftAs) -> i64 {
    match left_as {
        LeftAs::Runnable => 0x800,
        LeftAs::Blocked(bits) => {
            let moved = |from, to| if bits & from != 0 { to } else { 0 };
            i64::from(bits & 0x3f | moved(0x40, 0x200) | moved(0x80, 0x402))
        }
        LeftAs::Dead => 0x10,
    }
}

/// A protocol buffer message (protobuf.dev/programming-guides/encoding): a sequence of fields.
#[derive(Clone, Debug, Default)]
struct Message {
    bytes: Vec<u8>,
}

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    /// An unsigned number or an enum.
    fn number(&mut self, field: u32, value: u64) {
        self.varint(u64::from(field) << 3);
        self.varint(value);
    }

    /// `int32` and `int64`: negative values take ten bytes.
    fn signed(&mut self, field: u32, value: i64) {
        self.number(field, value as u64);
    }

    fn text(&mut self, field: u32, text: &str) {
        self.block(field, text.as_bytes());
    }

    fn message(&mut self, field: u32, message: &Message) {
        self.block(field, &message.bytes);
    }

    fn block(&mut self, field: u32, bytes: &[u8]) {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(bytes.len() as u64);
        self.bytes.extend(bytes);
    }
}
