//! A kernel trace as CTF 1.8 for Trace Compass and babeltrace2: every event with all its fields, under the kernel's names.
//!
//! The names, the context field and `tracer_name` are those of `perf data convert --to-ctf` (`sched:sched_switch`,
//! `perf_tid`): Trace Compass has an event layout for it, which its kernel analyses use. One stream per CPU; numbers
//! are always little endian; losses are in `events_discarded` of the packets. Not here: traces that are already CTF,
//! and events of programs ([`super::ctf`]).

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::time::Cpu;
use crate::trace::catalogue::{EventClass, FieldRef, Place};
use crate::trace::item::{Item, Record, Span};
use crate::trace::source::Source;
use crate::trace::value::Value;

const MAGIC: u32 = 0xC1FC_1FC1;
/// Magic, stream id; times, sizes, discarded events, CPU.
const HEADER_BYTES: usize = 8 + 5 * 8 + 4;
/// A packet is written when it exceeds this.
const PACKET_BYTES: usize = 256 << 10;

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Events.
    pub events: u64,
    /// Events lost by the recorder, if counted.
    pub lost: u64,
}

/// Whether `source` can be written: its fields need fixed offsets (all formats except CTF).
#[must_use]
pub fn is_possible(source: &dyn Source) -> bool {
    let fields = source.catalogue().classes().iter().flat_map(|class| &class.fields);
    !fields.into_iter().any(|field| matches!(field.place, Place::Walked { .. }))
}

/// The file `metadata`.
#[must_use]
pub fn metadata(source: &dyn Source) -> String {
    let info = source.info();
    let machine: Vec<&str> = info.machine.split(' ').collect();
    let word = |index: usize| quoted(machine.get(index).copied().unwrap_or(""));
    let mut text = format!(
        include_str!("kernel_ctf_preamble.txt"),
        host = word(1),
        release = word(2),
        machine = quoted(machine.last().copied().unwrap_or("")),
        clock = if info.clock.is_monotonic() { "monotonic" } else { "trace_clock" },
        offset = info.clock.epoch_offset_ns.unwrap_or(0),
    );
    for (id, class) in source.catalogue().classes().iter().enumerate() {
        let _ = writeln!(
            text,
            "\nevent {{\n\tname = {};\n\tid = {id};\n\tstream_id = 0;\n\tfields := struct {{",
            quoted(&class.full_name())
        );
        for (name, field) in named(class) {
            declare(&mut text, &name, class, field);
        }
        text.push_str("\t};\n};\n");
    }
    text
}

/// The event's fields with unique names that CTF allows; readers strip the leading underscore.
fn named(class: &EventClass) -> Vec<(String, FieldRef)> {
    let mut names: Vec<(String, FieldRef)> = Vec::new();
    for field in class.payload() {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let mut name: String = class.name_of(field).chars().map(plain).collect();
        while names.iter().any(|(known, _)| *known == name) {
            name.push('_');
        }
        names.push((name, field));
    }
    names
}

fn declare(text: &mut String, name: &str, class: &EventClass, field: FieldRef) {
    let integer = |bytes: u8, signed: bool| {
        format!("integer {{ size = {}; align = 8; signed = {signed}; }}", u32::from(bytes) * 8)
    };
    let _ = match class.place_of(field) {
        Some(Place::Int { size, signed, .. }) => writeln!(text, "\t\t{} _{name};", integer(size, signed)),
        // As LTTng declares thread names: later fields keep a fixed offset for readers.
        Some(Place::Array { element, size: size @ 1..=4096, .. }) if element.text => {
            writeln!(text, "\t\tinteger {{ size = 8; align = 8; encoding = UTF8; }} _{name}[{size}];")
        }
        Some(Place::Array { element, .. } | Place::DataLoc { element, .. }) if element.text => {
            writeln!(text, "\t\tstring {{ encoding = UTF8; }} _{name};")
        }
        Some(Place::Array { element, .. } | Place::DataLoc { element, .. }) => writeln!(
            text,
            "\t\t{} __{name}_length;\n\t\t{} _{name}[__{name}_length];",
            integer(4, false),
            integer(element.size.max(1), element.signed)
        ),
        Some(Place::Walked { .. }) | None => Ok(()),
    };
}

fn quoted(text: &str) -> String {
    let plain = |c: char| if c == '"' || c == '\\' || c.is_control() { '?' } else { c };
    format!("\"{}\"", text.chars().map(plain).collect::<String>())
}

/// Writes the packets of all streams to `sink` with their CPU, in stream order.
///
/// # Errors
/// Errors of the sink.
pub fn streams<E>(
    source: &dyn Source,
    mut sink: impl FnMut(Cpu, &[u8]) -> Result<(), E>,
) -> Result<Written, E> {
    let fields: Vec<Vec<FieldRef>> = source
        .catalogue()
        .classes()
        .iter()
        .map(|class| named(class).into_iter().map(|(_, field)| field).collect())
        .collect();
    let current: Vec<Option<FieldRef>> = source
        .catalogue()
        .classes()
        .iter()
        .map(|class| class.field_of(&["common_pid", "perf_tid"]))
        .collect();
    let mut open: BTreeMap<Cpu, Packet> = BTreeMap::new();
    let mut written = Written::default();
    let mut walk = source.events(Span::ALL);
    while let Some(item) = walk.next() {
        match item {
            Item::Event(record) => {
                let Some(class) = source.class(&record) else { continue };
                let packet = open.entry(record.cpu).or_default();
                let index = record.class as usize;
                packet.event(class, &record, current[index], &fields[index]);
                written.events += 1;
                if packet.bytes.len() > PACKET_BYTES {
                    packet.close(record.cpu, &mut sink)?;
                }
            }
            Item::Lost(loss) => {
                let count = loss.count.unwrap_or(1);
                written.lost = written.lost.saturating_add(count);
                let packet = open.entry(loss.cpu).or_default();
                packet.discarded = packet.discarded.saturating_add(count);
                // The counter is valid at the end of a packet: the loss precedes the next packet.
                packet.close(loss.cpu, &mut sink)?;
            }
            Item::Damage(_) => {}
        }
    }
    for (cpu, packet) in &mut open {
        packet.close(*cpu, &mut sink)?;
    }
    Ok(written)
}

#[derive(Default)]
struct Packet {
    bytes: Vec<u8>,
    begin: u64,
    end: u64,
    discarded: u64,
}

impl Packet {
    fn event(
        &mut self,
        class: &EventClass,
        record: &Record<'_>,
        current: Option<FieldRef>,
        fields: &[FieldRef],
    ) {
        if self.bytes.is_empty() {
            self.bytes.resize(HEADER_BYTES, 0);
            self.begin = record.at.0;
        }
        self.end = self.end.max(record.at.0);
        self.bytes.extend(record.class.to_le_bytes());
        self.bytes.extend(record.at.0.to_le_bytes());
        let tid = current.and_then(|field| class.bits(field, record)).unwrap_or(0) as i32;
        self.bytes.extend(tid.to_le_bytes());
        for &field in fields {
            self.field(class, record, field);
        }
    }

    /// A field beyond the end of the record is zero or empty.
    fn field(&mut self, class: &EventClass, record: &Record<'_>, field: FieldRef) {
        match class.place_of(field) {
            Some(Place::Int { size, .. }) => {
                let bits = class.bits(field, record).unwrap_or(0);
                self.bytes.extend(&bits.to_le_bytes()[..usize::from(size).min(8)]);
            }
            Some(Place::Array { element, size: size @ 1..=4096, .. }) if element.text => {
                let text = class.text(field, record).unwrap_or(&[]);
                let size = size as usize;
                self.bytes.extend(&text[..text.len().min(size)]);
                self.bytes.resize(self.bytes.len() + size.saturating_sub(text.len()), 0);
            }
            Some(Place::Array { element, .. } | Place::DataLoc { element, .. }) => {
                match class.value(field, record) {
                    Some(Value::Text(text)) => {
                        self.bytes.extend(String::from_utf8_lossy(text).as_bytes());
                        self.bytes.push(0);
                    }
                    Some(Value::Array(array)) => {
                        self.bytes.extend((array.len() as u32).to_le_bytes());
                        for value in (0..array.len()).filter_map(|index| array.get(index)) {
                            let bits = value.bits().unwrap_or(0);
                            self.bytes.extend(&bits.to_le_bytes()[..usize::from(element.size.clamp(1, 8))]);
                        }
                    }
                    _ if element.text => self.bytes.push(0),
                    _ => self.bytes.extend(0u32.to_le_bytes()),
                }
            }
            Some(Place::Walked { .. }) | None => {}
        }
    }

    /// Passes the packet to the sink, unless empty, and starts the next one.
    fn close<E>(&mut self, cpu: Cpu, sink: &mut impl FnMut(Cpu, &[u8]) -> Result<(), E>) -> Result<(), E> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        let bits = self.bytes.len() as u64 * 8;
        let mut header = Vec::with_capacity(HEADER_BYTES);
        header.extend(MAGIC.to_le_bytes());
        header.extend(0u32.to_le_bytes());
        for word in [self.begin, self.end, bits, bits, self.discarded] {
            header.extend(word.to_le_bytes());
        }
        header.extend(cpu.0.to_le_bytes());
        self.bytes[..HEADER_BYTES].copy_from_slice(&header);
        sink(cpu, &self.bytes)?;
        self.bytes.clear();
        Ok(())
    }
}
