//! Stimuli in flight: the sending thread adds them, the receiving thread looks them up, without a lock.
//!
//! A ring of slots by sequence number. Reusing a slot drops its unanswered stimulus, so the ring must cover the longest
//! answer time ([`Flights::for_time`]).

use std::sync::atomic::{AtomicU64, Ordering};

use crate::time::Ns;

/// A stimulus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flight {
    /// When it was due (ns of the box's clock).
    pub due: u64,
    /// When it was sent.
    pub sent: u64,
    /// Stimuli before it that were due and not sent.
    pub skipped: u64,
    /// When the first of them was due.
    pub skipped_from: u64,
}

#[derive(Debug, Default)]
struct Slot {
    /// 0: empty; else twice the sequence number, plus one if answered or not yet sent.
    state: AtomicU64,
    due: AtomicU64,
    sent: AtomicU64,
    skipped: AtomicU64,
    skipped_from: AtomicU64,
}

/// Result of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Landing {
    /// The first answer to this stimulus.
    First(Flight),
    /// Already answered.
    Again,
    /// Abandoned: its slot was reused.
    GivenUp,
    /// No such stimulus was sent.
    Unknown,
}

/// The ring.
#[derive(Debug)]
pub struct Flights {
    slots: Box<[Slot]>,
}

impl Flights {
    /// For `slots` stimuli in flight, rounded up to a power of two.
    #[must_use]
    pub fn new(slots: usize) -> Flights {
        let slots = slots.clamp(2, 1 << 22).next_power_of_two();
        Flights { slots: (0..slots).map(|_| Slot::default()).collect() }
    }

    /// For all stimuli within `longest`, with `burst` per `interval`; at least 1024.
    #[must_use]
    pub fn for_time(longest: Ns, interval: Ns, burst: u32) -> Flights {
        let bursts = longest.0 / interval.0.max(1) + 2;
        let slots = bursts.saturating_mul(u64::from(burst.max(1))).saturating_mul(2);
        Flights::new(usize::try_from(slots).unwrap_or(usize::MAX).max(1_024))
    }

    fn slot(&self, sequence: u64) -> &Slot {
        &self.slots[(sequence % self.slots.len() as u64) as usize]
    }

    /// Adds stimulus `sequence` (above 0) before it is sent. Returns the unanswered one that it displaces. For one
    /// thread only.
    pub fn depart(&self, sequence: u64, flight: &Flight) -> Option<Flight> {
        let displaced = self.claim(sequence);
        self.launch(sequence, flight);
        displaced
    }

    /// The first half of [`Flights::depart`], to be called before reading the clock: the slot may not be in the cache.
    pub fn claim(&self, sequence: u64) -> Option<Flight> {
        let slot = self.slot(sequence);
        // As if answered: an answer to the former stimulus finds its slot reused.
        let before = slot.state.swap(sequence * 2 + 1, Ordering::AcqRel);
        (before != 0 && before.is_multiple_of(2)).then(|| Self::read(slot))
    }

    /// The second half.
    pub fn launch(&self, sequence: u64, flight: &Flight) {
        let slot = self.slot(sequence);
        slot.due.store(flight.due, Ordering::Relaxed);
        slot.sent.store(flight.sent, Ordering::Relaxed);
        slot.skipped.store(flight.skipped, Ordering::Relaxed);
        slot.skipped_from.store(flight.skipped_from, Ordering::Relaxed);
        slot.state.store(sequence * 2, Ordering::Release);
    }

    fn read(slot: &Slot) -> Flight {
        Flight {
            due: slot.due.load(Ordering::Relaxed),
            sent: slot.sent.load(Ordering::Relaxed),
            skipped: slot.skipped.load(Ordering::Relaxed),
            skipped_from: slot.skipped_from.load(Ordering::Relaxed),
        }
    }

    /// Records an answer to stimulus `sequence`. For one thread only.
    pub fn land(&self, sequence: u64) -> Landing {
        if sequence == 0 || sequence > u64::MAX / 2 {
            return Landing::Unknown;
        }
        let slot = self.slot(sequence);
        let open = sequence * 2;
        let state = slot.state.load(Ordering::Acquire);
        if state == open {
            let flight = Self::read(slot);
            // Fails only if the sender reused the slot meanwhile; then the values read may be mixed.
            let swapped = slot.state.compare_exchange(open, open + 1, Ordering::AcqRel, Ordering::Acquire);
            return if swapped.is_ok() { Landing::First(flight) } else { Landing::GivenUp };
        }
        match state {
            answered if answered == open + 1 => Landing::Again,
            0 => Landing::Unknown,
            other if other / 2 > sequence => Landing::GivenUp,
            _ => Landing::Unknown,
        }
    }

    /// Whether stimulus `sequence` waits for its answer.
    #[must_use]
    pub fn is_open(&self, sequence: u64) -> bool {
        sequence != 0 && self.slot(sequence).state.load(Ordering::Acquire) == sequence * 2
    }

    /// Send time of the unanswered stimulus `sequence`. For the sending thread.
    #[must_use]
    pub fn sent_at(&self, sequence: u64) -> u64 {
        self.slot(sequence).sent.load(Ordering::Relaxed)
    }

    /// The unanswered stimuli. For the end, after sending and receiving stopped.
    pub fn open(&self) -> impl Iterator<Item = Flight> + '_ {
        let is_open = |slot: &&Slot| {
            let state = slot.state.load(Ordering::Acquire);
            state != 0 && state.is_multiple_of(2)
        };
        self.slots.iter().filter(is_open).map(Self::read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flight(n: u64) -> Flight {
        Flight { due: n, sent: n + 1, ..Flight::default() }
    }

    #[test]
    fn an_answer_finds_its_own_stimulus_or_none() {
        let flights = Flights::new(4);
        assert_eq!(flights.land(1), Landing::Unknown);
        assert_eq!((1..=4).find_map(|n| flights.depart(n, &flight(n))), None);
        assert_eq!(flights.land(2), Landing::First(flight(2)));
        assert_eq!(flights.land(2), Landing::Again);
        assert_eq!(flights.depart(5, &flight(5)), Some(flight(1)), "the ring is full of unanswered ones");
        assert_eq!(flights.depart(6, &flight(6)), None);
        assert_eq!(flights.land(1), Landing::GivenUp);
        assert_eq!(flights.land(9), Landing::Unknown, "it was not sent yet");
        for never in [0, u64::MAX, 1 << 63] {
            assert_eq!(flights.land(never), Landing::Unknown);
        }
        let mut open: Vec<u64> = flights.open().map(|flight| flight.due).collect();
        open.sort_unstable();
        assert_eq!(open, [3, 4, 5, 6]);
    }

    #[test]
    fn an_answer_while_its_slot_is_reused_is_that_of_an_abandoned_stimulus() {
        let flights = Flights::new(2);
        assert_eq!(flights.claim(1), None);
        assert_eq!((flights.is_open(1), flights.open().count()), (false, 0), "not sent yet");
        flights.launch(1, &flight(1));
        assert_eq!(flights.claim(3), Some(flight(1)));
        assert_eq!(flights.land(1), Landing::GivenUp, "before the next one is sent");
        flights.launch(3, &flight(3));
        assert_eq!((flights.land(1), flights.land(3)), (Landing::GivenUp, Landing::First(flight(3))));
    }

    #[test]
    fn two_threads_agree_on_each_flight() {
        let flights = &Flights::new(64);
        let sent = &AtomicU64::new(0);
        let (first, given_up, displaced) = std::thread::scope(|scope| {
            let sender = scope.spawn(move || {
                let displaced = (1..=200_000u64).filter(|&n| {
                    let displaced = flights.depart(n, &flight(n));
                    sent.store(n, Ordering::Release);
                    displaced.is_some()
                });
                displaced.count() as u64
            });
            let (mut first, mut given_up, mut next) = (0, 0, 1);
            while next <= 200_000 {
                if sent.load(Ordering::Acquire) < next {
                    std::hint::spin_loop();
                    continue;
                }
                match flights.land(next) {
                    Landing::First(found) => {
                        assert_eq!(found, flight(next));
                        first += 1;
                    }
                    _ => given_up += 1,
                }
                next += 1;
            }
            (first, given_up, sender.join().unwrap())
        });
        assert_eq!((first + given_up, given_up), (200_000, displaced));
    }
}
