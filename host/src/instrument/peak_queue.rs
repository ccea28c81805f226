//! Passes new peaks from a measuring thread to the explaining thread, without a lock, a system call or an
//! allocation.
//!
//! If the queue is full the newest is dropped and counted: the measuring thread never waits.

use std::sync::Arc;

use lathunt_core::time::{Cpu, Mono, Ns};

use crate::ring::Ring;

const SLOTS: usize = 256;

/// A sample that entered the K worst of its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewPeak {
    /// Programmed wake-up.
    pub expected: Mono,
    /// First clock read in user space.
    pub woken: Mono,
    /// `woken - expected`.
    pub latency: Ns,
    /// The flight buffer frozen for it; `None` if none was free.
    pub freeze: Option<u64>,
    /// CPU of the thread at that time.
    pub cpu: Cpu,
}

/// The measuring thread's end.
#[derive(Debug)]
pub struct PeakSender(Arc<Ring<4>>); // expected, woken, freeze id + 1 (0: none), CPU

/// The explaining thread's end.
#[derive(Debug)]
pub struct PeakReceiver(Arc<Ring<4>>);

/// A queue of new peaks.
#[must_use]
pub fn peak_queue() -> (PeakSender, PeakReceiver) {
    let ring = Arc::new(Ring::new(SLOTS));
    (PeakSender(Arc::clone(&ring)), PeakReceiver(ring))
}

impl PeakSender {
    /// Queues a peak; a few nanoseconds. Drops and counts it if the queue is full.
    pub fn send(&mut self, peak: NewPeak) {
        let freeze = peak.freeze.map_or(0, |id| id + 1);
        self.0.push([peak.expected.0, peak.woken.0, freeze, u64::from(peak.cpu.0)]);
    }
}

impl PeakReceiver {
    /// The oldest queued peak.
    pub fn take(&mut self) -> Option<NewPeak> {
        let [expected, woken, freeze, cpu] = self.0.pop()?;
        let (expected, woken) = (Mono(expected), Mono(woken));
        let (freeze, cpu) = (freeze.checked_sub(1), Cpu(cpu as u32));
        Some(NewPeak { expected, woken, latency: woken.since(expected), freeze, cpu })
    }

    /// Peaks that were dropped because the queue was full.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.0.dropped()
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
            cpu: Cpu(n as u32),
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
