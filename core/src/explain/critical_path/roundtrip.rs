//! A round trip between two threads of one machine: stimulus sent, received, answered, answer received.
//!
//! The critical path is the responder until the answer is sent, then the receiving thread: a delay of the thread that
//! is not waited for is not a cause.

use super::{thread_in, Walk};
use crate::explain::cpu::Context;
use crate::explain::record::Record;
use crate::explain::segment::{Explanation, Kind, Segment};
use crate::series::Thread;
use crate::time::{Cpu, Mono, Ns, Tid};
use crate::trace::event::Kind as What;
use crate::trace::window::Window;

/// A round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundTrip {
    /// The thread that receives the answer.
    pub tid: Tid,
    /// The CPU of the reception.
    pub cpu: Cpu,
    /// Sending of the stimulus.
    pub sent: Mono,
    /// Reception by the responder, and start of sending the answer, on the same clock.
    pub there: (Mono, Mono),
    /// Reception of the answer.
    pub arrived: Mono,
    /// The responding thread; `None`: the waker of the receiver, if recorded.
    pub responder: Option<Tid>,
}

/// Explains the time of a round trip. Never fails: time without events is unexplained.
#[must_use]
pub fn explain_roundtrip(window: &Window, trip: &RoundTrip) -> Explanation {
    let record = &Record::new(window);
    let (sent, arrived) = (trip.sent, trip.arrived.max(trip.sent));
    let received = trip.there.0.clamp(sent, arrived);
    let answered = trip.there.1.clamp(received, arrived);
    let root = thread_in(record, trip.tid, answered, arrived);
    let responder = trip.responder.or_else(|| waker(record, trip.tid, answered, arrived));
    let responder = responder.filter(|tid| *tid != trip.tid);
    let responder = responder.map(|tid| thread_in(record, tid, sent, arrived));
    let mut walk = Walk::new(record, &root, sent, arrived);
    // The responder's own computation can be the cause.
    walk.clauses.of_job(Ns::ZERO);
    let who = responder.as_ref().map_or("the responder".to_owned(), Thread::to_string);
    let mut part = |label: String, of: Option<&Thread>, a: Mono, b: Mono, depth: usize| {
        let parts = of.map(|of| walk.life(of, a, b, depth)).unwrap_or_default();
        Segment::group(Kind::Passage, label, a, b.since(a), parts)
    };
    let parts = vec![
        part(format!("outward: stimulus sent → received by {who}"), responder.as_ref(), sent, received, 1),
        part(
            format!("turnaround: received → answer sent by {who}"),
            responder.as_ref(),
            received,
            answered,
            1,
        ),
        part(format!("return: answer sent → received by {root}"), Some(&root), answered, arrived, 0),
    ];
    let label = "round trip: stimulus sent → answer received";
    let mut tree = Segment::group(Kind::Passage, label, sent, arrived.since(sent), parts);
    tree.thread = Some(root.clone());
    let named = format!("{root} took ");
    let mut explanation = walk.conclude(root, trip.cpu, tree);
    if let Some(rest) = explanation.sentence.strip_prefix(&named) {
        explanation.sentence = format!("the answer took {rest}");
    }
    if responder.is_none() {
        explanation.limits.push("the answering task is not in the record".to_owned());
    }
    explanation
}

/// The thread that woke `tid` last.
fn waker(record: &Record, tid: Tid, a: Mono, b: Mono) -> Option<Tid> {
    let is_waking = |kind: &What| matches!(kind, What::Waking { task, .. } if task.tid == tid);
    let (index, _) = record.events_of(tid, a, b).rev().find(|(_, event)| is_waking(&event.kind))?;
    match record.waker(index)?.context {
        Context::Thread(by) if by != Tid::IDLE => Some(by),
        _ => None,
    }
}
