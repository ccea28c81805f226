//! Samples counted twice: in the thread's own figures, and in those of the half in which they were due and taken. Two
//! alternating settings (idle states limited and not) are compared with the same running threads, without differences of
//! threads or start.

use std::sync::atomic::{AtomicU64, AtomicU8, Ordering};
use std::sync::Arc;

use lathunt_core::histogram::{Histogram, Layout};
use lathunt_core::time::{Mono, Ns};

use super::super::counters::Counters;
use super::OnSample;

/// Neither half: settings are being changed.
const NEITHER: u8 = 2;

/// The current half, for all threads, and since when.
#[derive(Clone, Debug)]
pub struct CurrentHalf(Arc<(AtomicU8, AtomicU64)>);

impl Default for CurrentHalf {
    fn default() -> CurrentHalf {
        CurrentHalf(Arc::new((AtomicU8::new(NEITHER), AtomicU64::new(0))))
    }
}

impl CurrentHalf {
    /// From now on samples belong to the first or second half; `None`: to neither.
    pub fn set(&self, second: Option<bool>) {
        let CurrentHalf(shared) = self;
        let (half, since) = &**shared;
        since.store(crate::clock::mono().0, Ordering::Relaxed);
        half.store(second.map_or(NEITHER, u8::from), Ordering::Release);
    }

    /// The half of an activation that was due at `due`; 2: neither, because its stall began before.
    fn of(&self, due: Mono) -> usize {
        let (half, since) = &*self.0;
        let half = half.load(Ordering::Acquire);
        usize::from(if due.0 < since.load(Ordering::Relaxed) { NEITHER } else { half })
    }
}

/// Runs in a measuring thread: some ns per sample.
struct Halves {
    turn: CurrentHalf,
    counters: Arc<[Counters; 2]>,
    next: Option<Box<dyn OnSample>>,
}

impl OnSample for Halves {
    fn sample(&mut self, cycle: u64, woken: Mono, latency: Ns) {
        let due = Mono(woken.0.saturating_sub(latency.0));
        if let Some(counters) = self.counters.get(self.turn.of(due)) {
            counters.record(latency);
        }
        if let Some(next) = &mut self.next {
            next.sample(cycle, woken, latency);
        }
    }
}

/// The figures of one thread, in halves.
pub struct InHalves(Arc<[Counters; 2]>);

impl InHalves {
    /// The first and the second half; read them after the thread has ended.
    #[must_use]
    pub fn histograms(&self) -> [Histogram; 2] {
        [0, 1].map(|half| {
            let counters = &self.0[half];
            counters.copy().into_histogram(counters.layout, &Histogram::new(counters.layout))
        })
    }
}

/// A hook that counts by half and then calls `next`, and its counters.
#[must_use]
pub fn halves(turn: &CurrentHalf, next: Option<Box<dyn OnSample>>) -> (Box<dyn OnSample>, InHalves) {
    let counters = Arc::new([Counters::new(Layout::LATENCY), Counters::new(Layout::LATENCY)]);
    let (turn, shared) = (turn.clone(), Arc::clone(&counters));
    (Box::new(Halves { turn, counters, next }), InHalves(shared))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sample_is_in_the_half_in_which_it_was_due_and_reaches_the_next_hook() {
        struct Count(Arc<AtomicU8>);
        impl OnSample for Count {
            fn sample(&mut self, _: u64, _: Mono, _: Ns) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let (turn, seen) = (CurrentHalf::default(), Arc::new(AtomicU8::new(0)));
        let (mut hook, figures) = halves(&turn, Some(Box::new(Count(Arc::clone(&seen)))));
        for (second, latency) in
            [(None, 1_000), (Some(false), 2_000), (Some(true), 3_000), (Some(false), 4_000)]
        {
            turn.set(second);
            hook.sample(0, crate::clock::mono() + Ns(2 * latency), Ns(latency));
        }
        // Due before this half began: a stall of the previous one.
        hook.sample(0, crate::clock::mono(), Ns(60_000_000_000));
        let [first, second] = figures.histograms();
        assert_eq!((first.count(), first.min(), first.max()), (2, Some(Ns(2_000)), Some(Ns(4_000))));
        assert_eq!((second.count(), second.max()), (1, Some(Ns(3_000))));
        assert_eq!(seen.load(Ordering::Relaxed), 5);
    }
}
