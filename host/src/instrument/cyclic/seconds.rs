//! Maxima of each second, in memory that is allocated ahead of the measurement.
//!
//! The measuring thread only stores into existing blocks; the watching thread adds the next block in time
//! ([`Seconds::extend`]). So an endless run needs no estimate of its length, and the loop allocates nothing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;

use lathunt_core::series::SecondMax;
use lathunt_core::time::Ns;

const BLOCK: usize = 3_600;
const BLOCKS: usize = 24 * 366; // one year; later samples have no maxima per second

/// One maximum per second since the beginning.
pub(crate) struct Seconds {
    blocks: Box<[OnceLock<Box<[AtomicU64]>>]>, // 0: no sample; else maximum + 1
}

impl Seconds {
    /// With room for `length`, or for the first two hours if that is unknown.
    pub(crate) fn new(length: Option<Ns>) -> Seconds {
        let seconds = Seconds { blocks: (0..BLOCKS).map(|_| OnceLock::new()).collect() };
        let blocks = length.map_or(1, |length| (length.as_secs() as usize / BLOCK).min(BLOCKS - 1));
        (0..=blocks).for_each(|block| seconds.add(block));
        seconds
    }

    fn add(&self, block: usize) {
        if let Some(slot) = self.blocks.get(block) {
            slot.get_or_init(|| (0..BLOCK).map(|_| AtomicU64::new(0)).collect());
        }
    }

    /// Makes room for the hour after `elapsed`. Called by the watcher, not by the measuring thread.
    pub(crate) fn extend(&self, elapsed: Ns) {
        self.add((elapsed.0 / 1_000_000_000) as usize / BLOCK + 1);
    }

    /// Enters a latency of second `second`. Only the measuring thread calls this.
    #[inline]
    pub(crate) fn note(&self, second: u32, latency: Ns) {
        let (block, at) = (second as usize / BLOCK, second as usize % BLOCK);
        let Some(slots) = self.blocks.get(block).and_then(OnceLock::get) else { return };
        let stored = latency.0.saturating_add(1);
        if slots[at].load(Ordering::Relaxed) < stored {
            slots[at].store(stored, Ordering::Relaxed);
        }
    }

    /// The maxima so far, in time order; seconds without a sample are absent.
    pub(crate) fn collect(&self) -> Vec<SecondMax> {
        let filled = self.blocks.iter().enumerate().filter_map(|(block, slots)| Some((block, slots.get()?)));
        filled
            .flat_map(|(block, slots)| {
                slots.iter().enumerate().map(move |(at, slot)| (block * BLOCK + at, slot))
            })
            .filter_map(|(second, slot)| {
                let max_ns = Ns(slot.load(Ordering::Relaxed).checked_sub(1)?);
                Some(SecondMax { second: second as u32, max_ns })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maxima_are_kept_across_blocks_that_are_added_in_time() {
        let seconds = Seconds::new(None);
        seconds.note(0, Ns(0));
        seconds.note(7_199, Ns(5));
        seconds.note(7_199, Ns(3));
        seconds.note(7_200, Ns(9)); // the watcher is late: no block yet
        seconds.extend(Ns(7_000 * 1_000_000_000));
        seconds.note(7_201, Ns(4));
        let kept: Vec<_> = seconds.collect().into_iter().map(|s| (s.second, s.max_ns.0)).collect();
        assert_eq!(kept, [(0, 0), (7_199, 5), (7_201, 4)]);
    }
}
