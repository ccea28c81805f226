//! Waking → switched in: the tasks on the CPU that the victim waited for, and their priorities.
//!
//! A thread of equal or higher priority interferes; one of lower priority keeps the CPU only if the kernel cannot be
//! preempted (preemption disabled, or a preemption model that does not preempt kernel code), which its stack shows. In
//! interrupt context the interrupt is named, never the interrupted thread.

use super::cpu::{Context, Slice};
use super::interrupted::{interrupted_code, reenabled_interrupts, where_interrupts_are_on, Code};
use super::record::Record;
use super::segment::Segment;
use super::share::{tally, Phase, Role, Share};
use super::standstill::{self, Together};
use super::stolen::Stolen;
use super::thread::{State, Stretch};
use crate::series::Thread;
use crate::time::{Cpu, Mono, Ns, Tid};
use crate::trace::event::{Kind as Event, LeftAs};
use crate::trace::window::StackSample;

/// Maximum time of the scheduler from the interrupt to the switch (0.5-3 µs on bare metal, more on virtual machines);
/// the thread switched out in that time is not blamed.
pub(super) const SWITCHING: Ns = Ns::from_us(10);

/// Label of that time on a CPU that was idle before the interrupt.
pub(super) const TO_THE_SWITCH: &str = "the way from the interrupt to the switch";

/// Maximum time from a waking to its arrival in the run queue of another CPU, where `sched_wakeup` does not show it.
pub(super) const ARRIVES: Ns = Ns::from_us(300);

/// The shares of a span in which `victim` was runnable, as parts of the tree.
pub fn explain(record: &Record, victim: &Thread, stretch: &Stretch, shares: &mut Vec<Share>) -> Vec<Segment> {
    let Some(cpu) = stretch.cpu else {
        let label = "the CPU on which it waited is not recorded";
        return vec![Segment::unexplained(super::Kind::WakeupWait, label, stretch.begin, stretch.length())];
    };
    let slices = record.slices(cpu, stretch.begin, stretch.end);
    let together = Together::over(record, super::Kind::WakeupWait, cpu, &slices);
    let counted = tally(record, Phase::Waiting, cpu, &slices);
    let mut stolen = Stolen::over(record, Phase::Waiting, cpu, stretch.begin, stretch.end);
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
        if let (Context::Idle(_), Some(at)) = (share.context, went_idle(record, cpu, stretch)) {
            parts.extend(idled_beside(victim, &mut share, at));
            if share.net == Ns::ZERO {
                continue;
            }
        }
        if is_after_idle(record, &share, stretch) {
            if share.net > SWITCHING {
                parts.push(beyond_idle(victim, &share));
                continue;
            }
            share.role = Role::Switching;
            share.kind = super::Kind::Scheduler;
        }
        if let (Context::Thread(tid), Some(holder)) = (share.context, share.thread.clone()) {
            share.role = role(record, victim, &holder, tid, cpu, stretch);
            if let Some((mut still, why)) = stood_still(record, tid, &slices, stretch, &mut share) {
                if let Some(host) = stolen.likely(&mut still) {
                    parts.push(Stolen::leaf(&host));
                    shares.push(host);
                }
                parts.extend((still.net > Ns::ZERO).then(|| why.gap(&still)));
                if share.net == Ns::ZERO {
                    continue;
                }
            }
            if matches!(share.role, Role::Keeps { .. }) && share.net <= SWITCHING {
                share.role = Role::Switching;
            }
            share.kind = match share.role {
                Role::Victim => super::Kind::Running,
                Role::Switching => super::Kind::Scheduler,
                _ => share.kind,
            };
            share.stack = stack(record, tid, cpu, stretch).0;
            share
                .evidence
                .extend(departure(record, tid, cpu, stretch).map(|(index, _)| record.evidence(index)));
        }
        parts.push(share.leaf(label(&share)));
        shares.push(share);
    }
    parts
}

/// Time from the start of the span to that from which its thread is certainly on the run queue of its CPU: none if it was
/// preempted, or woken by that CPU itself.
pub(super) fn arrives_within(record: &Record, stretch: &Stretch) -> Ns {
    let is_own = |index: u32| {
        let event = record.event(index);
        matches!(event.kind, Event::Waking { .. }) && Some(event.cpu) == stretch.cpu
    };
    match stretch.state == State::Preempted || stretch.began_by.is_some_and(is_own) {
        true => Ns::ZERO,
        false => ARRIVES,
    }
}

/// Whether the CPU of an idle share had left its idle state before: the thread was woken by an interrupt of that CPU itself.
pub(super) fn is_after_idle(record: &Record, share: &Share, stretch: &Stretch) -> bool {
    let is_own = |index: u32| {
        let event = record.event(index);
        matches!(event.kind, Event::Waking { .. } | Event::Wakeup { .. }) && event.cpu == share.cpu
    };
    share.context == Context::Idle(None) && stretch.began_by.is_some_and(is_own)
}

/// Such a share that is longer than a switch: unexplained.
pub(super) fn beyond_idle(victim: &Thread, share: &Share) -> Segment {
    let label = format!(
        "CPU {} was awake when {victim} was woken: its activity until the switch is not recorded",
        share.cpu
    );
    Segment::unexplained(super::Kind::WakeupWait, label, share.begin, share.net)
}

/// The first switch to idle on `cpu` after the thread of the span was on its run queue.
fn went_idle(record: &Record, cpu: Cpu, stretch: &Stretch) -> Option<Mono> {
    let mut events = record.events_on(cpu, stretch.begin + arrives_within(record, stretch), stretch.end);
    events.find_map(|(_, event)| match event.kind {
        Event::Switch { next, .. } if next.tid == Tid::IDLE => Some(event.at),
        _ => None,
    })
}

/// Takes the idle time from `at` on out of `share`: a CPU that goes idle beside a runnable thread does not have to leave
/// idle for it.
fn idled_beside(victim: &Thread, share: &mut Share, at: Mono) -> Option<Segment> {
    let beside = |(begin, end): &(Mono, Mono)| end.since((*begin).max(at));
    let net = share.pieces.iter().map(beside).sum::<Ns>().min(share.net);
    let label = format!(
        "CPU {} went idle although {victim} was runnable there: it was throttled, or switches are missing",
        share.cpu
    );
    share.net = share.net.saturating_sub(net);
    share.pieces.retain(|(begin, _)| *begin < at);
    (net > Ns::ZERO).then(|| Segment::unexplained(super::Kind::WakeupWait, label, at, net))
}

/// Takes the time of a stall out of `share` of thread `tid`: unexplained, except for steal time. In kernel mode
/// interrupts may have been off instead: without evidence against that, the share is kept and marked.
fn stood_still(
    record: &Record,
    tid: Tid,
    slices: &[Slice],
    stretch: &Stretch,
    share: &mut Share,
) -> Option<(Share, Why)> {
    let Role::Keeps { in_user, ref mut unserved, .. } = share.role else { return None };
    let (begin, length) = standstill::of_thread(record, share.cpu, tid, slices, stretch.end)?;
    let why = match in_user {
        Some(true) => Some(Why::InUser),
        _ => interrupts_on(record, tid, share.cpu, stretch, begin)
            .or_else(|| standstill::elsewhere_too(record, share.cpu, begin, stretch.end).map(Why::Both)),
    };
    let Some(why) = why else {
        *unserved = length.0 * 2 > share.net.0;
        share.inferred |= *unserved;
        return None;
    };
    let still = Share { begin, net: length.min(share.net), ..share.clone() };
    share.net = share.net.saturating_sub(still.net);
    Some((still, why))
}

/// Why no task is blamed for time without interrupts.
enum Why {
    /// The thread was in user mode.
    InUser,
    /// The late interrupt found the thread here, where interrupts are on.
    OnAtLast(String),
    /// The interrupt of the waking found interrupts enabled; nothing shows that they were disabled later.
    OnBefore(String),
    /// This CPU took no interrupt at the same time.
    Both(Cpu),
}

impl Why {
    fn gap(&self, still: &Share) -> Segment {
        let (cpu, name) = (still.cpu, &still.name);
        let none = "no timer interrupt came although a timer was due";
        let (label, is_proved) = match self {
            Why::InUser => (format!("CPU {cpu} stalled: with {name} in user mode, {none}"), true),
            Why::OnAtLast(place) => {
                (format!("CPU {cpu} stalled: with {name} in {place}, where interrupts are on, {none}"), true)
            }
            Why::OnBefore(place) => (
                format!("{none} on CPU {cpu}, and the last one before found {name} in {place}, where interrupts are on"),
                false,
            ),
            Why::Both(other) => (standstill::of_both(cpu, *other), false),
        };
        let build = if is_proved { Segment::stood_still } else { Segment::unexplained };
        build(super::Kind::WakeupWait, label, still.begin, still.net)
    }
}

/// Whether a stack of `tid` shows that interrupts were on after `due`: from the late interrupt or, less certain, from
/// the waking.
fn interrupts_on(record: &Record, tid: Tid, cpu: Cpu, stretch: &Stretch, due: Mono) -> Option<Why> {
    let from = record.interrupt_begin(cpu, stretch.begin);
    let samples = record.stacks(cpu, from, stretch.end).filter(|sample| sample.tid == tid);
    let (late, before): (Vec<_>, Vec<_>) = samples.partition(|sample| sample.at > due);
    let on = |sample: &StackSample| where_interrupts_are_on(sample).map(str::to_owned);
    let late = late.into_iter().min_by_key(|sample| sample.at);
    match late.and_then(on) {
        Some(place) => Some(Why::OnAtLast(place)),
        None if late.is_some_and(reenabled_interrupts) => None,
        None => before.into_iter().max_by_key(|sample| sample.at).and_then(on).map(Why::OnBefore),
    }
}

fn label(share: &Share) -> String {
    let name = share.label();
    match share.role {
        Role::Keeps { unserved: true, .. } => format!("{name}, lower in priority; no interrupt came, either"),
        Role::Keeps { .. } => format!("{name}, lower in priority, not preempted"),
        Role::Switching if matches!(share.context, Context::Idle(_)) => TO_THE_SWITCH.to_owned(),
        Role::Switching => format!("switching away from {name}"),
        Role::Wins => format!("{name}, of equal or higher priority"),
        Role::SharesFairly => format!("{name}, by fair scheduling"),
        Role::Unranked => format!("{name}, priority not recorded"),
        Role::Victim => format!("{name}, itself still leaving the CPU"),
        _ => name,
    }
}

fn role(record: &Record, victim: &Thread, holder: &Thread, tid: Tid, cpu: Cpu, stretch: &Stretch) -> Role {
    if tid == victim.tid {
        return Role::Victim;
    }
    let (Some(wanting), Some(having)) = (victim.prio, holder.prio) else { return Role::Unranked };
    if !wanting.is_realtime() && !having.is_realtime() {
        Role::SharesFairly
    } else if having <= wanting || is_stopper(&holder.comm) {
        Role::Wins
    } else {
        let left = departure(record, tid, cpu, stretch).map(|(_, left)| left);
        Role::Keeps { in_user: stack(record, tid, cpu, stretch).1, left, unserved: false }
    }
}

/// Whether it is a stopper thread: `migration/1` shows priority RT 99 but precedes all others, including
/// SCHED_DEADLINE.
pub(super) fn is_stopper(comm: &str) -> bool {
    comm.starts_with("migration/")
}

/// The last switch-out of `tid` from `cpu` in the span.
fn departure(record: &Record, tid: Tid, cpu: Cpu, stretch: &Stretch) -> Option<(u32, LeftAs)> {
    record.events_on(cpu, stretch.begin, stretch.end).rev().find_map(|(index, event)| match event.kind {
        Event::Switch { prev, left_as, .. } if prev.tid == tid => Some((index, left_as)),
        _ => None,
    })
}

/// The stack of `tid` taken in the span, or just before it in the interrupt that woke the victim; and whether it was in
/// user mode. The earliest one counts.
fn stack(record: &Record, tid: Tid, cpu: Cpu, stretch: &Stretch) -> (Vec<String>, Option<bool>) {
    let from = record.interrupt_begin(cpu, stretch.begin);
    let samples = record.stacks(cpu, from, stretch.end).filter(|sample| sample.tid == tid);
    let told = samples.map(|sample| (sample.at, interrupted_code(sample)));
    match told.filter(|(_, code)| !matches!(code, Code::Unknown)).min_by_key(|(at, _)| *at) {
        Some((_, Code::User)) => (Vec::new(), Some(true)),
        Some((_, Code::Kernel { frames })) => (frames.to_vec(), Some(false)),
        _ => (Vec::new(), None),
    }
}
