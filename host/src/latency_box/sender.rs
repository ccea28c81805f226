//! The thread that sends stimuli: sleeps until one is due, reads the clock, sends.
//!
//! On a channel that queues it never waits for an answer. On a channel that can carry only one stimulus, stimuli that are due
//! before the answer are skipped, counted, and entered in the view per stimulus due.

use std::hint::black_box;
use std::io::{self, ErrorKind};
use std::sync::atomic::Ordering;
use std::sync::Arc;

use lathunt_core::latency_box::flights::{Flight, Flights};
use lathunt_core::latency_box::message::{Kind, Message, SIZE};
use lathunt_core::latency_box::schedule::Schedule;
use lathunt_core::time::Ns;

use super::tally::Tally;
use crate::clock;
use crate::instrument::counters::bump;
use crate::link::Outlet;

/// What the thread owns.
pub(super) struct Sender {
    pub(super) outlet: Box<dyn Outlet>,
    pub(super) queues: bool,
    /// The channel can carry hello and goodbye; on a line each would be a stimulus.
    pub(super) greets: bool,
    pub(super) schedule: Schedule,
    pub(super) interval: Ns,
    pub(super) flights: Arc<Flights>,
    pub(super) tally: Arc<Tally>,
    pub(super) key: u64,
    pub(super) boot: u64,
    /// Length of the schedule.
    pub(super) duration: Option<Ns>,
    /// Number of stimuli.
    pub(super) most: Option<u64>,
    /// How long to wait for an answer: at the end, and on a channel that carries one stimulus.
    pub(super) timeout: Ns,
    /// How long to wait for the responder.
    pub(super) patience: Ns,
    /// Delay requested from the responder.
    pub(super) ask: Ns,
    /// Greet before each stimulus.
    pub(super) warm: bool,
}

impl Sender {
    /// Says hello, sends all stimuli, waits for the last answers, says goodbye.
    pub(super) fn run(mut self) {
        if !self.greets || self.hello() {
            self.stimuli();
            self.tally.ended.store(clock::mono().0, Ordering::Release);
            self.await_answers();
            self.tally.leaving.store(true, Ordering::Release);
            if self.greets {
                let _ = self.put(&Message::new(Kind::Bye, self.key, 0).encode(), clock::mono().0);
            }
        }
        self.tally.over.end();
    }

    fn is_over(&self) -> bool {
        self.tally.stop.load(Ordering::Relaxed) || self.tally.over.is_set()
    }

    /// Whether stimuli can still be sent.
    fn is_open(&self) -> bool {
        !self.tally.stop.load(Ordering::Relaxed) && !self.tally.closed.load(Ordering::Relaxed)
    }

    /// Until the responder says welcome; repeated, because it may not be there yet or the channel may lose messages.
    fn hello(&mut self) -> bool {
        let hello = self.greeting();
        let until = clock::mono().0.saturating_add(self.patience.0);
        loop {
            match self.put(&hello, clock::mono().0) {
                Err(error) if !passes(&error) => {
                    self.tally.say(format!("cannot send: {error}"));
                    return false;
                }
                _ => {}
            }
            let again = clock::mono().0 + 100_000_000;
            while clock::mono().0 < again {
                if self.tally.welcomed.load(Ordering::Acquire) {
                    return true;
                }
                if self.is_over() || clock::mono().0 > until {
                    return false;
                }
                sleep_until(clock::mono().0 + 500_000);
            }
        }
    }

    fn greeting(&self) -> [u8; SIZE] {
        Message { first: self.interval.0, second: self.boot, ..Message::new(Kind::Hello, self.key, 0) }
            .encode()
    }

    /// Greets `lead` before stimulus `sequence` is due, and busy-waits until then: code and data of both ways are then in the
    /// caches. Returns the lead of the next greeting.
    fn warm_up(&mut self, sequence: u64, due: u64, lead: u64) -> io::Result<u64> {
        let begin = due.saturating_sub(lead);
        sleep_until(begin);
        let (now, heard) = (clock::mono().0, self.tally.welcomes.load(Ordering::Acquire));
        let is_late = now >= due || self.must_wait(sequence, now);
        let warm = !is_late && {
            self.put(&self.greeting(), now)
                .or_else(|error| if passes(&error) { Ok(()) } else { Err(error) })?;
            // A channel that carries one message must be empty before the stimulus.
            self.is_welcomed_again(heard, if self.queues { due } else { now.saturating_add(self.timeout.0) })
        };
        let took = clock::mono().0.saturating_sub(begin);
        while clock::mono().0 < due && !self.is_over() {
            std::hint::spin_loop();
        }
        if !warm {
            bump(&self.tally.cold, 1);
        }
        Ok((took + took / 2).max(lead - lead / 16).clamp(LEAST_LEAD, LEAST_LEAD.max(self.interval.0 / 2)))
    }

    /// Waits for one more welcome than `heard`; false if there is none before `until`. Sleeps meanwhile: the responder may have a
    /// lower priority.
    fn is_welcomed_again(&self, heard: u64, until: u64) -> bool {
        while self.tally.welcomes.load(Ordering::Acquire) == heard {
            let now = clock::mono().0;
            if now >= until || self.is_over() {
                return false;
            }
            sleep_until(now + 2_000);
        }
        true
    }

    fn stimuli(&mut self) {
        let begin = clock::mono().0;
        self.tally.begun.store(begin, Ordering::Release);
        let end = self.duration.map_or(u64::MAX, |length| begin.saturating_add(length.0));
        let mut sequence = 1;
        let mut pending = Pending::default();
        let mut lead = self.interval.0 / 2;
        while self.is_open() && self.most.is_none_or(|most| sequence <= most) {
            let due = begin.saturating_add(self.schedule.due().0);
            if due > self.tally.over.or(u64::MAX) {
                break;
            }
            if due > end {
                // The measurement lasts to its end, even if the schedule has nothing more to send.
                sleep_until(end);
                break;
            }
            if self.warm && !self.is_over() {
                match self.warm_up(sequence, due, lead) {
                    Ok(next) => lead = next,
                    Err(error) => {
                        self.tally.say(format!("cannot send: {error}"));
                        break;
                    }
                }
            }
            sleep_until(due);
            // A stimulus that was due before the end is sent, however late this thread is.
            let end = self.tally.over.or(end);
            if due > end || !self.is_open() {
                break;
            }
            let stimulus =
                Message { first: self.ask.0, ..Message::new(Kind::Stimulus, self.key, sequence) }.encode();
            // Responder and receiver do the same next: on this CPU, they find its code and tables in the cache.
            black_box(Message::decode(&stimulus).is_ok());
            let now = clock::mono().0;
            // Stimuli due after the end are not part of this measurement, however late this thread is.
            let late = self.schedule.skip_until(Ns(now.min(end).saturating_sub(begin)));
            pending.add(late.count, begin.saturating_add(late.first.0), &self.tally);
            let due = begin.saturating_add(self.schedule.due().0);
            if self.must_wait(sequence, now) {
                pending.add(1, due, &self.tally);
                self.schedule.advance();
                continue;
            }
            if self.flights.claim(sequence).is_some() {
                bump(&self.tally.displaced, 1);
            }
            let sent = clock::mono().0;
            let flight = Flight { due, sent, skipped: pending.count, skipped_from: pending.first };
            self.flights.launch(sequence, &flight);
            self.tally.sent.store(sequence, Ordering::Release);
            pending = Pending::default();
            sequence += 1;
            if let Err(error) = self.emit(&stimulus, sent) {
                self.tally.say(format!("cannot send: {error}"));
                break;
            }
            self.schedule.advance();
        }
    }

    /// Sends, and publishes since when: a blocked channel would hold this thread for ever.
    #[inline]
    fn put(&mut self, message: &[u8; SIZE], now: u64) -> io::Result<()> {
        self.tally.sending.store(now, Ordering::Relaxed);
        let sent = self.outlet.send(message);
        self.tally.sending.store(0, Ordering::Relaxed);
        sent
    }

    /// A stimulus that the channel refuses counts as sent and lost.
    #[inline]
    fn emit(&mut self, stimulus: &[u8; SIZE], now: u64) -> io::Result<()> {
        match self.put(stimulus, now) {
            Ok(()) => Ok(()),
            // The error belongs to the previous datagram; this one was not sent.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                self.put(stimulus, now).or_else(|error| if passes(&error) { Ok(()) } else { Err(error) })
            }
            Err(error) if passes(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Whether the last stimulus is still in flight on a channel that carries one.
    #[inline]
    fn must_wait(&self, sequence: u64, now: u64) -> bool {
        !self.queues
            && self.flights.is_open(sequence - 1)
            && now.saturating_sub(self.flights.sent_at(sequence - 1)) < self.timeout.0
    }

    fn await_answers(&self) {
        let until = clock::mono().0.saturating_add(self.timeout.0);
        while clock::mono().0 < until {
            let counts = self.tally.counts();
            if counts.lost == 0
                || self.tally.stop.load(Ordering::Relaxed)
                || self.tally.closed.load(Ordering::Relaxed)
            {
                return;
            }
            sleep_until(clock::mono().0 + 1_000_000);
        }
    }
}

/// Shortest planned time from a greeting to its stimulus, ns.
const LEAST_LEAD: u64 = 20_000;

/// Stimuli due and not sent since the last one that was.
#[derive(Default)]
struct Pending {
    count: u64,
    first: u64,
}

impl Pending {
    fn add(&mut self, count: u64, first: u64, tally: &Tally) {
        if count > 0 {
            if self.count == 0 {
                self.first = first;
            }
            self.count += count;
            bump(&tally.skipped, count);
        }
    }
}

fn passes(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::ConnectionRefused
    ) || matches!(
        error.raw_os_error(),
        Some(libc::ENOBUFS | libc::ENETUNREACH | libc::EHOSTUNREACH | libc::ENETDOWN)
    )
}

/// Sleeps until then; a signal may end it early.
pub(super) fn sleep_until(at: u64) {
    let at = libc::timespec {
        tv_sec: (at / 1_000_000_000) as libc::time_t,
        tv_nsec: (at % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: `at` is valid to read; the remaining time is not asked for.
    unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &at, std::ptr::null_mut()) };
}

#[cfg(test)]
mod tests {
    use lathunt_core::latency_box::schedule::Pattern;

    use super::super::tally::Taps;
    use super::*;

    /// The measurement ends while the first stimulus is being sent.
    struct Slow(Arc<Tally>);

    impl Outlet for Slow {
        fn send(&mut self, _: &[u8; SIZE]) -> io::Result<()> {
            if self.0.sent.load(Ordering::Relaxed) == 1 {
                sleep_until(clock::mono().0 + 30_000_000);
                self.0.over.end();
                sleep_until(clock::mono().0 + 10_000_000);
            }
            Ok(())
        }
    }

    #[test]
    fn stimuli_that_were_due_before_the_end_are_sent_or_counted_as_missed() {
        let interval = Ns::from_ms(1);
        for (queues, warm, sent) in [(true, false, 2), (true, true, 2), (false, false, 1)] {
            let tally = Arc::new(Tally::new(None, 1, Taps::default()));
            let mut sender = Sender {
                outlet: Box::new(Slow(Arc::clone(&tally))),
                queues,
                greets: false,
                schedule: Schedule::new(Pattern::Periodic, interval),
                interval,
                flights: Arc::new(Flights::new(2)),
                tally: Arc::clone(&tally),
                key: 1,
                boot: 1,
                duration: None,
                most: None,
                timeout: Ns::from_ms(60_000),
                patience: Ns::ZERO,
                ask: Ns::ZERO,
                warm,
            };
            sender.stimuli();
            let length = tally.over.or(u64::MAX) - tally.begun.load(Ordering::Relaxed);
            assert_eq!(tally.sent.load(Ordering::Relaxed), sent);
            assert_eq!(sent + tally.skipped(), length / interval.0, "those due by then");
        }
    }
}
