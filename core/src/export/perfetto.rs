//! Explained intervals for the Perfetto UI (ui.perfetto.dev): the scheduler's and interrupts' events as ftrace gives them,
//! and as tracks of its own the explanation and, for each CPU, all that interrupted it: of x86's vectors and of
//! NMIs Perfetto draws nothing by itself.
//!
//! A trace is a sequence of `TracePacket` messages (protos/perfetto/trace/trace.proto); the numbers of the fields used
//! here are in `core/tests/data/perfetto.proto`, against which the tests decode. Events stand in one bundle per CPU and
//! 512 events; Perfetto sorts them itself. No clock is named: all times are the trace's own, which Perfetto takes as
//! those of its default clock, ftrace's and tracks' alike.

use crate::explain::lanes::{Lanes, Of};
use crate::time::{Cpu, Mono};
use crate::trace::event::{Event, Kind, LeftAs, Level, TaskRef};
use crate::trace::window::Window;

/// Events in one bundle.
const BUNDLE: usize = 512;
/// Sequence of our packets.
const SEQUENCE: u64 = 1;
/// Numbers of tracks for each interval.
const TRACKS: u64 = 1 << 40;
/// Of those, the first for a CPU's interrupts; those before are for levels.
const INTERRUPTS: u64 = 1 << 32;

/// One explained interval: the events of `window` within `lanes` that are not in those of `before` as well, and the
/// explanation under `name`. Traces of several intervals, each with its own `number`, are one when appended.
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

/// `TrackEvent` {type 9, track_uuid 11, categories 22, name 23}: begin of a slice with its name, or its end.
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

/// `FtraceEvent` {timestamp 1, pid 2, and one of the events}; `None` for what Perfetto draws nothing of. It knows wake-ups
/// by `sched_waking` alone: recordings without it show those that are `from_wakeup`.
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
    // Perfetto takes it for the waker: in an interrupt, or where another CPU may have handed the wake-up over, it is none.
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

/// As Linux 4.4 wrote it: this is how Perfetto reads a trace that names no kernel (its
/// src/trace_processor/types/task_state.cc). 0x800 is preempted; what was parked (0x40 since 4.14) is 0x200, what
/// idles (0x80) is D without load.
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

/// A message of protocol buffers (protobuf.dev/programming-guides/encoding): fields one after another.
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

    /// A number without sign, or a choice.
    fn number(&mut self, field: u32, value: u64) {
        self.varint(u64::from(field) << 3);
        self.varint(value);
    }

    /// `int32` and `int64`: negative ones are ten bytes long.
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
