//! The shared memory of the potential latencies: `struct potential_block` of src/bpf/potential.bpf.c, restated and read.
//!
//! The kernel side writes some 100,000 times a second. A read counts if nothing was written during it, and is repeated
//! otherwise: the longest is consistent, never the length of one with the location of another.

use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{fence, AtomicI32, AtomicU32, AtomicU64};

use lathunt_core::comm::Comm;
use lathunt_core::histogram::{Histogram, Layout};
use lathunt_core::time::{Mono, Ns, Prio, Tid};

use super::QUANTITIES;
use crate::recorder::block::{Hist, Shared};
use crate::recorder::figures;

const STACK: usize = 30;
/// Maximum number of attempts to read while it is being written.
const ATTEMPTS: usize = 1_000;

#[repr(C)]
pub(super) struct PotentialBlock {
    pub on: AtomicU32,
    private_off: u32,
    seq: [AtomicU64; QUANTITIES.len()],
    private: [u64; 12], // since, from, from_by, pad
    hist: [Hist; QUANTITIES.len()],
    longest: [Kept; QUANTITIES.len()],
    pad: [u64; 30],
}

/// `struct longest`.
#[repr(C)]
struct Kept {
    ns: AtomicU64,
    at: AtomicU64,
    begun: AtomicU64,
    begun_by: AtomicU64,
    ended: AtomicU64,
    tid: AtomicI32,
    prio: AtomicI32,
    comm: [AtomicU64; 2],
    depth: AtomicU64,
    stack: [AtomicU64; STACK],
}

// src/bpf/potential.bpf.c asserts the same numbers.
const _: () = {
    assert!(std::mem::offset_of!(PotentialBlock, hist) == 128);
    assert!(size_of::<Kept>() == 312);
    assert!(size_of::<PotentialBlock>() == 278_528);
};

// SAFETY: laid out as above, which both sides assert; non-atomic fields are private to the programs.
unsafe impl Shared for PotentialBlock {}

/// The longest of one kind. Addresses are the kernel's; 0: unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Longest {
    pub ns: Ns,
    /// When it ended.
    pub at: Mono,
    /// Where it was switched off.
    pub begun: u64,
    /// Caller of that.
    pub begun_by: u64,
    /// Where it was switched on.
    pub ended: u64,
    pub tid: Tid,
    pub prio: Prio,
    pub comm: Comm,
    /// Stack of its end, innermost first: starts with our own program and its callers.
    pub stack: Vec<u64>,
}

/// Data of one kind.
#[derive(Debug)]
pub(super) struct Found {
    pub histogram: Histogram,
    /// Samples that are missing because they could not be read consistently.
    pub lost: u64,
    /// When the first one ended.
    pub begin: Mono,
    pub longest: Longest,
}

impl PotentialBlock {
    /// All of the kind `which` so far; `None`: no sample.
    pub fn read(&self, which: usize) -> Option<Found> {
        let hist = &self.hist[which];
        if hist.count.load(Relaxed) == 0 {
            return None;
        }
        // If no attempt was undisturbed, the samples of a moment are missing at most, provided that the extremes fit.
        let (counts, exact) = self.quiet(which, || figures::snapshot(hist));
        let mut histogram = Histogram::new(Layout::LATENCY);
        let lost = match histogram.add_counts(&counts, exact) {
            Ok(()) => 0,
            Err(_) => counts.iter().map(|&(_, count)| count).sum(),
        };
        let longest = self.quiet(which, || self.longest[which].read());
        Some(Found { histogram, lost, begin: Mono(hist.first_ns.load(Relaxed)), longest })
    }

    /// The result of `read` from a moment without writes.
    fn quiet<T>(&self, which: usize, read: impl Fn() -> T) -> T {
        let mut attempt = 1;
        loop {
            let before = self.seq[which].load(Acquire);
            let found = read();
            fence(Acquire);
            let torn = before % 2 == 1 || self.seq[which].load(Relaxed) != before;
            if !torn || attempt == ATTEMPTS {
                return found;
            }
            attempt += 1;
        }
    }
}

impl Kept {
    fn read(&self) -> Longest {
        let mut comm = [0; 16];
        for (part, word) in comm.chunks_exact_mut(8).zip(&self.comm) {
            part.copy_from_slice(&word.load(Relaxed).to_ne_bytes());
        }
        let depth = (self.depth.load(Relaxed) as usize).min(STACK);
        Longest {
            ns: Ns(self.ns.load(Relaxed)),
            at: Mono(self.at.load(Relaxed)),
            begun: self.begun.load(Relaxed),
            begun_by: self.begun_by.load(Relaxed),
            ended: self.ended.load(Relaxed),
            tid: Tid(self.tid.load(Relaxed)),
            prio: Prio(self.prio.load(Relaxed)),
            comm: Comm::new(comm),
            stack: self.stack[..depth].iter().map(|address| address.load(Relaxed)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Zeroes, as the kernel gives them.
    fn block() -> Box<PotentialBlock> {
        // SAFETY: zeroes are a valid block (`Shared`).
        unsafe { Box::<PotentialBlock>::new_zeroed().assume_init() }
    }

    fn put(block: &PotentialBlock, which: usize, ns: u64) {
        let (hist, longest) = (&block.hist[which], &block.longest[which]);
        hist.count.fetch_add(1, Relaxed);
        hist.sum_ns.fetch_add(ns, Relaxed);
        hist.min_inverted_ns.fetch_max(!ns, Relaxed);
        hist.max_ns.fetch_max(ns, Relaxed);
        hist.first_ns.store(77, Relaxed);
        hist.bins[Layout::LATENCY.index(Ns(ns))].fetch_add(1, Relaxed);
        longest.ns.fetch_max(ns, Relaxed);
        longest.stack[0].store(0x11, Relaxed);
        longest.depth.store(1, Relaxed);
    }

    #[test]
    fn the_samples_of_a_kind_are_read_with_the_longest() {
        let block = block();
        assert!((0..QUANTITIES.len()).all(|which| block.read(which).is_none()), "empty");
        put(&block, 1, 5_500);
        put(&block, 1, 900);
        let found = block.read(1).unwrap();
        assert_eq!((found.histogram.count(), found.histogram.max()), (2, Some(Ns(5_500))));
        assert_eq!((found.begin, found.lost), (Mono(77), 0));
        assert_eq!((found.longest.ns, found.longest.stack), (Ns(5_500), vec![0x11]));
        assert!(block.read(0).is_none() && block.read(2).is_none(), "another kind");
    }

    #[test]
    fn what_is_being_written_is_read_again() {
        let block = block();
        put(&block, 0, 1_000);
        block.seq[0].store(1, Relaxed);
        let attempts = std::cell::Cell::new(0);
        let seen = block.quiet(0, || {
            attempts.set(attempts.get() + 1);
            if attempts.get() == 3 {
                block.seq[0].store(2, Relaxed); // consistent, but not before this attempt
            }
            attempts.get()
        });
        assert_eq!(seen, 4);
    }

    #[test]
    fn a_histogram_that_its_extremes_contradict_counts_as_lost() {
        let block = block();
        put(&block, 2, 1_000);
        block.hist[2].max_ns.store(1 << 40, Relaxed);
        let found = block.read(2).unwrap();
        assert_eq!((found.histogram.count(), found.lost), (0, 1));
    }
}
