//! Latencies one by one, from the thread that receives answers to one that sends them on.

use std::sync::atomic::{AtomicU64, Ordering};

use lathunt_core::time::Ns;

/// Room: two thirds of a second at 100,000 a second.
const ROOM: usize = 1 << 16;

/// A ring with one writer and one reader. Neither waits.
#[derive(Debug)]
pub struct Feed {
    slots: Box<[AtomicU64]>,
    written: AtomicU64,
    read: AtomicU64,
    dropped: AtomicU64,
}

impl Default for Feed {
    fn default() -> Feed {
        Feed {
            slots: (0..ROOM).map(|_| AtomicU64::new(0)).collect(),
            written: AtomicU64::new(0),
            read: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        }
    }
}

impl Feed {
    fn slot(&self, at: u64) -> &AtomicU64 {
        &self.slots[(at % ROOM as u64) as usize]
    }

    /// Adds one; where the reader is too far behind it is dropped and counted.
    #[inline]
    pub(super) fn push(&self, latency: Ns) {
        let written = self.written.load(Ordering::Relaxed);
        if written - self.read.load(Ordering::Acquire) >= ROOM as u64 {
            self.dropped.store(self.dropped.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            return;
        }
        self.slot(written).store(latency.0, Ordering::Relaxed);
        self.written.store(written + 1, Ordering::Release);
    }

    /// The oldest one. Only one thread may call it.
    pub fn pop(&self) -> Option<Ns> {
        let read = self.read.load(Ordering::Relaxed);
        if read == self.written.load(Ordering::Acquire) {
            return None;
        }
        let latency = Ns(self.slot(read).load(Ordering::Relaxed));
        self.read.store(read + 1, Ordering::Release);
        Some(latency)
    }

    /// Latencies that found no room.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_latency_comes_once_in_order_or_is_counted() {
        let feed = Feed::default();
        assert_eq!(feed.pop(), None);
        for n in 0..ROOM as u64 + 3 {
            feed.push(Ns(n));
        }
        assert!((0..ROOM as u64).all(|n| feed.pop() == Some(Ns(n))));
        assert_eq!((feed.pop(), feed.dropped()), (None, 3));
        feed.push(Ns(7));
        assert_eq!(feed.pop(), Some(Ns(7)));
    }
}
