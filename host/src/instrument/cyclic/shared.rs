//! The counters of a measuring thread, readable by others at any time.
//!
//! Invariants: one thread writes (each update is a load and a store, not a locked instruction); all fields are atomics,
//! so a race yields at worst an old value; `sequence` is odd while a sample is entered, and a reader that finds it odd or
//! changed reads again. This is a sequence lock as in H.-J. Boehm, "Can seqlocks get along with programming language
//! memory models?" (MSPC 2012), in its form with fences.

use std::sync::atomic::{fence, AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::Mutex;

use crate::instrument::own_cpu::OwnCpu;
use lathunt_core::histogram::Histogram;
use lathunt_core::series::{Quantity, Series, Thread};
use lathunt_core::time::{Cpu, Mono, Ns, Prio, Tid};

use super::super::counters::Counters;
use super::seconds::Seconds;
use super::{Live, Options, ThreadResult, WorstSample};

const RELAXED: Ordering = Ordering::Relaxed;

/// One entry of the list of worst samples.
#[derive(Default)]
struct Slot {
    expected: AtomicU64,
    woken: AtomicU64,
    latency: AtomicU64,
    freeze: AtomicU64, // 0: none; else id + 1
    cpu: AtomicU64,
}

/// The part of a thread's data that others may read.
pub(super) struct Shared {
    sequence: AtomicU64,
    samples: Counters,
    /// Latencies of the missed activations alone.
    missed: Counters,
    last: AtomicU64,
    worst: Box<[Slot]>,
    worst_len: AtomicU64,
    seconds: Seconds,
    begin: AtomicU64,
    /// When the thread was told to begin, in ns of the clock of its activations; 0: not known.
    released: AtomicU64,
    tid: AtomicI32,
    done: AtomicBool,
    pub(super) own_cpu: OwnCpu,
    comm: Mutex<String>, // written before the measurement begins
}

/// A sample to be entered by [`Shared::enter`].
pub(super) struct Entry {
    pub(super) latency: Ns,
    pub(super) second: u32,
    /// Latency of the first missed activation after it, and the interval.
    pub(super) missed: Option<(Ns, Ns)>,
    /// With its slot, if it is one of the worst.
    pub(super) worst: Option<(usize, WorstSample)>,
}

impl Shared {
    pub(super) fn new(options: &Options, cpu: Option<Cpu>) -> Shared {
        Shared {
            sequence: AtomicU64::new(0),
            samples: Counters::new(options.layout),
            missed: Counters::new(options.layout),
            last: AtomicU64::new(0),
            worst: (0..options.peaks).map(|_| Slot::default()).collect(),
            worst_len: AtomicU64::new(0),
            seconds: Seconds::new(options.duration),
            begin: AtomicU64::new(0),
            released: AtomicU64::new(0),
            tid: AtomicI32::new(0),
            done: AtomicBool::new(false),
            own_cpu: OwnCpu::new(cpu),
            comm: Mutex::new(String::new()),
        }
    }

    pub(super) fn introduce(&self, tid: Tid, comm: String) {
        self.tid.store(tid.0, Ordering::Release);
        if let Ok(mut kept) = self.comm.lock() {
            *kept = comm;
        }
    }

    pub(super) fn begin_at(&self, begin: Mono) {
        self.begin.store(begin.0, Ordering::Release);
    }

    /// The thread may begin since `now`.
    pub(super) fn release_at(&self, now: u64) {
        self.released.store(now, Ordering::Release);
    }

    /// When it was released; `None` if it runs before that was noted.
    pub(super) fn released(&self) -> Option<u64> {
        Some(self.released.load(Ordering::Acquire)).filter(|at| *at > 0)
    }

    pub(super) fn end(&self) {
        self.done.store(true, Ordering::Release);
    }

    /// Enters one sample; returns how many activations were missed after it.
    #[inline]
    pub(super) fn enter(&self, entry: &Entry) -> u64 {
        let sequence = self.sequence.load(RELAXED);
        self.sequence.store(sequence + 1, RELAXED);
        fence(Ordering::Release);
        self.samples.record(entry.latency);
        self.last.store(entry.latency.0, RELAXED);
        self.seconds.note(entry.second, entry.latency);
        let missed = entry.missed.map_or(0, |(first, step)| self.missed.record_descending(first, step));
        if let Some((slot, sample)) = &entry.worst {
            self.keep(*slot, sample);
        }
        self.sequence.store(sequence + 2, Ordering::Release);
        missed
    }

    fn keep(&self, at: usize, sample: &WorstSample) {
        let slot = &self.worst[at];
        slot.expected.store(sample.expected.0, RELAXED);
        slot.woken.store(sample.woken.0, RELAXED);
        slot.latency.store(sample.latency.0, RELAXED);
        slot.freeze.store(sample.freeze.map_or(0, |id| id.saturating_add(1)), RELAXED);
        slot.cpu.store(u64::from(sample.cpu.0), RELAXED);
        let len = self.worst_len.load(RELAXED).max(at as u64 + 1);
        self.worst_len.store(len, RELAXED);
    }

    /// Reads a consistent copy, if the writer permits one within a bounded number of attempts; else nearly so.
    fn consistently<T>(&self, read: impl Fn() -> T) -> T {
        for _ in 0..1_000 {
            let before = self.sequence.load(Ordering::Acquire);
            if before.is_multiple_of(2) {
                let value = read();
                fence(Ordering::Acquire);
                if self.sequence.load(RELAXED) == before {
                    return value;
                }
            }
            std::thread::yield_now();
        }
        read()
    }

    pub(super) fn tid(&self) -> Tid {
        Tid(self.tid.load(Ordering::Acquire))
    }

    pub(super) fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    pub(super) fn seconds(&self) -> &Seconds {
        &self.seconds
    }

    pub(super) fn live(&self) -> Live {
        let done = self.is_done();
        let (count, sum, min, max, now, missed) = self.consistently(|| {
            let samples = &self.samples;
            let (count, sum) = (samples.count.load(RELAXED), samples.sum_ns.load(RELAXED));
            let (min, max) = (samples.min.load(RELAXED), samples.max.load(RELAXED));
            (count, sum, min, max, self.last.load(RELAXED), self.missed.count.load(RELAXED))
        });
        let any = count > 0;
        Live {
            tid: self.tid(),
            count,
            min: any.then_some(Ns(min)),
            now: any.then_some(Ns(now)),
            avg_ns: any.then(|| sum as f64 / count as f64),
            max: any.then_some(Ns(max)),
            missed,
            done,
        }
    }

    pub(super) fn quantile(&self, q: f64) -> Option<Ns> {
        let layout = self.samples.layout;
        self.consistently(|| self.samples.copy()).into_histogram(layout, &Histogram::new(layout)).quantile(q)
    }

    pub(super) fn result(&self, options: &Options, index: usize) -> ThreadResult {
        let layout = self.samples.layout;
        let (samples, missed, last, worst) = self.consistently(|| {
            (self.samples.copy(), self.missed.copy(), self.last.load(RELAXED), self.worst_samples())
        });
        let spec = options.threads[index];
        let histogram = samples.into_histogram(layout, &Histogram::new(layout));
        let replayed = missed.into_histogram(layout, &histogram);
        let mut series = Series::new(Quantity::Cyclic, spec.cpu, histogram);
        series.missed = Some(replayed.count() - series.histogram.count());
        series.replayed = Some(replayed);
        series.interval_ns = Some(spec.interval);
        series.begin = Some(Mono(self.begin.load(Ordering::Acquire))).filter(|begin| begin.0 > 0);
        series.set_seconds(self.seconds.collect());
        series.thread = Some(self.thread(options, index));
        let last = (series.histogram.count() > 0).then_some(Ns(last));
        let (left, rescheduled) = (self.own_cpu.left(), self.own_cpu.rescheduled());
        ThreadResult { series, worst, last, broke: None, error: None, left, rescheduled }
    }

    pub(super) fn thread(&self, options: &Options, index: usize) -> Thread {
        let prio = match options.reservation {
            Some(_) => Prio(-1),
            None if options.policy.is_realtime() => Prio::from_rt(options.threads[index].priority),
            None => Prio(120),
        };
        let comm = self.comm.lock().map(|comm| comm.clone()).unwrap_or_default();
        Thread { tid: self.tid(), comm, prio: Some(prio) }
    }

    fn worst_samples(&self) -> Vec<WorstSample> {
        let len = (self.worst_len.load(RELAXED) as usize).min(self.worst.len());
        let mut samples: Vec<WorstSample> = self.worst[..len]
            .iter()
            .map(|slot| WorstSample {
                expected: Mono(slot.expected.load(RELAXED)),
                woken: Mono(slot.woken.load(RELAXED)),
                latency: Ns(slot.latency.load(RELAXED)),
                freeze: slot.freeze.load(RELAXED).checked_sub(1),
                cpu: Cpu(slot.cpu.load(RELAXED) as u32),
            })
            .collect();
        samples.sort_by_key(|sample| (std::cmp::Reverse(sample.latency), sample.woken));
        samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_never_sees_half_a_sample() {
        let options = Options::on([Cpu(0)]);
        let shared = &Shared::new(&options, None);
        let enough = &AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // Runs as long as the reader needs, which may start late on a busy machine. Some hundred ns apart: faster
                // than any measuring thread, but slow enough for a reader with a bounded number of attempts.
                for n in (0..100_000_000u64).take_while(|_| !enough.load(Ordering::Relaxed)) {
                    shared.enter(&Entry { latency: Ns(n), second: 0, missed: None, worst: None });
                    (0..16).for_each(|_| std::hint::spin_loop());
                }
            });
            let mut seen = 0;
            while seen < 2_000 {
                let live = shared.live();
                // every latency up to the latest was entered once: the sum is that of the natural numbers
                if live.count > 0 {
                    assert_eq!(live.avg_ns.unwrap(), (live.count - 1) as f64 / 2.0, "{live:?}");
                    assert_eq!(live.max, live.now);
                    seen += 1;
                }
            }
            enough.store(true, Ordering::Relaxed);
        });
    }
}
