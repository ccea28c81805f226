//! One instrumented program, alive or dead: its control area, its rings, its events.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::Ordering;

use lathunt_core::export::user_stream::Events;
use lathunt_core::trace::user_event::{parse_declarations, Declaration};
use lathunt_core::trace::user_ring::{
    control, ring, Anchor, Position, CONTROL_BYTES, DECLARATIONS_AT, ENABLED_AT, EVENTS_MAX, MAGIC,
    PACKET_HEADER_WORDS, RINGS_MAX, RING_HEADER_BYTES, RING_TABLE_AT, VERSION,
};

use super::clock;
use super::memory::Memory;
use super::place::{self, Share};
use crate::beneath::Directory;
use crate::trusted::{self, Access, Owner};

/// Most bytes of a ring: the tracer's limit, 1 GiB, and its header.
const MOST_RING_BYTES: usize = (1 << 30) + RING_HEADER_BYTES;

/// Most bytes of holes that are read of a program's file.
const MOST_HOLES: u64 = 64 << 20;

/// A program's share of memory.
#[derive(Debug)]
pub struct Program {
    /// Its file.
    pub share: Share,
    /// Process id as the program sees it.
    pub pid: u32,
    /// Name of the program.
    pub comm: String,
    /// Events known so far.
    pub events: Events,
    /// Rings known so far; number 0 is the init ring.
    pub rings: Vec<RingMemory>,
    /// Declaration lines that could not be parsed.
    pub damaged_declarations: usize,
    directory: Directory,
    file: File,
    writable: bool,
    control: Memory,
    declared: usize,
}

/// A ring of a program.
#[derive(Debug)]
pub struct RingMemory {
    memory: Memory,
    packet_bytes: usize,
    packets: usize,
}

impl Program {
    /// Opens a file of [`super::place::Place::programs`] to consume its events; `None` if it is not (or not yet) one. Of its
    /// rings, [`Program::refresh`] maps as many as it may have.
    ///
    /// Its user may rename and link files there while root reads: it is opened beneath its directory, and must be a
    /// regular file of that user with no other name.
    #[must_use]
    pub fn open(share: &Share) -> Option<Program> {
        Program::with(share, Access::ReadWrite)
    }

    /// The same for reading only: nothing of the program is changed.
    #[must_use]
    pub fn look(share: &Share) -> Option<Program> {
        Program::with(share, Access::Read)
    }

    fn with(share: &Share, access: Access) -> Option<Program> {
        let directory = share.open_directory().ok()?;
        let name = Path::new(&share.name);
        let file = trusted::open_in(&directory, name, Owner::User(share.uid), u64::MAX, access).ok()?;
        let writable = access == Access::ReadWrite;
        let memory = Memory::map_with(&file, 0, CONTROL_BYTES, writable)?;
        if memory.word(control::MAGIC).load(Ordering::Acquire) != MAGIC
            || memory.word(control::VERSION).load(Ordering::Relaxed) != VERSION
        {
            return None;
        }
        let mut comm = Vec::new();
        memory.copy(control::COMM, control::COMM + 16, &mut comm);
        let comm = String::from_utf8_lossy(&comm).trim_end_matches('\0').to_owned();
        let mut program = Program {
            share: share.clone(),
            pid: memory.word(control::PID).load(Ordering::Relaxed) as u32,
            comm,
            events: Events::default(),
            rings: Vec::new(),
            damaged_declarations: 0,
            directory,
            file,
            writable,
            control: memory,
            declared: 0,
        };
        program.refresh(if writable { 1 } else { RINGS_MAX });
        Some(program)
    }

    /// The file's name: process id, start time, image.
    #[must_use]
    pub fn name(&self) -> String {
        self.share.name.to_string_lossy().into_owned()
    }

    /// Removes the file of a dead program.
    pub fn remove(&self) {
        place::remove(&self.directory, &self.share.name);
    }

    /// Looks for new events, and for rings up to `most`; returns the new events.
    pub fn refresh(&mut self, most: usize) -> Vec<Declaration> {
        while self.rings.len() < self.promised_rings().min(most) {
            let at = self.value(RING_TABLE_AT + self.rings.len() * 8);
            let Some(ring) = RingMemory::map(&self.file, at, self.writable) else { break };
            self.rings.push(ring);
        }
        let end = (self.value(control::DECLARED_BYTES) as usize).min(CONTROL_BYTES - DECLARATIONS_AT);
        if end <= self.declared {
            return Vec::new();
        }
        let text: Vec<u8> = (self.declared..end)
            .map(|at| self.control.byte(DECLARATIONS_AT + at).load(Ordering::Relaxed))
            .collect();
        self.declared = end;
        let (events, damaged) = parse_declarations(&text);
        let events: Vec<_> = events.into_iter().filter(|event| usize::from(event.id) < EVENTS_MAX).collect();
        self.damaged_declarations += damaged.len();
        self.events.extend(events.clone());
        events
    }

    /// Rings that the program has.
    #[must_use]
    pub fn promised_rings(&self) -> usize {
        self.value(control::RINGS).min(RINGS_MAX as u64) as usize
    }

    /// Bytes that reading everything in its memory takes: a program may name parts of it several times, and parts that are
    /// holes. A file system may compress it.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let held = self.file.metadata().map_or(0, |file| {
            let stored = file.blocks().saturating_mul(512);
            stored.max(file.len().min(MOST_HOLES)).saturating_mul(2)
        });
        usize::try_from(held).unwrap_or(usize::MAX)
    }

    /// Enables or disables an event, now.
    pub fn enable(&self, id: u16, on: bool) {
        if usize::from(id) < EVENTS_MAX {
            self.control.store_byte(ENABLED_AT + usize::from(id), u8::from(on));
        }
    }

    /// Whether an event is enabled.
    #[must_use]
    pub fn enabled(&self, id: u16) -> bool {
        usize::from(id) < EVENTS_MAX
            && self.control.byte(ENABLED_AT + usize::from(id)).load(Ordering::Relaxed) != 0
    }

    /// A word of the control area ([`control`]).
    #[must_use]
    pub fn value(&self, at: usize) -> u64 {
        self.control.word(at).load(Ordering::Acquire)
    }

    /// Counter and time now, on this program's clock.
    #[must_use]
    pub fn now(&self) -> Anchor {
        clock::anchor(self.value(control::CLOCK) == 1)
    }

    /// Whether the program is still running. Its record lock shows that at once; a program that closed all its
    /// descriptors has lost the lock, and is then looked up by process id, start time and mapped file.
    #[must_use]
    pub fn alive(&self) -> bool {
        self.locked() || (self.started_at() == Some(self.value(control::START_TICKS)) && self.mapped())
    }

    fn locked(&self) -> bool {
        // SAFETY: all-zero is a valid flock; `whole` outlives the call.
        unsafe {
            let mut whole: libc::flock = std::mem::zeroed();
            whole.l_type = libc::F_WRLCK as libc::c_short;
            libc::fcntl(self.file.as_raw_fd(), libc::F_GETLK, &mut whole) == 0
                && whole.l_type != libc::F_UNLCK as libc::c_short
        }
    }

    fn started_at(&self) -> Option<u64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid)).ok()?;
        let after_name = &stat[stat.rfind(')')? + 1..];
        after_name.split_whitespace().nth(19)?.parse().ok()
    }

    fn mapped(&self) -> bool {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.pid)).unwrap_or_default();
        maps.contains(&*self.share.path().to_string_lossy())
    }
}

impl RingMemory {
    fn map(file: &File, at: u64, writable: bool) -> Option<RingMemory> {
        let header = Memory::map_with(file, at, RING_HEADER_BYTES, writable)?;
        let value = |at: usize| header.word(at).load(Ordering::Acquire) as usize;
        let (words, mask, bytes) = (value(ring::PACKET_WORDS), value(ring::PACKET_MASK), value(ring::BYTES));
        let packets = mask.checked_add(1)?;
        let fits = packets.is_power_of_two()
            && bytes <= MOST_RING_BYTES
            && (PACKET_HEADER_WORDS + 1..0xffff).contains(&words)
            && packets.checked_mul(words * 8)?.checked_add(RING_HEADER_BYTES)? == bytes;
        let memory = Memory::map_with(file, at, bytes, writable).filter(|_| fits)?;
        Some(RingMemory { memory, packet_bytes: words * 8, packets })
    }

    /// A word of the ring's header ([`ring`]).
    #[must_use]
    pub fn value(&self, at: usize) -> u64 {
        self.memory.word(at).load(Ordering::Acquire)
    }

    /// Up to where records are complete.
    #[must_use]
    pub fn committed(&self) -> Position {
        Position::from_word(self.value(ring::COMMITTED))
    }

    /// Number of packets it holds.
    #[must_use]
    pub fn packets(&self) -> usize {
        self.packets
    }

    /// Copies at most `words` words of packet `seq`.
    pub fn copy_packet(&self, seq: u32, words: usize, into: &mut Vec<u8>) {
        let from = RING_HEADER_BYTES + (seq as usize % self.packets) * self.packet_bytes;
        self.memory.copy(from, from + (words * 8).min(self.packet_bytes), into);
    }

    /// Words used of the closed packet `seq`, according to its header, limited to the size of a packet.
    #[must_use]
    pub fn closed_words(&self, seq: u32) -> usize {
        let at = RING_HEADER_BYTES + (seq as usize % self.packets) * self.packet_bytes + 48;
        (self.value(at) as u32 as usize).min(self.packet_bytes / 8)
    }

    /// Lets the program reuse all packets before `position`, where the next consumer will continue.
    pub fn release(&self, position: Position) {
        self.memory.store(ring::DRAINED, position.word(), Ordering::Relaxed);
        self.memory.store(ring::CONSUMED, u64::from(position.seq), Ordering::Release);
    }

    /// Ends a session that has counted `discarded` events: the next session counts from there.
    pub fn end_session(&self, discarded: u64) {
        let before = self.memory.word(ring::DISCARDED_BEFORE).load(Ordering::Relaxed);
        self.memory.store(ring::DISCARDED_BEFORE, before.wrapping_add(discarded), Ordering::Relaxed);
    }

    /// Chooses between overwriting and discarding.
    pub fn set_overwrite(&self, overwrite: bool) {
        self.memory.store(ring::OVERWRITE, u64::from(overwrite), Ordering::Relaxed);
    }

    /// Records that were begun and never committed: in a dead program, those interrupted by its death. It looks at packets of at
    /// most `left` bytes, which it reduces by theirs: a program may claim any number in memory that it names several times.
    pub fn unfinished(&self, left: &mut usize) -> u64 {
        let (committed, reserved) = (self.committed(), Position::from_word(self.value(ring::RESERVE)));
        let between = committed.packets_to(reserved);
        if between < 0 {
            return 0; // died in a packet switch, where `committed` moves first
        }
        let between = between.min(self.packets.min(*left / self.packet_bytes) as i32);
        *left -= between as usize * self.packet_bytes;
        let closed = (0..between).map(|packet| {
            let at = RING_HEADER_BYTES
                + (committed.seq.wrapping_add(packet as u32) as usize % self.packets) * self.packet_bytes
                + 48;
            self.value(at) >> 32
        });
        (closed.sum::<u64>() + u64::from(reserved.events)).saturating_sub(u64::from(committed.events))
    }
}
