//! The victim of a live peak after its waking: waiting for a CPU, return to user space, blocked.
//!
//! [`super::critical_path`] follows blocked time to its waker, and what delayed that one.

use super::causes::waited_for::STOPPED;
use super::cpu::Context;
use super::record::Record;
use super::segment::{Kind, Segment};
use super::share::{tally, Phase, Role, Share};
use super::standstill::Together;
use super::stolen::Stolen;
use super::thread::{states, State, Stretch};
use super::{critical_path, wait};
use crate::series::Thread;
use crate::time::{Mono, Ns};

/// The time of the victim `thread` in `[a, b)`, in order; the parts cover it exactly.
pub fn parts(record: &Record, thread: &Thread, a: Mono, b: Mono, shares: &mut Vec<Share>) -> Vec<Segment> {
    let mut stretches = states(record, thread.tid, a, b);
    // The victim ran at the end, by definition of the measurement, so it was not blocked there. Its waking is not
    // recorded: some kernels do not report it for some threads.
    if let Some(last) = stretches.last_mut().filter(|last| matches!(last.state, State::Blocked(_))) {
        last.state = State::Unknown;
    }
    let mut parts = Vec::new();
    for stretch in &stretches {
        match stretch.state {
            State::Unknown => parts.extend(unknown(record, thread, stretch, shares)),
            State::Blocked(_) if stretch.began_by.is_none() && was_stopped(record, stretch) => {
                let unsaid = Stretch { state: State::Unknown, ..*stretch };
                parts.extend(unknown(record, thread, &unsaid, shares));
            }
            _ => parts.push(part(record, thread, stretch, shares)),
        }
    }
    parts
}

/// Whether the process of the thread was stopped in a block of which only the end is recorded.
fn was_stopped(record: &Record, stretch: &Stretch) -> bool {
    record.window.stopped.iter().any(|&(begin, end)| begin < stretch.end && end > stretch.begin)
}

/// A state that no event shows: the process of the thread was stopped, or nothing is known.
fn unknown(record: &Record, thread: &Thread, stretch: &Stretch, shares: &mut Vec<Share>) -> Vec<Segment> {
    let mut parts = Vec::new();
    let mut from = stretch.begin;
    for &(begin, end) in &record.window.stopped {
        let (begin, end) = (begin.max(from), end.min(stretch.end));
        if begin >= end {
            continue;
        }
        if from < begin {
            parts.push(part(record, thread, &Stretch { begin: from, end: begin, ..*stretch }, shares));
        }
        let label = format!("{thread} is stopped by a signal");
        let mut stop = Segment::leaf(Kind::Blocked, label, begin, end.since(begin));
        stop.inferred = true;
        shares.push(Share::awaited(STOPPED, stretch.cpu.unwrap_or_default(), &stop));
        parts.push(stop);
        from = end;
    }
    if from < stretch.end || parts.is_empty() {
        parts.push(part(record, thread, &Stretch { begin: from, ..*stretch }, shares));
    }
    parts
}

/// One state of the thread as a part of the tree.
fn part(record: &Record, thread: &Thread, stretch: &Stretch, shares: &mut Vec<Share>) -> Segment {
    let (kind, label, parts) = match stretch.state {
        State::Woken => {
            (Kind::WakeupWait, "waking → switched in", wait::explain(record, thread, stretch, shares))
        }
        State::Preempted => {
            (Kind::WakeupWait, "preempted, waits for a CPU", wait::explain(record, thread, stretch, shares))
        }
        State::Running => {
            (Kind::ReturnToUser, "switched in → user space", running(record, thread, stretch, shares))
        }
        State::Blocked(bits) => {
            (Kind::Blocked, "blocked", critical_path::behind(record, thread, stretch, bits, shares))
        }
        State::Ended => (Kind::Blocked, "ended", Vec::new()),
        State::Unborn => (Kind::Blocked, "the thread does not exist yet", Vec::new()),
        State::Unknown => (Kind::Lost, "the activity of the thread is not recorded", Vec::new()),
    };
    let mut part = Segment::group(kind, label, stretch.begin, stretch.length(), parts);
    part.inferred = stretch.inferred;
    part.evidence.extend(stretch.began_by.map(|index| record.evidence(index)));
    part
}

/// Time on the CPU: the thread's own, and interrupts.
fn running(record: &Record, thread: &Thread, stretch: &Stretch, shares: &mut Vec<Share>) -> Vec<Segment> {
    let Some(cpu) = stretch.cpu else { return Vec::new() };
    let slices = record.slices(cpu, stretch.begin, stretch.end);
    let together = Together::over(record, Kind::ReturnToUser, cpu, &slices);
    let counted = tally(record, Phase::Running, cpu, &slices);
    let mut stolen = Stolen::over(record, Phase::Running, cpu, stretch.begin, stretch.end);
    let mut parts = counted.gaps;
    for mut share in counted.shares {
        if let Some(host) = stolen.surely(&mut share) {
            parts.push(Stolen::leaf(&host));
            shares.push(host);
        }
        parts.extend(together.take(&mut share));
        if share.net == Ns::ZERO {
            continue;
        }
        let mut label = share.label();
        if share.context == Context::Thread(thread.tid) {
            (share.role, share.kind) = (Role::Victim, Kind::ReturnToUser);
            label = "return to user space".to_owned();
        }
        parts.push(share.leaf(label));
        shares.push(share);
    }
    parts
}
