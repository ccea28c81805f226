//! Each round trip one by one, from the thread that measures it to the one that explains the worst.

use std::sync::Arc;

use crate::ring::Ring;

/// Room: 0.4 s at 20,000 a second.
const ROOM: usize = 1 << 13;

/// One end's times of a round trip, all in ns of its `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trip {
    /// Key of the session; 0 if there is none.
    pub key: u64,
    /// Number of the stimulus.
    pub sequence: u64,
    /// When it began at this end: a box sent the stimulus, a responder received it, a thread was released.
    pub begin: u64,
    /// When it ended at this end: a box received the answer, a responder had sent it, a thread ran.
    pub end: u64,
    /// Of a box: when the responder received the stimulus, according to its answer. Of a responder: when it began to send
    /// the answer.
    pub middle: u64,
    /// Of a box: when the responder began to send the answer, on its clock; 0 if that is another clock.
    pub answered: u64,
}

/// The queued round trips.
#[derive(Debug)]
pub struct Trips(Ring<6>);

impl Trips {
    /// Empty; 400 KB.
    #[must_use]
    pub fn new() -> Arc<Trips> {
        Arc::new(Trips(Ring::new(ROOM)))
    }

    /// Adds one; some ns. Only one thread may call it at a time.
    #[inline]
    pub(super) fn push(&self, trip: &Trip) {
        self.0.push([trip.key, trip.sequence, trip.begin, trip.end, trip.middle, trip.answered]);
    }

    /// The oldest one. Only one thread may call it.
    pub fn pop(&self) -> Option<Trip> {
        let [key, sequence, begin, end, middle, answered] = self.0.pop()?;
        Some(Trip { key, sequence, begin, end, middle, answered })
    }

    /// Round trips that found no room.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.0.dropped()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trip_comes_out_as_it_went_in() {
        let trips = Trips::new();
        let trip = Trip { key: 1, sequence: 2, begin: 3, end: 4, middle: 5, answered: 6 };
        trips.push(&trip);
        assert_eq!((trips.pop(), trips.pop(), trips.dropped()), (Some(trip), None, 0));
    }
}
