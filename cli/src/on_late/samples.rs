//! Late samples of measuring threads: every one is counted, whether or not it is one of the worst.

use lathunt_core::peak::Peak;
use lathunt_core::series::{Quantity, Thread};
use lathunt_core::time::{Mono, Ns};
use lathunt_host::instrument::cyclic::OnSample;
use lathunt_host::instrument::peak_queue::{peak_queue, NewPeak, PeakReceiver, PeakSender};
use lathunt_host::sched;

/// Runs in a measuring thread: one comparison if a sample is in time, and never a system call.
struct Late {
    above: Ns,
    sender: PeakSender,
}

impl OnSample for Late {
    fn sample(&mut self, _cycle: u64, woken: Mono, latency: Ns) {
        if latency > self.above {
            let expected = Mono(woken.0.saturating_sub(latency.0));
            self.sender.send(NewPeak { expected, woken, latency, freeze: None, cpu: sched::current_cpu() });
        }
    }
}

/// The collecting loop's end.
pub struct LateReceiver {
    receiver: PeakReceiver,
    dropped: u64,
}

/// The hook for a measuring thread, and the receiver of its late samples.
#[must_use]
pub fn late_samples(above: Ns) -> (Box<dyn OnSample>, LateReceiver) {
    let (sender, receiver) = peak_queue();
    (Box::new(Late { above, sender }), LateReceiver { receiver, dropped: 0 })
}

/// A late sample of one thread.
#[derive(Clone, Copy, Debug)]
pub struct LateSample {
    /// When it was due, and when it was taken.
    pub sample: NewPeak,
    /// Its thread, by index.
    pub thread: usize,
}

impl LateReceiver {
    /// Number of late samples since the last call, and the largest of them, as far as the queue had room
    /// (256).
    pub fn take(&mut self, thread: usize) -> (u64, Option<LateSample>) {
        let dropped = self.receiver.dropped();
        let mut count = dropped - self.dropped;
        self.dropped = dropped;
        let mut worst: Option<LateSample> = None;
        while let Some(sample) = self.receiver.take() {
            count += 1;
            if worst.is_none_or(|worst| sample.latency > worst.sample.latency) {
                worst = Some(LateSample { sample, thread });
            }
        }
        (count, worst)
    }
}

impl LateSample {
    /// Converts it to a peak without evidence.
    #[must_use]
    pub fn peak(&self, victim: Thread, why: &str) -> Peak {
        let cpu = self.sample.cpu;
        let sample = (self.sample.expected, self.sample.latency);
        Peak::without_evidence(Quantity::Cyclic, cpu, sample, victim, why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_late_sample_is_counted_also_those_that_find_no_room() {
        let (mut hook, mut receiver) = late_samples(Ns(100));
        for n in 0..1_000u64 {
            hook.sample(n, Mono(10_000 * n + 5_000), Ns(n));
        }
        let (count, worst) = receiver.take(3);
        // The queue holds the first 256 above the limit.
        assert_eq!(
            (count, worst.map(|worst| (worst.sample.latency, worst.thread))),
            (899, Some((Ns(356), 3)))
        );
        assert_eq!(receiver.take(3).0, 0);
        hook.sample(0, Mono(5_000), Ns(101));
        assert_eq!(receiver.take(3).0, 1);
    }
}
