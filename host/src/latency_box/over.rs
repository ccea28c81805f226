//! The end of a measurement, with its time: what was due before belongs to it, however late the thread that sees it.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock;

/// Whether a measurement has been ended, and when, in ns of CLOCK_MONOTONIC.
#[derive(Debug, Default)]
pub(super) struct Over(AtomicU64);

impl Over {
    /// Ends it now, unless it was ended before.
    pub(super) fn end(&self) {
        let _ = self.0.compare_exchange(0, clock::mono().0, Ordering::AcqRel, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire) > 0
    }

    /// The earlier of its end and `planned`.
    #[inline]
    pub(super) fn or(&self, planned: u64) -> u64 {
        match self.0.load(Ordering::Acquire) {
            0 => planned,
            at => at.min(planned),
        }
    }
}
