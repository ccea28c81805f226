//! Blocked time: who ended it, and what that one did meanwhile.
//!
//! The waker is the context of the waking: an interrupt, softirq or timer, or else the thread. In interrupt context
//! the interrupted thread is never named. A waking by an interrupt ends the chain here: the time is the wait for
//! that interrupt. A waking by a thread leads on: its own life in that time (running, waiting, blocked in turn).
//!
//! Not here yet: what an interrupt's wake was itself the end of (request → completion, timer armed by whom, work
//! item queued by whom, lock owners). Each of them is one more answer to [`Waker`].

use super::cpu::{Context, Slice};
use super::passage;
use super::record::Record;
use super::segment::{Kind, Segment};
use super::share::{Phase, Role, Share};
use super::thread::Stretch;
use crate::series::Thread;
use crate::time::Tid;
use crate::trace::event::Kind as What;

/// Longest chain of wakers that is followed.
const DEEPEST: usize = 8;

/// Who ended a blocked stretch.
enum Waker<'r> {
    /// A thread, in its own context.
    Thread(Thread),
    /// An interrupt, softirq or NMI.
    Interrupt(&'r Slice),
    /// Not recorded, or not certain.
    Unknown(&'static str),
}

/// The parts of a blocked stretch.
pub fn explain(record: &Record, stretch: &Stretch, depth: usize, shares: &mut Vec<Share>) -> Vec<Segment> {
    let gap = |why: &str| vec![Segment::unexplained(Kind::Blocked, why, stretch.begin, stretch.length())];
    match waker(record, stretch) {
        Waker::Unknown(why) => gap(why),
        Waker::Thread(_) if depth >= DEEPEST => {
            gap("blocked: the chain of wakers is longer than is followed")
        }
        Waker::Thread(thread) => {
            passage::parts(record, &thread, stretch.begin, stretch.end, depth + 1, shares)
        }
        Waker::Interrupt(slice) => {
            let cpu = stretch.ended_by.map_or_else(Default::default, |index| record.event(index).cpu);
            let mut share = Share::of(record, Phase::Blocked, cpu, slice);
            share.role = Role::Awaited;
            share.kind = Kind::Blocked;
            share.begin = stretch.begin;
            share.net = stretch.length();
            share.count = 1;
            let function = slice.function.map(|sym| (record.text(sym).to_owned(), share.net));
            share.functions = function.into_iter().collect();
            share.evidence = stretch.ended_by.map(|index| record.evidence(index)).into_iter().collect();
            let leaf = share.leaf(format!("waited for {}", share.label()));
            shares.push(share);
            vec![leaf]
        }
    }
}

fn waker<'r>(record: &'r Record, stretch: &Stretch) -> Waker<'r> {
    let Some(index) = stretch.ended_by else {
        return Waker::Unknown("blocked beyond the end of the passage");
    };
    if !matches!(record.event(index).kind, What::Waking { .. }) {
        return Waker::Unknown("blocked; the waking is not recorded");
    }
    let Some(slice) = record.waker(index) else {
        return Waker::Unknown("blocked; the waker is not recorded");
    };
    match slice.context {
        Context::Thread(tid) if tid != Tid::IDLE => {
            let task = slice.task.filter(|task| task.tid == tid);
            Waker::Thread(task.map_or_else(|| record.thread_by_id(tid), |task| record.thread(task)))
        }
        Context::HardIrq(_) | Context::Vector(_) | Context::Softirq(_) | Context::Nmi => {
            Waker::Interrupt(slice)
        }
        Context::Thread(_) | Context::Idle(_) => {
            Waker::Unknown("blocked; woken from the idle loop, for whom is not recorded")
        }
        Context::Unknown | Context::Lost => Waker::Unknown("blocked; the waker's context is not certain"),
    }
}
