//! A live peak as a tree: timer late, timer interrupt, waking → switched in, switched in → user space.
//!
//! `timer_interval` explains the time after the waking.

use super::lateness::{self, Firing};
use super::record::Record;
use super::scene::{CauseInput, Interval, WakeInterval};
use super::segment::{Explanation, Kind, Segment};
use super::thread::{states, State};
use super::{causes, timer_interval};
use crate::series::Thread;
use crate::time::{Mono, Tid};
use crate::trace::event::{Event, Kind as What};
use crate::trace::window::Window;

/// Start and end of the interval.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    Timer,
    TimerToSwitchIn,
    Wake,
}

/// Explains the time from a programmed wake-up. Never fails: time without events is unexplained.
#[must_use]
pub fn explain_peak(window: &Window, interval: &Interval) -> Explanation {
    explain(&Record::new(window), interval, Of::Timer)
}

/// As [`explain_peak`], but up to the switch-in.
#[must_use]
pub fn explain_timer_wakeup(window: &Window, interval: &Interval) -> Explanation {
    explain(&Record::new(window), interval, Of::TimerToSwitchIn)
}

/// As [`explain_peak`], for a wake-up without a timer.
#[must_use]
pub fn explain_wakeup(window: &Window, interval: &WakeInterval) -> Explanation {
    let WakeInterval { tid, cpu, begin, end } = *interval;
    explain(&Record::new(window), &Interval { tid, cpu, begin, end }, Of::Wake)
}

fn explain(record: &Record, interval: &Interval, of: Of) -> Explanation {
    let Interval { tid, cpu, begin, .. } = *interval;
    let end = interval.end.max(begin);
    let victim = victim(record, tid, begin, end);
    let mut shares = Vec::new();
    let mut parts = Vec::new();
    let mut from = begin;
    if let Some(waking) = first_waking(record, tid, begin, end).filter(|_| of != Of::Wake)
        && let Some(firing) = Firing::of(record, waking)
        && !ran_before(record, tid, begin, waking.1.at)
    {
        parts.extend(lateness::explain(record, tid, begin, &firing, &mut shares));
        from = waking.1.at;
    }
    parts.extend(timer_interval::parts(record, &victim, from, end, &mut shares));
    let label = match of {
        Of::Timer => "programmed wake-up → user space",
        Of::TimerToSwitchIn => "programmed wake-up → switched in",
        Of::Wake => "waking → switched in",
    };
    let mut tree = Segment::group(Kind::Passage, label, begin, end.since(begin), parts);
    tree.thread = Some(victim.clone());
    let scene = CauseInput { record, victim, cpu, total: tree.duration_ns, shares, tree };
    causes::conclude(scene, begin, end)
}

/// The victim, with name and priority from its waking or switch-in in the interval.
fn victim(record: &Record, tid: Tid, begin: Mono, end: Mono) -> Thread {
    let task = record.events_of(tid, begin, end).find_map(|(_, event)| match event.kind {
        What::Waking { task, .. } | What::Switch { next: task, .. } if task.tid == tid => Some(task),
        _ => None,
    });
    task.map_or_else(|| record.thread_by_id(tid, end), |task| record.thread(task, end))
}

/// Whether a waking that is not recorded ended the wait in which `tid` was at `begin`, before `waking`: the timer of that
/// waking was armed after it. The state at `begin` may be unknown; running is all that it was not.
fn ran_before(record: &Record, tid: Tid, begin: Mono, waking: Mono) -> bool {
    let mut lives = states(record, tid, begin, waking).into_iter();
    lives.next().is_some_and(|first| matches!(first.state, State::Blocked(_) | State::Unknown))
        && lives.any(|life| life.state == State::Running)
}

fn first_waking<'w>(record: &Record<'w>, tid: Tid, begin: Mono, end: Mono) -> Option<(u32, &'w Event)> {
    record
        .events_of(tid, begin, end)
        .find(|(_, event)| matches!(event.kind, What::Waking { task, .. } if task.tid == tid))
}
