//! The index that LTTng writes for each stream file: its packets and their times.
//!
//! A packet in the index but not in the file (a truncated copy, a full disk) was recorded and is missing: its time span
//! is a loss. An index with fewer packets than the file is normal, because it is written later.
//!
//! Format: lttng-tools, `src/common/index/ctf-index.h`; all numbers are big-endian.

use super::super::item::Damage;
use super::packet::Packet;
use crate::numbers::counted;

const MAGIC: u32 = 0xc1f1_dcc1;
/// Bytes of its header, and of an entry in version 1.0; 1.1 adds instance and sequence number of the packet.
const HEADER: usize = 16;
const ENTRY: usize = 56;

/// The packets in `index` that are missing in `packets`, all those of the file; stream and CPU are those of the others.
/// An invalid index is ignored.
pub(super) fn missing(index: &[u8], file_len: u64, packets: &[Packet]) -> (Vec<Packet>, Option<Damage>) {
    let word = |at: usize| index.get(at..at + 4).map(|b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]));
    let (Some(MAGIC), Some(1), Some(size)) = (word(0), word(4), word(12)) else { return Default::default() };
    let size = size as usize;
    let Some(like) = packets.first().filter(|_| size >= ENTRY) else { return Default::default() };
    let mut found = Vec::new();
    for entry in index.get(HEADER..).unwrap_or_default().chunks_exact(size) {
        let number = |place: usize| {
            let bytes = entry.get(place * 8..place * 8 + 8)?;
            Some(bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
        };
        let (Some(offset), Some(begin), Some(end)) = (number(0), number(3), number(4)) else { break };
        if begin <= end && packets.binary_search_by_key(&offset, |packet| packet.offset).is_err() {
            let missing = Packet {
                offset: offset.min(file_len),
                content: 0,
                first_bit: 0,
                begin: Some(begin),
                end: Some(end),
                discarded: number(5),
                sequence: number(8),
                is_whole: false,
                ..*like
            };
            found.push(missing);
        }
    }
    let damage = found.first().map(|first| {
        let packets = counted(found.len() as u64, "packet");
        let what = format!("not in the file, although the index names them: {packets}");
        Damage::new(first.offset, what)
    });
    (found, damage)
}
