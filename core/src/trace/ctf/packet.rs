//! Packets: their location in a file, and their headers.

use super::super::item::Damage;
use super::metadata::Trace;
use crate::trace::layout::walk::Walk;
use crate::trace::layout::Layout;

const MAGIC: u64 = 0xc1fc_1fc1;
/// LTTng's packets start at page boundaries; after damage the search for the next one continues there.
const PAGE: u64 = 4096;

/// One packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    /// Index of the file.
    pub file: u32,
    /// Index of the trace.
    pub trace: u16,
    pub stream: u64,
    /// Number of the stream within its class; `None`: not recorded.
    pub instance: Option<u64>,
    pub cpu: Option<u32>,
    /// Offset in the file, bytes.
    pub offset: u64,
    /// Bytes of content that the file has.
    pub content: u64,
    /// First bit of the first event, in the packet.
    pub first_bit: u64,
    /// Cycles.
    pub begin: Option<u64>,
    pub end: Option<u64>,
    /// Number of events discarded so far, and the width of that counter.
    pub discarded: Option<u64>,
    pub sequence: Option<u64>,
    /// The file has all of its content.
    pub is_whole: bool,
}

/// Finds all packets of a file. Damage is noted and skipped where possible.
pub(super) fn find_packets(
    file: &[u8],
    file_index: u32,
    trace: &Trace,
    trace_index: u16,
    damage: &mut Vec<Damage>,
) -> Vec<Packet> {
    let mut packets = Vec::new();
    let mut offset = 0u64;
    while offset < file.len() as u64 {
        match read(file, offset, trace) {
            Ok((mut packet, size)) => {
                packet.file = file_index;
                packet.trace = trace_index;
                let there = file.len() as u64 - offset;
                if size > there {
                    let what = format!(
                        "a packet of {size} bytes, the file has {there} of them: read as far as it goes"
                    );
                    damage.push(Damage::new(offset, what));
                    packet.is_whole = false;
                }
                packets.push(packet);
                offset = offset.saturating_add(size);
            }
            Err(broken) => {
                let next = next_packet(file, offset, trace);
                let skipped = next.unwrap_or(file.len() as u64) - offset;
                damage.push(Damage::new(
                    broken.offset,
                    format!("{}; {skipped} bytes are skipped", broken.what),
                ));
                match next {
                    Some(next) => offset = next,
                    None => break,
                }
            }
        }
    }
    packets
}

fn next_packet(file: &[u8], from: u64, trace: &Trace) -> Option<u64> {
    let magic = trace.packet_header.find("magic")?;
    let mut at = (from / PAGE + 1) * PAGE;
    while at < file.len() as u64 {
        if number(&trace.packet_header, magic, &file[at as usize..], 0) == Some(MAGIC) {
            return Some(at);
        }
        at += PAGE;
    }
    None
}

fn number(layout: &Layout, leaf: u16, data: &[u8], bit: u64) -> Option<u64> {
    layout.value(leaf, data, bit)?.bits()
}

/// The packet at `offset`, and its size in bytes.
fn read(file: &[u8], offset: u64, trace: &Trace) -> Result<(Packet, u64), Damage> {
    let broken = |what: String| Damage::new(offset, what);
    let data = &file[offset as usize..];
    let header = &trace.packet_header;
    let named = |layout: &Layout, name: &str, bit: u64| number(layout, layout.find(name)?, data, bit);
    if header.find("magic").is_some() && named(header, "magic", 0) != Some(MAGIC) {
        return Err(broken("no packet begins here (wrong magic number)".into()));
    }
    let mut walk = Walk::new(data, 0);
    let cut = |_| broken("the header of a packet is cut off".into());
    header.over(&mut walk).map_err(cut)?;
    let stream = match header.find("stream_id") {
        Some(leaf) => number(header, leaf, data, 0).unwrap_or(0),
        None => trace.streams.keys().copied().min().unwrap_or(0),
    };
    let Some(class) = trace.streams.get(&stream) else {
        return Err(broken(format!("a packet of stream {stream}, which the metadata do not declare")));
    };
    let context = &class.packet_context;
    let begin_of_context = walk.bit;
    context.over(&mut walk).map_err(cut)?;
    let field = |name: &str| named(context, name, begin_of_context);
    let all = data.len() as u64 * 8;
    let size = field("packet_size").or(field("content_size")).unwrap_or(all);
    let content = field("content_size").unwrap_or(size);
    if size % 8 != 0 || size == 0 || content > size || content < walk.bit {
        return Err(broken(format!("a packet of {size} bits with {content} of content")));
    }
    let packet = Packet {
        file: 0,
        trace: 0,
        stream,
        instance: named(header, "stream_instance_id", 0),
        cpu: field("cpu_id").and_then(|cpu| u32::try_from(cpu).ok()),
        offset,
        content: content.div_ceil(8).min(data.len() as u64),
        first_bit: walk.bit,
        begin: field("timestamp_begin"),
        end: field("timestamp_end"),
        discarded: field("events_discarded"),
        sequence: field("packet_seq_num"),
        is_whole: true,
    };
    Ok((packet, size / 8))
}
