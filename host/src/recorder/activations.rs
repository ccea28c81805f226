//! Reading the rings of activations: what each measured thread did from its waking to its next block.

use std::sync::atomic::Ordering::{Acquire, Relaxed};

use lathunt_core::trace::activation::{Activation, WORDS};

use super::block::{CpuBlock, ACTIVATIONS};

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
        if slot[0].load(Relaxed) != seq + 1 {
            lost += 1;
        } else if let Some(activation) = Activation::parse(&words, seq) {
            see(&activation);
        }
    }
    *read = head;
    lost
}
