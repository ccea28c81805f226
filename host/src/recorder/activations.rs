//! Reads the rings of activations: each measured thread from its waking to its next block.
//!
//! A thread that changes its CPU leaves its activations in several rings, which are read one after another: they are
//! sorted by time.

use std::sync::atomic::Ordering::{Acquire, Relaxed};

use lathunt_core::time::Mono;
use lathunt_core::trace::activation::{Activation, WORDS};

use super::block::{CpuBlock, ACTIVATIONS};

/// Activations read and not passed on yet.
#[derive(Default)]
pub(super) struct Held {
    activations: Vec<Activation>,
    order: Vec<(Mono, usize)>,
}

impl Held {
    pub fn add(&mut self, activation: &Activation) {
        self.activations.push(*activation);
    }

    /// Passes to `see`, in the order of time, activations that ended before `horizon`, the moment before the first
    /// ring was read: a later one may have a predecessor in a ring that had been read by then.
    pub fn show(&mut self, horizon: Mono, see: &mut impl FnMut(&Activation)) {
        self.order.clear();
        self.order.extend(self.activations.iter().enumerate().map(|(at, one)| (one.blocked, at)));
        self.order.sort(); // each CPU's are sorted already, which this sort exploits
        for &(_, at) in self.order.iter().take_while(|(blocked, _)| *blocked < horizon) {
            see(&self.activations[at]);
        }
        self.activations.retain(|one| one.blocked >= horizon);
    }
}

/// Passes to `see` the records since `read`, in the order of the ends, and advances `read`. Returns how many were
/// overwritten before they were read. Some 0.2 µs each, mostly for cache lines of another CPU.
pub(super) fn take(block: &CpuBlock, read: &mut u64, see: &mut impl FnMut(&Activation)) -> u64 {
    let head = block.activations.load(Acquire);
    // One slot less: the programs may be writing the next one.
    let first = (*read).max(head.saturating_sub(ACTIVATIONS as u64 - 1));
    let mut lost = first - *read;
    for seq in first..head {
        let slot = &block.activation[seq as usize % ACTIVATIONS];
        let mut words = [0; WORDS];
        for (copy, word) in words.iter_mut().zip(slot) {
            *copy = word.load(Relaxed);
        }
        std::sync::atomic::fence(Acquire);
        let whole = slot[0].load(Relaxed) == seq + 1;
        match Activation::parse(&words, seq).filter(|_| whole) {
            Some(activation) => see(&activation),
            None => lost += 1,
        }
    }
    *read = head;
    lost
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The `seq`th record, woken at its number and over 100 ns later, in the programs' format.
    fn write(block: &CpuBlock, seq: u64) {
        let slot = &block.activation[seq as usize % ACTIVATIONS];
        let at = 1_000 + seq;
        for (place, word) in [(1, at), (4, at + 20), (5, at + 100)] {
            slot[place].store(word, Relaxed);
        }
        slot[0].store(seq + 1, Relaxed);
        block.activations.store(seq + 1, Relaxed);
    }

    fn taken(block: &CpuBlock, read: &mut u64) -> (Vec<u64>, u64) {
        let mut seen = Vec::new();
        let lost = take(block, read, &mut |activation| seen.push(activation.waking.0 - 1_000));
        (seen, lost)
    }

    #[test]
    fn each_record_is_read_once_and_what_was_overwritten_or_is_being_written_is_counted() {
        let (block, mut read) = (CpuBlock::zeroed(), 0);
        (0..10).for_each(|seq| write(&block, seq));
        assert_eq!(taken(&block, &mut read), ((0..10).collect(), 0));
        assert_eq!(taken(&block, &mut read), (Vec::new(), 0));
        let head = 10 + ACTIVATIONS as u64 + 5;
        (10..head).for_each(|seq| write(&block, seq));
        // 5 are gone, and the programs may be overwriting the next one.
        let (seen, lost) = taken(&block, &mut read);
        assert_eq!((seen[0], seen.len(), lost), (16, ACTIVATIONS - 1, 6));
        assert_eq!(read, head);
        (head..head + 3).for_each(|seq| write(&block, seq));
        block.activation[(head as usize + 1) % ACTIVATIONS][0].store(0, Relaxed);
        assert_eq!(taken(&block, &mut read), (vec![head, head + 2], 1), "one is torn");
    }

    #[test]
    fn activations_of_several_cpus_are_shown_in_the_order_of_time_up_to_the_horizon() {
        let (one, other) = (CpuBlock::zeroed(), CpuBlock::zeroed());
        [0, 2, 3].into_iter().zip(0..).for_each(|(at, seq)| {
            write(&one, seq);
            one.activation[seq as usize][5].store(2_000 + at, Relaxed);
        });
        write(&other, 0);
        other.activation[0][5].store(2_001, Relaxed);
        let mut held = Held::default();
        for block in [one, other] {
            take(&block, &mut 0, &mut |activation| held.add(activation));
        }
        let mut shown = |horizon| {
            let mut shown = Vec::new();
            held.show(Mono(horizon), &mut |activation: &Activation| shown.push(activation.blocked.0));
            shown
        };
        assert_eq!(shown(2_003), [2_000, 2_001, 2_002]);
        assert_eq!(shown(u64::MAX), [2_003], "what ended later waits for its predecessors");
        assert!(shown(u64::MAX).is_empty());
    }
}
