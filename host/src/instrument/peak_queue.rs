//! From a measuring thread to the thread that explains: new peaks, without a lock, a system call or an allocation.
//!
//! A bounded single-producer single-consumer ring (Lamport 1983). When it is full the newest is dropped and counted:
//! the measuring thread never waits.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use lathunt_core::time::{Mono, Ns};

const SLOTS: usize = 256; // a power of two

/// A sample that entered the K worst of its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewPeak {
    /// Programmed wake-up.
    pub expected: Mono,
    /// First clock read in user space.
    pub woken: Mono,
    /// `woken - expected`.
    pub latency: Ns,
    /// The flight buffer that was frozen for it; `None` when none was free.
    pub freeze: Option<u64>,
}

#[derive(Debug)]
struct Ring {
    slots: [[AtomicU64; 3]; SLOTS], // expected, woken, freeze id + 1 (0: none)
    written: AtomicU64,
    read: AtomicU64,
    dropped: AtomicU64,
}

/// The end that the measuring thread holds.
#[derive(Debug)]
pub struct PeakSender(Arc<Ring>);

/// The end that the explaining thread holds.
#[derive(Debug)]
pub struct PeakReceiver(Arc<Ring>);

/// A queue of new peaks.
#[must_use]
pub fn peak_queue() -> (PeakSender, PeakReceiver) {
    let ring = Arc::new(Ring {
        slots: [const { [const { AtomicU64::new(0) }; 3] }; SLOTS],
        written: AtomicU64::new(0),
        read: AtomicU64::new(0),
        dropped: AtomicU64::new(0),
    });
    (PeakSender(Arc::clone(&ring)), PeakReceiver(ring))
}

impl PeakSender {
    /// Hands a peak over; a few nanoseconds. Drops and counts it when nobody read for long.
    pub fn send(&mut self, peak: NewPeak) {
        let ring = &*self.0;
        let written = ring.written.load(Ordering::Relaxed);
        if written - ring.read.load(Ordering::Acquire) == SLOTS as u64 {
            ring.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let slot = &ring.slots[written as usize % SLOTS];
        slot[0].store(peak.expected.0, Ordering::Relaxed);
        slot[1].store(peak.woken.0, Ordering::Relaxed);
        slot[2].store(peak.freeze.map_or(0, |id| id + 1), Ordering::Relaxed);
        ring.written.store(written + 1, Ordering::Release);
    }
}

impl PeakReceiver {
    /// The oldest peak that was not yet taken.
    pub fn take(&mut self) -> Option<NewPeak> {
        let ring = &*self.0;
        let read = ring.read.load(Ordering::Relaxed);
        if read == ring.written.load(Ordering::Acquire) {
            return None;
        }
        let slot = &ring.slots[read as usize % SLOTS];
        let (expected, woken) =
            (Mono(slot[0].load(Ordering::Relaxed)), Mono(slot[1].load(Ordering::Relaxed)));
        let freeze = slot[2].load(Ordering::Relaxed).checked_sub(1);
        ring.read.store(read + 1, Ordering::Release);
        Some(NewPeak { expected, woken, latency: woken.since(expected), freeze })
    }

    /// Peaks that were dropped because the queue was full.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.0.dropped.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peak(n: u64) -> NewPeak {
        NewPeak {
            expected: Mono(n),
            woken: Mono(n + 5),
            latency: Ns(5),
            freeze: n.is_multiple_of(2).then_some(n),
        }
    }

    #[test]
    fn a_full_queue_drops_the_newest_and_counts_it() {
        let (mut sender, mut receiver) = peak_queue();
        (0..SLOTS as u64 + 3).for_each(|n| sender.send(peak(n)));
        assert_eq!(receiver.dropped(), 3);
        for n in 0..SLOTS as u64 {
            assert_eq!(receiver.take(), Some(peak(n)));
        }
        assert_eq!(receiver.take(), None);
    }

    #[test]
    fn two_threads_hand_over_every_peak_in_order() {
        let (mut sender, mut receiver) = peak_queue();
        let writer = std::thread::spawn(move || {
            for n in 0..10_000 {
                sender.send(peak(n));
                if n % 100 == 0 {
                    std::thread::sleep(std::time::Duration::from_micros(200));
                }
            }
        });
        let (mut seen, mut last) = (0, None);
        while !writer.is_finished() || seen + receiver.dropped() < 10_000 {
            while let Some(got) = receiver.take() {
                assert_eq!(got, peak(got.expected.0));
                assert!(last < Some(got.expected));
                last = Some(got.expected);
                seen += 1;
            }
        }
        writer.join().unwrap();
        assert_eq!(seen + receiver.dropped(), 10_000);
    }
}
