//! A ring in mapped memory.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock;
use crate::layout::{Packet, Ring, RING_HEADER_BYTES};
use crate::ring::{Anchor, Memory};

/// A ring's header in memory.
pub type SharedRing = Ring<AtomicU64>;

/// A mapped ring, to be used by the thread that owns it.
#[derive(Clone, Copy)]
pub struct Mapped(&'static SharedRing);

impl Mapped {
    /// # Safety
    /// `ring` must stay mapped for the life of the process, followed by its packets as the header says, and
    /// only the calling thread may write events to it.
    #[inline(always)]
    #[must_use]
    pub unsafe fn new(ring: *const SharedRing) -> Mapped {
        // SAFETY: the caller's promise.
        Mapped(unsafe { &*ring })
    }

    /// Address of word `index` of packet `slot`.
    #[inline(always)]
    #[must_use]
    pub fn word(&self, slot: u64, index: u64) -> *mut u64 {
        let words = self.0.packet_words.load(Ordering::Relaxed);
        // SAFETY: inside the ring for every slot and index that the protocol hands out.
        unsafe {
            std::ptr::from_ref(self.0)
                .cast::<u8>()
                .add(RING_HEADER_BYTES)
                .cast::<u64>()
                .add((slot * words + index) as usize)
                .cast_mut()
        }
    }

    fn kind(&self) -> clock::Kind {
        if self.0.clock.load(Ordering::Relaxed) == clock::Kind::Counter as u64 {
            clock::Kind::Counter
        } else {
            clock::Kind::Monotonic
        }
    }
}

impl Memory for Mapped {
    type W = AtomicU64;

    #[inline(always)]
    fn ring(&self) -> &SharedRing {
        self.0
    }

    fn packet(&self, slot: u64) -> &Packet<AtomicU64> {
        // SAFETY: a packet header of atomic words lies at the start of each slot.
        unsafe { &*self.word(slot, 0).cast() }
    }

    #[inline(always)]
    fn counter(&self) -> u64 {
        match self.kind() {
            clock::Kind::Counter => clock::counter(),
            clock::Kind::Monotonic => clock::monotonic_ns(),
        }
    }

    fn anchor(&self) -> Anchor {
        clock::anchor(self.kind())
    }

    fn owner(&self) -> u64 {
        // SAFETY: no preconditions; answered by rseq or the vDSO.
        let cpu = unsafe { libc::sched_getcpu() };
        self.0.owner.load(Ordering::Relaxed) | (u64::from(cpu.max(0) as u32) << 32)
    }
}
