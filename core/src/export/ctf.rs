//! Common Trace Format 1.8 for the events of instrumented programs, for babeltrace2 and Trace Compass.
//!
//! One trace is one process, one stream is one of its rings. Design rules:
//! - The clock counts nanoseconds (`freq` 10^9: Trace Compass multiplies cycles by a double) and is named `monotonic`
//!   with the boot id as uuid, which Trace Compass uses to correlate it with kernel traces.
//! - `domain = "ust"` and LTTng-UST's name select Trace Compass's user-space analyses; they require `vpid`, `vtid` and
//!   `procname` in the context of each event.
//! - Packets are never empty, their times never go backwards, and only whole packets are written.
//! - Event headers carry 48 bits of the time; a packet spans less than half of their range, so they wrap safely.
//!
//! Source: CTF 1.8.3 specification; LTTng-UST 2.13 metadata. Not here: reading CTF, and CTF 2.

mod packet_head;

pub use packet_head::PacketHead;

use std::fmt::Write;

use crate::time::Mono;
use crate::trace::user_event::{Declaration, Field, FieldKind};

/// Bytes of a packet before its first event.
const HEADER_BYTES: usize = 32 + 60;
const EVENTS_DISCARDED_AT: usize = 32 + 40;
const POSITION_AT: usize = 32 + 48;
const MAGIC: u32 = 0xC1FC_1FC1;
/// A packet spans less than this; see the module's rules.
const SPAN_MAX_NS: u64 = 1 << 47;
const TIME_MASK: u64 = (1 << 48) - 1;

/// Metadata of a traced process.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// Identifies the trace; in every packet.
    pub uuid: [u8; 16],
    /// `/proc/sys/kernel/random/boot_id`.
    pub boot_id: String,
    /// Realtime minus monotonic, ns, measured once for all traces of a session.
    pub clock_offset_ns: i64,
    /// Host name.
    pub hostname: String,
    /// Name of the program.
    pub comm: String,
    /// Process id.
    pub pid: u32,
    /// Start of the recording, ISO 8601.
    pub created: String,
}

/// The file `metadata` of a trace directory.
#[must_use]
pub fn metadata(trace: &Trace, events: &[Declaration]) -> String {
    let mut text = String::from("/* CTF 1.8 */\n\n");
    let uuid = uuid_text(trace.uuid);
    let _ = write!(
        text,
        include_str!("ctf_preamble.txt"),
        uuid = uuid,
        hostname = quoted(&trace.hostname),
        comm = quoted(&trace.comm),
        pid = trace.pid,
        created = quoted(&trace.created),
        boot_id = quoted(&trace.boot_id),
        offset = trace.clock_offset_ns,
    );
    for event in events {
        let _ = write!(
            text,
            "\nevent {{\n\tname = {};\n\tid = {};\n\tstream_id = 0;\n\tfields := struct {{\n",
            quoted(&event.name),
            event.id
        );
        for field in &event.fields {
            write_field(&mut text, field);
        }
        text.push_str("\t};\n};\n");
    }
    text
}

/// Field names get an underscore, which readers strip, so that no name collides with a TSDL keyword.
fn write_field(text: &mut String, Field { name, kind }: &Field) {
    let _ = match kind {
        FieldKind::Int { bytes, signed } => writeln!(text, "\t\t{} _{name};", integer(*bytes, *signed)),
        FieldKind::Bool => writeln!(text, "\t\t{} _{name};", integer(1, false)),
        FieldKind::Float { bytes } => {
            let (exponent, mantissa) = if *bytes == 4 { (8, 24) } else { (11, 53) };
            writeln!(
                text,
                "\t\tfloating_point {{ exp_dig = {exponent}; mant_dig = {mantissa}; align = 8; }} _{name};"
            )
        }
        FieldKind::Enum { bytes, signed, labels } => {
            let labels = labels.iter().map(|(label, value)| match (signed, bytes) {
                (true, _) => format!("{} = {value}", quoted(label)),
                (false, 8) => format!("{} = {}", quoted(label), *value as u64),
                (false, _) => format!("{} = {}", quoted(label), *value as u64 & ((1 << (bytes * 8)) - 1)),
            });
            let labels = labels.collect::<Vec<_>>().join(", ");
            writeln!(text, "\t\tenum : {} {{ {labels} }} _{name};", integer(*bytes, *signed))
        }
        FieldKind::Str { .. } => writeln!(text, "\t\tstring {{ encoding = UTF8; }} _{name};"),
        FieldKind::Chars { size } => writeln!(
            text,
            "\t\tinteger {{ size = 8; align = 8; signed = false; encoding = UTF8; }} _{name}[{size}];"
        ),
        FieldKind::Bytes { size } => {
            writeln!(
                text,
                "\t\tinteger {{ size = 8; align = 8; signed = false; base = 16; }} _{name}[{size}];"
            )
        }
        FieldKind::Blob { .. } => writeln!(
            text,
            "\t\t{} __{name}_length;\n\t\tinteger {{ size = 8; align = 8; signed = false; base = 16; }} \
             _{name}[__{name}_length];",
            integer(2, false)
        ),
    };
}

fn integer(bytes: usize, signed: bool) -> String {
    format!("integer {{ size = {}; align = 8; signed = {signed}; }}", bytes * 8)
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push('?'),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// The usual form of a uuid.
#[must_use]
pub fn uuid_text(uuid: [u8; 16]) -> String {
    let hex = uuid.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// Context of all events of a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Writer<'a> {
    /// Process id, in its own namespace.
    pub vpid: u32,
    /// Thread id.
    pub vtid: u32,
    /// Name of the thread.
    pub procname: &'a [u8],
    /// CPU where the packet began.
    pub cpu: u32,
    /// Events that this stream has discarded so far.
    pub discarded: u64,
}

impl Writer<'_> {
    fn prefix(&self) -> Prefix {
        let mut bytes = [0; PREFIX_BYTES];
        bytes[8..12].copy_from_slice(&self.vpid.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.vtid.to_le_bytes());
        let name = self.procname.iter().take(NAME_BYTES_MAX).take_while(|&&byte| byte != 0);
        let mut length = 16;
        for &byte in name {
            bytes[length] = byte;
            length += 1;
        }
        Prefix { bytes, length: length + 1 }
    }
}

/// Maximum bytes of a thread's name, as in the kernel.
const NAME_BYTES_MAX: usize = 16;
const PREFIX_BYTES: usize = 40;

/// Prefix of each event: space for its header, then its context. Always copied as a whole (two or three vector
/// instructions); only `length` bytes are used.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Prefix {
    bytes: [u8; PREFIX_BYTES],
    length: usize,
}

impl Prefix {
    const NONE: Prefix = Prefix { bytes: [0; PREFIX_BYTES], length: 0 };
}

/// Writes consecutive packets of one stream into a buffer.
#[derive(Debug)]
pub struct StreamWriter {
    uuid: [u8; 16],
    instance: u64,
    sequence: u64,
    bytes: Vec<u8>, // used up to `filled`; spare space beyond, so that an event needs one bounds check
    filled: usize,
    packet_at: Option<usize>,
    begin: Mono,
    end: Mono,
    prefix: Prefix,
}

impl StreamWriter {
    /// Packets of stream `instance`, the first with number `sequence`; no timestamp is before `not_before`.
    #[must_use]
    pub fn new(uuid: [u8; 16], instance: u64, sequence: u64, not_before: Mono) -> StreamWriter {
        StreamWriter {
            uuid,
            instance,
            sequence,
            bytes: Vec::new(),
            filled: 0,
            packet_at: None,
            begin: not_before,
            end: not_before,
            prefix: Prefix::NONE,
        }
    }

    /// Ensures an open packet of `writer`; a packet of another writer is closed at `position`.
    pub fn open_for(&mut self, writer: &Writer, position: u64) {
        let same = self.packet_at.is_some_and(|at| {
            self.bytes[at + HEADER_BYTES - 4..][..4] == writer.cpu.to_le_bytes()
                && self.bytes[at + EVENTS_DISCARDED_AT..][..8] == writer.discarded.to_le_bytes()
                && self.prefix == writer.prefix()
        });
        if !same {
            self.close(position);
            self.open(writer);
        }
    }

    fn open(&mut self, writer: &Writer) {
        self.packet_at = Some(self.filled);
        self.append(&MAGIC.to_le_bytes());
        let uuid = self.uuid;
        self.append(&uuid);
        self.append(&0u32.to_le_bytes());
        self.append(&self.instance.to_le_bytes());
        for word in [0, 0, 0, 0, self.sequence, writer.discarded, 0] {
            self.append(&u64::to_le_bytes(word));
        }
        self.append(&writer.cpu.to_le_bytes());
        self.prefix = writer.prefix();
    }

    fn append(&mut self, bytes: &[u8]) {
        self.make_room(bytes.len());
        self.bytes[self.filled..][..bytes.len()].copy_from_slice(bytes);
        self.filled += bytes.len();
    }

    #[inline(always)]
    fn make_room(&mut self, bytes: usize) {
        if self.bytes.len() - self.filled < bytes {
            self.grow(bytes);
        }
    }

    #[cold]
    fn grow(&mut self, bytes: usize) {
        self.bytes.resize((self.filled + bytes).next_power_of_two().max(4096), 0);
    }

    /// Number of the next packet.
    #[must_use]
    pub fn next_sequence(&self) -> u64 {
        self.sequence
    }

    /// Time of the last event.
    #[must_use]
    pub fn last_time(&self) -> Mono {
        self.end
    }

    /// Appends an event to the open packet. `false`: it must go into another packet, because the time since this
    /// packet's start would not fit. About 10 ns.
    #[must_use]
    #[inline(always)]
    pub fn event(&mut self, id: u16, at: Mono, payload: &[u8]) -> bool {
        let Some(packet_at) = self.packet_at else { return false };
        let at = if at.0 > self.end.0 { at } else { self.end };
        if self.filled == packet_at + HEADER_BYTES {
            self.begin = at;
        } else if at.0 - self.begin.0 >= SPAN_MAX_NS {
            return false;
        }
        self.make_room(PREFIX_BYTES + payload.len());
        let room = &mut self.bytes[self.filled..];
        let Some(prefix) = room.first_chunk_mut::<PREFIX_BYTES>() else { return false };
        *prefix = self.prefix.bytes;
        let Some(header) = room.first_chunk_mut::<8>() else { return false };
        *header = (u64::from(id) | (at.0 & TIME_MASK) << 16).to_le_bytes();
        put(&mut room[self.prefix.length..], payload);
        self.filled += self.prefix.length + payload.len();
        self.end = at;
        true
    }

    /// Bytes of the open packet.
    #[must_use]
    #[inline]
    pub fn packet_bytes(&self) -> usize {
        self.packet_at.map_or(0, |at| self.filled - at)
    }

    /// Closes the packet; the next one continues at `position` of the ring. An empty one is discarded.
    pub fn close(&mut self, position: u64) {
        let Some(at) = self.packet_at.take() else { return };
        if self.filled == at + HEADER_BYTES {
            self.filled = at;
            return;
        }
        self.sequence += 1;
        let bits = (self.filled - at) as u64 * 8;
        for (index, word) in [self.begin.0, self.end.0, bits, bits].into_iter().enumerate() {
            self.bytes[at + 32 + index * 8..][..8].copy_from_slice(&word.to_le_bytes());
        }
        self.bytes[at + POSITION_AT..][..8].copy_from_slice(&position.to_le_bytes());
    }

    /// The complete packets so far. The caller writes them and then calls [`StreamWriter::clear`].
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.packet_at.unwrap_or(self.filled)]
    }

    /// Clears the buffer after writing; only between packets.
    pub fn clear(&mut self) {
        debug_assert!(self.packet_at.is_none());
        self.filled = 0;
    }
}

/// Copies all of `from` to the beginning of `to`; up to 64 bytes as two blocks, which may overlap: faster than a call
/// of memcpy.
#[inline(always)]
fn put(to: &mut [u8], from: &[u8]) {
    let to = &mut to[..from.len()];
    match from.len() {
        32..=64 => put_ends::<32>(to, from),
        16..=31 => put_ends::<16>(to, from),
        8..=15 => put_ends::<8>(to, from),
        _ => to.copy_from_slice(from),
    }
}

#[inline(always)]
fn put_ends<const N: usize>(to: &mut [u8], from: &[u8]) {
    if let (Some(to), Some(from)) = (to.first_chunk_mut::<N>(), from.first_chunk()) {
        *to = *from;
    }
    if let (Some(to), Some(from)) = (to.last_chunk_mut::<N>(), from.last_chunk()) {
        *to = *from;
    }
}

#[cfg(test)]
mod tests;
