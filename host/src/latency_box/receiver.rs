//! The thread that receives answers: blocks, reads the clock, counts.

use std::io::{self, ErrorKind};
use std::sync::atomic::Ordering;
use std::sync::Arc;

use lathunt_core::latency_box::deframe::Deframer;
use lathunt_core::latency_box::edge::{self, Edge};
use lathunt_core::latency_box::flights::Flights;
use lathunt_core::latency_box::ledger::Ledger;
use lathunt_core::latency_box::message::{Kind, Message, NotAMessage, SIZE};
use lathunt_core::time::Ns;

use super::tally::Tally;
use crate::instrument::counters::bump;
use crate::link::{Framing, Inlet};
use crate::{clock, sched};

/// What the thread owns.
pub(super) struct Receiver {
    pub(super) inlet: Box<dyn Inlet>,
    pub(super) framing: Framing,
    pub(super) flights: Arc<Flights>,
    pub(super) tally: Arc<Tally>,
    pub(super) key: u64,
    pub(super) boot: u64,
    /// Answers above this are late.
    pub(super) limit: Ns,
    pub(super) break_at: Option<Ns>,
}

/// Longer than any message: a datagram that is too long must not look valid.
const LONGEST: usize = 4 * SIZE;

impl Receiver {
    /// Runs until it is stopped or the channel is closed.
    pub(super) fn run(mut self) {
        self.tally.receiver.store(sched::tid().0, Ordering::Release);
        let mut ledger = Ledger::new(self.key, self.limit);
        match self.framing {
            Framing::Datagrams => self.datagrams(&mut ledger),
            Framing::Stream => self.stream(&mut ledger),
            Framing::Edges => self.edges(&mut ledger),
        }
        self.tally.publish(&ledger);
    }

    fn datagrams(&mut self, ledger: &mut Ledger) {
        let mut buffer = [0; LONGEST];
        let mut damaged = 0;
        while !self.tally.stop.load(Ordering::Relaxed) {
            let received = self.inlet.receive(&mut buffer);
            let now = clock::mono().0;
            match received {
                Ok(0) => return self.closed(None),
                Ok(n) => match Message::decode(&buffer[..n]) {
                    Ok(message) => self.take(&message, now, ledger),
                    Err(error) => {
                        self.other_version(error);
                        damaged += 1;
                        ledger.set_damaged(damaged);
                    }
                },
                Err(error) if passes(&error) => {}
                Err(error) => return self.closed(Some(&error)),
            }
            self.tally.publish(ledger);
        }
    }

    fn stream(&mut self, ledger: &mut Ledger) {
        let mut deframer = Deframer::default();
        self.messages(&mut deframer, ledger);
        ledger.set_damaged(deframer.damaged_at_end());
    }

    fn messages(&mut self, deframer: &mut Deframer, ledger: &mut Ledger) {
        while !self.tally.stop.load(Ordering::Relaxed) {
            let received = self.inlet.receive(deframer.space());
            let now = clock::mono().0;
            match received {
                Ok(0) => return self.closed(None),
                Ok(n) => {
                    deframer.filled(n);
                    while let Some(message) = deframer.next() {
                        self.take(&message, now, ledger);
                    }
                    ledger.set_damaged(deframer.damaged());
                    if let Some(version) = deframer.version() {
                        self.other_version(NotAMessage::Version(version));
                    }
                }
                Err(error) if passes(&error) => {}
                // A terminal whose other side is gone returns EIO.
                Err(error) if error.raw_os_error() == Some(libc::EIO) => return self.closed(None),
                Err(error) => return self.closed(Some(&error)),
            }
            self.tally.publish(ledger);
        }
    }

    /// The kernel has stamped each edge: that is the arrival time of the answer.
    fn edges(&mut self, ledger: &mut Ledger) {
        let mut buffer = [0; 4 * edge::SIZE];
        let mut numbers = edge::Numbers::default();
        self.tally.welcomed.store(true, Ordering::Release); // unknown
        while !self.tally.stop.load(Ordering::Relaxed) {
            match self.inlet.receive(&mut buffer) {
                Ok(0) => return self.closed(None),
                Ok(n) => {
                    for event in buffer[..n].as_chunks().0 {
                        let Ok(edge) = Edge::decode(event) else { continue };
                        numbers.take(edge.number);
                        let sent = self.tally.sent.load(Ordering::Acquire);
                        let message = edge::answer(&edge, self.key, sent, &self.flights);
                        self.take(&message, edge.at, ledger);
                    }
                    ledger.set_damaged(numbers.lost());
                }
                Err(error) if passes(&error) => {}
                Err(error) => return self.closed(Some(&error)),
            }
            self.tally.publish(ledger);
        }
    }

    #[inline]
    fn take(&self, message: &Message, now: u64, ledger: &mut Ledger) {
        if message.kind == Kind::Welcome && message.key == self.key {
            let same = message.second != 0 && message.second == self.boot;
            self.tally.same_clock.store(same, Ordering::Relaxed);
            let thread = i32::try_from(message.first).unwrap_or(0);
            self.tally.responder.store(if same { thread } else { 0 }, Ordering::Relaxed);
            bump(&self.tally.welcomes, 1);
            self.tally.welcomed.store(true, Ordering::Release);
            return;
        }
        let Some(sample) = ledger.take(message, now, &self.flights) else { return };
        self.tally.enter(&sample);
        if self.break_at.is_some_and(|limit| sample.latency > limit) {
            let first = sample.latency.0.saturating_add(1);
            let _ = self.tally.broke.compare_exchange(0, first, Ordering::AcqRel, Ordering::Relaxed);
            self.tally.over.end();
        }
    }

    fn other_version(&self, error: NotAMessage) {
        if let NotAMessage::Version(_) = error {
            self.tally.say(error.to_string());
        }
    }

    fn closed(&self, error: Option<&io::Error>) {
        // The answer of some channels to a goodbye.
        if self.tally.leaving.load(Ordering::Acquire) {
            return self.tally.over.end();
        }
        let how = error.map_or("the responder closed the channel".to_owned(), |error| {
            format!("the channel broke: {error}")
        });
        if !self.tally.stop.load(Ordering::Relaxed) {
            self.tally.say(how);
        }
        self.tally.closed.store(true, Ordering::Release);
        self.tally.over.end();
    }
}

/// Errors after which a channel continues: a signal, a time limit, and a datagram responder that is absent at the moment.
fn passes(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::ConnectionRefused
    )
}

#[cfg(test)]
mod tests {
    use super::super::tally::Taps;
    use super::*;

    /// A channel whose other side is closed.
    struct Closed;

    impl Inlet for Closed {
        fn receive(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Ok(0)
        }
    }

    #[test]
    fn a_responder_that_closes_the_channel_after_the_goodbye_is_no_loss() {
        for is_leaving in [false, true] {
            for framing in [Framing::Datagrams, Framing::Stream] {
                let tally = Arc::new(Tally::new(None, 1, Taps::default()));
                tally.leaving.store(is_leaving, Ordering::Release);
                let receiver = Receiver {
                    inlet: Box::new(Closed),
                    framing,
                    flights: Arc::new(Flights::new(2)),
                    tally: Arc::clone(&tally),
                    key: 1,
                    boot: 1,
                    limit: Ns(1),
                    break_at: None,
                };
                receiver.run();
                assert_eq!(tally.closed.load(Ordering::Acquire), !is_leaving);
                assert!(tally.over.is_set());
            }
        }
    }
}
