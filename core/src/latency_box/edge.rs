//! Edges of a GPIO line as the kernel reports them: `struct gpio_v2_line_event` of include/uapi/linux/gpio.h (since 5.10).
//!
//! An edge has no sequence number: it belongs to the last stimulus sent. An edge with an earlier timestamp belongs to
//! no stimulus. Events dropped by the kernel are gaps in the line's sequence numbers.

use super::flights::Flights;
use super::message::{Kind, Message};

/// Bytes of an event.
pub const SIZE: usize = 48;

/// An edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Timestamp of the interrupt handler, ns of `CLOCK_MONOTONIC` (unless another clock was requested).
    pub at: u64,
    /// Rising or falling.
    pub is_rising: bool,
    /// Number of the line on its chip.
    pub line: u32,
    /// Number of the event on this line, from 1; wraps.
    pub number: u32,
}

/// Not an event of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an edge: kind {0}")]
pub struct NotAnEdge(u32);

impl Edge {
    /// The edge in these bytes, of this machine's byte order.
    ///
    /// # Errors
    /// When the kind is neither rising (1) nor falling (2).
    pub fn decode(bytes: &[u8; SIZE]) -> Result<Edge, NotAnEdge> {
        let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let mut at = [0; 8];
        at.copy_from_slice(&bytes[..8]);
        let is_rising = match word(8) {
            1 => true,
            2 => false,
            other => return Err(NotAnEdge(other)),
        };
        Ok(Edge { at: u64::from_ne_bytes(at), is_rising, line: word(12), number: word(20) })
    }
}

/// Tracks the sequence numbers of a line.
#[derive(Clone, Copy, Debug, Default)]
pub struct Numbers {
    last: u32,
    lost: u64,
}

impl Numbers {
    /// Adds the number of an event; returns how many are missing before it.
    pub fn take(&mut self, number: u32) -> u32 {
        let missing = number.wrapping_sub(self.last).wrapping_sub(1);
        self.last = number;
        // More than half of all numbers: it decreased, which the kernel never does.
        let missing = if missing > u32::MAX / 2 { 0 } else { missing };
        self.lost += u64::from(missing);
        missing
    }

    /// Missing events so far.
    #[must_use]
    pub fn lost(self) -> u64 {
        self.lost
    }
}

/// The message for an edge to the box of session `key` after `sent` stimuli: the answer to the last one, or foreign.
#[must_use]
pub fn answer(edge: &Edge, key: u64, sent: u64, flights: &Flights) -> Message {
    let is_before = flights.is_open(sent) && edge.at < flights.sent_at(sent);
    let of_nobody = sent == 0 || is_before;
    Message::new(Kind::Answer, if of_nobody { !key } else { key }, sent)
}

#[cfg(test)]
mod tests {
    use super::super::flights::Flight;
    use super::super::ledger::Ledger;
    use super::*;
    use crate::time::Ns;

    /// As a kernel writes it: time, kind, line, number over all lines, number on the line, padding.
    fn event(at: u64, kind: u32, number: u32) -> [u8; SIZE] {
        let mut bytes = [0; SIZE];
        bytes[..8].copy_from_slice(&at.to_ne_bytes());
        for (at, word) in [(8, kind), (12, 27), (16, number), (20, number)] {
            bytes[at..at + 4].copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    #[test]
    fn events_are_read_and_nothing_else_is() {
        let edge = Edge::decode(&event(123_456_789_012, 2, 7)).unwrap();
        assert_eq!(edge, Edge { at: 123_456_789_012, is_rising: false, line: 27, number: 7 });
        assert!(Edge::decode(&event(1, 1, 1)).unwrap().is_rising);
        assert_eq!(Edge::decode(&event(1, 0, 1)), Err(NotAnEdge(0)));
    }

    #[test]
    fn a_gap_in_the_numbers_is_what_the_kernel_dropped() {
        let mut numbers = Numbers::default();
        let gaps: Vec<u32> = [1, 2, 5, 6, 6].into_iter().map(|number| numbers.take(number)).collect();
        assert_eq!((gaps, numbers.lost()), (vec![0, 0, 2, 0, 0], 2));
        let mut wraps = Numbers { last: u32::MAX - 1, lost: 0 };
        assert_eq!([u32::MAX, 0, 2].map(|number| wraps.take(number)), [0, 0, 1]);
    }

    #[test]
    fn an_edge_answers_the_last_stimulus_once_and_never_one_that_came_after_it() {
        let flights = Flights::new(8);
        let mut ledger = Ledger::new(9, Ns(900));
        let edge = |at| Edge { at, is_rising: false, line: 27, number: 0 };
        let take = |ledger: &mut Ledger, at, sent| {
            ledger.take(&answer(&edge(at), 9, sent, &flights), at, &flights).map(|sample| sample.latency)
        };
        assert_eq!(take(&mut ledger, 50, 0), None, "nothing was sent");
        flights.depart(1, &Flight { due: 100, sent: 100, ..Flight::default() });
        assert_eq!(take(&mut ledger, 99, 1), None, "before its stimulus");
        assert_eq!(take(&mut ledger, 130, 1), Some(Ns(30)));
        assert_eq!(take(&mut ledger, 140, 1), None);
        let counts = ledger.counts(1);
        assert_eq!((counts.answered, counts.duplicated, counts.foreign, counts.lost), (1, 1, 2, 0));
    }
}
