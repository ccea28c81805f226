//! Reading the rings of activations: what each measured thread did from its waking to its next block.
//!
//! A thread that changes its CPU leaves its activations in several rings, which are read one after another: they are
//! shown in the order of time.

use std::sync::atomic::Ordering::{Acquire, Relaxed};

use lathunt_core::time::Mono;
use lathunt_core::trace::activation::{Activation, WORDS};

use super::block::{CpuBlock, ACTIVATIONS};

/// What was read and not shown yet.
#[derive(Default)]
pub(super) struct Held {
    activations: Vec<Activation>,
    order: Vec<(Mono, usize)>,
}

impl Held {
    pub fn add(&mut self, activation: &Activation) {
        self.activations.push(*activation);
    }

    /// Shows `see` in the order of time what ended before `horizon`, the moment before the first ring was read: what
    /// ended later may have a predecessor in a ring that had been read by then.
    pub fn show(&mut self, horizon: Mono, see: &mut impl FnMut(&Activation)) {
        self.order.clear();
        self.order.extend(self.activations.iter().enumerate().map(|(at, one)| (one.blocked, at)));
        self.order.sort(); // of each CPU they are sorted already, and this sort makes use of it
        for &(_, at) in self.order.iter().take_while(|(blocked, _)| *blocked < horizon) {
            see(&self.activations[at]);
        }
        self.activations.retain(|one| one.blocked >= horizon);
    }
}

/// Shows `see` what was written since `read`, in the order of the ends, and moves `read` on. Returned: how many were
/// overwritten before they were read. Some 0.2 µs each, most of it for what another CPU wrote.
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
