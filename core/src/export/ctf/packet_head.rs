//! Reads the header of a packet written by lathunt, to continue a stream after a kill.

use super::{EVENTS_DISCARDED_AT, HEADER_BYTES, MAGIC, POSITION_AT};
use crate::time::Mono;

/// The header of a packet in a stream file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PacketHead {
    /// Bytes of the packet.
    pub bytes: u64,
    /// Its number.
    pub sequence: u64,
    /// Time of its last event.
    pub end: Mono,
    /// Events discarded so far.
    pub discarded: u64,
    /// Ring position of the next packet.
    pub position: u64,
}

impl PacketHead {
    /// Bytes required to parse one.
    pub const BYTES: usize = HEADER_BYTES;
    /// Offset of `events_discarded` in a packet, to correct it at the end.
    pub const DISCARDED_AT: u64 = EVENTS_DISCARDED_AT as u64;

    /// Parses it; `None` unless lathunt wrote it for trace `uuid`.
    #[must_use]
    pub fn parse(bytes: &[u8], uuid: [u8; 16]) -> Option<PacketHead> {
        let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        if bytes.get(..4)? != MAGIC.to_le_bytes() || bytes.get(4..20)? != uuid {
            return None;
        }
        let bits = word(56)?;
        (bits % 8 == 0 && bits / 8 > HEADER_BYTES as u64).then_some(())?;
        Some(PacketHead {
            bytes: bits / 8,
            sequence: word(64)?,
            end: Mono(word(40)?),
            discarded: word(EVENTS_DISCARDED_AT)?,
            position: word(POSITION_AT)?,
        })
    }
}
