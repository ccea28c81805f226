//! A bounded ring of records of `WORDS` numbers, with one writer and one reader. Neither waits; records without room are
//! dropped and counted (Lamport 1983).

use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug)]
pub(crate) struct Ring<const WORDS: usize> {
    slots: Box<[[AtomicU64; WORDS]]>,
    written: AtomicU64,
    read: AtomicU64,
    dropped: AtomicU64,
}

impl<const WORDS: usize> Ring<WORDS> {
    pub fn new(room: usize) -> Ring<WORDS> {
        Ring {
            slots: (0..room).map(|_| std::array::from_fn(|_| AtomicU64::new(0))).collect(),
            written: AtomicU64::new(0),
            read: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        }
    }

    fn slot(&self, at: u64) -> &[AtomicU64; WORDS] {
        &self.slots[(at % self.slots.len() as u64) as usize]
    }

    /// Adds one; some ns. Only one thread may call it.
    #[inline]
    pub fn push(&self, words: [u64; WORDS]) {
        let written = self.written.load(Ordering::Relaxed);
        if written - self.read.load(Ordering::Acquire) >= self.slots.len() as u64 {
            self.dropped.store(self.dropped.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            return;
        }
        for (slot, word) in self.slot(written).iter().zip(words) {
            slot.store(word, Ordering::Relaxed);
        }
        self.written.store(written + 1, Ordering::Release);
    }

    /// The oldest one. Only one thread may call it.
    pub fn pop(&self) -> Option<[u64; WORDS]> {
        let read = self.read.load(Ordering::Relaxed);
        if read == self.written.load(Ordering::Acquire) {
            return None;
        }
        let slot = self.slot(read);
        let words = std::array::from_fn(|at| slot[at].load(Ordering::Relaxed));
        self.read.store(read + 1, Ordering::Release);
        Some(words)
    }

    /// Records dropped for lack of room.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_record_comes_once_whole_and_in_order_or_is_counted() {
        let ring = Ring::<2>::new(8);
        assert_eq!(ring.pop(), None);
        (0..8 + 3).for_each(|n| ring.push([n, n + 1]));
        assert!((0..8).all(|n| ring.pop() == Some([n, n + 1])));
        assert_eq!((ring.pop(), ring.dropped()), (None, 3));
        ring.push([7, 8]);
        assert_eq!(ring.pop(), Some([7, 8]));
    }
}
