//! Any stretch of any thread's life as parts: running, waiting for a CPU, blocked, each explained by its own module.
//!
//! Blocked time leads to the thread that ended it, whose own life in that time is explained here again: the depth
//! says how far from the victim that is.

use super::cpu::Context;
use super::record::Record;
use super::segment::{Kind, Segment};
use super::share::{tally, Phase, Role, Share};
use super::thread::{states, State, Stretch};
use super::{blocked, wait};
use crate::series::Thread;
use crate::time::Mono;

/// The life of `thread` in `[a, b)`, in order; the parts cover it exactly. `depth`: 0 is the victim.
pub fn parts(
    record: &Record,
    thread: &Thread,
    a: Mono,
    b: Mono,
    depth: usize,
    shares: &mut Vec<Share>,
) -> Vec<Segment> {
    let stretches = states(record, thread.tid, a, b);
    stretches.iter().map(|stretch| part(record, thread, stretch, depth, shares)).collect()
}

/// One state of the thread as a part of the tree.
fn part(
    record: &Record,
    thread: &Thread,
    stretch: &Stretch,
    depth: usize,
    shares: &mut Vec<Share>,
) -> Segment {
    let (kind, label, parts) = match stretch.state {
        State::Woken => {
            (Kind::WakeupWait, "waking → switched in", wait::explain(record, thread, stretch, shares))
        }
        State::Preempted => {
            (Kind::WakeupWait, "preempted, waits for a CPU", wait::explain(record, thread, stretch, shares))
        }
        State::Running if depth == 0 => {
            (Kind::ReturnToUser, "switched in → user space", running(record, thread, stretch, depth, shares))
        }
        State::Running => (Kind::Running, "running", running(record, thread, stretch, depth, shares)),
        State::Blocked(_) => (Kind::Blocked, "blocked", blocked::explain(record, stretch, depth, shares)),
        State::Ended => (Kind::Blocked, "ended", Vec::new()),
        State::Unknown => (Kind::Lost, "what the thread did is not recorded", Vec::new()),
    };
    let label = if depth == 0 { label.to_owned() } else { format!("{thread}: {label}") };
    let mut part = Segment::group(kind, label, stretch.begin, stretch.length(), parts);
    part.inferred = stretch.inferred;
    part.evidence.extend(stretch.began_by.map(|index| record.evidence(index)));
    part
}

/// Time on the CPU: the thread's own, and what interrupted it.
fn running(
    record: &Record,
    thread: &Thread,
    stretch: &Stretch,
    depth: usize,
    shares: &mut Vec<Share>,
) -> Vec<Segment> {
    let Some(cpu) = stretch.cpu else { return Vec::new() };
    let phase = if depth == 0 { Phase::Running } else { Phase::Blocked };
    let counted = tally(record, phase, cpu, &record.slices(cpu, stretch.begin, stretch.end));
    let mut parts = counted.gaps;
    for mut share in counted.shares {
        let mut label = share.label();
        if share.context == Context::Thread(thread.tid) {
            (share.role, share.kind, label) = match depth {
                0 => (Role::Victim, Kind::ReturnToUser, "return to user space".to_owned()),
                _ => (Role::Awaited, Kind::Running, format!("{label} ran")),
            };
            if share.faults > 0 {
                label.push_str(&format!(", with {} page faults", share.faults));
            }
        }
        parts.push(share.leaf(label));
        shares.push(share);
    }
    parts
}
