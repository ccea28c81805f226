//! One measurement over one channel: started, watched, finished.

use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

use lathunt_core::comm::Comm;
use lathunt_core::latency_box::flights::Flights;
use lathunt_core::latency_box::schedule::{Pattern, Schedule};
use lathunt_core::latency_box::session::{key_text, End, Known, SessionMark};
use lathunt_core::latency_box::Counts;
use lathunt_core::series::{Quantity, Series, Thread};
use lathunt_core::time::{Mono, Ns, Prio, Tid};

use super::identity;
use super::receiver::Receiver;
use super::sender::Sender;
use super::tally::{plain, Tally, Taps, WorstTrip};
use super::thread::{Place, Worker};
use crate::error::Result;
use crate::instrument::counters::Counters;
use crate::link::{descriptor, Framing, Link};

/// What to measure and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// Name of the channel in the results.
    pub name: String,
    /// Pattern of the stimuli.
    pub pattern: Pattern,
    /// Their interval.
    pub interval: Ns,
    /// Length of the schedule; `None`: until [`Session::end`].
    pub duration: Option<Ns>,
    /// Number of stimuli; `None`: as many as fit into the duration.
    pub stimuli: Option<u64>,
    /// How long to wait for an answer.
    pub timeout: Ns,
    /// How long to wait for the responder.
    pub patience: Ns,
    /// Answers above this are late.
    pub late_above: Ns,
    /// The first round trip above this ends the measurement.
    pub break_at: Option<Ns>,
    /// Delay requested from the responder.
    pub ask: Ns,
    /// Greet the responder before each stimulus, so that caches are warm. Not on a line.
    pub warm: bool,
    /// CPU and priority of both threads; the sender has one real-time priority less than the receiver.
    pub place: Place,
    /// Number of the worst round trips to keep.
    pub worst: usize,
}

impl Options {
    /// Name of the channel in the series: warm round trips are not those of a cold path.
    fn channel(&self) -> String {
        format!("{}{}", self.name, if self.warm { " (warm)" } else { "" })
    }
}

/// A running measurement. Dropping it ends it.
pub struct Session {
    options: Options,
    key: u64,
    tally: Arc<Tally>,
    flights: Arc<Flights>,
    lifeline: Option<std::os::fd::OwnedFd>,
    facts: Vec<String>,
    sender: Worker<()>,
    receiver: Worker<()>,
}

/// Results.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The round trips, then their known parts.
    pub series: Vec<Series>,
    /// Stimuli and answers.
    pub counts: Counts,
    /// The worst round trips, worst first.
    pub worst: Vec<WorstTrip>,
    /// The thread that answered, if it is of this boot and known.
    pub responder: Option<Tid>,
    /// Whether the responder ever said welcome.
    pub welcomed: bool,
    /// The latency that triggered the break limit.
    pub broke: Option<Ns>,
    /// The channel ended before the measurement did.
    pub closed: bool,
    /// Changes by other processes to CPUs or scheduling of its threads, one line each: they were not measured as requested.
    pub changed: Vec<String>,
    /// What went wrong with the channel.
    pub trouble: Option<String>,
    /// What is known of the channel.
    pub facts: Vec<String>,
}

impl Session {
    /// Starts both threads.
    ///
    /// # Errors
    /// If a thread cannot get its CPU or priority, or there is no random key.
    pub fn start(link: Link, options: Options) -> Result<Session> {
        Session::start_tapped(link, options, Taps::default())
    }

    /// As [`Session::start`]; `taps` receive each round trip.
    ///
    /// # Errors
    /// As [`Session::start`].
    pub fn start_tapped(link: Link, options: Options, taps: Taps) -> Result<Session> {
        let key = identity::random_key()?;
        let boot = identity::of_boot();
        let tally = Arc::new(Tally::new(options.duration, options.worst, taps));
        let burst = if let Pattern::Burst { size } = options.pattern { size } else { 1 };
        let flights = Arc::new(Flights::for_time(options.timeout, options.interval, burst));
        let receiver = Receiver {
            inlet: link.inlet,
            framing: link.framing,
            flights: Arc::clone(&flights),
            tally: Arc::clone(&tally),
            key,
            boot,
            limit: options.late_above,
            break_at: options.break_at,
        };
        let sender = Sender {
            outlet: link.outlet,
            queues: link.queues,
            greets: link.framing != Framing::Edges,
            schedule: Schedule::new(options.pattern, options.interval),
            interval: options.interval,
            flights: Arc::clone(&flights),
            tally: Arc::clone(&tally),
            key,
            boot,
            duration: options.duration,
            most: options.stimuli,
            timeout: options.timeout,
            patience: options.patience,
            ask: options.ask,
            warm: options.warm && link.framing != Framing::Edges,
        };
        let receiver = Worker::start("box/answers", options.place, move || receiver.run())?;
        // The receiver preempts the sender: with one CPU for both, the sender's work after a stimulus, which includes
        // programming its timer, would else be part of the round trip.
        let behind = Place {
            priority: (options.place.priority - 1).max(options.place.priority.min(1)),
            ..options.place
        };
        let sender = match Worker::start("box/stimuli", behind, move || sender.run()) {
            Ok(sender) => sender,
            Err(error) => {
                tally.stop.store(true, Ordering::Release);
                let mut receiver = receiver;
                receiver.end(LIMIT);
                return Err(error);
            }
        };
        Ok(Session {
            options,
            key,
            tally,
            flights,
            lifeline: link.lifeline,
            facts: link.facts,
            sender,
            receiver,
        })
    }

    /// Its counters so far.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// What it measures.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Whether the measurement is running. Call it several times a second: it also notices the death of the other end.
    #[must_use]
    pub fn is_running(&self) -> bool {
        let begun = self.tally.begun.load(Ordering::Relaxed);
        self.tally.seconds.extend(crate::clock::mono().since(Mono(begun)));
        let is_leaving = self.tally.leaving.load(Ordering::Acquire);
        if self.lifeline.as_ref().is_some_and(descriptor::hung_up)
            && !is_leaving
            && !self.sender.is_finished()
        {
            self.tally.say("the responder is gone".to_owned());
            self.tally.closed.store(true, Ordering::Release);
            self.end();
        }
        let sending = self.tally.sending.load(Ordering::Relaxed);
        let held = if sending > 0 { crate::clock::mono().since(Mono(sending)) } else { Ns::ZERO };
        if held > self.options.timeout + self.options.timeout + Ns::from_ms(1_000) {
            self.tally.say("the channel accepts no more data".to_owned());
            self.tally.closed.store(true, Ordering::Release);
            return false;
        }
        if self.tally.over.is_set() || held > self.options.timeout {
            self.sender.kick(); // it may be asleep, or blocked by the channel
        }
        !self.sender.is_finished()
    }

    /// Asks it to end: no more stimuli, then the last answers.
    pub fn end(&self) {
        self.tally.over.end();
        self.sender.kick();
    }

    fn stop(&mut self) {
        self.tally.over.end();
        self.tally.stop.store(true, Ordering::Release);
        self.sender.end(LIMIT);
        self.receiver.end(LIMIT);
    }

    /// Ends at once and returns the results.
    #[must_use]
    pub fn finish(mut self) -> Finished {
        self.stop();
        let broke = self.tally.broke.load(Ordering::Acquire).checked_sub(1).map(Ns);
        Finished {
            series: self.series(),
            counts: self.tally.counts(),
            worst: self.tally.worst(),
            responder: Some(Tid(self.tally.responder.load(Ordering::Acquire))).filter(|tid| tid.0 > 0),
            welcomed: self.tally.welcomed.load(Ordering::Acquire),
            broke,
            closed: self.tally.closed.load(Ordering::Acquire),
            changed: self.sender.changed().into_iter().chain(self.receiver.changed()).collect(),
            trouble: self.tally.trouble.lock().ok().and_then(|said| said.clone()),
            facts: self.facts.iter().cloned().chain(self.warm_fact()).collect(),
        }
    }

    /// How many stimuli found the path warm, if that was requested.
    fn warm_fact(&self) -> Option<String> {
        let (name, cold) = (&self.options.name, self.tally.cold.load(Ordering::Acquire));
        let warm =
            format!("{name}: a greeting before each stimulus (--warm) keeps caches warm and CPUs awake");
        let but = format!("{warm}; {cold} stimuli were due before the answer to it");
        self.options.warm.then_some(if cold > 0 { but } else { warm })
    }

    /// The series as they are now.
    #[must_use]
    pub fn series(&self) -> Vec<Series> {
        let tally = &self.tally;
        let counts = tally.counts();
        let mut roundtrip = self.one(Quantity::Roundtrip, &tally.sent_view);
        roundtrip.missed = Some(tally.skipped());
        roundtrip.lost = counts.lost;
        roundtrip.counts = Some(counts);
        roundtrip.replayed = self.due_view();
        roundtrip.session = Some(self.mark(counts.answered));
        roundtrip.set_seconds(tally.maxima());
        let parts = [
            (Quantity::Outward, &tally.outward),
            (Quantity::Turnaround, &tally.turnaround),
            (Quantity::Return, &tally.inward),
            (Quantity::Ways, &tally.ways),
        ];
        let known = |counters: &&Counters| counters.count.load(Ordering::Relaxed) > 0;
        let parts = parts.into_iter().filter(|(_, counters)| known(counters));
        std::iter::once(roundtrip)
            .chain(parts.map(|(quantity, counters)| self.one(quantity, counters)))
            .collect()
    }

    fn mark(&self, answered: u64) -> SessionMark {
        let known = |trip: &WorstTrip| Known {
            sequence: trip.sample.sequence,
            begin: Mono(trip.sample.flight.sent),
            total_ns: trip.sample.latency,
            received: Mono(trip.sample.there.0),
        };
        // While it measures, the receiver owns the lock of the worst.
        let over = self.sender.is_finished();
        let worst: Vec<Known> = over.then(|| self.tally.worst()).iter().flatten().map(known).collect();
        let all_kept = over && worst.len() as u64 == answered;
        SessionMark { key: key_text(self.key), end: End::Box, worst, all_kept }
    }

    fn one(&self, quantity: Quantity, counters: &Counters) -> Series {
        let place = self.options.place;
        let mut series = Series::new(quantity, place.cpu, plain(counters));
        let begun = self.tally.begun.load(Ordering::Acquire);
        series.begin = (begun > 0).then_some(Mono(begun));
        let prio = if place.priority > 0 { Prio::from_rt(place.priority) } else { Prio(120) };
        let comm = Comm::cut("box/answers").text();
        let tid = Tid(self.tally.receiver.load(Ordering::Acquire));
        series.thread = Some(Thread { tid, comm, prio: Some(prio) });
        series.interval_ns = (self.options.pattern == Pattern::Periodic).then_some(self.options.interval);
        series.channel = Some(self.options.channel());
        series
    }

    /// Per stimulus due, if the time of each skipped one is known: it is answered with the next one.
    fn due_view(&self) -> Option<lathunt_core::histogram::Histogram> {
        let placed = self.tally.placed.load(Ordering::Acquire);
        (placed == self.tally.skipped()).then(|| plain(&self.tally.due_view))
    }

    /// Length of the schedule so far.
    #[must_use]
    pub fn elapsed(&self) -> Ns {
        let (begun, ended) = (&self.tally.begun, &self.tally.ended);
        let ended = match ended.load(Ordering::Acquire) {
            0 => crate::clock::mono().0,
            ended => ended,
        };
        Ns(ended.saturating_sub(begun.load(Ordering::Acquire)))
    }

    /// Stimuli without an answer within the time limit.
    #[must_use]
    pub fn given_up(&self) -> u64 {
        let displaced = self.tally.displaced.load(Ordering::Acquire);
        let now = crate::clock::mono().0;
        let limit = self.options.timeout.0;
        let open = self.flights.open().filter(|flight| now.saturating_sub(flight.sent) > limit).count();
        displaced + open as u64
    }

    /// Stimuli still waiting for their answers.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.flights.open().count()
    }
}

/// How long a thread may take to end: a call that a signal cannot interrupt has a limit of 200 ms of its own.
const LIMIT: Duration = Duration::from_millis(500);

impl Drop for Session {
    fn drop(&mut self) {
        self.stop();
    }
}
