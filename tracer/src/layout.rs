//! The memory that a traced program shares with the consumer, word by word. LAYOUT.md describes it in prose,
//! `include/lathunt/trace_ring.h` repeats the part used on the hot path, and `lathunt_core::trace::user_ring` reads
//! it; a test verifies that all agree.
//!
//! Everything a second process reads or writes is a 64-bit word, so that no access can be torn.

/// `LHTRACE1`, little endian. Stored last: a file without it is not ready.
pub const MAGIC: u64 = u64::from_le_bytes(*b"LHTRACE1");
/// Version of this layout.
pub const VERSION: u64 = 1;
/// Maximum number of events of a process; the event's id is its index.
pub const EVENTS_MAX: usize = 4096;
/// Maximum number of rings of a process, including the init ring (number 0).
pub const RINGS_MAX: usize = 4096;
/// Offset of the enable bytes, one per event id.
pub const ENABLED_AT: usize = 4096;
/// Offset of the ring table: per ring the file offset of its header, 0 if there is none.
pub const RING_TABLE_AT: usize = ENABLED_AT + EVENTS_MAX;
/// Offset of the declarations: text, append-only, never overwritten.
pub const DECLARATIONS_AT: usize = RING_TABLE_AT + RINGS_MAX * 8;
/// Size of the control area; the init ring follows.
pub const CONTROL_BYTES: usize = 256 * 1024;
/// Size of a ring's header; its packets follow.
pub const RING_HEADER_BYTES: usize = 4096;
/// Words of a packet's header; its records follow.
pub const PACKET_HEADER_WORDS: u64 = 12;

/// First page of the file: the writing process, its clock, and how much of the rest is valid.
#[repr(C)]
pub struct Control<W> {
    /// [`MAGIC`] once everything else is in place.
    pub magic: W,
    /// [`VERSION`].
    pub version: W,
    /// Process id in its own pid namespace.
    pub pid: W,
    /// Start time of the process in clock ticks since boot (`/proc/PID/stat` field 22).
    pub start_ticks: W,
    /// `CLOCK_MONOTONIC` ns when this file was created.
    pub created_ns: W,
    /// [`crate::clock::Kind`] of every time stamp in this file.
    pub clock: W,
    /// Nanoseconds per counter tick, 32.32 fixed point: only for the open packet of a dead process.
    pub tick_q32: W,
    /// Declared events (committed by a release store).
    pub events: W,
    /// Entries of the ring table in use (committed by a release store).
    pub rings: W,
    /// Bytes of declarations (committed by a release store).
    pub declared_bytes: W,
    /// Events lost because their thread has no ring (no memory, limit reached, lock not available in a signal
    /// handler).
    pub no_ring: W,
    /// Threads that got their ring at their first event instead of in `thread_init`.
    pub lazy_claims: W,
    /// Events refused at declaration: table or declarations full.
    pub refused_events: W,
    /// 1 after an orderly exit.
    pub ended: W,
    /// Name of the program (`/proc/self/comm`), NUL-padded.
    pub comm: [W; 2],
}

/// Header of a ring, on a page of its own. One thread writes events; the consumer writes the second cache line.
#[repr(C)]
pub struct Ring<W> {
    /// [`State`] up to which records are reserved.
    pub reserve: W,
    /// [`State`] up to which records are complete: the release store of this word is the commit.
    pub committed: W,
    /// Counter value at which the open packet began; records hold 32-bit offsets from it.
    pub begin_counter: W,
    /// Words in a packet, its header included.
    pub packet_words: W,
    /// Packets in the ring minus one (a power of two minus one).
    pub packet_mask: W,
    /// [`crate::clock::Kind`].
    pub clock: W,
    /// Not 0 while the thread is inside a packet switch.
    pub switching: W,
    /// Events not recorded, for any reason; never decreases.
    pub discarded: W,

    /// Packets with a smaller number may be reused (discard mode). Written by the consumer.
    pub consumed: W,
    /// 1: overwrite the oldest packet when full (flight recorder); 0: discard new events. Written by the consumer.
    pub overwrite: W,
    /// Position of the consumer; what follows is for the next consumer.
    pub drained: W,
    /// `discarded` when the last session ended: the next one counts from there.
    pub discarded_before: W,
    /// Fills the consumer's cache line.
    pub spare: [W; 4],

    /// Thread that owns the ring; 0: free.
    pub owner: W,
    /// Number of owners so far.
    pub generation: W,
    /// Name of the owner, NUL-padded.
    pub name: [W; 2],
    /// Bytes of header and packets.
    pub bytes: W,
    /// Events committed or in flight in all packets before the open one.
    pub events_before: W,
    /// Part of `discarded`: larger than a packet.
    pub too_large: W,
}

/// Header of a packet. `end_*`, `words` and `events` are valid once a later packet is open or the packet is closed.
#[repr(C)]
pub struct Packet<W> {
    /// Number of the packet in the life of the ring, from 1. Written first, so that a reader detects the reuse.
    pub seq: W,
    /// Counter when opened.
    pub begin_counter: W,
    /// `CLOCK_MONOTONIC` ns at the same moment.
    pub begin_ns: W,
    /// Counter when closed.
    pub end_counter: W,
    /// `CLOCK_MONOTONIC` ns at the same moment.
    pub end_ns: W,
    /// [`Ring::discarded`] when opened.
    pub discarded: W,
    /// Low half: words used, including the header; high half: records. When closed.
    pub used: W,
    /// Low half: thread id; high half: CPU when opened.
    pub owner: W,
    /// Name of the thread, NUL-padded.
    pub name: [W; 2],
    /// Events in all packets before this one.
    pub events_before: W,
    /// Unused.
    pub spare: W,
}

/// A position in a ring as one word: packet number (low 32 bits of it), records in the packet, words in the packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct State(pub u64);

impl State {
    /// `words` of a packet that accepts no more records; its header has their number.
    pub const CLOSED: u64 = 0xffff;

    /// Composes a position.
    #[must_use]
    pub const fn new(seq: u64, events: u64, words: u64) -> State {
        State((seq << 32) | (events << 16) | words)
    }

    /// Packet number, modulo 2^32.
    #[must_use]
    pub const fn seq(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Records in the packet.
    #[must_use]
    pub const fn events(self) -> u64 {
        (self.0 >> 16) & 0xffff
    }

    /// Words used in the packet, or [`State::CLOSED`].
    #[must_use]
    pub const fn words(self) -> u64 {
        self.0 & 0xffff
    }

    /// After one more record of `words`.
    #[must_use]
    pub const fn plus(self, words: u64) -> State {
        State(self.0 + (1 << 16) + words)
    }

    /// The same packet, full.
    #[must_use]
    pub const fn closed(self) -> State {
        State(self.0 | State::CLOSED)
    }
}

/// First word of a record: event id, bytes of the record (including this word), counter ticks since the packet
/// began.
#[must_use]
pub const fn record_word(id: u16, bytes: u64, ticks: u64) -> u64 {
    (ticks << 32) | (bytes << 16) | id as u64
}
