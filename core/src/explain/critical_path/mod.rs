//! The critical path of an interval of a thread: its causes, across all threads, interrupts and devices it waited for.
//!
//! The time of the thread is split into running, runnable and blocked. A blocked span leads to its waker: the thread
//! that woke it, the timer and the thread that armed it, and likewise a request, packet or work item; the time of these
//! threads is split in the same way, recursively. In interrupt context the interrupted thread is never named.
//!
//! One topic per file: `running` on the CPU, `own` computation, `waiting` for a CPU and why not `elsewhere`, `idle` CPUs,
//! `changes` of priority, scheduling `classes`, `throttled` threads, `blocked` time and its `reason`, `wakers`, `given` work
//! items, requests (and those `queued` at a device), packets and calls, `timers` and `known_timers` of the kernel, `softirqs` deferred to a thread, RCU `grace` periods, `stacked` devices,
//! `sources` of interrupts, `missing` events, waits woken in `vain`, `spins` for another CPU, `roundtrip`s of two threads and
//! the `answer` of one, `links` between events, the `rest` of a divided time, `locks` of the kernel, `clauses` of the sentence.

mod answer;
mod blocked;
mod changes;
mod classes;
mod clauses;
mod elsewhere;
mod enqueued;
mod entering;
mod faults;
mod given;
mod grace;
mod holder;
mod idle;
mod known_timers;
mod links;
mod locks;
mod missing;
mod moved;
mod overdue;
mod own;
mod queued;
mod reason;
mod rest;
mod roundtrip;
mod running;
mod sampled;
mod sleeps;
mod softirqs;
mod sources;
mod spins;
mod stacked;
mod throttled;
mod timers;
mod vain;
mod waiting;
mod wakers;

use super::causes::waited_for::STOPPED;
use super::caveats;
use super::record::Record;
use super::scene::{CauseInput, Interval};
use super::segment::{Explanation, Kind, Segment};
use super::share::{Phase, Share};
use super::thread::{states, State, Stretch};
use crate::series::Thread;
use crate::time::{Cpu, Mono, Ns, Tid};
use crate::trace::event::Kind as What;
use crate::trace::window::Window;
pub use answer::{explain_answer, Answer, SENDING};
use clauses::{Clause, Clauses, Weight};
use links::Linked;
use reason::Asked;
pub use roundtrip::{explain_roundtrip, RoundTrip};
use running::Hidden;
use vain::Went;

/// Maximum depth of the chain. Each step is one to three levels of the tree, and readers of JSON accept 128 of objects and
/// arrays together.
const DEEPEST: usize = 16;

/// The walk through one interval.
struct Walk<'r, 'w> {
    record: &'r Record<'w>,
    linked: Linked<'r, 'w>,
    /// The thread of the interval.
    root: Thread,
    /// Start of the interval.
    since: Mono,
    shares: Vec<Share>,
    clauses: Clauses,
    /// The previous CPU of a thread that is about to run on another.
    moved: Option<Cpu>,
    /// The change of the waiting thread's priority during the wait.
    changed: Option<changes::Change>,
    /// For each thread in `path`, whether a lock could pass on the priority of its waiter.
    waits_for: Vec<blocked::Inherits>,
    /// The threads being followed, each inside the previous one.
    path: Vec<Tid>,
    /// Tracepoints that would have explained a gap.
    missing: Vec<String>,
    /// The trace lost events without reporting it: the absence of an event proves nothing.
    lossy: bool,
}

/// Explains the time of any interval of any thread. Never fails: time without events is unexplained.
#[must_use]
pub fn explain_interval(record: &Record, interval: &Interval) -> Explanation {
    let Interval { tid, cpu, begin, .. } = *interval;
    let end = interval.end.max(begin);
    let root = thread_in(record, tid, begin, end);
    let mut walk = Walk::new(record, &root, begin, end);
    let parts = walk.life(&root, begin, end, 0);
    let mut tree =
        Segment::group(Kind::Passage, format!("interval of {root}"), begin, end.since(begin), parts);
    tree.thread = Some(root.clone());
    walk.conclude(root, cpu, tree)
}

/// A job of a thread: from its release (timer expiry or waking) to the wait for the next one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobInterval {
    /// Thread, start, end, and CPU of the end.
    pub of: Interval,
    /// End of the previous job of the thread, if it was not finished at the release.
    pub backlog_until: Option<Mono>,
    /// Part of its own running that is not why it is late, because its thread has it in each job.
    pub usual: Ns,
}

/// Explains the time of a job. The thread's own computation can be the cause.
#[must_use]
pub fn explain_job(window: &Window, job: &JobInterval) -> Explanation {
    let record = &Record::new(window);
    let Interval { tid, cpu, begin, .. } = job.of;
    let end = job.of.end.max(begin);
    let root = thread_in(record, tid, begin, end);
    let mut walk = Walk::new(record, &root, begin, end);
    walk.clauses.of_job(job.usual);
    let mut parts = Vec::new();
    let mut from = begin;
    if let Some(until) = job.backlog_until.map(|until| until.clamp(begin, end)).filter(|until| *until > begin)
    {
        let before = walk.life(&root, begin, until, 0);
        let label = "backlog: the previous job was not finished";
        parts.push(Segment::group(Kind::Blocked, label, begin, until.since(begin), before));
        walk.clauses.backlog(until.since(begin));
        from = until;
    }
    parts.extend(walk.life(&root, from, end, 0));
    let label = format!("job of {root}, from its release to its next wait");
    let mut tree = Segment::group(Kind::Passage, label, begin, end.since(begin), parts);
    tree.thread = Some(root.clone());
    walk.conclude(root, cpu, tree)
}

/// What the victim of a live peak was blocked on in `stretch`, in state `bits`: the same walk, with the causes of
/// peaks.
pub(super) fn behind(
    record: &Record,
    thread: &Thread,
    stretch: &Stretch,
    bits: u32,
    shares: &mut Vec<Share>,
) -> Vec<Segment> {
    let mut walk = Walk::new(record, thread, stretch.begin, stretch.end);
    let reason = walk.reason(thread.tid, stretch, bits);
    let parts = walk.blocked(thread, stretch, &reason, 0);
    // A thread is stopped until another one continues it, whatever that one does meanwhile; a tracer works for it.
    let is_stop = matches!(reason.what, Asked::Stopped(how) if !how.contains("tracer"));
    if let Some(first) = walk.shares.first().filter(|_| is_stop) {
        let unexplained: Ns = parts.iter().map(Segment::total_unexplained).sum();
        let net = stretch.length().saturating_sub(unexplained);
        let leaf = Segment::leaf(Kind::Blocked, STOPPED.to_owned(), stretch.begin, net);
        shares.push(Share::awaited(STOPPED, first.cpu, &leaf));
        return parts;
    }
    shares.append(&mut walk.shares);
    parts
}

/// A thread with its name at the end of the given time, and its priority in it.
fn thread_in(record: &Record, tid: Tid, begin: Mono, end: Mono) -> Thread {
    let task = record.events_of(tid, begin, end).find_map(|(_, event)| match event.kind {
        What::Waking { task, .. } | What::Switch { next: task, .. } if task.tid == tid => Some(task),
        What::Switch { prev, .. } if prev.tid == tid => Some(prev),
        _ => None,
    });
    task.map_or_else(|| record.thread_by_id(tid, end), |task| record.thread(task, end))
}

impl<'r, 'w> Walk<'r, 'w> {
    /// A walk through `[begin, end]` that starts at `root`.
    fn new(record: &'r Record<'w>, root: &Thread, begin: Mono, end: Mono) -> Self {
        let mut walk = Walk {
            record,
            linked: Linked::new(record),
            root: root.clone(),
            since: begin,
            shares: Vec::new(),
            clauses: Clauses::default(),
            moved: None,
            changed: None,
            waits_for: Vec::new(),
            path: Vec::new(),
            missing: Vec::new(),
            lossy: false,
        };
        walk.check_whole(begin, end);
        walk
    }
}

impl Walk<'_, '_> {
    /// The explanation: the collected clauses, and `tree`.
    fn conclude(self, root: Thread, cpu: Cpu, tree: Segment) -> Explanation {
        let (begin, end) = (tree.begin, tree.begin + tree.duration_ns);
        let (sentence, cause, advice) = self.clauses.conclude(&root, &tree);
        let (total_ns, unexplained_ns) = (tree.duration_ns, tree.total_unexplained());
        let scene =
            CauseInput { record: self.record, victim: root, cpu, total: total_ns, shares: self.shares, tree };
        let mut limits = caveats::of(&scene, begin, end);
        // An interval may be within one run on the CPU.
        limits.retain(|limit| !limit.ends_with("of the victim is recorded in the interval"));
        for missing in self.missing {
            if !limits.contains(&missing) {
                limits.push(missing);
            }
        }
        Explanation { sentence, advice, tree: scene.tree, total_ns, unexplained_ns, cause, limits }
    }

    /// The time of another thread in `[a, b)`, before it `did` what was waited for.
    fn until(&mut self, who: &Thread, did: &str, (a, b): (Mono, Mono), depth: usize) -> Segment {
        let before = self.life(who, a, b, depth + 1);
        Segment::group(Kind::Blocked, format!("until {who} {did}"), a, b.since(a), before)
    }

    /// The time of the thread that creates `thread` at the end of the span.
    fn unborn(&mut self, thread: &Thread, stretch: &Stretch, depth: usize) -> Vec<Segment> {
        let creator = stretch.ended_by.and_then(|index| self.linked.actor(index));
        let Some(creator) = creator.filter(|creator| !self.path.contains(&creator.tid)) else {
            return Vec::new();
        };
        let what = format!("created {thread}");
        vec![self.until(&creator, &what, (stretch.begin, stretch.end), depth)]
    }

    /// The time of `thread` in `[a, b)`, as parts that cover it exactly.
    fn life(&mut self, thread: &Thread, a: Mono, b: Mono, depth: usize) -> Vec<Segment> {
        if a >= b {
            return Vec::new();
        }
        if depth > DEEPEST {
            let label =
                format!("the chain of waits is followed through {DEEPEST} threads, not beyond {thread}");
            self.missing.push(format!("{label}: ask for its time alone (--at with --tid {})", thread.tid));
            return vec![Segment::unexplained(Kind::Blocked, label, a, b.since(a))];
        }
        self.path.push(thread.tid);
        let stretches = states(self.record, thread.tid, a, b);
        let went_on = self.waits_that_went_on(thread.tid, &stretches);
        let mut before: Option<Cpu> = None;
        let mut parts = Vec::with_capacity(stretches.len());
        for (stretch, went) in stretches.iter().zip(went_on) {
            self.moved = before.filter(|&from| stretch.state == State::Running && stretch.cpu != Some(from));
            parts.push(self.stretch(thread, stretch, (went, &stretches), depth));
            if stretch.state == State::Running || matches!(self.began(stretch), Some(What::Switch { .. })) {
                before = stretch.cpu.or(before);
            }
        }
        self.path.pop();
        parts
    }

    /// One part of the time of `thread`; `went`: whether a wait went on, in which of `all`.
    fn stretch(
        &mut self,
        thread: &Thread,
        stretch: &Stretch,
        (went, all): (Went, &[Stretch]),
        depth: usize,
    ) -> Segment {
        let cpu = stretch.cpu.map_or(String::new(), |cpu| format!(" on CPU {cpu}"));
        let mut asked = None;
        let (kind, label, parts) = match stretch.state {
            State::Running => {
                (Kind::Running, format!("{thread} runs{cpu}"), self.running(thread, stretch, depth))
            }
            State::Woken | State::Preempted => {
                let why = match self.began(stretch) {
                    Some(What::Migrate { from, to, .. }) => {
                        let by = stretch.began_by.and_then(|index| self.mover(thread.tid, index));
                        let by = by.map_or(String::new(), |by| by.to_string());
                        format!("migrated from CPU {from} to CPU {to}{by}")
                    }
                    Some(What::Fork { .. } | What::Waking { new: true, .. }) => "created".to_owned(),
                    _ if stretch.state == State::Woken => "woken".to_owned(),
                    _ => "preempted".to_owned(),
                };
                let label = format!("{thread} RUNNABLE{cpu}: {why}, waits for the CPU");
                (Kind::WakeupWait, label, self.waiting(thread, stretch, depth))
            }
            State::Blocked(bits) => {
                let reason = self.reason(thread.tid, stretch, bits);
                let label = format!("{thread} BLOCKED{}", reason.text);
                asked = reason.proof;
                let vain = match went {
                    // A stop, or a wait in a call whose start is missing.
                    _ if self.lossy && reason.what == Asked::Unknown && self.makes_calls(thread.tid) => {
                        self.perhaps_in_vain(thread, stretch, &reason)
                    }
                    Went::OnTo(last) => self.woken_in_vain(thread, (stretch, &all[last]), &reason, depth),
                    Went::Unsure => self.perhaps_in_vain(thread, stretch, &reason),
                    Went::Ended => None,
                };
                (Kind::Blocked, label, vain.unwrap_or_else(|| self.blocked(thread, stretch, &reason, depth)))
            }
            State::Unborn => {
                (Kind::Blocked, format!("{thread} does not exist yet"), self.unborn(thread, stretch, depth))
            }
            State::Ended => (Kind::Blocked, format!("{thread} has ended"), Vec::new()),
            State::Unknown if !self.record.has.switches => {
                let label =
                    format!("sched_switch is not recorded: whether {thread} ran, waited or slept is unknown");
                (Kind::Lost, label, Vec::new())
            }
            State::Unknown => (Kind::Lost, format!("the activity of {thread} is not recorded"), Vec::new()),
        };
        let mut part = Segment::group(kind, label, stretch.begin, stretch.length(), parts);
        part.thread = Some(thread.clone());
        part.inferred = stretch.inferred;
        part.evidence.extend(asked.map(|index| self.record.evidence(index)));
        part.evidence.extend(stretch.began_by.map(|index| self.record.evidence(index)));
        part
    }

    fn began(&self, stretch: &Stretch) -> Option<What> {
        stretch.began_by.map(|index| self.record.event(index).kind)
    }

    /// Name of a thread in the sentence; "it" for that of the interval.
    fn subject(&self, thread: &Thread, depth: usize) -> String {
        if depth == 0 {
            "it".to_owned()
        } else {
            thread.to_string()
        }
    }

    /// Names of the thread of the interval and of `other` for an advice: with their ids if the names are equal.
    fn apart(&self, other: &Thread) -> (String, String) {
        let full = |of: &Thread| Thread { prio: None, ..of.clone() }.to_string();
        match self.root.comm == other.comm || other.comm.is_empty() {
            true => (full(&self.root), full(other)),
            false => (self.root.comm.clone(), other.comm.clone()),
        }
    }

    fn phase(depth: usize, at_root: Phase) -> Phase {
        if depth == 0 {
            at_root
        } else {
            Phase::Blocked
        }
    }

    fn say(&mut self, weight: Weight, net: Ns, text: String, cause: String, advice: impl Into<String>) {
        let advice = advice.into();
        let (why, hidden) = (String::new(), Hidden::default());
        self.clauses.push(Clause { weight, net, text, why, cause, advice, hidden });
    }

    /// A leaf for a wait on something that is not a thread, with its name and proofs.
    fn awaited(&mut self, name: &str, label: String, a: Mono, b: Mono, proofs: &[Option<u32>]) -> Segment {
        let leaf = self.leaf(Kind::Blocked, label, a, b, proofs);
        let proof = proofs.iter().flatten().next();
        let cpu = proof.map_or_else(Cpu::default, |&index| self.record.event(index).cpu);
        self.shares.push(Share::awaited(name, cpu, &leaf));
        leaf
    }

    fn leaf(&self, kind: Kind, label: String, a: Mono, b: Mono, proofs: &[Option<u32>]) -> Segment {
        let mut leaf = Segment::leaf(kind, label, a, b.since(a));
        leaf.evidence = proofs.iter().flatten().map(|&index| self.record.evidence(index)).collect();
        leaf
    }
}
