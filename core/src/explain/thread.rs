//! The states of one thread over an interval: running, waiting for a CPU, blocked.
//!
//! From its switches, wakings and migrations. If an event names a thread as running without a switch-in, it runs from
//! that event (marked as inferred). Contradictory or unrecorded time is [`State::Unknown`].

use super::cpu::Context;
use super::record::Record;
use super::turns::TWICE;
use crate::time::{Cpu, Mono, Ns, Tid};
use crate::trace::event::{Event, Kind, LeftAs};

/// State of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not known.
    Unknown,
    /// On a CPU.
    Running,
    /// On the run queue of a CPU since its waking.
    Woken,
    /// On the run queue of a CPU since it was preempted or yielded.
    Preempted,
    /// Blocked, with the kernel's state bits.
    Blocked(u32),
    /// It has ended.
    Ended,
    /// It does not exist yet: the event that ends this state creates it.
    Unborn,
}

impl State {
    /// Whether it is runnable but not running.
    #[must_use]
    pub fn waits_for_cpu(self) -> bool {
        matches!(self, State::Woken | State::Preempted)
    }
}

/// A time span `[begin, end)` in one state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stretch {
    /// Start.
    pub begin: Mono,
    /// End, excluded.
    pub end: Mono,
    /// The state.
    pub state: State,
    /// The CPU it is on, or whose run queue it is in; if blocked, the last one.
    pub cpu: Option<Cpu>,
    /// The event that started it; absent if it started before the interval and that event is not recorded.
    pub began_by: Option<u32>,
    /// The event that ended it; absent at the end of the interval.
    pub ended_by: Option<u32>,
    /// Inferred, not recorded.
    pub inferred: bool,
}

impl Stretch {
    /// Its length.
    #[must_use]
    pub fn length(&self) -> Ns {
        self.end.since(self.begin)
    }
}

/// The states of `tid` in `[a, b)`, covering it exactly, with a new span at each change.
///
/// A migration on the run queue starts a new span, because the thread then waits for other tasks.
#[must_use]
pub fn states(record: &Record, tid: Tid, a: Mono, b: Mono) -> Vec<Stretch> {
    let mut now = start(record, tid, a);
    if !record.has.switches && a < b {
        let unknown = Stretch { state: State::Unknown, cpu: None, began_by: None, inferred: false, ..now };
        return vec![Stretch { end: b, ..unknown }];
    }
    let mut found: Vec<Stretch> = Vec::new();
    let mut woken = last_waking(record, tid, a);
    for (index, event) in record.events_of(tid, a, b) {
        if let Some(since) = woken_again(record, &mut woken, tid, event)
            && now.state.waits_for_cpu()
        {
            ran_unseen(&mut found, &mut now, since, event.at);
        }
        let Some(next) = after(&now, tid, index, event) else { continue };
        let began = since(record, tid, &next, event.at).max(now.begin);
        now.end = began;
        now.ended_by = Some(index);
        if now.begin < now.end {
            found.push(now);
        }
        now = Stretch { begin: began, end: began, ..next };
    }
    now.end = b.max(now.begin);
    if now.begin < now.end {
        found.push(now);
    }
    for stretch in found.iter_mut().filter(|stretch| was_woken_leaving(record, tid, stretch)) {
        (stretch.state, stretch.inferred) = (State::Woken, true);
    }
    place_waits(record, tid, &mut found, &now);
    except_losses(record, &found)
}

/// Whether `event` is a waking of `tid`, as far as recorded.
fn is_waking(record: &Record, tid: Tid, event: &Event) -> bool {
    match event.kind {
        Kind::Waking { task, new: false, .. } => task.tid == tid,
        Kind::Wakeup { task, .. } => task.tid == tid && !record.has.wakings,
        _ => false,
    }
}

/// The last waking of `tid` before `a`, if it has not run since.
fn last_waking(record: &Record, tid: Tid, a: Mono) -> Option<Mono> {
    let mut woken = None;
    let just_before = Mono(a.0.saturating_sub(1));
    let shows = |(_, event): &(u32, &Event)| {
        is_waking(record, tid, event) || matches!(event.kind, Kind::Switch { .. } | Kind::Fork { .. })
    };
    if let Some((_, event)) = record.events_of(tid, Mono(0), just_before).rev().find(shows) {
        woken = Some(event.at).filter(|_| is_waking(record, tid, event));
    }
    woken
}

/// The waking before `event`, if that is another one and the thread was not seen to run in between: it did run, and slept.
fn woken_again(record: &Record, woken: &mut Option<Mono>, tid: Tid, event: &Event) -> Option<Mono> {
    if !is_waking(record, tid, event) {
        let has_run =
            matches!(event.kind, Kind::Switch { .. } | Kind::Fork { .. }) || event.current == Some(tid);
        *woken = woken.filter(|_| !has_run);
        return None;
    }
    let before = *woken;
    if before.is_none_or(|before| event.at.since(before) >= TWICE) {
        *woken = Some(event.at);
    }
    before.filter(|before| event.at.since(*before) >= TWICE)
}

/// Nothing is known of the thread between two wakings at `since` and `at`: when it ran, and what it waited for.
fn ran_unseen(found: &mut Vec<Stretch>, now: &mut Stretch, since: Mono, at: Mono) {
    while let Some(last) = found.pop_if(|last| last.begin >= since && last.state.waits_for_cpu()) {
        now.begin = last.begin;
    }
    let unknown = Stretch { state: State::Unknown, inferred: false, ..*now };
    if now.begin < since && since < at {
        found.push(Stretch { end: since, ..*now });
        *now = Stretch { begin: since, began_by: None, ..unknown };
    } else {
        *now = unknown;
    }
}

/// A thread that seems blocked may have run during a loss on its last or next CPU. It is known to be blocked only after
/// the loss.
fn except_losses(record: &Record, found: &[Stretch]) -> Vec<Stretch> {
    let mut known = Vec::with_capacity(found.len());
    for (place, &stretch) in found.iter().enumerate() {
        let next = found.get(place + 1).and_then(|next| next.cpu);
        let cpus = stretch.cpu.into_iter().chain(next);
        let lost = cpus.filter_map(|cpu| record.lost_until(cpu, stretch.begin, stretch.end)).max();
        let (State::Blocked(_), Some(until)) = (stretch.state, lost) else {
            known.push(stretch);
            continue;
        };
        known.push(Stretch { end: until, state: State::Unknown, ended_by: None, ..stretch });
        if until < stretch.end {
            let state = State::Blocked(0);
            known.push(Stretch { begin: until, state, began_by: None, inferred: true, ..stretch });
        }
    }
    known
}

/// Whether the thread was woken before its switch-out, so that it was runnable although its state says blocked: the record
/// has no waking between its switch-out and its switch-in, but one after the switch-in.
fn was_woken_leaving(record: &Record, tid: Tid, stretch: &Stretch) -> bool {
    let ended_by = stretch.ended_by.map(|index| record.event(index).kind);
    let (State::Blocked(_), Some(Kind::Switch { .. } | Kind::Wakeup { .. }), Some(left)) =
        (stretch.state, ended_by, stretch.began_by)
    else {
        return false;
    };
    let before = record.events_of(tid, Mono(0), record.event(left).at).rev();
    let mut before = before.skip_while(|(index, _)| *index != left).skip(1).map(|(_, event)| event);
    let is_waking = |event: &Event| matches!(event.kind, Kind::Waking { task, .. } if task.tid == tid);
    let is_switch = |event: &Event| matches!(event.kind, Kind::Switch { .. });
    // It ran before the waking: else that ended its previous sleep, and its switch-in was lost.
    record.has.wakings
        && before.find(|event| is_waking(event) || is_switch(event)).is_some_and(is_waking)
        && before.find(|event| is_switch(event) || event.current == Some(tid)).is_some_and(
            |event| match event.kind {
                Kind::Switch { next, .. } => next.tid == tid,
                _ => true,
            },
        )
}

/// Start of `next`, found at `at`: a thread that an event names as running may have been switched in before.
fn since(record: &Record, tid: Tid, next: &Stretch, at: Mono) -> Mono {
    let slice = next.cpu.filter(|_| next.state == State::Running && next.inferred);
    let slice = slice.and_then(|cpu| record.slice_before(cpu, at));
    slice
        .filter(|slice| slice.context == Context::Thread(tid) && slice.inferred)
        .map_or(at, |slice| slice.begin)
}

/// The state at `a`: from the last event before it, else inferred backwards from the first one after it.
fn start(record: &Record, tid: Tid, a: Mono) -> Stretch {
    let blank = Stretch {
        begin: a,
        end: a,
        state: State::Unknown,
        cpu: None,
        began_by: None,
        ended_by: None,
        inferred: false,
    };
    let just_before = Mono(a.0.saturating_sub(1));
    let mut now = blank;
    // The last switch decides; later events may change its state.
    let earlier: Vec<(u32, &Event)> = record
        .events_of(tid, Mono(0), just_before)
        .rev()
        .scan(false, |done, found| {
            if *done {
                return None;
            }
            *done = matches!(found.1.kind, Kind::Switch { .. });
            Some(found)
        })
        .collect();
    for (index, event) in earlier.into_iter().rev() {
        if let Some(next) = after(&now, tid, index, event) {
            now = next;
        }
    }
    if now.state == State::Unknown
        && let Some((index, event)) = record.events_of(tid, a, record.until()).next()
    {
        now = backwards(record, tid, index, event, blank);
    }
    Stretch { begin: a, end: a, ..now }
}

/// The state before the first recorded event.
fn backwards(record: &Record, tid: Tid, index: u32, event: &Event, blank: Stretch) -> Stretch {
    let (state, cpu) = match event.kind {
        Kind::Switch { prev, .. } if prev.tid == tid => (State::Running, Some(event.cpu)),
        Kind::Fork { child, .. } if child.tid == tid => (State::Unborn, None),
        Kind::Waking { new: true, .. } => (State::Unborn, None),
        Kind::Waking { .. } => (State::Blocked(0), None),
        Kind::Wakeup { .. } if !record.has.wakings => (State::Blocked(0), None),
        Kind::Wakeup { target_cpu, .. } => (State::Woken, Some(target_cpu.unwrap_or(event.cpu))),
        Kind::Migrate { from, .. } => (State::Unknown, Some(from)),
        _ => (State::Unknown, None),
    };
    Stretch { state, cpu, began_by: (state == State::Running).then_some(index), inferred: true, ..blank }
}

/// The state after `event`; `None` if it does not change.
fn after(now: &Stretch, tid: Tid, index: u32, event: &Event) -> Option<Stretch> {
    let next = |state, cpu, inferred| {
        Some(Stretch {
            begin: event.at,
            end: event.at,
            state,
            cpu,
            began_by: Some(index),
            ended_by: None,
            inferred,
        })
    };
    match event.kind {
        Kind::Switch { next: to, .. } if to.tid == tid => (now.state != State::Running
            || now.cpu != Some(event.cpu))
        .then(|| next(State::Running, Some(event.cpu), false))?,
        Kind::Switch { prev, left_as, .. } if prev.tid == tid => match left_as {
            LeftAs::Runnable => next(State::Preempted, Some(event.cpu), false),
            LeftAs::Blocked(bits) => next(State::Blocked(bits), Some(event.cpu), false),
            LeftAs::Dead => next(State::Ended, Some(event.cpu), false),
        },
        // A waking does not change a thread that is running or already runnable.
        Kind::Waking { task, target_cpu, .. } if task.tid == tid => {
            matches!(now.state, State::Blocked(_) | State::Unknown | State::Ended | State::Unborn)
                .then(|| next(State::Woken, target_cpu, false))?
        }
        // The tid may be reused. From here the thread counts as runnable.
        Kind::Fork { child, .. } if child.tid == tid => next(State::Woken, None, false),
        Kind::Migrate { task, to, .. } if task.tid == tid => (now.state.waits_for_cpu()
            && now.cpu.is_some_and(|cpu| cpu != to))
        .then(|| next(now.state, Some(to), false))?,
        // The event is on the CPU of the waker, or on the target if that woke it after an interrupt.
        Kind::Wakeup { task, target_cpu } if task.tid == tid => {
            matches!(now.state, State::Blocked(_) | State::Ended)
                .then(|| next(State::Woken, Some(target_cpu.unwrap_or(event.cpu)), true))?
        }
        _ if event.current == Some(tid) => (now.state != State::Running || now.cpu != Some(event.cpu))
            .then(|| next(State::Running, Some(event.cpu), true))?,
        _ => None,
    }
}

/// A wait is on the run queue of the CPU where it ends, whatever the target of the waking, which is the CPU before the
/// choice of another one: recorded migrations end a span, of others only the result is known. The CPU is not known if a
/// migration may have been lost, or if the thread was queued on another CPU and no migration is recorded: another one may
/// have taken it from there at any time. (A preempted thread was not: its queue pushes it away at once, or something
/// moves it, which the walk looks for.)
fn place_waits(record: &Record, tid: Tid, found: &mut [Stretch], last: &Stretch) {
    let (mut state, mut cpu) = (last.state, last.cpu);
    for stretch in found.iter_mut().rev() {
        if stretch.state.waits_for_cpu() && (stretch.cpu.is_none() || state == State::Running) {
            let queued = queued_on(record, tid, stretch);
            let pulled = !record.has.migrations && queued.is_some() && queued != cpu;
            let slices = |on| record.slices(on, stretch.begin, stretch.end);
            let is_lost = |on| slices(on).iter().any(|slice| slice.context == Context::Lost);
            let lacks = |_| record.has.migrations && record.lacks_events(stretch.begin, stretch.end);
            let moved_unseen =
                pulled || stretch.cpu != cpu && stretch.cpu.is_some_and(|on| is_lost(on) || lacks(on));
            stretch.cpu = cpu.filter(|_| !moved_unseen);
        }
        (state, cpu) = (stretch.state, stretch.cpu);
    }
}

/// The CPU on whose run queue `tid` is put by the wake-up in the span, if an event says so.
fn queued_on(record: &Record, tid: Tid, stretch: &Stretch) -> Option<Cpu> {
    record.events_of(tid, stretch.begin, stretch.end).find_map(|(_, event)| match event.kind {
        Kind::Wakeup { task, target_cpu } if task.tid == tid => target_cpu,
        _ => None,
    })
}
