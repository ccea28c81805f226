//! Each round trip one by one, from the thread that measures it to one that looks for the cause of the worst.
//!
//! A bounded ring with one writer and one reader; neither waits. What finds no room is dropped and counted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// Room: 0.4 s at 20,000 a second.
const ROOM: usize = 1 << 13;
const WORDS: usize = 6;

/// What one end knows of a round trip, all in ns of its `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trip {
    /// Key of the session; 0 where there is none.
    pub key: u64,
    /// Number of the stimulus.
    pub sequence: u64,
    /// When it began here: a box sent the stimulus, a responder received it, a thread was released.
    pub begin: u64,
    /// When it was over here: a box received the answer, a responder had sent it, a thread ran.
    pub end: u64,
    /// Of a box: when the responder received the stimulus, by its answer. Of a responder: when it began to send the answer.
    pub middle: u64,
    /// Of a box: when the responder began to send the answer, by its clock; 0 where that is another clock.
    pub answered: u64,
}

/// The ring.
#[derive(Debug)]
pub struct Trips {
    slots: Box<[[AtomicU64; WORDS]]>,
    written: AtomicU64,
    read: AtomicU64,
    dropped: AtomicU64,
}

impl Trips {
    /// An empty one, 400 KB.
    #[must_use]
    pub fn new() -> Arc<Trips> {
        Arc::new(Trips {
            slots: (0..ROOM).map(|_| Default::default()).collect(),
            written: AtomicU64::new(0),
            read: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        })
    }

    /// Adds one; some ns. Only one thread may call it at a time.
    #[inline]
    pub(super) fn push(&self, trip: &Trip) {
        let written = self.written.load(Ordering::Relaxed);
        if written - self.read.load(Ordering::Acquire) >= ROOM as u64 {
            self.dropped.store(self.dropped.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            return;
        }
        let words = [trip.key, trip.sequence, trip.begin, trip.end, trip.middle, trip.answered];
        for (slot, word) in self.slots[(written % ROOM as u64) as usize].iter().zip(words) {
            slot.store(word, Ordering::Relaxed);
        }
        self.written.store(written + 1, Ordering::Release);
    }

    /// The oldest one. Only one thread may call it.
    pub fn pop(&self) -> Option<Trip> {
        let read = self.read.load(Ordering::Relaxed);
        if read == self.written.load(Ordering::Acquire) {
            return None;
        }
        let slot = &self.slots[(read % ROOM as u64) as usize];
        let [key, sequence, begin, end, middle, answered] =
            std::array::from_fn(|at| slot[at].load(Ordering::Relaxed));
        self.read.store(read + 1, Ordering::Release);
        Some(Trip { key, sequence, begin, end, middle, answered })
    }

    /// Round trips that found no room.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_trip_comes_once_whole_and_in_order_or_is_counted() {
        let trips = Trips::new();
        let of =
            |n: u64| Trip { key: 1, sequence: n, begin: n + 1, end: n + 2, middle: n + 3, answered: n + 4 };
        assert_eq!(trips.pop(), None);
        (0..ROOM as u64 + 3).for_each(|n| trips.push(&of(n)));
        assert!((0..ROOM as u64).all(|n| trips.pop() == Some(of(n))));
        assert_eq!((trips.pop(), trips.dropped()), (None, 3));
        trips.push(&of(7));
        assert_eq!(trips.pop(), Some(of(7)));
    }
}
