//! The run of `lathunt respond`: what happened to the stimuli at this end, per session, and with `--record` why the
//! worst answers took so long here.

use std::collections::VecDeque;
use std::sync::Arc;

use lathunt_core::explain::{explain_answer, Answer};
use lathunt_core::histogram::{Histogram, Layout};
use lathunt_core::latency_box::sequences::Sequences;
use lathunt_core::latency_box::session::{key_text, End, Known, SessionMark};
use lathunt_core::latency_box::Counts;
use lathunt_core::merge::pair::NOT_LOOKED_AT;
use lathunt_core::peak::Peak;
use lathunt_core::run::{Loss, Run};
use lathunt_core::series::{Quantity, Series, Thread};
use lathunt_core::time::{Cpu, Mono, Ns, Prio, Tid};
use lathunt_core::trace::activation::Activation;
use lathunt_host::latency_box::evidence::{Book, Evidence};
use lathunt_host::latency_box::responder::Served;
use lathunt_host::latency_box::trips::{Trip, Trips};
use lathunt_host::latency_box::Place;

use super::record::{enter, NO_EVENTS};

/// Sessions of a channel that are kept separately; only the last ones.
const SESSIONS: usize = 64;
/// How long an answer waits for the end of its activation, which is read some ms later.
const PATIENCE: u64 = 500_000_000;

/// All channels.
pub struct Answers {
    evidence: Option<Evidence>,
    posts: Vec<PostBook>,
    worst: usize,
}

struct PostBook {
    channel: String,
    served: Arc<Served>,
    trips: Arc<Trips>,
    place: Place,
    watched: Option<Tid>,
    activations: VecDeque<Activation>,
    waiting: VecDeque<Trip>,
    sessions: Vec<SessionBook>,
    forgotten: u64,
}

struct SessionBook {
    key: u64,
    sequences: Sequences,
    turnaround: Histogram,
    response: Histogram,
    begin: Mono,
    last_sent: u64,
    thread: Tid,
    book: Book<Case>,
}

#[derive(Clone, Copy)]
struct Case {
    sequence: u64,
    of: Answer,
}

impl Answers {
    /// With `evidence`, the causes; keeps the `worst` of each session.
    #[must_use]
    pub fn new(evidence: Option<Evidence>, worst: usize) -> Answers {
        Answers { evidence, posts: Vec::new(), worst }
    }

    /// Adds a channel.
    pub fn add(&mut self, channel: String, served: &Arc<Served>, trips: &Arc<Trips>, place: Place) {
        self.posts.push(PostBook {
            channel,
            served: Arc::clone(served),
            trips: Arc::clone(trips),
            place,
            watched: None,
            activations: VecDeque::new(),
            waiting: VecDeque::new(),
            sessions: Vec::new(),
            forgotten: 0,
        });
    }

    /// Reads answers since the last call. Call it every few ms; at the `end` nothing waits any more.
    pub fn look(&mut self, now: Mono, end: bool) {
        if let Some(evidence) = &mut self.evidence {
            evidence.poll();
            for post in &mut self.posts {
                let thread = post.served.thread();
                if thread.is_some()
                    && thread != post.watched
                    && evidence.watch(thread.unwrap_or_default()).is_ok()
                {
                    post.watched = thread;
                }
            }
            let posts = &mut self.posts;
            evidence.activations(|activation| {
                let of = posts.iter_mut().find(|post| post.watched == Some(activation.thread.tid));
                of.into_iter().for_each(|post| post.activations.push_back(*activation));
            });
        }
        for post in &mut self.posts {
            let trips = Arc::clone(&post.trips);
            post.waiting.extend(std::iter::from_fn(|| trips.pop()));
            post.settle(now, end, self.evidence.as_ref(), self.worst);
        }
    }

    /// Stores everything in `run`.
    pub fn into_run(self, run: &mut Run) {
        for post in &self.posts {
            for (at, session) in post.sessions.iter().enumerate() {
                post.enter(run, at, session, self.evidence.as_ref());
            }
        }
        run.peaks.sort_by_key(|peak| (std::cmp::Reverse(peak.total_ns), peak.begin));
        run.losses.extend(self.evidence.iter().flat_map(Evidence::losses));
        let dropped = self.posts.iter().map(|post| post.trips.dropped() + post.forgotten).sum();
        let meaning = "answers that were not looked at: they are in no series of this run".to_owned();
        let loss = Loss { counter: NOT_LOOKED_AT.to_owned(), count: dropped, meaning, evidence_only: false };
        run.losses.extend((dropped > 0).then_some(loss));
    }
}

impl PostBook {
    /// Adds each answer whose activation is over.
    fn settle(&mut self, now: Mono, end: bool, evidence: Option<&Evidence>, worst: usize) {
        let mut fresh: Vec<(usize, Case)> = Vec::new();
        while let Some(&trip) = self.waiting.front() {
            let over = self.activations.back().is_some_and(|last| last.blocked.0 >= trip.end);
            let old = now.0.saturating_sub(trip.end) > PATIENCE;
            if evidence.is_some() && !over && !old && !end {
                break;
            }
            self.waiting.pop_front();
            let case = self.case(&trip);
            let at = self.session(trip.key, worst);
            let session = &mut self.sessions[at];
            if !session.sequences.take(trip.sequence) {
                continue; // answered before: the box uses the first
            }
            session.turnaround.record(Ns(trip.middle.saturating_sub(trip.begin)));
            if evidence.is_some() {
                session.response.record(case.of.sent.since(case.of.woken));
            }
            session.last_sent = trip.end;
            session.begin = if session.begin == Mono(0) { Mono(trip.begin) } else { session.begin };
            session.thread = case.of.tid;
            fresh.push((at, case));
        }
        for at in 0..self.sessions.len() {
            let of = fresh.iter().filter(|(session, _)| *session == at);
            let cases = of.map(|(_, case)| (total(case, evidence.is_some()), case.of.woken, *case));
            self.sessions[at].book.take(cases, |from| Some(evidence?.since(from)));
        }
    }

    /// With its waking, if it was asleep before.
    fn case(&mut self, trip: &Trip) -> Case {
        while self.activations.front().is_some_and(|first| first.blocked.0 < trip.begin) {
            self.activations.pop_front();
        }
        let activation = self.activations.front().filter(|first| first.switched_in.0 <= trip.begin);
        let before = self.sessions.iter().map(|session| session.last_sent).max().unwrap_or(0);
        // One queued while others were answered has no separate wake-up.
        let woken = activation.filter(|first| first.waking.0 > before).map(|first| first.waking);
        let tid = self.served.thread().unwrap_or_default();
        let cpu = activation.map(|first| first.cpu).or(self.place.cpu).unwrap_or_default();
        let (received, answered, sent) = (Mono(trip.begin), Mono(trip.middle), Mono(trip.end));
        let of =
            Answer { tid, cpu, woken: woken.unwrap_or(received).min(received), received, answered, sent };
        Case { sequence: trip.sequence, of }
    }

    fn session(&mut self, key: u64, worst: usize) -> usize {
        if let Some(at) = self.sessions.iter().position(|session| session.key == key) {
            return at;
        }
        if self.sessions.len() == SESSIONS {
            self.forgotten += self.sessions.remove(0).sequences.came();
        }
        self.sessions.push(SessionBook {
            key,
            sequences: Sequences::default(),
            turnaround: Histogram::new(Layout::LATENCY),
            response: Histogram::new(Layout::LATENCY),
            begin: Mono(0),
            last_sent: 0,
            thread: Tid::default(),
            book: Book::new(worst),
        });
        self.sessions.len() - 1
    }

    fn enter(&self, run: &mut Run, at: usize, session: &SessionBook, evidence: Option<&Evidence>) {
        let prio = if self.place.priority > 0 { Prio::from_rt(self.place.priority) } else { Prio(120) };
        let thread = Thread { tid: session.thread, comm: "respond".to_owned(), prio: Some(prio) };
        let name = match at {
            0 => self.channel.clone(),
            _ => format!("{} session {}", self.channel, at + 1),
        };
        let numbers = &session.sequences;
        let counts = Counts {
            sent: numbers.highest(),
            answered: numbers.came(),
            lost: numbers.highest() - numbers.came(),
            duplicated: numbers.duplicated(),
            out_of_order: numbers.out_of_order(),
            ..Counts::default()
        };
        let known = |(total_ns, case): (Ns, &Case)| Known {
            sequence: case.sequence,
            begin: case.of.woken,
            total_ns,
            received: case.of.received,
        };
        let worst: Vec<Known> = session.book.cases().map(|(total, case, _)| known((total, case))).collect();
        let all_kept = worst.len() as u64 == numbers.came();
        let mark = SessionMark { key: key_text(session.key), end: End::Responder, worst, all_kept };
        let series = |quantity, histogram: &Histogram| {
            let mut series = Series::new(quantity, self.place.cpu, histogram.clone());
            series.thread = Some(thread.clone());
            series.begin = Some(session.begin);
            series.channel = Some(name.clone());
            series
        };
        let mut turnaround = series(Quantity::Turnaround, &session.turnaround);
        (turnaround.counts, turnaround.lost, turnaround.session) = (Some(counts), counts.lost, Some(mark));
        run.series.push(turnaround);
        if evidence.is_some() {
            run.series.push(series(Quantity::Response, &session.response));
        }
        for (total_ns, case, rings) in session.book.cases() {
            let quantity = if evidence.is_some() { Quantity::Response } else { Quantity::Turnaround };
            let mut peak = Peak {
                quantity,
                cpu: Cpu(case.of.cpu.0),
                begin: case.of.woken,
                total_ns,
                victim: thread.clone(),
                culprit: None,
                explanation: None,
                no_evidence: Some(format!("{name}, stimulus {}: {NO_EVENTS}", case.sequence)),
                context: None,
                during_action: false,
                counted_as: None,
            };
            if let Some(evidence) = evidence {
                let explain = |rings| evidence.explain(rings, |window| explain_answer(window, &case.of));
                enter(&mut peak, rings.map(explain));
            }
            run.peaks.push(peak);
        }
    }
}

/// Relevant time of a case: all of it if its waking is known, else the turnaround.
fn total(case: &Case, recorded: bool) -> Ns {
    match recorded {
        true => case.of.sent.since(case.of.woken),
        false => case.of.answered.since(case.of.received),
    }
}
