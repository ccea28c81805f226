//! `--record`: why each of the worst answers was late, from kernel events.

use std::sync::Arc;

use anyhow::{Context, Result};
use lathunt_core::conditions::Conditions;
use lathunt_core::explain::{explain_peak, explain_roundtrip, Explanation, Interval, RoundTrip};
use lathunt_core::peak::Peak;
use lathunt_core::run::{Loss, Run};
use lathunt_core::time::{Cpu, Mono, Ns, Tid};
use lathunt_host::latency_box::evidence::{Book, Evidence, Rings};
use lathunt_host::latency_box::trips::{Trip, Trips};
use lathunt_host::latency_box::Finished;
use lathunt_host::topology::Topology;
use lathunt_host::tree::LIVE;

/// Text of a case until its events are examined ([`enter`]).
pub const NO_EVENTS: &str = "no events were recorded";

/// Interval of reading the rings: they hold 4096 events per CPU.
pub const TURN: std::time::Duration = std::time::Duration::from_millis(5);

/// The running recording of a box.
pub struct Recording {
    evidence: Evidence,
    books: Vec<Channel>,
}

/// The worst of one channel.
struct Channel {
    trips: Arc<Trips>,
    book: Book<Trip>,
}

/// Attaches to the kernel.
///
/// # Errors
/// One line: what is refused or missing, and that it works without `--record`.
pub fn attach(conditions: &mut Conditions, activations: bool) -> Result<Evidence> {
    let online = Topology::read(std::path::Path::new(LIVE))?.online;
    let evidence = Evidence::start(online, conditions.kernel.preemption_model(), activations);
    let evidence = evidence
        .context("--record cannot record the kernel; without it latencies are measured, not explained")?;
    conditions.notes.extend(evidence.notes().iter().cloned());
    // Reads the rings in time even if the measurement keeps the CPUs busy; without the privilege nothing changes.
    let _ = lathunt_host::sched::set_nice(-20);
    Ok(evidence)
}

impl Recording {
    /// Attaches.
    ///
    /// # Errors
    /// As [`attach`].
    pub fn start(conditions: &mut Conditions) -> Result<Recording> {
        Ok(Recording { evidence: attach(conditions, false)?, books: Vec::new() })
    }

    /// The ring for the round trips of one more channel, of which the `worst` are kept.
    pub fn channel(&mut self, worst: u16) -> Arc<Trips> {
        let trips = Trips::new();
        let book = Book::new(usize::from(worst));
        self.books.push(Channel { trips: Arc::clone(&trips), book });
        trips
    }

    /// Keeps the events of round trips that have become one of the worst. Call it each [`TURN`].
    pub fn look(&mut self) {
        self.evidence.poll();
        for Channel { trips, book, .. } in &mut self.books {
            let cases = std::iter::from_fn(|| trips.pop());
            let cases = cases.map(|trip| (Ns(trip.end.saturating_sub(trip.begin)), Mono(trip.begin), trip));
            book.take(cases, |from| Some(self.evidence.since(from)));
        }
    }

    /// Explains `peak`, the preemption of cycle `sequence` in channel number `at`.
    pub fn explain_preemption(&self, at: usize, sequence: u64, peak: &mut Peak) {
        let of = Interval {
            tid: peak.victim.tid,
            cpu: peak.cpu,
            begin: peak.begin,
            end: peak.begin + peak.total_ns,
        };
        let found = self.books.get(at).and_then(|channel| channel.book.of(sequence));
        enter(peak, found.map(|(_, rings)| self.evidence.explain(rings, |window| explain_peak(window, &of))));
    }

    /// Lost evidence.
    #[must_use]
    pub fn losses(&self) -> Vec<Loss> {
        let mut losses = self.evidence.losses();
        let count = self.books.iter().map(|channel| channel.trips.dropped()).sum();
        let meaning =
            "round trips that were not looked at: they are in the figures, and without a cause".to_owned();
        let loss = Loss { counter: "trips_not_looked_at".to_owned(), count, meaning, evidence_only: true };
        losses.extend((count > 0).then_some(loss));
        losses
    }

    /// Explains the peaks of `run`, which contains `finished`, channel by channel.
    pub fn explain<O>(&self, run: &mut Run, finished: &[(O, Finished)]) {
        for (channel, (_, finished)) in self.books.iter().zip(finished) {
            let receiver =
                finished.series.first().and_then(|series| series.thread.as_ref()).map(|one| one.tid);
            for worst in &finished.worst {
                let is_it = |peak: &&mut Peak| {
                    peak.begin == Mono(worst.sample.flight.sent)
                        && peak.total_ns == worst.sample.latency
                        && Some(peak.victim.tid) == receiver
                };
                let Some(peak) = run.peaks.iter_mut().find(is_it) else { continue };
                let explained = channel
                    .book
                    .of(worst.sample.sequence)
                    .map(|(trip, rings)| self.explained(trip, rings, finished.responder, peak));
                enter(peak, explained);
            }
        }
        run.losses.extend(self.losses());
    }

    fn explained(
        &self,
        trip: &Trip,
        rings: &Rings,
        responder: Option<Tid>,
        peak: &Peak,
    ) -> Result<Explanation, String> {
        let of = roundtrip(trip, peak.victim.tid, peak.cpu, responder);
        self.evidence.explain(rings, |window| explain_roundtrip(window, &of))
    }
}

/// The query for the engine.
fn roundtrip(trip: &Trip, tid: Tid, cpu: Cpu, responder: Option<Tid>) -> RoundTrip {
    let there = (Mono(trip.middle), Mono(trip.answered));
    RoundTrip { tid, cpu, sent: Mono(trip.begin), there, arrived: Mono(trip.end), responder }
}

/// Adds the explanation to its peak, or why there is none; `None`: its events were not kept.
pub fn enter(peak: &mut Peak, explained: Option<Result<Explanation, String>>) {
    let why = match explained {
        Some(Ok(explanation)) => {
            peak.culprit = Some(explanation.cause.clone());
            peak.explanation = Some(explanation);
            peak.no_evidence = None;
            return;
        }
        Some(Err(damage)) => damage,
        None => "its events were not kept: the reader was too late".to_owned(),
    };
    let told = peak.no_evidence.take().unwrap_or_default();
    peak.no_evidence = Some(told.replace(NO_EVENTS, &why));
}
