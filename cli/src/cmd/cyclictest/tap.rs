//! What cyclictest keeps of single samples beside the histogram: the raw values of `-v`, the numbers of the cycles
//! that overflow the histogram, and the spikes. Filled in the measuring thread: memory is there from the start, and
//! every store is one atomic.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use lathunt_core::cyclictest::text::Spike;
use lathunt_core::time::{Mono, Ns};
use lathunt_host::instrument::cyclic::OnSample;

fn slots(count: usize) -> Box<[AtomicU64]> {
    (0..count).map(|_| AtomicU64::new(0)).collect()
}

/// The last samples of one thread, for `-v`.
pub struct Ring {
    slots: Box<[AtomicU64]>,
    written: AtomicU64,
}

impl Ring {
    /// 65536 samples: six seconds at the shortest usual interval, read out every 10 ms.
    pub fn new() -> Ring {
        Ring { slots: slots(1 << 16), written: AtomicU64::new(0) }
    }

    fn push(&self, cycle: u64, latency: u64) {
        self.slots[cycle as usize & (self.slots.len() - 1)].store(latency, Ordering::Relaxed);
        self.written.store(cycle + 1, Ordering::Release);
    }

    /// Hands the samples from `next` on to `each` and moves `next` behind them; answers how many were overwritten
    /// before they could be read.
    pub fn drain(&self, next: &mut u64, mut each: impl FnMut(u64, u64)) -> u64 {
        let capacity = self.slots.len() as u64;
        let written = self.written.load(Ordering::Acquire);
        let lost = written.saturating_sub(capacity).saturating_sub(*next);
        for cycle in *next + lost..written {
            each(cycle, self.slots[(cycle % capacity) as usize].load(Ordering::Relaxed));
        }
        *next = written;
        lost
    }
}

/// Numbers of the first cycles beyond the histogram.
pub struct Overflows {
    cycles: Box<[AtomicU64]>,
    count: AtomicU64,
}

impl Overflows {
    /// Room for as many as the histogram has rows, as cyclictest has it.
    pub fn new(rows: u32) -> Overflows {
        Overflows { cycles: slots(rows as usize), count: AtomicU64::new(0) }
    }

    fn push(&self, cycle: u64) {
        let count = self.count.load(Ordering::Relaxed);
        if let Some(slot) = self.cycles.get(count as usize) {
            slot.store(cycle, Ordering::Relaxed);
        }
        self.count.store(count + 1, Ordering::Release);
    }

    /// The kept cycle numbers.
    pub fn cycles(&self) -> Vec<u64> {
        let kept = (self.count.load(Ordering::Acquire) as usize).min(self.cycles.len());
        self.cycles[..kept].iter().map(|cycle| cycle.load(Ordering::Relaxed)).collect()
    }
}

/// Samples of all threads above the limit of `--spike`.
pub struct Spikes {
    thread: Box<[AtomicU64]>,
    latency: Box<[AtomicU64]>,
    at_us: Box<[AtomicU64]>,
    count: AtomicU64,
}

impl Spikes {
    /// Room for `nodes` of them.
    pub fn new(nodes: usize) -> Spikes {
        Spikes { thread: slots(nodes), latency: slots(nodes), at_us: slots(nodes), count: AtomicU64::new(0) }
    }

    fn push(&self, spike: Spike) {
        let at = self.count.fetch_add(1, Ordering::AcqRel) as usize;
        if at < self.thread.len() {
            self.thread[at].store(spike.thread as u64, Ordering::Relaxed);
            self.latency[at].store(spike.latency, Ordering::Relaxed);
            self.at_us[at].store(spike.at_us, Ordering::Relaxed);
        }
    }

    /// The kept ones and the number of all. Call it when the threads have ended.
    pub fn collect(&self) -> (Vec<Spike>, u64) {
        let count = self.count.load(Ordering::Acquire);
        let kept = (count as usize).min(self.thread.len());
        let spike = |at: usize| Spike {
            thread: self.thread[at].load(Ordering::Relaxed) as usize,
            latency: self.latency[at].load(Ordering::Relaxed),
            at_us: self.at_us[at].load(Ordering::Relaxed),
        };
        ((0..kept).map(spike).collect(), count)
    }
}

/// The latencies of one thread added up as they are printed, in whole units: cyclictest's average is that of the rows
/// of its histogram, and never above its maximum.
#[derive(Default)]
pub struct Sum(AtomicU64);

impl Sum {
    /// So far. Exact when the thread has ended.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The parts that one thread fills.
#[derive(Clone, Default)]
pub struct Tap {
    /// Number of the thread.
    pub thread: usize,
    /// Nanoseconds per unit of the output.
    pub unit: u64,
    /// Of the average.
    pub sum: Arc<Sum>,
    /// Of `-v`.
    pub ring: Option<Arc<Ring>>,
    /// Of `-h`: rows, and where the numbers go.
    pub overflows: Option<(u64, Arc<Overflows>)>,
    /// Of `--spike`: limit, and where they go.
    pub spikes: Option<(u64, Arc<Spikes>)>,
}

impl OnSample for Tap {
    fn sample(&mut self, cycle: u64, woken: Mono, latency: Ns) {
        let value = latency.0 / self.unit;
        self.sum.0.store(self.sum.get().saturating_add(value), Ordering::Relaxed); // one thread writes
        if let Some(ring) = &self.ring {
            ring.push(cycle, value);
        }
        if let Some((_, overflows)) = self.overflows.as_ref().filter(|(rows, _)| value >= *rows) {
            overflows.push(cycle);
        }
        if let Some((_, spikes)) = self.spikes.as_ref().filter(|(limit, _)| value > *limit) {
            spikes.push(Spike { thread: self.thread, latency: value, at_us: woken.0 / 1_000 });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_is_too_late_is_told_how_many_it_lost() {
        let ring = Ring::new();
        (0..70_000).for_each(|cycle| ring.push(cycle, cycle * 2));
        let (mut next, mut seen) = (0, Vec::new());
        assert_eq!(ring.drain(&mut next, |cycle, value| seen.push((cycle, value))), 70_000 - 65_536);
        assert_eq!((seen[0], seen.len(), next), ((4_464, 8_928), 65_536, 70_000));
        assert_eq!(ring.drain(&mut next, |_, _| panic!("nothing new")), 0);
    }

    #[test]
    fn more_spikes_and_overflows_than_fit_are_counted() {
        let (spikes, overflows) = (Arc::new(Spikes::new(2)), Arc::new(Overflows::new(3)));
        let mut tap = Tap {
            thread: 1,
            unit: 1_000,
            sum: Arc::default(),
            ring: None,
            overflows: Some((3, Arc::clone(&overflows))),
            spikes: Some((5, Arc::clone(&spikes))),
        };
        for (cycle, us) in [1, 3, 6, 7, 8].into_iter().enumerate() {
            tap.sample(cycle as u64, Mono(5_000_000), Ns::from_us(us) + Ns(999));
        }
        assert_eq!(tap.sum.get(), 25);
        assert_eq!(overflows.cycles(), [1, 2, 3]);
        let (kept, count) = spikes.collect();
        assert_eq!((kept.len(), count), (2, 3));
        assert_eq!(kept[0], Spike { thread: 1, latency: 6, at_us: 5_000 });
    }
}
