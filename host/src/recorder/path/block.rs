//! The shared memory of a path analysis: `struct path_block` of src/bpf/path.h.

use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{fence, AtomicU32, AtomicU64};

use lathunt_core::time::{Mono, Ns};

use crate::recorder::block::Shared;
use crate::recorder::longest::{quiet, Kept, Longest};

/// `enum term`, in its order: POID, PAIE, PSD, DST.
pub(super) const TERMS: usize = 4;
const EXECUTIONS: usize = 65_536;
const NMIS: usize = 4_096;

#[repr(C)]
pub(super) struct PathBlock {
    pub on: AtomicU32,
    flags: AtomicU32,
    seq: [AtomicU64; TERMS],
    heads: [AtomicU64; 2],
    unmatched: AtomicU64,
    irq_ns: AtomicU64,
    nmi_ns: AtomicU64,
    private: [u64; 9], // of interrupts, of the latest disables
    open: [Begun; TERMS],
    pad_before: u64,
    longest: [Kept; TERMS],
    executions: [Ran; EXECUTIONS],
    nmis: [Ran; NMIS],
    pad: [u64; 324],
}

/// `struct execution`.
#[repr(C)]
struct Ran {
    at: AtomicU64,
    what: AtomicU64,
}

/// `struct begun`.
#[repr(C)]
struct Begun {
    /// Thread time; 0: not open.
    at: AtomicU64,
    private: [u64; 2],
}

/// Flag of src/bpf/path.h: the scheduler has run since recording began.
const KNOWN: u32 = 32;

// src/bpf/path.h asserts the same numbers.
const _: () = {
    assert!(std::mem::offset_of!(PathBlock, longest) == 256);
    assert!(size_of::<PathBlock>() == 1_118_208);
};

// SAFETY: laid out as above, which both sides assert; non-atomic fields are private to the programs.
unsafe impl Shared for PathBlock {}

/// One execution of an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Execution {
    pub source: Source,
    pub arrival: Mono,
    /// Without NMIs.
    pub took: Ns,
}

/// What was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Source {
    /// `enum vector`.
    Vector(u16),
    /// Number of the line.
    Irq(u16),
    Nmi,
}

/// How far the rings were read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tails {
    executions: u64,
    nmis: u64,
}

/// `LINE` of src/bpf/path.h.
const LINE: u16 = 16;

impl PathBlock {
    /// The longest of `term`; `None`: none so far.
    pub fn longest(&self, term: usize) -> Option<Longest> {
        let found = quiet(&self.seq[term], || self.longest[term].read());
        (found.ns > Ns::ZERO).then_some(found)
    }

    /// Number of terms of which a section is open that is longer than the longest already: it is missing there.
    pub fn open_and_longest(&self, now: Mono) -> u64 {
        let stolen = self.irq_ns.load(Acquire) + self.nmi_ns.load(Acquire);
        let is_known = self.flags.load(Acquire) & KNOWN != 0;
        let is_longest = |&(open, longest): &(&Begun, &Kept)| {
            let at = open.at.load(Acquire);
            let ns = (now.0 - now.0.min(stolen)).saturating_sub(at);
            is_known && at > 0 && ns > longest.ns.load(Relaxed) && open.at.load(Acquire) == at
        };
        self.open.iter().zip(&self.longest).filter(is_longest).count() as u64
    }

    /// Number of scheduler runs and sections with interrupts disabled without a start event.
    pub fn unmatched(&self) -> u64 {
        self.unmatched.load(Relaxed)
    }

    /// Reads the executions since the last call, in the order of their ends; returns the number of overwritten ones.
    pub fn take(&self, tails: &mut Tails, mut each: impl FnMut(Execution)) -> u64 {
        let interrupts =
            drain(&self.executions, &self.heads[0], &mut tails.executions, |arrival, source, took| {
                let source = if source < LINE { Source::Vector(source) } else { Source::Irq(source - LINE) };
                each(Execution { source, arrival, took });
            });
        let nmis = drain(&self.nmis, &self.heads[1], &mut tails.nmis, |arrival, _, took| {
            each(Execution { source: Source::Nmi, arrival, took });
        });
        interrupts + nmis
    }
}

fn drain(ring: &[Ran], head: &AtomicU64, tail: &mut u64, mut each: impl FnMut(Mono, u16, Ns)) -> u64 {
    let places = ring.len() as u64;
    let (end, mut lost) = (head.load(Acquire), 0);
    // The place after the head may be being written.
    let mut skip = |tail: &mut u64, head: u64| {
        let oldest = (head + 1).saturating_sub(places);
        lost += oldest.saturating_sub(*tail);
        *tail = oldest.max(*tail);
    };
    skip(tail, end);
    while *tail < end {
        let ran = &ring[(*tail % places) as usize];
        let (at, what) = (ran.at.load(Relaxed), ran.what.load(Relaxed));
        fence(Acquire);
        let now = head.load(Relaxed);
        if now + 1 > *tail + places {
            skip(tail, now);
            continue;
        }
        *tail += 1;
        each(Mono(at), (what >> 48) as u16, Ns(what & ((1 << 48) - 1)));
    }
    lost
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_section_counts_if_it_is_longer_than_the_longest() {
        // SAFETY: zeroes are a valid block (`Shared`).
        let block = unsafe { Box::<PathBlock>::new_zeroed().assume_init() };
        let open = |now: u64| block.open_and_longest(Mono(now));
        block.irq_ns.store(1_000, Relaxed);
        block.longest[2].ns.store(500, Relaxed);
        assert_eq!(open(9_000), 0, "none is open");
        block.open[2].at.store(7_000, Relaxed);
        assert_eq!(open(9_000), 0, "its start may be missing");
        block.flags.store(KNOWN, Relaxed);
        assert_eq!([open(8_500), open(8_501)], [0, 1], "net of interrupts");
    }

    fn ring(places: usize) -> Vec<Ran> {
        (0..places).map(|_| Ran { at: AtomicU64::new(0), what: AtomicU64::new(0) }).collect()
    }

    fn write(ring: &[Ran], head: &AtomicU64, at: u64) {
        let place = &ring[(head.load(Relaxed) % ring.len() as u64) as usize];
        place.at.store(at, Relaxed);
        place.what.store(7 << 48 | at, Relaxed);
        head.fetch_add(1, Relaxed);
    }

    #[test]
    fn what_is_overwritten_before_it_is_read_is_counted() {
        let (ring, head, mut tail) = (ring(8), AtomicU64::new(0), 0);
        let mut seen = Vec::new();
        let read = |tail: &mut u64, seen: &mut Vec<u64>| {
            drain(&ring, &head, tail, |at, source, took| {
                assert_eq!((source, took.0), (7, at.0));
                seen.push(at.0);
            })
        };
        (1..=5).for_each(|at| write(&ring, &head, at));
        assert_eq!((read(&mut tail, &mut seen), seen.split_off(0)), (0, vec![1, 2, 3, 4, 5]));
        assert_eq!(read(&mut tail, &mut seen), 0);
        // Of 20, the place of the oldest of the last 8 is the next to be written.
        (6..=25).for_each(|at| write(&ring, &head, at));
        assert_eq!((read(&mut tail, &mut seen), seen.split_off(0)), (13, (19..=25).collect()));
    }

    #[test]
    fn what_is_overwritten_while_it_is_read_is_counted() {
        let (ring, head, mut tail) = (ring(8), AtomicU64::new(0), 0);
        (1..=6).for_each(|at| write(&ring, &head, at));
        let mut seen = Vec::new();
        let lost = drain(&ring, &head, &mut tail, |at, _, _| {
            seen.push(at.0);
            if at.0 == 2 {
                (7..=12).for_each(|at| write(&ring, &head, at));
            }
        });
        assert_eq!((lost, seen), (3, vec![1, 2, 6]));
        assert_eq!(drain(&ring, &head, &mut tail, |_, _, _| ()), 0);
    }
}
