//! Stalls: time in which a CPU took no interrupt although a timer was due.
//!
//! In user mode interrupts are on: then the CPU did not run at all, because the hypervisor, firmware or hardware
//! stopped it. No event shows that. A thread in kernel mode may also have kept interrupts off; but if another CPU
//! stalled at the same time, one common cause is more likely than two, and no thread is blamed.

use std::collections::VecDeque;

use super::cpu::{Context, Slice};
use super::interrupted::{interrupted_code, Code};
use super::record::Record;
use super::segment::{Explanation, Kind, Segment};
use super::share::Share;
use crate::time::{Cpu, Mono, Ns, Tid};
use crate::trace::event::Kind as What;
use crate::trace::window::Standstill;

/// Minimum delay: a shorter one may be the delivery of the interrupt.
const TELLING: Ns = Ns::from_us(10);
/// Minimum period of the tick.
const TICK: Ns = Ns::from_ms(1);
/// Time before a span in which ticks are searched.
const TICKS_BEFORE: Ns = Ns::from_ms(1_000);
/// Maximum time from a late interrupt to its stack.
const LATEST_STACK: Ns = Ns::from_ms(1);
/// Maximum number of remembered stalls.
const KNOWN: usize = 64;

/// Times from `a` in which timers of `cpu` were due but not served, in order and without overlap. Cost: a walk over its
/// events up to the first timer after `b`; without one, also over those of the second before.
fn unserved(record: &Record, cpu: Cpu, a: Mono, b: Mono) -> Vec<(Mono, Mono)> {
    let mut found = Vec::new();
    let mut until = a; // covered so far
    let mut ended = true; // no timer has shown yet whether others were due
    for (_, event) in record.events_on(cpu, a, record.until()) {
        let What::TimerExpireEntry { expires: Some(due), .. } = event.kind else { continue };
        let served = record.interrupt_begin(cpu, event.at);
        if served < event.at && served.since(due) >= TELLING {
            let from = until.max(due);
            if from < served {
                found.push((from, served));
            }
            until = until.max(served);
        }
        if event.at >= b {
            ended = false;
            break;
        }
    }
    if let Some(due) = tick_due(record, cpu, a, b).filter(|due| ended && b.since(*due) >= TELLING) {
        found.push((until.max(due), b));
    }
    found
}

/// When a missing tick of `cpu` in `[a, b)` was due, from the interval of the two before it. A CPU that runs a thread
/// ticks, except isolated ones (nohz_full), where the previous tick is missing as well. Both ticks must have
/// interrupted the thread that is on the CPU at the end, so that a trace of some threads does not mislead; and nothing
/// was lost since.
fn tick_due(record: &Record, cpu: Cpu, a: Mono, b: Mono) -> Option<Mono> {
    if b.since(a) < TICK {
        return None;
    }
    let running = record.slice_before(cpu, b)?.task?.tid;
    let events = record.events_on(cpu, Mono(a.0.saturating_sub(TICKS_BEFORE.0)), b).rev();
    let kept = events.take_while(|(_, event)| !matches!(event.kind, What::Lost { .. }));
    let mut due = kept.filter_map(|(_, event)| match event.kind {
        What::TimerExpireEntry { function: Some(name), expires, .. } if event.current == Some(running) => {
            let tick = record.window.strings.get(name).starts_with("tick_");
            Some((expires?, event.at)).filter(|_| tick)
        }
        _ => None,
    });
    let ((last, served), (before, _)) = (due.next()?, due.next()?);
    let interval = last.since(before).0;
    // A late tick is followed by the next one on time.
    let steps = served.since(last).0.checked_div(interval)? + 1;
    let next = last + Ns(steps.saturating_mul(interval));
    (a <= next && next < b).then_some(next)
}

/// Start of the time in which timers were not served while thread `tid` had `cpu`, and its total in `slices`, which end
/// at `b`. `None` without proof.
#[must_use]
pub fn of_thread(record: &Record, cpu: Cpu, tid: Tid, slices: &[Slice], b: Mono) -> Option<(Mono, Ns)> {
    let mut found: Option<(Mono, Ns)> = None;
    for (due, served) in unserved(record, cpu, slices.first()?.begin, b) {
        for slice in slices.iter().filter(|slice| slice.context == Context::Thread(tid)) {
            let (from, to) = (slice.begin.max(due), slice.end.min(served));
            if from < to {
                let (begin, so_far) = found.unwrap_or((from, Ns::ZERO));
                found = Some((begin, so_far + to.since(from)));
            }
        }
    }
    found.filter(|(_, length)| *length >= TELLING)
}

/// Another CPU without an event or an interrupt of a due timer, for three quarters of `[a, b)` and hardly longer. This
/// does not prove that interrupts were on; but one cause outside both CPUs is more likely than the thread on one. Not
/// if a stack shows that one of the two waits for a CPU with interrupts off.
#[must_use]
pub fn elsewhere_too(record: &Record, cpu: Cpu, a: Mono, b: Mono) -> Option<Cpu> {
    let waited = |on: Cpu| {
        let innermost = |sample| match interrupted_code(sample) {
            Code::Kernel { frames } => &frames[..frames.len().min(2)],
            Code::User | Code::Unknown => &[],
        };
        let mut frames = record.stacks(on, a, b + LATEST_STACK).flat_map(innermost);
        frames.any(|frame| waits_for_a_cpu(frame))
    };
    if waited(cpu) {
        return None;
    }
    record.cpus().filter(|other| *other != cpu).find(|&other| {
        let unserved = unserved(record, other, a, b).into_iter();
        let quiet = unserved.flat_map(|(due, served)| quiet(record, other, due, served));
        let mut still = quiet.map(|(begin, end)| Standstill { cpu: other, begin, end });
        let both = |still: &Standstill| still.end.min(b).since(still.begin.max(a));
        still.any(|still| is_same(&still, a, b) && 4 * both(&still).0 >= 3 * b.since(a).0) && !waited(other)
    })
}

/// Whether a CPU waits for another one with interrupts off in this function, by parts of its name: the other one is the
/// cause. Not locks that sleep on PREEMPT_RT (`rt_spin_lock`).
fn waits_for_a_cpu(frame: &str) -> bool {
    !frame.starts_with("rt_")
        && [
            "spin_lock",
            "queued_",
            "multi_cpu_stop",
            "csd_lock",
            "patch_sync",
            "rendezvous",
            "trylock_spinning",
        ]
        .iter()
        .any(|name| frame.contains(name))
}

/// What two CPUs have in common that took no interrupt at the same time.
pub const BOTH: &str = "the machine stalled, or both CPUs had interrupts off";

/// Text for two CPUs that took no interrupt at the same time.
pub fn of_both(cpu: Cpu, other: Cpu) -> String {
    format!(
        "no timer interrupt came although a timer was due on CPU {cpu}, nor did one on CPU {other}: {BOTH}"
    )
}

/// Spans of a CPU without activity although a timer was due, while another CPU stalled.
pub struct Together {
    kind: Kind,
    cpu: Cpu,
    pieces: Vec<(Context, Mono, Ns, Cpu)>,
}

impl Together {
    /// From `slices`, which cover `[a, b)` of `cpu`. Costs nothing if no stall is known.
    #[must_use]
    pub fn over(record: &Record, kind: Kind, cpu: Cpu, slices: &[Slice]) -> Together {
        let mut together = Together { kind, cpu, pieces: Vec::new() };
        let (Some(first), Some(last)) = (slices.first(), slices.last()) else { return together };
        if record.window.standstills.is_empty() {
            return together;
        }
        let unserved = unserved(record, cpu, first.begin, last.end);
        let other = |begin, end| {
            let known = record.window.standstills.iter().filter(|known| known.cpu != cpu);
            known.copied().find(|known| is_same(known, begin, end))
        };
        for slice in slices {
            for &(due, served) in &unserved {
                for (from, to) in quiet(record, cpu, slice.begin.max(due), slice.end.min(served)) {
                    let part = other(from, to).map(|other| (slice.context, from, to.since(from), other.cpu));
                    together.pieces.extend(part);
                }
            }
        }
        together
    }

    /// Takes the stalled time out of `share`.
    pub fn take(&self, share: &mut Share) -> Option<Segment> {
        let mine = || self.pieces.iter().filter(|(context, ..)| *context == share.context);
        let &(_, begin, _, other) = mine().next()?;
        let net = mine().map(|(_, _, length, _)| *length).sum::<Ns>().min(share.net);
        share.net = share.net.saturating_sub(net);
        let cpu = self.cpu;
        let label = format!(
            "CPU {cpu} stalled: no timer interrupt came although a timer was due, nor did one on CPU {other}, where interrupts were on"
        );
        Some(Segment::unexplained(self.kind, label, begin, net))
    }
}

/// The parts of `[a, b)` without an event of `cpu` inside.
fn quiet(record: &Record, cpu: Cpu, a: Mono, b: Mono) -> Vec<(Mono, Mono)> {
    let mut found = Vec::new();
    let mut from = a;
    for at in record.events_on(cpu, a, b).map(|(_, event)| event.at).chain([b]) {
        if from < at && at <= b && at.since(from) >= TELLING {
            found.push((from, at));
        }
        from = from.max(at);
    }
    found
}

/// Whether `known` and `[begin, end)` mostly overlap. The timers were due at different times, and a hypervisor does not
/// stop and resume its virtual CPUs at exactly the same time.
fn is_same(known: &Standstill, begin: Mono, end: Mono) -> bool {
    let both = known.end.min(end).0.saturating_sub(known.begin.max(begin).0);
    2 * both >= end.since(begin).0 && 4 * both >= 3 * known.end.since(known.begin).0
}

/// The latest stalls that explanations have proved, for explanations of other CPUs.
#[derive(Clone, Debug, Default)]
pub struct Standstills(VecDeque<Standstill>);

impl Standstills {
    /// Remembers the stalls that an explanation of a case on `cpu` proves; returns the new ones.
    pub fn note(&mut self, cpu: Cpu, explanation: &Explanation) -> Vec<Standstill> {
        let gaps = explanation.tree.all_gaps();
        let proved = gaps.into_iter().filter(|gap| gap.stood_still && gap.duration_ns >= TELLING);
        let all = proved.map(|gap| Standstill { cpu, begin: gap.begin, end: gap.begin + gap.duration_ns });
        let new: Vec<Standstill> = all.filter(|standstill| !self.0.contains(standstill)).collect();
        self.0.extend(&new);
        while self.0.len() > KNOWN {
            self.0.pop_front();
        }
        new
    }

    /// Stalls of other CPUs than `cpu` that overlap with `[begin, end)`.
    #[must_use]
    pub fn beside(&self, cpu: Cpu, begin: Mono, end: Mono) -> Vec<Standstill> {
        self.0.iter().copied().filter(|known| known.concerns(cpu, begin, end)).collect()
    }
}

impl Standstill {
    /// Whether it is relevant to a case on `cpu` in this time.
    #[must_use]
    pub fn concerns(&self, cpu: Cpu, begin: Mono, end: Mono) -> bool {
        self.cpu != cpu && self.begin < end && begin < self.end
    }
}
