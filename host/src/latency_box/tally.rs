//! The counters of a channel's threads, readable at any time. One thread writes each field.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use lathunt_core::histogram::{Histogram, Layout};
use lathunt_core::latency_box::ledger::{Ledger, Sample};
use lathunt_core::latency_box::Counts;
use lathunt_core::series::SecondMax;
use lathunt_core::time::Ns;

use super::feed::Feed;
use super::over::Over;
use super::trips::{Trip, Trips};
use crate::instrument::counters::{bump, Counters};
use crate::instrument::cyclic::seconds::Seconds;

const RELAXED: Ordering = Ordering::Relaxed;

/// One of the worst samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorstTrip {
    /// The sample.
    pub sample: Sample,
    /// Stimulus sent → received, and answer sent → received, if both ends have one clock.
    pub outward_and_return: Option<(Ns, Ns)>,
}

/// The counters.
pub struct Tally {
    pub(super) sent_view: Counters,
    /// Since each was due, including skipped ones.
    pub(super) due_view: Counters,
    pub(super) outward: Counters,
    pub(super) turnaround: Counters,
    pub(super) inward: Counters,
    /// Both ways together, if the ends have different clocks.
    pub(super) ways: Counters,
    pub(super) seconds: Seconds,
    worst: Mutex<Vec<WorstTrip>>,
    worst_kept: usize,
    least: AtomicU64,
    last: AtomicU64,
    // written by the sender
    pub(super) begun: AtomicU64,
    pub(super) ended: AtomicU64,
    pub(super) sent: AtomicU64,
    pub(super) skipped: AtomicU64,
    /// Unanswered stimuli whose slot was reused.
    pub(super) displaced: AtomicU64,
    /// Stimuli that were due before the answer to their greeting (`--warm`).
    pub(super) cold: AtomicU64,
    /// Since when a message is being sent; 0: none.
    pub(super) sending: AtomicU64,
    pub(super) over: Over,
    /// The measurement is done, and the goodbye follows: the responder may close the channel.
    pub(super) leaving: AtomicBool,
    // written by the receiver
    counts: [AtomicU64; 6],
    pub(super) placed: AtomicU64,
    pub(super) welcomed: AtomicBool,
    pub(super) welcomes: AtomicU64,
    pub(super) same_clock: AtomicBool,
    pub(super) receiver: AtomicI32,
    /// The answering thread, if it is of this boot; else 0.
    pub(super) responder: AtomicI32,
    pub(super) broke: AtomicU64, // 0: no; else latency + 1
    // written by either
    pub(super) closed: AtomicBool,
    pub(super) stop: AtomicBool,
    pub(super) trouble: Mutex<Option<String>>,
    taps: Taps,
}

/// Consumers of single round trips.
#[derive(Clone, Debug, Default)]
pub struct Taps {
    /// Its latency.
    pub feed: Option<Arc<Feed>>,
    /// Its times.
    pub trips: Option<Arc<Trips>>,
}

impl Tally {
    pub(super) fn new(length: Option<Ns>, worst_kept: usize, taps: Taps) -> Tally {
        let counters = || Counters::new(Layout::LATENCY);
        Tally {
            sent_view: counters(),
            due_view: counters(),
            outward: counters(),
            turnaround: counters(),
            inward: counters(),
            ways: counters(),
            seconds: Seconds::new(length),
            worst: Mutex::new(Vec::with_capacity(worst_kept + 1)),
            worst_kept,
            least: AtomicU64::new(0),
            last: AtomicU64::new(0),
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
            displaced: AtomicU64::new(0),
            cold: AtomicU64::new(0),
            sending: AtomicU64::new(0),
            over: Over::default(),
            leaving: AtomicBool::new(false),
            counts: Default::default(),
            placed: AtomicU64::new(0),
            welcomed: AtomicBool::new(false),
            welcomes: AtomicU64::new(0),
            same_clock: AtomicBool::new(false),
            receiver: AtomicI32::new(0),
            responder: AtomicI32::new(0),
            broke: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            trouble: Mutex::new(None),
            taps,
        }
    }

    /// Counts a sample. Called by the receiver.
    #[inline]
    pub(super) fn enter(&self, sample: &Sample) {
        self.sent_view.record(sample.latency);
        self.due_view.record(sample.since_due);
        self.last.store(sample.latency.0, RELAXED);
        if let Some(feed) = &self.taps.feed {
            feed.push(sample.latency);
        }
        if let Some(trips) = &self.taps.trips {
            trips.push(&self.trip(sample));
        }
        let flight = &sample.flight;
        // Stimuli due and not sent count until the answer to the next one.
        if let Some(step) = flight.due.saturating_sub(flight.skipped_from).checked_div(flight.skipped) {
            let first = sample.arrived.saturating_sub(flight.skipped_from);
            let placed = self.due_view.record_at_most(Ns(first), Ns(step), flight.skipped);
            bump(&self.placed, placed);
        }
        let (received, answered) = sample.there;
        // Times of a responder that claims to have taken longer than the whole, or to have answered before, are discarded.
        // Clocks may differ by 0.1 %.
        let most = sample.latency.0.saturating_add(sample.latency.0 / 1_000);
        let turnaround = answered.checked_sub(received).filter(|took| *took <= most).map(Ns);
        turnaround.into_iter().for_each(|took| self.turnaround.record(took));
        let parts = self.parts(sample);
        if let Some((outward, inward)) = parts {
            self.outward.record(outward);
            self.inward.record(inward);
        } else if let Some(took) = turnaround.filter(|_| !self.same_clock.load(RELAXED) && received > 0) {
            self.ways.record(sample.latency.saturating_sub(took));
        }
        let second = sample.arrived.saturating_sub(self.begun.load(RELAXED)) / 1_000_000_000;
        self.seconds.note(u32::try_from(second).unwrap_or(u32::MAX), sample.latency);
        self.keep(sample, parts);
    }

    fn trip(&self, sample: &Sample) -> Trip {
        let (begin, end) = (sample.flight.sent, sample.arrived);
        let there = if self.same_clock.load(RELAXED) { sample.there } else { (0, 0) };
        Trip { key: 0, sequence: sample.sequence, begin, end, middle: there.0, answered: there.1 }
    }

    fn parts(&self, sample: &Sample) -> Option<(Ns, Ns)> {
        let (received, answered) = sample.there;
        let sound = received >= sample.flight.sent && answered >= received && sample.arrived >= answered;
        (sound && self.same_clock.load(RELAXED))
            .then(|| (Ns(received - sample.flight.sent), Ns(sample.arrived - answered)))
    }

    #[inline]
    fn keep(&self, sample: &Sample, parts: Option<(Ns, Ns)>) {
        if self.worst_kept == 0 || sample.latency.0 <= self.least.load(RELAXED) {
            return;
        }
        // Only the reader at the end also takes this lock: while measuring it is free.
        let Ok(mut worst) = self.worst.lock() else { return };
        if worst.len() == self.worst_kept {
            let least = (0..worst.len()).min_by_key(|&at| worst[at].sample.latency);
            least.map(|at| worst.swap_remove(at));
        }
        worst.push(WorstTrip { sample: *sample, outward_and_return: parts }); // within the capacity
        if worst.len() == self.worst_kept {
            let least = worst.iter().map(|trip| trip.sample.latency.0).min();
            self.least.store(least.unwrap_or(0), RELAXED);
        }
    }

    /// Records an error of the channel, once.
    pub(super) fn say(&self, trouble: String) {
        if let Ok(mut said) = self.trouble.lock() {
            said.get_or_insert(trouble);
        }
    }

    pub(super) fn publish(&self, ledger: &Ledger) {
        let counts = ledger.counts(0);
        let all = [
            counts.answered,
            counts.late,
            counts.duplicated,
            counts.out_of_order,
            counts.damaged,
            counts.foreign,
        ];
        for (into, from) in self.counts.iter().zip(all) {
            into.store(from, RELAXED);
        }
    }

    /// Stimuli and answers so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let [answered, late, duplicated, out_of_order, damaged, foreign] =
            std::array::from_fn(|at| self.counts[at].load(RELAXED));
        let sent = self.sent.load(RELAXED).max(answered);
        Counts { sent, answered, late, lost: sent - answered, duplicated, out_of_order, damaged, foreign }
    }

    /// Stimuli due and not sent.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.skipped.load(RELAXED)
    }

    /// All round trips so far, per stimulus sent.
    #[must_use]
    pub fn histogram(&self) -> Histogram {
        plain(&self.sent_view)
    }

    /// The largest and the most recent so far.
    #[must_use]
    pub fn extremes(&self) -> Option<(Ns, Ns)> {
        (self.sent_view.count.load(RELAXED) > 0)
            .then(|| (Ns(self.sent_view.max.load(RELAXED)), Ns(self.last.load(RELAXED))))
    }

    /// Maxima of each second so far.
    #[must_use]
    pub fn maxima(&self) -> Vec<SecondMax> {
        self.seconds.collect()
    }

    /// The worst round trips, the worst first.
    #[must_use]
    pub fn worst(&self) -> Vec<WorstTrip> {
        let mut worst = self.worst.lock().map(|worst| worst.clone()).unwrap_or_default();
        worst.sort_by_key(|trip| (std::cmp::Reverse(trip.sample.latency), trip.sample.sequence));
        worst
    }
}

pub(super) fn plain(counters: &Counters) -> Histogram {
    counters.copy().into_histogram(counters.layout, &Histogram::new(counters.layout))
}
