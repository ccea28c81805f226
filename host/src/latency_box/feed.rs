//! Latencies one by one, from the receiving thread to one that forwards them.

use lathunt_core::time::Ns;

use crate::ring::Ring;

/// Room: two thirds of a second at 100,000 a second.
const ROOM: usize = 1 << 16;

/// The latencies not forwarded yet.
#[derive(Debug)]
pub struct Feed(Ring<1>);

impl Default for Feed {
    fn default() -> Feed {
        Feed(Ring::new(ROOM))
    }
}

impl Feed {
    /// Adds one; if the reader is too far behind it is dropped and counted.
    #[inline]
    pub(super) fn push(&self, latency: Ns) {
        self.0.push([latency.0]);
    }

    /// The oldest one. Only one thread may call it.
    pub fn pop(&self) -> Option<Ns> {
        self.0.pop().map(|[latency]| Ns(latency))
    }

    /// Latencies that found no room.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.0.dropped()
    }
}
