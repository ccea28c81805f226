//! A frozen flight ring, copied out of the shared memory.

use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use lathunt_core::time::{Cpu, Mono, Ns, Prio, Tid};
use lathunt_core::trace::flight::{self, Header, NotAChunk, Victim};
use lathunt_core::trace::window::Window;

use super::block::{Buffer, CpuBlock, FREE, FROZEN, SLOTS, STACKS};
use super::names;
use crate::symbols::Symbols;

/// One freeze: the contents of one CPU's ring, and of earlier rings that join without a gap.
#[derive(Clone, Debug)]
pub struct Frozen {
    /// CPU.
    pub cpu: Cpu,
    /// The id that `Freezer::freeze` returned.
    pub id: u64,
    /// The stored recording (`flight.bin`): see `lathunt_core::trace::flight`.
    pub bytes: Vec<u8>,
    /// Who requested it.
    pub trigger: Trigger,
}

/// Who requested a freeze, and when it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trigger {
    /// The late task, if the kernel side requested it.
    pub victim: Option<Victim>,
    /// A measuring thread requested it.
    pub asked: bool,
    /// When the ring was frozen.
    pub at: Mono,
}

/// The last frozen rings of one CPU, oldest first, as far as each joins the next without a gap.
#[derive(Default)]
pub(super) struct Chain {
    chunks: VecDeque<Vec<u8>>,
    newest: u64,
}

impl Chain {
    /// Appends `chunk` to those that it joins. Victims of one disturbance freeze a ring each, and the later ones contain
    /// almost nothing: enough are kept to fill a ring.
    pub(super) fn joined(&mut self, header: &Header, chunk: Vec<u8>) -> Frozen {
        if self.newest + 1 != header.id || header.overwritten != 0 {
            self.chunks.clear();
        }
        self.newest = header.id;
        self.chunks.push_back(chunk);
        let frozen = Frozen::new(header, self.chunks.make_contiguous().concat());
        let bytes: usize = self.chunks.iter().map(Vec::len).sum();
        let beyond = |rest: usize| rest >= SLOTS * flight::RECORD_BYTES;
        let mut rest = bytes - self.chunks[0].len();
        while beyond(rest) {
            self.chunks.pop_front();
            rest -= self.chunks[0].len();
        }
        frozen
    }
}

impl Frozen {
    /// Chunks of several CPUs, without a victim.
    pub(super) fn of_cpus(bytes: Vec<u8>, at: Mono) -> Frozen {
        Frozen { cpu: Cpu::default(), id: 0, bytes, trigger: Trigger { victim: None, asked: true, at } }
    }

    fn new(header: &Header, bytes: Vec<u8>) -> Frozen {
        let asked = header.trigger & flight::TRIGGER_USER != 0;
        let victim = header.victim.filter(|_| header.trigger & flight::TRIGGER_KERNEL != 0);
        Frozen {
            cpu: header.cpu,
            id: header.id,
            bytes,
            trigger: Trigger { victim, asked, at: header.frozen },
        }
    }

    /// Adds to its stacks what the kernel's code reveals about the interrupted instructions; nothing if `symbols` has no
    /// code.
    pub fn note_code(&mut self, symbols: &Symbols) {
        let (name, enabled) = (|at| symbols.name(at), |at| symbols.enabled_there(at));
        flight::note_code(&mut self.bytes, name, enabled);
    }

    /// The events, with names that only the running system has.
    ///
    /// # Errors
    /// If the bytes are not a flight recording (they were modified).
    pub fn decode(&self, symbols: &Symbols) -> Result<Window, NotAChunk> {
        let mut window = flight::decode(&self.bytes, |address| symbols.name(address))?;
        names::fill(&mut window);
        Ok(window)
    }
}

/// Copies the frozen buffers of `cpu` one by one, oldest first, and frees each.
pub(super) fn take(cpu: Cpu, block: &CpuBlock) -> impl Iterator<Item = (Header, Vec<u8>)> + use<'_> {
    let mut frozen: Vec<&Buffer> = block.buffer.iter().filter(|b| b.state.load(Acquire) == FROZEN).collect();
    frozen.sort_by_key(|buffer| buffer.id.load(Relaxed));
    frozen.into_iter().map(move |buffer| {
        let chunk = chunk(cpu, buffer);
        buffer.state.store(FREE, Release);
        chunk
    })
}

/// Requests again the freezes that found no buffer, now that some are free. Bits set in between are seen next time.
pub(super) fn ask_again(block: &CpuBlock) {
    if block.waiting.load(Relaxed) != 0 {
        let asked = block.waiting.swap(0, AcqRel);
        block.request.fetch_or(asked, AcqRel);
    }
}

fn chunk(cpu: Cpu, buffer: &Buffer) -> (Header, Vec<u8>) {
    let head = buffer.head.load(Relaxed);
    let begin = buffer.begin_seq.load(Relaxed);
    let first = begin.max(head.saturating_sub(SLOTS as u64));
    let taken = buffer.stacks.load(Relaxed);
    let stacks = taken.min(STACKS as u64);
    let mut comm = [0; 16];
    comm[..8].copy_from_slice(&buffer.comm[0].load(Relaxed).to_ne_bytes());
    comm[8..].copy_from_slice(&buffer.comm[1].load(Relaxed).to_ne_bytes());
    let victim = Victim {
        total: Ns(buffer.total_ns.load(Relaxed)),
        switched_in: Mono(buffer.switch_at.load(Relaxed)),
        tid: Tid(buffer.tid.load(Relaxed)),
        prio: Prio(buffer.prio.load(Relaxed)),
        comm,
    };
    let header = Header {
        has_wakers: true,
        cpu,
        trigger: buffer.trigger.load(Relaxed),
        id: buffer.id.load(Relaxed),
        begin: Mono(buffer.begin_at.load(Relaxed)),
        frozen: Mono(buffer.frozen_at.load(Relaxed)),
        first_seq: first,
        records: (head - first) as u32,
        stacks: stacks as u32,
        overwritten: first - begin,
        victim: (victim.total > Ns::ZERO).then_some(victim),
    };
    let room = flight::HEADER_BYTES
        + header.records as usize * flight::RECORD_BYTES
        + header.stacks as usize * flight::STACK_BYTES;
    let mut bytes = Vec::with_capacity(room);
    bytes.extend(header.to_bytes());
    (first..head).for_each(|seq| append(&mut bytes, &buffer.record[seq as usize % SLOTS]));
    (taken - stacks..taken).for_each(|n| append(&mut bytes, &buffer.stack[n as usize % STACKS]));
    (header, bytes)
}

/// Records kept from before the requested time: they show the task that had the CPU then.
const CONTEXT: usize = 32;

/// Contents of the ring of `cpu` since `from`, without freezing it: chunks as in [`take`], with those in `chain` that
/// they join. Some 50 µs for a whole ring.
pub(super) fn peek(cpu: Cpu, block: &CpuBlock, from: Mono, now: Mono, chain: Option<&Chain>) -> Vec<u8> {
    let Some(active) = (0..3).find_map(|_| active(cpu, block, now)) else { return Vec::new() };
    let mut chunks = vec![active];
    // Frozen in between, and not read yet.
    let frozen = block.buffer.iter().filter(|buffer| buffer.state.load(Acquire) == FROZEN);
    chunks.extend(frozen.map(|buffer| chunk(cpu, buffer)));
    let known = chain.into_iter().flat_map(|chain| chain.chunks.iter());
    chunks.extend(known.filter_map(|bytes| Some((Header::parse(bytes).ok()?, bytes.clone()))));
    chunks.sort_by_key(|(header, _)| std::cmp::Reverse(header.id));
    chunks.dedup_by_key(|(header, _)| header.id);
    let mut wanted: Vec<(Header, Vec<u8>)> = Vec::new();
    for (header, bytes) in chunks {
        let joins =
            wanted.last().is_none_or(|(later, _)| later.id == header.id + 1 && later.overwritten == 0);
        if !joins || wanted.last().is_some_and(|(later, _)| later.begin <= from) {
            break;
        }
        wanted.push((header, bytes));
    }
    if let Some((header, bytes)) = wanted.last_mut() {
        trim(header, bytes, from);
    }
    wanted.into_iter().rev().flat_map(|(_, bytes)| bytes).collect()
}

/// The contents of the ring as [`peek`] reads it, of the time that `victim`, who still waits for `cpu`, has waited: as if
/// its switch-in had frozen the ring. `None`: the ring could not be read.
pub(super) fn of_waiting(
    cpu: Cpu,
    block: &CpuBlock,
    victim: Victim,
    chain: Option<&Chain>,
) -> Option<Frozen> {
    let (now, from) = (victim.switched_in, Mono(victim.switched_in.0.saturating_sub(victim.total.0)));
    let mut bytes = peek(cpu, block, from, now, chain);
    let last = flight::headers(&bytes).pop()?;
    let place = bytes.len() - last.chunk_bytes();
    let header = Header { trigger: flight::TRIGGER_KERNEL, victim: Some(victim), ..last };
    bytes.splice(place..place + flight::HEADER_BYTES, header.to_bytes());
    Some(Frozen::new(&header, bytes))
}

/// The active ring, without records that were overwritten while it was read.
fn active(cpu: Cpu, block: &CpuBlock, now: Mono) -> Option<(Header, Vec<u8>)> {
    let (place, serial) = (block.active.load(Acquire), block.serial.load(Acquire));
    let buffer = &block.buffer[place as usize % block.buffer.len()];
    let stacks = buffer.stacks.load(Relaxed);
    let (header, mut bytes) = chunk(cpu, buffer);
    std::sync::atomic::fence(Acquire);
    if block.active.load(Acquire) != place || buffer.stacks.load(Relaxed) != stacks {
        return None;
    }
    // One more: the programs may be writing the next one.
    let valid = (buffer.head.load(Relaxed) + 1).saturating_sub(SLOTS as u64);
    let gone = valid.saturating_sub(header.first_seq).min(u64::from(header.records)) as usize;
    let mut header = Header { id: serial + 1, frozen: now, trigger: 0, victim: None, ..header };
    cut(&mut header, &mut bytes, gone);
    Some((header, bytes))
}

/// Drops records from before `from`.
fn trim(header: &mut Header, bytes: &mut Vec<u8>, from: Mono) {
    let records =
        bytes[flight::HEADER_BYTES..].chunks_exact(flight::RECORD_BYTES).take(header.records as usize);
    let at = |record: &[u8]| record.first_chunk().map_or(0, |at| u64::from_le_bytes(*at));
    let before = records.take_while(|record| at(record) < from.0).count();
    cut(header, bytes, before.saturating_sub(CONTEXT));
}

/// Drops its first `count` records.
fn cut(header: &mut Header, bytes: &mut Vec<u8>, count: usize) {
    header.first_seq += count as u64;
    header.records -= count as u32;
    header.overwritten += count as u64;
    bytes.drain(flight::HEADER_BYTES..flight::HEADER_BYTES + count * flight::RECORD_BYTES);
    bytes.splice(..flight::HEADER_BYTES, header.to_bytes());
}

fn append(bytes: &mut Vec<u8>, words: &[AtomicU64]) {
    words.iter().for_each(|word| bytes.extend(word.load(Relaxed).to_le_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ring `id` of CPU 0 with this number of records, which identify their ring.
    fn chunk(id: u64, records: usize) -> (Header, Vec<u8>) {
        let header = Header { id, ..Header::default() };
        (header, vec![id as u8; records * flight::RECORD_BYTES])
    }

    fn rings(frozen: &Frozen) -> Vec<u8> {
        let mut ids: Vec<u8> = frozen.bytes.clone();
        ids.dedup();
        ids
    }

    #[test]
    fn victims_of_one_disturbance_have_the_past_that_the_first_of_them_froze() {
        let mut chain = Chain::default();
        let lengths = [SLOTS, 90, 40, 300];
        let joined: Vec<Vec<u8>> = (1..)
            .zip(lengths)
            .map(|(id, records)| chunk(id, records))
            .map(|(header, chunk)| rings(&chain.joined(&header, chunk)))
            .collect();
        assert_eq!(joined, [vec![1], vec![1, 2], vec![1, 2, 3], vec![1, 2, 3, 4]]);
        // A whole ring after them is enough past for the next one.
        let (header, whole) = chunk(5, SLOTS);
        assert_eq!(rings(&chain.joined(&header, whole)), [1, 2, 3, 4, 5]);
        let (header, next) = chunk(6, 10);
        assert_eq!(rings(&chain.joined(&header, next)), [5, 6]);
    }

    #[test]
    fn frozen_rings_are_taken_oldest_first_with_what_was_overwritten_and_are_free_then() {
        let block = CpuBlock::zeroed();
        for (place, id, records) in [(0, 9, SLOTS as u64 + 7), (3, 8, 5)] {
            let buffer = &block.buffer[place];
            buffer.id.store(id, Relaxed);
            buffer.begin_seq.store(100, Relaxed);
            buffer.head.store(100 + records, Relaxed);
            buffer.stacks.store(STACKS as u64 + id, Relaxed);
            buffer.total_ns.store(id * 1_000, Relaxed);
            buffer.tid.store(id as i32, Relaxed);
            buffer.comm[0].store(u64::from_le_bytes(*b"victim\0\0"), Relaxed);
            buffer.state.store(FROZEN, Relaxed);
            // The last record, and the newest stack.
            let last = (100 + records - 1) as usize % SLOTS;
            buffer.record[last][0].store(77, Relaxed);
            buffer.stack[(STACKS + id as usize - 1) % STACKS][0].store(78, Relaxed);
        }
        let taken: Vec<(Header, Vec<u8>)> = take(Cpu(1), &block).collect();
        let told: Vec<_> =
            taken.iter().map(|(of, _)| (of.id, of.first_seq, of.records, of.overwritten)).collect();
        assert_eq!(told, [(8, 100, 5, 0), (9, 107, SLOTS as u32, 7)]);
        for (header, bytes) in &taken {
            assert_eq!(Header::parse(bytes).unwrap(), *header);
            assert_eq!(bytes.len(), header.chunk_bytes());
            let victim = header.victim.unwrap();
            assert_eq!(
                (victim.total.0, victim.tid.0, &victim.comm[..7]),
                (header.id * 1_000, header.id as i32, &b"victim\0"[..])
            );
            let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
            let records = flight::HEADER_BYTES + header.records as usize * flight::RECORD_BYTES;
            assert_eq!(word(records - flight::RECORD_BYTES), 77, "the newest record is the last");
            assert_eq!(word(bytes.len() - flight::STACK_BYTES), 78, "and so is the newest stack");
        }
        assert!(block.buffer.iter().all(|buffer| buffer.state.load(Relaxed) == FREE));
    }

    #[test]
    fn a_ring_that_is_missing_or_was_overwritten_parts_the_chain() {
        let mut chain = Chain::default();
        for (id, overwritten, expected) in
            [(1, 0, vec![1]), (3, 0, vec![3]), (4, 7, vec![4]), (5, 0, vec![4, 5])]
        {
            let (header, bytes) = chunk(id, 10);
            assert_eq!(rings(&chain.joined(&Header { overwritten, ..header }, bytes)), expected);
        }
    }

    #[test]
    fn a_ring_that_goes_on_is_read_without_what_is_older_than_asked_or_being_written_over() {
        let block = CpuBlock::zeroed();
        let buffer = &block.buffer[0];
        let head = SLOTS as u64 + 100;
        buffer.head.store(head, Relaxed);
        for seq in 100..head {
            buffer.record[seq as usize % SLOTS][0].store(seq, Relaxed);
        }
        let read = |from| {
            let bytes = peek(Cpu(0), &block, Mono(from), Mono(9_999), None);
            let header = Header::parse(&bytes).unwrap();
            assert_eq!(bytes.len(), header.chunk_bytes());
            (
                header.first_seq,
                header.records as usize,
                header.id,
                header.frozen.0,
                block.serial.load(Relaxed),
            )
        };
        assert_eq!(read(0), (101, SLOTS - 1, 1, 9_999, 0), "the programs may be writing the oldest");
        let from = head - 10;
        let context = CONTEXT as u64;
        assert_eq!(read(from), (from - context, 10 + CONTEXT, 1, 9_999, 0), "it was not frozen");
    }

    /// Active since 500, and the seventh, since 100, as it was frozen.
    fn eighth_ring() -> (Box<CpuBlock>, Chain) {
        let block = CpuBlock::zeroed();
        block.serial.store(7, Relaxed);
        block.buffer[0].begin_at.store(500, Relaxed);
        let mut chain = Chain::default();
        let header = Header { id: 7, frozen: Mono(500), begin: Mono(100), ..Header::default() };
        chain.joined(&header, header.to_bytes().to_vec());
        (block, chain)
    }

    #[test]
    fn a_ring_that_began_meanwhile_is_read_with_the_one_before_it() {
        let (block, chain) = eighth_ring();
        let ids = |from| {
            let bytes = peek(Cpu(0), &block, Mono(from), Mono(900), Some(&chain));
            flight::headers(&bytes).into_iter().map(|header| header.id).collect::<Vec<_>>()
        };
        assert_eq!([ids(400), ids(600)], [vec![7, 8], vec![8]]);
    }

    #[test]
    fn the_ring_of_one_who_still_waits_is_as_if_its_switch_in_had_frozen_it() {
        let (block, chain) = eighth_ring();
        let victim = Victim { total: Ns(500), switched_in: Mono(900), tid: Tid(42), ..Victim::default() };
        let frozen = of_waiting(Cpu(0), &block, victim, Some(&chain)).unwrap();
        let victims: Vec<_> =
            flight::headers(&frozen.bytes).into_iter().map(|header| (header.id, header.victim)).collect();
        assert_eq!(victims, [(7, None), (8, Some(victim))]);
        assert_eq!((frozen.id, frozen.trigger.victim, frozen.trigger.at), (8, Some(victim), Mono(900)));
    }
}
