//! An answer as timed by its responder: woken, received, answered, sent.

use super::{thread_in, Walk};
use crate::explain::record::Record;
use crate::explain::segment::{Explanation, Kind, Segment};
use crate::time::{Cpu, Mono, Ns, Tid};
use crate::trace::window::Window;

/// An answer, in ns of the responder's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The responding thread.
    pub tid: Tid,
    /// Its CPU.
    pub cpu: Cpu,
    /// Waking for the stimulus; equal to `received` if it was not asleep.
    pub woken: Mono,
    /// Reception of the stimulus.
    pub received: Mono,
    /// Start of sending the answer.
    pub answered: Mono,
    /// End of sending.
    pub sent: Mono,
}

/// Label of the last part, which overlaps with the transfer of the answer.
pub const SENDING: &str = "the way out: sending the answer";

/// Explains the time of an answer in its responder, in three parts: waking → received → answer ready → sent. Never
/// fails: time without events is unexplained.
#[must_use]
pub fn explain_answer(window: &Window, answer: &Answer) -> Explanation {
    let record = &Record::new(window);
    let (woken, sent) = (answer.woken, answer.sent.max(answer.woken));
    let received = answer.received.clamp(woken, sent);
    let answered = answer.answered.clamp(received, sent);
    let root = thread_in(record, answer.tid, woken, sent);
    let mut walk = Walk::new(record, &root, woken, sent);
    // The responder's own computation can be the cause.
    walk.clauses.of_job(Ns::ZERO);
    let spans = [
        ("waking → stimulus received", woken, received),
        ("turnaround: received → answer ready", received, answered),
        (SENDING, answered, sent),
    ];
    let mut part = |(label, a, b): (&str, Mono, Mono)| {
        let parts = walk.life(&root, a, b, 0);
        Segment::group(Kind::Passage, label, a, b.since(a), parts)
    };
    let parts = spans.map(&mut part).into();
    let label = format!("answer of {root}, from its waking until it was sent");
    let mut tree = Segment::group(Kind::Passage, label, woken, sent.since(woken), parts);
    tree.thread = Some(root.clone());
    walk.conclude(root, answer.cpu, tree)
}
