//! Classifies answers: first answer to its stimulus, duplicate, out of order, foreign.

use super::counts::Counts;
use super::flights::{Flight, Flights, Landing};
use super::message::{Kind, Message};
use super::sequences::Sequences;
use crate::time::Ns;

/// A sample: the first answer to a stimulus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Number of the stimulus.
    pub sequence: u64,
    /// The stimulus.
    pub flight: Flight,
    /// Stimulus sent → answer received.
    pub latency: Ns,
    /// Stimulus due → answer received.
    pub since_due: Ns,
    /// When the answer was received (ns of the box's clock).
    pub arrived: u64,
    /// When the responder received the stimulus and sent the answer, on its clock.
    pub there: (u64, u64),
    /// Above the limit.
    pub late: bool,
}

/// Accounting of one session, by the receiving thread.
#[derive(Clone, Debug)]
pub struct Ledger {
    key: u64,
    limit: Ns,
    highest: u64,
    /// Answered stimuli: the ring of flights forgets those that a later one displaced.
    answered: Sequences,
    counts: Counts,
}

impl Ledger {
    /// For the session `key`; answers above `limit` are late.
    #[must_use]
    pub fn new(key: u64, limit: Ns) -> Ledger {
        Ledger { key, limit, highest: 0, answered: Sequences::default(), counts: Counts::default() }
    }

    /// Adds a message received at `arrived` (ns, box's clock). Returns a sample for the first answer to a stimulus.
    pub fn take(&mut self, message: &Message, arrived: u64, flights: &Flights) -> Option<Sample> {
        if message.key != self.key || message.kind != Kind::Answer {
            // A repeated welcome of this session is not a foreign message.
            let ours = message.key == self.key && message.kind == Kind::Welcome;
            self.counts.foreign += u64::from(!ours);
            return None;
        }
        match flights.land(message.sequence) {
            Landing::First(flight) => Some(self.first(message, flight, arrived)),
            Landing::Again => {
                self.counts.duplicated += 1;
                None
            }
            Landing::GivenUp => {
                let is_first = self.answered.take(message.sequence);
                *(if is_first { &mut self.counts.late } else { &mut self.counts.duplicated }) += 1;
                None
            }
            Landing::Unknown => {
                self.counts.foreign += 1;
                None
            }
        }
    }

    fn first(&mut self, message: &Message, flight: Flight, arrived: u64) -> Sample {
        let latency = Ns(arrived.saturating_sub(flight.sent));
        let late = latency > self.limit;
        self.answered.take(message.sequence);
        self.counts.answered += 1;
        self.counts.late += u64::from(late);
        self.counts.out_of_order += u64::from(message.sequence < self.highest);
        self.highest = self.highest.max(message.sequence);
        Sample {
            sequence: message.sequence,
            flight,
            latency,
            since_due: Ns(arrived.saturating_sub(flight.due)),
            arrived,
            there: (message.first, message.second),
            late,
        }
    }

    /// Sets the total number of damaged messages.
    pub fn set_damaged(&mut self, damaged: u64) {
        self.counts.damaged = damaged;
    }

    /// The counts for `sent` stimuli in total.
    #[must_use]
    pub fn counts(&self, sent: u64) -> Counts {
        Counts { sent, lost: sent.saturating_sub(self.counts.answered), ..self.counts }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_repeated_answer_is_no_late_one_however_old_its_stimulus_is() {
        let flights = Flights::new(4);
        let mut ledger = Ledger::new(9, Ns(900));
        let answer = |ledger: &mut Ledger, sequence| {
            ledger.take(&Message::new(Kind::Answer, 9, sequence), 1, &flights).is_some()
        };
        for sequence in 1..=20 {
            flights.depart(sequence, &Flight::default());
            // The third is never answered in time.
            assert!(sequence == 3 || answer(&mut ledger, sequence));
        }
        assert!(!answer(&mut ledger, 1) && !answer(&mut ledger, 3) && !answer(&mut ledger, 3));
        let counts = ledger.counts(20);
        assert_eq!((counts.answered, counts.lost, counts.duplicated, counts.late), (19, 1, 2, 1));
    }

    #[derive(Clone, Copy, Debug)]
    enum Fate {
        Normal,
        Lost,
        Twice,
        Damaged,
        Late,
    }

    fn fate() -> impl Strategy<Value = Fate> {
        prop_oneof![
            6 => Just(Fate::Normal), 1 => Just(Fate::Lost), 1 => Just(Fate::Twice), 1 => Just(Fate::Damaged), 1 => Just(Fate::Late)
        ]
    }

    /// Answers as they come, from what happens to each stimulus: (arrival, sequence).
    fn arrivals(fates: &[Fate], swaps: &[usize]) -> Vec<(u64, u64)> {
        let mut order = Vec::new();
        for (n, fate) in fates.iter().enumerate() {
            let (sequence, sent) = (n as u64 + 1, n as u64 * 1_000);
            match fate {
                Fate::Normal => order.push((sent + 50, sequence)),
                Fate::Twice => order.extend([(sent + 50, sequence), (sent + 60, sequence)]),
                Fate::Late => order.push((sent + 950, sequence)),
                Fate::Lost | Fate::Damaged => {}
            }
        }
        for &at in swaps {
            if at + 1 < order.len() {
                order.swap(at, at + 1);
            }
        }
        order
    }

    proptest! {
        #[test]
        fn the_books_add_up_to_what_was_done(
            fates in proptest::collection::vec(fate(), 1..300), swaps in proptest::collection::vec(0usize..300, 0..20),
            foreign in 0u64..5,
        ) {
            let flights = Flights::new(1_024);
            for n in 0..fates.len() as u64 {
                flights.depart(n + 1, &Flight { due: n * 1_000, sent: n * 1_000, ..Flight::default() });
            }
            let mut ledger = Ledger::new(9, Ns(900));
            let mut seen = std::collections::BTreeMap::new();
            let (mut highest, mut late, mut disorder) = (0, 0, 0);
            for (arrived, sequence) in arrivals(&fates, &swaps) {
                let answer = Message::new(Kind::Answer, 9, sequence);
                let sample = ledger.take(&answer, arrived, &flights);
                prop_assert_eq!(sample.is_some(), !seen.contains_key(&sequence), "one sample a stimulus");
                if let Some(sample) = sample {
                    let latency = arrived.saturating_sub((sequence - 1) * 1_000);
                    prop_assert_eq!(sample.latency, Ns(latency), "of its own stimulus");
                    seen.insert(sequence, latency);
                    late += u64::from(latency > 900);
                    disorder += u64::from(sequence < highest);
                    highest = highest.max(sequence);
                }
            }
            for n in 0..foreign {
                // another key, a stimulus that was never sent, another kind
                for message in [Message::new(Kind::Answer, 8, n + 1), Message::new(Kind::Answer, 9, 5_000 + n), Message::new(Kind::Bye, 9, 1)] {
                    prop_assert_eq!(ledger.take(&message, 1, &flights), None);
                }
            }
            let counts = ledger.counts(fates.len() as u64);
            let of = |wanted: fn(&Fate) -> bool| fates.iter().filter(|fate| wanted(fate)).count() as u64;
            prop_assert_eq!(counts.lost, of(|fate| matches!(fate, Fate::Lost | Fate::Damaged)));
            prop_assert_eq!(counts.duplicated, of(|fate| matches!(fate, Fate::Twice)));
            prop_assert_eq!(counts.sent, counts.answered + counts.lost);
            prop_assert_eq!((counts.late, counts.out_of_order, counts.foreign), (late, disorder, 3 * foreign));
        }
    }
}
