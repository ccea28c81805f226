//! Reading the rings of activations: what each measured thread did from its waking to its next block.

use std::sync::atomic::Ordering::{Acquire, Relaxed};

use lathunt_core::trace::activation::{Activation, BYTES};

use super::block::{CpuBlock, ACTIVATIONS};

/// What was read at once.
#[derive(Clone, Debug, Default)]
pub struct Activations {
    /// Per CPU in the order of their ends.
    pub records: Vec<Activation>,
    /// Overwritten before they were read.
    pub lost: u64,
}

/// Appends what was written since `read`, and moves that on.
pub(super) fn take(block: &CpuBlock, read: &mut u64, into: &mut Activations) {
    let head = block.activations.load(Acquire);
    // One slot less: the programs may be writing the next one.
    let first = (*read).max(head.saturating_sub(ACTIVATIONS as u64 - 1));
    into.lost += first - *read;
    for seq in first..head {
        let slot = &block.activation[seq as usize % ACTIVATIONS];
        let mut bytes = [0; BYTES];
        for (chunk, word) in bytes.chunks_exact_mut(8).zip(slot) {
            chunk.copy_from_slice(&word.load(Relaxed).to_le_bytes());
        }
        std::sync::atomic::fence(Acquire);
        match slot[0].load(Relaxed) == seq + 1 {
            true => into.records.extend(Activation::parse(&bytes, seq)),
            false => into.lost += 1,
        }
    }
    *read = head;
}
