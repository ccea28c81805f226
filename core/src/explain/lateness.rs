//! Programmed expiry → timer handler → waking: why the timer interrupt was late, and its time before the waking.
//!
//! Interrupts and vectors that ran in between delayed the timer (they run with interrupts off). An idle CPU had to
//! leave its idle state. A thread or softirq kept interrupts off *only if* the timer interrupt was pending all the
//! time, and that is claimed only if the stack taken in the timer interrupt shows kernel code. Two observations refute
//! it; the time is then unexplained (late timer hardware, or a hypervisor that did not run this CPU):
//! - the interrupted code was in user mode, where interrupts are on, or at a place in the kernel where interrupts were
//!   on before according to the machine code;
//! - another interrupt was taken and the CPU continued for longer than a delivery takes: its return enabled interrupts,
//!   and a pending timer would have interrupted at once. A context switch proves the same.
//!
//! Time on the steal clock is attributed to the hypervisor.
//!
//! The alternative, as in rtla, blames the task that ran; on virtual machines that is wrong more often than right.

use super::cpu::{Context, Slice};
use super::interrupted::{interrupted_code, reenabled_interrupts, where_interrupts_are_on, Code};
use super::record::Record;
use super::segment::{Evidence, Kind, Segment};
use super::share::{tally, Phase, Role, Share};
use super::standstill::{self, Together};
use super::stolen::Stolen;
use crate::time::{Cpu, Mono, Ns, Tid};
use crate::trace::event::{Event, Kind as What, TaskRef};
use crate::trace::window::StackSample;

/// Number of events examined for the minimum time between two interrupts.
const LEARNT_FROM: usize = 20_000;

/// Maximum time from enabling interrupts to the entry of a pending one: its delivery, the kernel's entry code up to the
/// tracepoint, and the exit code of the previous interrupt (1.5 µs and more are outside the tracepoints).
const DELIVERY: Ns = Ns::from_us(5);

/// A running CPU never takes longer.
const LONGEST_DELIVERY: Ns = Ns::from_us(50);

/// Minimum lateness for which kernel code in the stack is evidence: less is common with interrupts on.
const TELLING: Ns = Ns::from_us(10);

/// Maximum time from programmed expiry to handler: beyond it, the timer uses another clock. A CPU without interrupts for
/// longer is a hard lockup (kernel/watchdog.c: watchdog_thresh, 10 s).
pub(super) const SAME_CLOCK: Ns = Ns::from_ms(10_000);

/// A timer that woke a thread.
pub struct Firing<'w> {
    /// Index and event of the waking.
    pub waking: (u32, &'w Event),
    /// Start of the handler: `hrtimer_expire_entry`, else the interrupt around the waking.
    pub handler: Mono,
    /// `hrtimer_expire_entry`, if recorded.
    pub expire: Option<(u32, &'w Event)>,
}

impl<'w> Firing<'w> {
    /// The timer behind the waking; `None` if it was not by a timer.
    #[must_use]
    pub fn of(record: &Record<'w>, waking: (u32, &'w Event)) -> Option<Firing<'w>> {
        let (index, event) = waking;
        let inside = record
            .events_on(event.cpu, Mono(0), event.at)
            .rev()
            .skip_while(|(earlier, _)| *earlier != index)
            .find_map(|(earlier, event)| match event.kind {
                What::TimerExpireEntry { .. } => Some(Some((earlier, event))),
                What::TimerExpireExit { .. }
                | What::VectorEntry(_)
                | What::IrqEntry { .. }
                | What::Switch { .. }
                | What::CsdEntry { .. }
                | What::Lost { .. } => Some(None),
                _ => None,
            })
            .flatten();
        match inside {
            Some(expire) => Some(Firing { waking, handler: expire.1.at, expire: Some(expire) }),
            None => {
                timer_interrupt(record, event).map(|begin| Firing { waking, handler: begin, expire: None })
            }
        }
    }

    /// The programmed expiry in `hrtimer_expire_entry`.
    #[must_use]
    pub fn programmed(&self) -> Option<Mono> {
        match self.expire?.1.kind {
            What::TimerExpireEntry { expires, .. } => expires,
            _ => None,
        }
    }

    /// Whether it is the timeout of a call that counts in ticks.
    fn is_on_the_wheel(&self, record: &Record<'_>) -> bool {
        match self.expire.map(|(_, event)| event.kind) {
            Some(What::TimerExpireEntry { function: Some(of), .. }) => record.text(of) == "process_timeout",
            _ => false,
        }
    }

    /// Converts `at` from the timer's clock to that of the record; `None` if that is not possible.
    #[must_use]
    pub fn on_clock(&self, record: &Record, at: Ns) -> Option<Mono> {
        let is_near = |at: &Mono| at.0 > 0 && at.0.abs_diff(self.handler.0) < SAME_CLOCK.0;
        if let Some(at) = Some(Mono(at.0)).filter(|at| !record.window.other_clock && is_near(at)) {
            return Some(at);
        }
        let now = match self.expire?.1.kind {
            What::TimerExpireEntry { now, .. } => now?,
            _ => return None,
        };
        self.handler.0.checked_add(at.0)?.checked_sub(now.0).map(Mono).filter(is_near)
    }
}

/// Start of the local timer interrupt around `event`, if timer events were not recorded.
fn timer_interrupt(record: &Record, event: &Event) -> Option<Mono> {
    let slice = record.slice_before(event.cpu, event.at)?;
    let is_timer = match slice.context {
        Context::Vector(vector) => vector == crate::trace::event::Vector::LocalTimer,
        Context::HardIrq(irq) => record.irq_name(irq, slice.proof).contains("timer"),
        _ => false,
    };
    (is_timer && !record.has.timers).then(|| record.interrupt_begin(event.cpu, event.at))
}

/// The parts `timer late` and `timer interrupt` of `[begin, waking)`, with their shares.
pub fn explain(
    record: &Record,
    victim: Tid,
    begin: Mono,
    firing: &Firing,
    shares: &mut Vec<Share>,
) -> Vec<Segment> {
    let waking = firing.waking.1;
    let woken = waking.at.max(begin);
    let handler = firing.handler.clamp(begin, woken);
    let late = late(record, victim, begin, handler, firing, shares);
    let inside = interrupt(record, handler, woken, firing, shares);
    vec![
        Segment::group(Kind::TimerLate, "timer late", begin, handler.since(begin), late),
        Segment::group(Kind::TimerInterrupt, "timer interrupt", handler, woken.since(handler), inside),
    ]
}

/// Handler → waking.
fn interrupt(
    record: &Record,
    handler: Mono,
    woken: Mono,
    firing: &Firing,
    shares: &mut Vec<Share>,
) -> Vec<Segment> {
    let cpu = firing.waking.1.cpu;
    let counted = tally(record, Phase::TimerInterrupt, cpu, &record.slices(cpu, handler, woken));
    let mut parts = counted.gaps;
    for mut share in counted.shares {
        share.role = Role::Interrupt;
        if share.context != Context::Nmi {
            share.kind = Kind::TimerInterrupt;
            share.evidence = firing.expire.iter().map(|(index, _)| record.evidence(*index)).collect();
        }
        share.evidence.push(record.evidence(firing.waking.0));
        parts.push(share.leaf(share.label()));
        shares.push(share);
    }
    parts
}

/// Expiry → handler, or until something else woke the thread.
pub(super) fn late(
    record: &Record,
    victim: Tid,
    begin: Mono,
    handler: Mono,
    firing: &Firing,
    shares: &mut Vec<Share>,
) -> Vec<Segment> {
    let cpu = firing.waking.1.cpu;
    let mut parts = Vec::new();
    let due = firing.programmed().unwrap_or(begin).clamp(begin, handler);
    if due > begin {
        let why = if firing.is_on_the_wheel(record) { "timer wheel" } else { "timer slack" };
        let label = format!("the timer was programmed to expire later than requested ({why})");
        let mut slack = Segment::leaf(Kind::TimerLate, label, begin, due.since(begin));
        slack.evidence = firing.expire.iter().map(|(index, _)| record.evidence(*index)).collect();
        parts.push(slack);
    }
    let slices = record.slices(cpu, due, handler);
    let own = record.interrupt_begin(cpu, handler).clamp(due, handler);
    let reading = Reading::new(record, cpu, own, firing, &slices);
    let together = Together::over(record, Kind::TimerLate, cpu, &slices);
    let counted = tally(record, Phase::TimerLate, cpu, &slices);
    let mut stolen = Stolen::over(record, Phase::TimerLate, cpu, due, handler);
    parts.extend(counted.gaps);
    for mut share in counted.shares {
        let mut seen = share.clone();
        let judged = reading.judge(&mut seen, victim);
        let host = if judged.is_ok() { stolen.surely(&mut share) } else { stolen.likely(&mut share) };
        if let Some(host) = host {
            parts.push(Stolen::leaf(&host));
            shares.push(host);
        }
        // Even if the machine code shows that interrupts were re-enabled here: it does not show since when they were
        // off.
        let proved = judged.is_err_and(|open| open.stood_still);
        if !proved {
            parts.extend(together.take(&mut share));
        }
        if share.net == Ns::ZERO {
            continue;
        }
        match reading.judge(&mut share, victim) {
            Ok(label) => match both(record, &share, own) {
                Some(gap) => parts.push(gap),
                None => {
                    parts.push(share.leaf(label));
                    shares.push(share);
                }
            },
            Err(open) => parts.push(open.segment(&share)),
        }
    }
    parts
}

/// A gap instead of a culprit if another CPU took no interrupt at the same time: a hypervisor or firmware (SMI) stops
/// all CPUs anywhere, and the place where interrupts are re-enabled does not show how long they were off. Not if CPUs
/// spin for each other with interrupts off.
fn both(record: &Record, share: &Share, handler: Mono) -> Option<Segment> {
    if !matches!(share.role, Role::IrqsOff { .. }) {
        return None;
    }
    let other = standstill::elsewhere_too(record, share.cpu, share.begin, handler)?;
    let label = standstill::of_both(share.cpu, other);
    Some(Segment::unexplained(Kind::TimerLate, label, share.begin, share.net))
}

/// Why a share does not explain its time.
struct Open {
    label: String,
    stood_still: bool, // the interrupt did not come although interrupts were on
}

impl Open {
    fn because(label: String) -> Open {
        Open { label, stood_still: false }
    }

    fn segment(self, share: &Share) -> Segment {
        let Share { begin, net, .. } = *share;
        match self.stood_still {
            true => Segment::stood_still(Kind::TimerLate, self.label, begin, net),
            false => Segment::unexplained(Kind::TimerLate, self.label, begin, net),
        }
    }
}

/// Facts on the time before the timer interrupt.
struct Reading<'r> {
    /// A time at which the timer was due but not pending.
    not_pending_at: Option<Mono>,
    /// The timer expires in an interrupt, not in a softirq that may be late itself.
    by_interrupt: bool,
    /// The thread that the timer interrupted.
    interrupted: Option<Tid>,
    /// ` in write`: the system call that this thread was in; empty if unknown.
    in_call: String,
    /// The timer may have been armed after its expiry, by a thread busy until then.
    armed_late: bool,
    /// The stack taken in the timer interrupt.
    sample: Option<&'r StackSample>,
}

impl<'r> Reading<'r> {
    fn new(record: &Record<'r>, cpu: Cpu, own: Mono, firing: &Firing, slices: &[Slice]) -> Reading<'r> {
        let before = slices.iter().rfind(|slice| slice.begin < own && !slice.context.is_hard());
        let interrupted = before.and_then(|slice| slice.task).map(|task: TaskRef| task.tid);
        let waking = firing.waking.1;
        let end = record
            .events_on(cpu, waking.at, record.until())
            .find(|(_, event)| {
                matches!(event.kind, What::VectorExit(_) | What::IrqExit { .. } | What::Switch { .. })
            })
            .map_or(waking.at, |(_, event)| event.at);
        let sample = record.stacks(cpu, own, end).find(|sample| Some(sample.tid) == interrupted);
        let by_interrupt = firing.expire.is_some_and(|(_, event)| own < event.at);
        let armed_late = !record.window.from_arming;
        let not_pending_at = not_pending(slices, own, delivery(record, cpu, own));
        let in_call = interrupted.map_or(String::new(), |tid| in_call(record, cpu, tid, own));
        Reading { not_pending_at, by_interrupt, interrupted, in_call, armed_late, sample }
    }

    /// The label of a share that explains its time, else that of the gap.
    fn judge(&self, share: &mut Share, victim: Tid) -> Result<String, Open> {
        let tid = match share.context {
            Context::Thread(tid) if tid == victim && self.armed_late => {
                share.role = Role::Victim;
                share.kind = Kind::Running;
                return Ok(format!("{}, itself still busy: the timer was armed late", share.label()));
            }
            Context::Thread(tid) => Some(tid),
            Context::Softirq(_) => self.interrupted,
            Context::Idle(_) => Some(Tid::IDLE),
            _ => return Ok(share.label()),
        };
        if let Some(at) = self.not_pending_at {
            let label = format!("timer late: not pending when interrupts were re-enabled at {at}");
            // Until then no task here delayed the interrupt.
            let stood_still = self.by_interrupt && 2 * at.since(share.begin).0 > share.net.0;
            return Err(Open { label, stood_still });
        }
        if share.role == Role::Idle {
            return Ok(format!("exit from {}", share.name));
        }
        let Some(sample) = self.sample.filter(|sample| Some(sample.tid) == tid) else {
            let call = if tid == self.interrupted { self.in_call.as_str() } else { "" };
            let why = format!("timer late while {} ran{call}, with no stack to show why", share.name);
            return Err(Open::because(why));
        };
        match interrupted_code(sample) {
            Code::User => {
                let label = format!("timer late while {} ran in user mode: interrupts were on", share.name);
                Err(Open { label, stood_still: true })
            }
            Code::Unknown => Err(Open::because(format!(
                "timer late while {} ran; its stack does not show why",
                share.name
            ))),
            Code::Kernel { .. } if where_interrupts_are_on(sample).is_some() => {
                let place = where_interrupts_are_on(sample).unwrap_or_default();
                let name = &share.name;
                let label =
                    format!("timer late while {name} ran in the kernel, in {place}, where interrupts are on");
                Err(Open { label, stood_still: true })
            }
            Code::Kernel { .. } if share.net < TELLING && !reenabled_interrupts(sample) => {
                Err(Open::because(format!("timer late by little; {} was in the kernel", share.name)))
            }
            Code::Kernel { frames } => {
                share.kind = Kind::IrqsOff;
                share.stack = frames.to_vec();
                let event = "kernel stack taken in the timer's interrupt".to_owned();
                share.evidence.push(Evidence { event, cpu: sample.cpu, at: sample.at });
                share.role = Role::IrqsOff { sure: reenabled_interrupts(sample) };
                share.inferred |= !reenabled_interrupts(sample);
                Ok(format!("interrupts off in {}", share.label()))
            }
        }
    }
}

/// ` in write`, if `tid` was in that system call on `cpu` at `at`.
fn in_call(record: &Record, cpu: Cpu, tid: Tid, at: Mono) -> String {
    let before = record.events_on(cpu, Mono(0), at).rev().take(LEARNT_FROM);
    let own = before.filter(|(_, event)| event.current == Some(tid) && !event.level.is_interrupt());
    let call = own.map(|(_, event)| event.kind).find_map(|kind| match kind {
        What::SysEnter { id, .. } => Some(Some(id)),
        What::SysExit { .. } => Some(None),
        _ => None,
    });
    call.flatten().map_or(String::new(), |id| format!(" in {}", record.call_name(id)))
}

/// Maximum delivery time of a pending interrupt on this CPU, from the minimum time between two interrupts in the
/// record: on virtual CPUs each costs some µs outside its events.
fn delivery(record: &Record, cpu: Cpu, own: Mono) -> Ns {
    let mut best: Option<Ns> = None;
    let mut ended: Option<Mono> = None;
    let from = Mono(own.0.saturating_sub(1_000_000_000));
    for (_, event) in record.events_on(cpu, from, own).take(LEARNT_FROM) {
        match event.kind {
            What::VectorExit(_) | What::IrqExit { .. } => ended = Some(event.at),
            What::VectorEntry(_) | What::IrqEntry { .. } => {
                let gap = ended.take().map(|ended| event.at.since(ended));
                best = best.into_iter().chain(gap).min();
            }
            _ => ended = None,
        }
    }
    best.map_or(DELIVERY, |best| DELIVERY.max(Ns(4 * best.0)).min(LONGEST_DELIVERY))
}

/// The last time at which interrupts were on and the timer was due, but its interrupt did not come.
fn not_pending(slices: &[Slice], own: Mono, delivery: Ns) -> Option<Mono> {
    let mut run = Ns::ZERO;
    let mut task = None;
    for slice in slices.iter().rev().filter(|slice| slice.begin < own) {
        let switched = slice.task.is_some_and(|earlier| task.is_some_and(|tid| tid != earlier.tid));
        if slice.context.is_hard() || switched {
            if run >= delivery {
                return Some(slice.end);
            }
            run = Ns::ZERO;
        }
        if !slice.context.is_hard() && slice.context != Context::Nmi {
            run = run + slice.length();
        }
        task = slice.task.map(|task| task.tid).or(task);
    }
    None
}
