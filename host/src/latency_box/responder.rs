//! The thread that answers. It serves one session at a time: that of the last box that said hello.

use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

use lathunt_core::latency_box::deframe::Deframer;
use lathunt_core::latency_box::delay::Distribution;
use lathunt_core::latency_box::edge::{self, Edge};
use lathunt_core::latency_box::message::{Kind, Message, SIZE};
use lathunt_core::random::Random;

use super::identity;
use super::relay::Relay;
use super::sender::sleep_until;
use super::served::count;
pub use super::served::Served;
use super::thread::{Place, Worker};
use super::trips::Trip;
use crate::clock;
use crate::error::Result;
use crate::link::{descriptor, Framing, Link};

/// The longest delay that a box may request: the last part of it is busy-waited.
const MOST_ASKED: u64 = 10_000_000;

/// How the responder treats a stimulus.
pub struct Service {
    /// Where it runs.
    pub place: Place,
    /// Known delay.
    pub delay: Option<Distribution>,
    /// Seed of the delays.
    pub seed: u64,
    /// A program that answers instead.
    pub relay: Option<Relay>,
}

/// A box that is silent for three of its intervals is considered dead, and another one is accepted; shortest and longest such
/// time, ns. Its session continues if it returns first.
const SILENCE: (u64, u64) = (1_000_000_000, 10_000_000_000);

/// A session with a box over a link, in a thread of its own.
pub struct Serving {
    worker: Worker<(Link, Service, Option<String>)>,
    served: Arc<Served>,
    lifeline: Option<std::os::fd::OwnedFd>,
}

impl Serving {
    /// Starts to answer.
    ///
    /// # Errors
    /// If the thread cannot get its CPU or priority.
    pub fn start(mut link: Link, service: Service, served: &Arc<Served>) -> Result<Serving> {
        served.stop.store(false, Ordering::Release);
        served.last.store(clock::mono().0, Ordering::Relaxed);
        served.silence.store(SILENCE.0, Ordering::Relaxed);
        let lifeline = link.lifeline.take();
        let place = service.place;
        let answering = Answering {
            boot: identity::of_boot(),
            random: Random::new(service.seed),
            key: None,
            adopted: false,
            served: Arc::clone(served),
            link,
            service,
        };
        let worker = Worker::start("respond", place, move || answering.run())?;
        Ok(Serving { worker, served: Arc::clone(served), lifeline })
    }

    /// Its counters.
    #[must_use]
    pub fn served(&self) -> &Arc<Served> {
        &self.served
    }

    /// Whether it is running. Call it several times a second: it also notices that a box is silent or gone.
    #[must_use]
    pub fn is_running(&self) -> bool {
        if self.lifeline.as_ref().is_some_and(descriptor::hung_up) {
            return false;
        }
        if self.is_silent() && self.served.active.load(Ordering::Relaxed) {
            self.served.let_go.store(true, Ordering::Release);
            self.worker.kick();
        }
        !self.worker.is_finished()
    }

    /// Whether its box, or whoever is connected, has been silent for so long that it may be replaced.
    pub fn is_silent(&self) -> bool {
        let silence = self.served.silence.load(Ordering::Relaxed);
        clock::mono().0.saturating_sub(self.served.last.load(Ordering::Relaxed)) > silence
    }

    /// Ends it. Returns the link and the service for the next one, and any failure; `None`: the kernel blocks the
    /// thread.
    pub fn end(mut self) -> Option<(Link, Service, Option<String>)> {
        self.served.stop.store(true, Ordering::Release);
        let ended = self.worker.end(Duration::from_millis(500));
        self.worker.changed().into_iter().for_each(|how| drop(self.served.changed.set(how)));
        ended
    }
}

struct Answering {
    link: Link,
    service: Service,
    served: Arc<Served>,
    boot: u64,
    random: Random,
    key: Option<u64>,
    adopted: bool,
}

impl Answering {
    fn run(mut self) -> (Link, Service, Option<String>) {
        self.served.tid.store(identity::of_thread().map_or(0, |tid| tid.0), Ordering::Release);
        let broke = match self.link.framing {
            Framing::Datagrams => self.datagrams(),
            Framing::Stream => self.stream(),
            Framing::Edges => self.edges(),
        };
        self.let_go();
        let cpu = u64::try_from(clock::read(libc::CLOCK_THREAD_CPUTIME_ID)).unwrap_or(0);
        count(&self.served.cpu_ns, cpu);
        (self.link, self.service, broke.err().map(|error| error.to_string()))
    }

    fn is_over(&mut self) -> bool {
        if self.served.let_go.swap(false, Ordering::Acquire) {
            self.let_go();
        }
        self.served.stop.load(Ordering::Relaxed)
    }

    fn datagrams(&mut self) -> io::Result<()> {
        let mut buffer = [0; 4 * SIZE];
        while !self.is_over() {
            let received = self.link.inlet.receive(&mut buffer);
            let now = clock::mono().0;
            match received {
                Ok(0) => return Ok(()),
                Ok(n) => match Message::decode(&buffer[..n]) {
                    Ok(message) => self.answer(&message, now)?,
                    Err(error) => self.served.spoil(error),
                },
                Err(error) if passes(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn stream(&mut self) -> io::Result<()> {
        let mut deframer = Deframer::default();
        while !self.is_over() {
            let received = self.link.inlet.receive(deframer.space());
            let now = clock::mono().0;
            match received {
                Ok(0) => return Ok(()),
                Ok(n) => {
                    deframer.filled(n);
                    while let Some(message) = deframer.next() {
                        self.answer(&message, now)?;
                    }
                    self.served.damaged.store(deframer.damaged(), Ordering::Relaxed);
                    deframer.version().into_iter().for_each(|version| self.served.note(version));
                }
                Err(error) if passes(&error) => {}
                // A terminal or socket whose other side is gone.
                Err(error) if matches!(error.raw_os_error(), Some(libc::EIO | libc::ECONNRESET)) => {
                    return Ok(())
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Each edge is a stimulus; there are no sessions.
    fn edges(&mut self) -> io::Result<()> {
        let mut buffer = [0; 4 * edge::SIZE];
        let (mut numbers, mut sequence) = (edge::Numbers::default(), 0);
        (self.adopted, self.key) = (true, Some(0));
        while !self.served.stop.load(Ordering::Relaxed) {
            let received = self.link.inlet.receive(&mut buffer);
            let now = clock::mono().0;
            match received {
                Ok(0) => return Ok(()),
                Ok(n) => {
                    for event in buffer[..n].as_chunks().0 {
                        let Ok(edge) = Edge::decode(event) else { continue };
                        numbers.take(edge.number);
                        sequence += 1;
                        self.served.last.store(now, Ordering::Relaxed);
                        self.stimulus(&Message::new(Kind::Stimulus, 0, sequence), now)?;
                    }
                    self.served.damaged.store(numbers.lost(), Ordering::Relaxed);
                }
                Err(error) if passes(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    #[inline]
    fn answer(&mut self, message: &Message, now: u64) -> io::Result<()> {
        match message.kind {
            Kind::Stimulus if self.key == Some(message.key) => {
                self.served.last.store(now, Ordering::Relaxed);
                self.stimulus(message, now)
            }
            Kind::Hello if !self.is_of_a_stranger(message) => self.hello(message, now),
            Kind::Bye if self.key == Some(message.key) => {
                self.let_go();
                self.key = None;
                Ok(())
            }
            _ => {
                count(&self.served.foreign, 1);
                Ok(())
            }
        }
    }

    #[inline]
    fn stimulus(&mut self, message: &Message, now: u64) -> io::Result<()> {
        if !self.adopted {
            self.adopt()?; // it was silent, and returns
        }
        count(&self.served.stimuli, 1);
        let own = self.service.delay.map_or(0, |delay| delay.draw(&mut self.random).0);
        let delay = own.saturating_add(message.first.min(MOST_ASKED));
        if delay > 0 {
            hold(now.saturating_add(delay), &self.served.stop);
        }
        if let Some(relay) = &mut self.service.relay {
            relay.pass(message, &self.served.stop)?;
        }
        let times = Message { first: now, second: clock::mono().0, ..*message };
        let answer = Message { kind: Kind::Answer, ..times }.encode();
        self.emit(&answer)?;
        if let Some(trips) = &self.served.trips {
            let (key, sequence, end) = (message.key, message.sequence, clock::mono().0);
            trips.push(&Trip { key, sequence, begin: now, end, middle: times.second, answered: 0 });
        }
        Ok(())
    }

    fn emit(&mut self, bytes: &[u8; SIZE]) -> io::Result<()> {
        match self.link.outlet.send(bytes) {
            Ok(()) => count(&self.served.answers, 1),
            Err(error) if passes(&error) || gone(&error) => count(&self.served.refused, 1),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// A hello of another box that was queued before this one's box was adopted. Only on channels that are open to all: on
    /// others, it replaces the session of a box that was killed.
    fn is_of_a_stranger(&self, hello: &Message) -> bool {
        self.link.framing == Framing::Datagrams && self.adopted && self.key != Some(hello.key)
    }

    fn hello(&mut self, message: &Message, now: u64) -> io::Result<()> {
        self.served.last.store(now, Ordering::Relaxed);
        let silence = message.first.saturating_mul(3).clamp(SILENCE.0, SILENCE.1);
        self.served.silence.store(silence, Ordering::Relaxed);
        self.adopt()?;
        if self.key != Some(message.key) {
            count(&self.served.sessions, 1);
            self.key = Some(message.key);
        }
        let first = self.served.thread().map_or(0, |tid| tid.0 as u64);
        let welcome = Message { first, second: self.boot, ..Message::new(Kind::Welcome, message.key, 0) };
        match self.link.outlet.send(&welcome.encode()) {
            Err(error) if !passes(&error) && !gone(&error) => Err(error),
            _ => Ok(()),
        }
    }

    fn adopt(&mut self) -> io::Result<()> {
        self.link.inlet.adopt()?;
        self.adopted = true;
        self.served.active.store(true, Ordering::Release);
        Ok(())
    }

    fn let_go(&mut self) {
        self.link.inlet.release();
        self.adopted = false;
        self.served.active.store(false, Ordering::Release);
    }
}

/// Waits until then: asleep as long as that is safe, then busy, so that the delay is exact.
fn hold(until: u64, stop: &AtomicBool) {
    const AWAKE: u64 = 200_000;
    while clock::mono().0.saturating_add(AWAKE) < until && !stop.load(Ordering::Relaxed) {
        sleep_until(until - AWAKE);
    }
    while clock::mono().0 < until && !stop.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
}

fn passes(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::ConnectionRefused
    )
}

fn gone(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EPIPE | libc::ECONNRESET | libc::EIO | libc::ESRCH | libc::ENOBUFS)
    )
}

#[cfg(test)]
mod tests;
