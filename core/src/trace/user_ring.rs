//! The shared memory of an instrumented program (crate `lathunt-tracer`, LAYOUT.md): offsets of its words, and parsing
//! of its packets.
//!
//! The program may have died at any instruction, or may corrupt the memory: everything is checked and nothing here can
//! panic. A test of the tracer compares these offsets with its structures. Not here: reading shared memory
//! (`host::channel`), and the export of the events (`export::ctf`).

use crate::time::Mono;

/// First word of a file that is ready: `LHTRACE1`.
pub const MAGIC: u64 = u64::from_le_bytes(*b"LHTRACE1");
/// The supported version of the layout.
pub const VERSION: u64 = 1;
/// Maximum number of events of a process.
pub const EVENTS_MAX: usize = 4096;
/// Maximum number of rings of a process.
pub const RINGS_MAX: usize = 4096;
/// Offset of the enable bytes.
pub const ENABLED_AT: usize = 4096;
/// Offset of the ring table.
pub const RING_TABLE_AT: usize = 8192;
/// Offset of the declarations.
pub const DECLARATIONS_AT: usize = 40960;
/// Size of the control area.
pub const CONTROL_BYTES: usize = 262_144;
/// Size of a ring's header; its packets follow.
pub const RING_HEADER_BYTES: usize = 4096;
/// Size of a packet's header; its records follow.
pub const PACKET_HEADER_WORDS: usize = 12;

/// Offsets of the words of the control area.
#[allow(missing_docs)]
pub mod control {
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = 8;
    pub const PID: usize = 16;
    pub const START_TICKS: usize = 24;
    pub const CREATED_NS: usize = 32;
    pub const CLOCK: usize = 40;
    pub const TICK_Q32: usize = 48;
    pub const EVENTS: usize = 56;
    pub const RINGS: usize = 64;
    pub const DECLARED_BYTES: usize = 72;
    pub const NO_RING: usize = 80;
    pub const LAZY_CLAIMS: usize = 88;
    pub const REFUSED_EVENTS: usize = 96;
    pub const ENDED: usize = 104;
    pub const COMM: usize = 112;
}

/// Offsets of the words of a ring's header.
#[allow(missing_docs)]
pub mod ring {
    pub const RESERVE: usize = 0;
    pub const COMMITTED: usize = 8;
    pub const PACKET_WORDS: usize = 24;
    pub const PACKET_MASK: usize = 32;
    pub const DISCARDED: usize = 56;
    pub const CONSUMED: usize = 64;
    pub const OVERWRITE: usize = 72;
    pub const DRAINED: usize = 80;
    pub const DISCARDED_BEFORE: usize = 88;
    pub const OWNER: usize = 128;
    pub const BYTES: usize = 160;
    pub const EVENTS_BEFORE: usize = 168;
    pub const TOO_LARGE: usize = 176;
}

/// A position in a ring: packet number (its low 32 bits), records and words in that packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Position {
    /// Packet number modulo 2^32.
    pub seq: u32,
    /// Records of the packet before this position.
    pub events: u16,
    /// Words of the packet before this position; [`Position::CLOSED`]: see the packet header.
    pub words: u16,
}

impl Position {
    /// Value of `words` if the packet is closed.
    pub const CLOSED: u16 = 0xffff;

    /// From its word.
    #[must_use]
    pub fn from_word(word: u64) -> Position {
        Position { seq: (word >> 32) as u32, events: (word >> 16) as u16, words: word as u16 }
    }

    /// As its word.
    #[must_use]
    pub fn word(self) -> u64 {
        u64::from(self.seq) << 32 | u64::from(self.events) << 16 | u64::from(self.words)
    }

    /// Before the first record of packet `seq`.
    #[must_use]
    pub fn start_of(seq: u32) -> Position {
        Position { seq, events: 0, words: PACKET_HEADER_WORDS as u16 }
    }

    /// Number of packets from here to `other`; negative if `other` is earlier.
    #[must_use]
    pub fn packets_to(self, other: Position) -> i32 {
        other.seq.wrapping_sub(self.seq) as i32
    }
}

/// Counter and `CLOCK_MONOTONIC` at one time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Anchor {
    /// The counter of the ring's clock.
    pub counter: u64,
    /// ns.
    pub ns: u64,
}

/// Conversion of counter values to times: a straight line between two anchors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClockMap {
    from: Anchor,
    until_ns: u64,
    tick_q32: u64,
}

impl ClockMap {
    /// The line through both; if `to` is not after `from`, with the slope `tick_q32` (ns per tick, 32.32 fixed point).
    #[must_use]
    pub fn between(from: Anchor, to: Anchor, tick_q32: u64) -> ClockMap {
        if to.counter > from.counter && to.ns >= from.ns {
            let ticks = u128::from(to.counter - from.counter);
            let tick_q32 = ((u128::from(to.ns - from.ns) << 32) / ticks).min(u128::from(u64::MAX)) as u64;
            ClockMap { from, until_ns: to.ns, tick_q32 }
        } else {
            ClockMap { from, until_ns: u64::MAX, tick_q32 }
        }
    }

    /// The time of a counter value; never outside the two anchors.
    #[must_use]
    #[inline]
    pub fn time(&self, counter: u64) -> Mono {
        let ticks = counter.saturating_sub(self.from.counter);
        let ns = (u128::from(ticks) * u128::from(self.tick_q32)) >> 32;
        Mono(self.from.ns.saturating_add(ns as u64).min(self.until_ns))
    }
}

/// The header of a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Packet {
    /// Its number; if it is not the expected one, the packet has been overwritten.
    pub seq: u32,
    /// Its start.
    pub begin: Anchor,
    /// Its end; valid only if the packet is closed.
    pub end: Anchor,
    /// Events discarded on this ring before.
    pub discarded: u64,
    /// Words used; valid only if the packet is closed.
    pub words: u32,
    /// Number of records; valid only if the packet is closed.
    pub events: u32,
    /// Thread that wrote it.
    pub tid: u32,
    /// CPU at its start.
    pub cpu: u32,
    /// Name of the thread, padded with NULs.
    pub name: [u8; 16],
    /// Events in all packets before.
    pub events_before: u64,
}

impl Packet {
    /// Reads the header; `None` if there are too few bytes.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Packet> {
        let word = |index: usize| word_at(bytes, index * 8);
        let mut name = [0; 16];
        name.copy_from_slice(bytes.get(64..80)?);
        Some(Packet {
            seq: word(0)? as u32,
            begin: Anchor { counter: word(1)?, ns: word(2)? },
            end: Anchor { counter: word(3)?, ns: word(4)? },
            discarded: word(5)?,
            words: word(6)? as u32,
            events: (word(6)? >> 32) as u32,
            tid: word(7)? as u32,
            cpu: (word(7)? >> 32) as u32,
            name,
            events_before: word(10)?,
        })
    }
}

/// One record of a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Record<'a> {
    /// Event id.
    pub id: u16,
    /// Counter ticks since the start of the packet.
    pub ticks: u32,
    /// The fields.
    pub payload: &'a [u8],
}

/// The records in `bytes[from..to]` of a packet; ends early at an invalid one (see [`Records::damaged`]).
#[derive(Clone, Debug)]
pub struct Records<'a> {
    bytes: &'a [u8],
    at: usize,
    damaged: bool,
}

impl<'a> Records<'a> {
    /// Records between two word positions of a packet.
    #[must_use]
    pub fn new(packet: &'a [u8], from_words: usize, to_words: usize) -> Records<'a> {
        let end = (to_words * 8).min(packet.len());
        Records { bytes: &packet[..end], at: (from_words * 8).min(end), damaged: false }
    }

    /// Whether the last record had an invalid length; the rest is unreadable.
    #[must_use]
    pub fn damaged(&self) -> bool {
        self.damaged
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    #[inline]
    fn next(&mut self) -> Option<Record<'a>> {
        let header = word_at(self.bytes, self.at)?;
        let length = (header >> 16) as usize & 0xffff;
        let payload = self.bytes.get(self.at + 8..self.at + length);
        self.damaged = length < 8 || payload.is_none();
        let payload = payload.filter(|_| length >= 8)?;
        self.at += length.next_multiple_of(8);
        Some(Record { id: header as u16, ticks: (header >> 32) as u32, payload })
    }
}

#[inline]
fn word_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_map_hits_both_anchors_and_stays_between_them() {
        let from = Anchor { counter: 1_000, ns: 50 };
        let to = Anchor { counter: 2_100_001_000, ns: 1_000_000_050 };
        let map = ClockMap::between(from, to, 0);
        assert_eq!(map.time(from.counter), Mono(50));
        assert!(to.ns - map.time(to.counter).0 <= 1);
        assert_eq!(map.time(0), Mono(50));
        assert_eq!(map.time(u64::MAX), Mono(to.ns));
    }

    #[test]
    fn without_a_second_anchor_the_measured_rate_counts() {
        let from = Anchor { counter: 10, ns: 100 };
        assert_eq!(ClockMap::between(from, from, 1 << 31).time(30), Mono(110));
    }

    #[test]
    fn records_end_at_a_length_that_cannot_be() {
        let mut packet = vec![0u8; 64];
        packet[..8].copy_from_slice(&(7u64 << 32 | 12 << 16 | 3).to_le_bytes());
        packet[8..12].copy_from_slice(b"abcd");
        packet[16..24].copy_from_slice(&(4u64 << 16).to_le_bytes());
        let mut records = Records::new(&packet, 0, 8);
        assert_eq!(records.next(), Some(Record { id: 3, ticks: 7, payload: b"abcd" }));
        assert_eq!(records.next(), None);
        assert!(records.damaged());
        let mut empty = Records::new(&packet, 0, 2);
        assert!(empty.next().is_some() && empty.next().is_none() && !empty.damaged());
    }

    #[test]
    fn positions_compare_across_the_wrap_of_the_packet_number() {
        let before = Position::start_of(u32::MAX);
        assert_eq!(before.packets_to(Position::start_of(1)), 2);
        assert_eq!(Position::start_of(1).packets_to(before), -2);
        assert_eq!(Position::from_word(before.word()), before);
    }
}
