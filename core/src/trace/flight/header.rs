//! The header of a chunk: CPU, freeze, trigger, and size of the contents. The layout is in [`super`].

use crate::time::{Cpu, Mono, Ns, Prio, Tid};

/// First bytes of a chunk.
pub const MAGIC: [u8; 8] = *b"LHFLIGHT";
/// Version of the layout, and the one before it, in which wakings lack the priority of the waker.
pub const VERSION: u32 = 2;
const WITHOUT_WAKERS: u32 = 1;
/// Bytes of a chunk header.
pub const HEADER_BYTES: usize = 128;
/// Bytes of a record.
pub const RECORD_BYTES: usize = 48;
/// Bytes of a stack.
pub const STACK_BYTES: usize = 256;

/// The BPF program triggered the freeze (bit of [`Header::trigger`]).
pub const TRIGGER_KERNEL: u32 = 1;
/// A measuring thread triggered the freeze.
pub const TRIGGER_USER: u32 = 2;

/// Header of a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// CPU.
    pub cpu: Cpu,
    /// Wakings have the priority of the waker: version 2.
    pub has_wakers: bool,
    /// [`TRIGGER_KERNEL`], [`TRIGGER_USER`] or both.
    pub trigger: u32,
    /// Number of the freeze on this CPU, from 1.
    pub id: u64,
    /// Start of the recording in the ring.
    pub begin: Mono,
    /// When it was frozen.
    pub frozen: Mono,
    /// Sequence number of the first record.
    pub first_seq: u64,
    /// Number of records that follow.
    pub records: u32,
    /// Number of stacks that follow the records.
    pub stacks: u32,
    /// Records overwritten since `begin`.
    pub overwritten: u64,
    /// The late real-time task, if the BPF program triggered the freeze.
    pub victim: Option<Victim>,
}

/// The late task for which the BPF program froze the ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Victim {
    /// Programmed expiry (or waking) → switched in.
    pub total: Ns,
    /// When it was switched in.
    pub switched_in: Mono,
    /// Thread id.
    pub tid: Tid,
    /// Its priority.
    pub prio: Prio,
    /// Its name, NUL-padded.
    pub comm: [u8; 16],
}

/// The bytes are not a chunk.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("not a flight recording at byte {offset}: {expected}")]
pub struct NotAChunk {
    /// Offset in bytes.
    pub offset: usize,
    /// Expected contents.
    pub expected: &'static str,
}

impl Header {
    /// The header as bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let victim = self.victim.unwrap_or_default();
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        bytes.extend(MAGIC);
        let version = if self.has_wakers { VERSION } else { WITHOUT_WAKERS };
        for word in [version, HEADER_BYTES as u32, self.cpu.0, self.trigger] {
            bytes.extend(word.to_le_bytes());
        }
        for word in [self.id, self.begin.0, self.frozen.0, self.first_seq] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(self.records.to_le_bytes());
        bytes.extend(self.stacks.to_le_bytes());
        for word in [self.overwritten, victim.total.0, victim.switched_in.0] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(victim.tid.0.to_le_bytes());
        bytes.extend(victim.prio.0.to_le_bytes());
        bytes.extend(victim.comm);
        bytes.extend((RECORD_BYTES as u16).to_le_bytes());
        bytes.extend((STACK_BYTES as u16).to_le_bytes());
        bytes.resize(HEADER_BYTES, 0);
        let mut header = [0; HEADER_BYTES];
        header.copy_from_slice(&bytes);
        header
    }

    /// Reads the header at the start of `bytes`.
    ///
    /// # Errors
    /// The offset of the first invalid field.
    pub fn parse(bytes: &[u8]) -> Result<Header, NotAChunk> {
        let bad = |offset, expected| Err(NotAChunk { offset, expected });
        if bytes.len() < HEADER_BYTES {
            return bad(bytes.len(), "128 bytes of header");
        }
        if bytes[..8] != MAGIC {
            return bad(0, "LHFLIGHT");
        }
        let version = u32_at(bytes, 8);
        if ![WITHOUT_WAKERS, VERSION].contains(&version) || u32_at(bytes, 12) as usize != HEADER_BYTES {
            return bad(8, "version 1 or 2 with a header of 128 bytes");
        }
        if u16_at(bytes, 112) as usize != RECORD_BYTES || u16_at(bytes, 114) as usize != STACK_BYTES {
            return bad(112, "records of 48 and stacks of 256 bytes");
        }
        if u64_at(bytes, 32).max(u64_at(bytes, 40)) > Mono::LATEST.0 {
            return bad(32, "times that a clock shows");
        }
        let trigger = u32_at(bytes, 20);
        let mut comm = [0; 16];
        comm.copy_from_slice(&bytes[96..112]);
        let victim = Victim {
            total: Ns(u64_at(bytes, 72)),
            switched_in: Mono(u64_at(bytes, 80)),
            tid: Tid(u32_at(bytes, 88) as i32),
            prio: Prio(u32_at(bytes, 92) as i32),
            comm,
        };
        Ok(Header {
            cpu: Cpu(u32_at(bytes, 16)),
            has_wakers: version == VERSION,
            trigger,
            id: u64_at(bytes, 24),
            begin: Mono(u64_at(bytes, 32)),
            frozen: Mono(u64_at(bytes, 40)),
            first_seq: u64_at(bytes, 48),
            records: u32_at(bytes, 56),
            stacks: u32_at(bytes, 60),
            overwritten: u64_at(bytes, 64),
            victim: (victim.total > Ns::ZERO).then_some(victim),
        })
    }

    /// Bytes of the whole chunk.
    pub fn chunk_bytes(&self) -> usize {
        HEADER_BYTES
            .saturating_add((self.records as usize).saturating_mul(RECORD_BYTES))
            .saturating_add((self.stacks as usize).saturating_mul(STACK_BYTES))
    }
}

/// The headers of all chunks that can be read.
#[must_use]
pub fn headers(mut bytes: &[u8]) -> Vec<Header> {
    let mut headers = Vec::new();
    while let Ok(header) = Header::parse(bytes) {
        headers.push(header);
        bytes = &bytes[header.chunk_bytes().min(bytes.len())..];
    }
    headers
}

#[inline]
fn word<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut word = [0; N];
    word.copy_from_slice(&bytes[at..at + N]);
    word
}
#[inline]
pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(word(bytes, at))
}
#[inline]
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(word(bytes, at))
}
#[inline]
pub(super) fn i32_at(bytes: &[u8], at: usize) -> i32 {
    i32::from_le_bytes(word(bytes, at))
}
#[inline]
pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(word(bytes, at))
}
