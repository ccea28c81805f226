//! Time in which a CPU took no interrupt though a timer was due.
//!
//! A thread in user mode has interrupts on: then the CPU did not run at all, whatever had it last by the record, because a
//! host, firmware or hardware stopped it. No event says that. A thread in kernel mode may also have kept interrupts off;
//! but where another CPU is known to have stood still at the same time, one cause of both is likelier than two, and nobody
//! is blamed.

use std::collections::VecDeque;

use super::cpu::{Context, Slice};
use super::interrupted::{interrupted_code, Code};
use super::record::Record;
use super::segment::{Explanation, Kind, Segment};
use super::share::Share;
use crate::time::{Cpu, Mono, Ns, Tid};
use crate::trace::event::Kind as What;
use crate::trace::window::Standstill;

/// Below this, a delay may be the delivery of the interrupt.
const TELLING: Ns = Ns::from_us(10);
/// Kernels tick 1000 times a second at most.
const TICK: Ns = Ns::from_ms(1);
/// So far back the ticks before a stretch are looked for.
const TICKS_BEFORE: Ns = Ns::from_ms(1_000);
/// The stack of a late interrupt is taken so soon after it.
const LATEST_STACK: Ns = Ns::from_ms(1);
/// Standstills that are remembered.
const KNOWN: usize = 64;

/// Where timers of `cpu` were due and unserved in the time from `a` on, in order and without overlap. Costs a walk over
/// its events up to the first timer from `b` on; where there is none, over those of the second before, too.
fn unserved(record: &Record, cpu: Cpu, a: Mono, b: Mono) -> Vec<(Mono, Mono)> {
    let mut found = Vec::new();
    let mut until = a; // told so far
    let mut ended = true; // before any timer told whether others had been due
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

/// When in `[a, b)` the tick of `cpu` was due that did not come: at the interval of the two before it. A CPU that runs a
/// thread ticks, but for some that were set apart (nohz_full), where the one before it is missing as well. Both came over
/// the thread that has the CPU at the end, so that a trace of some threads alone tells nothing of others; and nothing was
/// lost since.
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
    // A tick that is late itself is followed by the next one that is not.
    let steps = served.since(last).0.checked_div(interval)? + 1;
    let next = last + Ns(steps.saturating_mul(interval));
    (a <= next && next < b).then_some(next)
}

/// Since when timers went unserved while thread `tid` had `cpu`, and how long in all of `slices`, which end at `b`. `None`
/// where nothing proves it.
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

/// Another CPU that had no event and took no interrupt of a timer that was due, for three quarters of `[a, b)` and hardly
/// longer. That says of neither that it had interrupts on; but one cause outside of both is likelier than the thread that
/// runs on one. Not where a stack shows one of the two waiting for a CPU with interrupts off.
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

/// Functions in which a CPU waits for another one with interrupts off, by parts of their names: the other one is the cause.
/// Locks that sleep on PREEMPT_RT (`rt_spin_lock`) are none.
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

/// What is known where two CPUs took no interrupt at the same time.
pub fn of_both(cpu: Cpu, other: Cpu) -> String {
    format!(
        "no timer interrupt came although a timer was due on CPU {cpu}, nor did one on CPU {other}: the machine stalled, or both CPUs had interrupts off"
    )
}

/// Stretches of a CPU in which it did nothing, though a timer was due, while another one stood still.
pub struct Together {
    kind: Kind,
    cpu: Cpu,
    pieces: Vec<(Context, Mono, Ns, Cpu)>,
}

impl Together {
    /// Of `slices`, which cover `[a, b)` of `cpu`. Costs nothing where no standstill is known.
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

    /// Takes out of `share` what is nobody's.
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

/// Whether most of what is known of the other CPU is in `[begin, end)`, and makes up most of it. Their timers were due at
/// different times, and a host does not stop and resume its virtual CPUs at one stroke.
fn is_same(known: &Standstill, begin: Mono, end: Mono) -> bool {
    let both = known.end.min(end).0.saturating_sub(known.begin.max(begin).0);
    2 * both >= end.since(begin).0 && 4 * both >= 3 * known.end.since(known.begin).0
}

/// The latest standstills that explanations have proved, for those of other CPUs.
#[derive(Clone, Debug, Default)]
pub struct Standstills(VecDeque<Standstill>);

impl Standstills {
    /// Remembers what an explanation of a case on `cpu` proves; what is new of it is returned.
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

    /// Those of other CPUs than `cpu` that have to do with `[begin, end)`.
    #[must_use]
    pub fn beside(&self, cpu: Cpu, begin: Mono, end: Mono) -> Vec<Standstill> {
        self.0.iter().copied().filter(|known| known.concerns(cpu, begin, end)).collect()
    }
}

impl Standstill {
    /// Whether a case on `cpu` of this time is to be explained with it in mind.
    #[must_use]
    pub fn concerns(&self, cpu: Cpu, begin: Mono, end: Mono) -> bool {
        self.cpu != cpu && self.begin < end && begin < self.end
    }
}
