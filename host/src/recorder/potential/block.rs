//! The shared memory of the potential latencies: `struct potential_block` of src/bpf/potential.bpf.c, restated and read.

use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{AtomicU32, AtomicU64};

use lathunt_core::histogram::{Histogram, Layout};
use lathunt_core::time::Mono;

use super::QUANTITIES;
use crate::clock;
use crate::recorder::block::{Hist, Shared};
use crate::recorder::figures;
use crate::recorder::longest::{quiet, Kept, Longest};

#[repr(C)]
pub(super) struct PotentialBlock {
    pub on: AtomicU32,
    private_off: u32,
    seq: [AtomicU64; QUANTITIES.len()],
    /// Start of the open section; 0: none is open.
    since: [AtomicU64; QUANTITIES.len()],
    from: [AtomicU64; QUANTITIES.len()],
    from_by: [AtomicU64; QUANTITIES.len()],
    private: [u64; 3], // pad
    hist: [Hist; QUANTITIES.len()],
    longest: [Kept; QUANTITIES.len()],
    pad: [u64; 30],
}

// src/bpf/potential.bpf.c asserts the same numbers.
const _: () = {
    assert!(std::mem::offset_of!(PotentialBlock, hist) == 128);
    assert!(size_of::<PotentialBlock>() == 278_528);
};

// SAFETY: laid out as above, which both sides assert; non-atomic fields are private to the programs.
unsafe impl Shared for PotentialBlock {}

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

impl Found {
    /// Before the first sample, `open`.
    fn none(open: &Longest) -> Found {
        let histogram = Histogram::new(Layout::LATENCY);
        Found { histogram, lost: 0, begin: open.at, longest: Longest::default() }
    }
}

impl PotentialBlock {
    /// All of the kind `which` so far; `None`: no sample. Of a CPU that is online, with the open section if it is the longest
    /// already.
    pub fn read(&self, which: usize, is_online: bool) -> Option<Found> {
        let open = is_online.then(|| self.open(which)).flatten();
        let mut found = self.ended(which).or_else(|| Some(Found::none(open.as_ref()?)))?;
        if let Some(open) = open.filter(|open| open.ns > found.longest.ns) {
            found.histogram.record(open.ns);
            found.longest = open;
        }
        Some(found)
    }

    /// The open section.
    fn open(&self, which: usize) -> Option<Longest> {
        let since = self.since[which].load(Acquire);
        let (begun, begun_by) = (self.from[which].load(Acquire), self.from_by[which].load(Acquire));
        let at = clock::mono();
        let is_open = since > 0 && self.since[which].load(Relaxed) == since;
        let ns = at.since(Mono(since));
        is_open.then(|| Longest { ns, at, begun, begun_by, is_open, ..Longest::default() })
    }

    /// Those that have ended.
    fn ended(&self, which: usize) -> Option<Found> {
        let hist = &self.hist[which];
        if hist.count.load(Relaxed) == 0 {
            return None;
        }
        // If no attempt was undisturbed, the samples of a moment are missing at most, provided that the extremes fit.
        let (counts, exact) = quiet(&self.seq[which], || figures::snapshot(hist));
        let mut histogram = Histogram::new(Layout::LATENCY);
        let lost = match histogram.add_counts(&counts, exact) {
            Ok(()) => 0,
            Err(_) => counts.iter().map(|&(_, count)| count).sum(),
        };
        let longest = quiet(&self.seq[which], || self.longest[which].read());
        Some(Found { histogram, lost, begin: Mono(hist.first_ns.load(Relaxed)), longest })
    }
}

#[cfg(test)]
mod tests {
    use lathunt_core::time::Ns;

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
        assert!((0..QUANTITIES.len()).all(|which| block.read(which, true).is_none()), "empty");
        put(&block, 1, 5_500);
        put(&block, 1, 900);
        let found = block.read(1, true).unwrap();
        assert_eq!((found.histogram.count(), found.histogram.max()), (2, Some(Ns(5_500))));
        assert_eq!((found.begin, found.lost), (Mono(77), 0));
        assert_eq!((found.longest.ns, found.longest.stack), (Ns(5_500), vec![0x11]));
        assert!(block.read(0, true).is_none() && block.read(2, true).is_none(), "another kind");
    }

    #[test]
    fn a_histogram_that_its_extremes_contradict_counts_as_lost() {
        let block = block();
        put(&block, 2, 1_000);
        block.hist[2].max_ns.store(1 << 40, Relaxed);
        let found = block.read(2, true).unwrap();
        assert_eq!((found.histogram.count(), found.lost), (0, 1));
    }
}
