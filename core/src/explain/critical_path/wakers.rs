//! The waker that ended a blocked span: from the context of the waking back to its origin.

use super::missing::{TIMER_MISSING, UNREPORTED};
use super::Walk;
use crate::explain::cpu::{Context, Slice};
use crate::explain::lateness::Firing;
use crate::explain::record::describe::does_softirqs;
use crate::explain::share::{Phase, Share};
use crate::explain::thread::Stretch;
use crate::explain::wait::is_stopper;
use crate::series::Thread;
use crate::time::{Mono, Ns, Tid};
use crate::trace::event::{Event, Kind as What, Level, Sym, Vector};

/// The waker that ended a blocked span. Numbers are indices of events.
pub(super) enum Waker<'w> {
    /// A thread, in its own context.
    Thread(Thread),
    /// A worker, inside a work item.
    Work { worker: Thread, function: String, start: u32, queued: Option<u32> },
    /// A timer that the thread armed itself.
    OwnTimer(OwnTimer<'w>),
    /// A timer armed by another context.
    TimerOf(TimerOf<'w>),
    /// Its own timeout, on the timer wheel.
    Timeout { proof: Option<u32> },
    /// A wheel timer armed by another or an unrecorded context.
    Wheel(WheelTimer),
    /// A request to a block device completed.
    Request(Request),
    /// A received packet.
    Packet { sent: Option<u32>, received: u32, softirq: String },
    /// A function called from another CPU.
    Call { queued: Option<u32>, entry: u32, function: String },
    /// Another interrupt, softirq or NMI; with the number of the softirq.
    Interrupt { label: String, proof: Option<u32>, softirq: Option<u8> },
    /// None: it was still blocked at the end of the interval.
    Unfinished,
    /// Not recorded, or not certain.
    Unknown(&'static str),
}

/// A timer that the thread armed itself.
pub(super) struct OwnTimer<'w> {
    pub firing: Firing<'w>,
    pub expires: Option<Mono>,
    /// The event that shows what it was armed for.
    pub proof: Option<u32>,
}

/// A timer armed by another context.
pub(super) struct TimerOf<'w> {
    pub who: Option<Thread>,
    pub armed: Option<u32>,
    pub firing: Firing<'w>,
    pub expires: Option<Mono>,
}

/// A wheel timer armed by another or an unrecorded context.
pub(super) struct WheelTimer {
    pub who: Option<Thread>,
    pub armed: Option<u32>,
    pub function: String,
    pub expire: u32,
}

/// A request to a block device, completed in the interrupt `irq`, or `by` a thread that the interrupt woke at `entry`.
pub(super) struct Request {
    pub issued: Option<u32>,
    pub complete: u32,
    pub irq: String,
    pub entry: Mono,
    pub by: Option<Thread>,
}

/// Maximum time from the completion of a request to the waking of its waiter.
const COMPLETING: Ns = Ns::from_ms(2);
/// Time before the completion in which the waking of the completing thread is searched.
const WOKEN: Ns = Ns::from_ms(200);
/// Number of events searched back for the start of an interrupt.
const FARTHEST: usize = 4_000;

impl<'w> Walk<'_, 'w> {
    /// The waker that ended `stretch`.
    pub(super) fn waker(&mut self, thread: &Thread, stretch: &Stretch) -> Waker<'w> {
        let record = self.record;
        let Some(index) = stretch.ended_by else {
            return Waker::Unfinished;
        };
        let waking = record.event(index);
        if !matches!(waking.kind, What::Waking { .. } | What::Wakeup { .. }) {
            if !record.has.wakings {
                self.ask("sched_waking");
            }
            return Waker::Unknown("the waking is not recorded");
        }
        if matches!(waking.kind, What::Wakeup { .. }) && self.is_far(index, waking) {
            self.ask("sched_waking");
            return Waker::Unknown("sched_wakeup does not record the waker, which may be on another CPU");
        }
        let Some(slice) = record.waker(index) else {
            return Waker::Unknown("the waker is not recorded");
        };
        match slice.context {
            Context::Thread(tid) if tid != Tid::IDLE => match self.may_be_interrupted(tid, waking) {
                true => Waker::Unknown(
                    "by the thread that ran there or by an interrupt: interrupts are not recorded",
                ),
                false => self.by_thread(tid, &slice, index, waking),
            },
            Context::HardIrq(_)
            | Context::Vector(_)
            | Context::Softirq(_)
            | Context::Nmi
            | Context::Unseen(_) => self.by_interrupt(thread, &slice, index, waking),
            Context::Thread(_) | Context::Idle(_) => match self.open(index, waking, waking.at).call {
                Some((entry, csd, function)) => self.by_call(entry, csd, function, waking),
                None => {
                    Waker::Unknown("woken from the idle loop, on behalf of an unknown task (not recorded)")
                }
            },
            Context::Unknown | Context::Lost | Context::Stalled => {
                Waker::Unknown("the waker's context is not certain")
            }
        }
    }

    /// Whether this `sched_wakeup` was executed for a remote waking: an IPI, or the idle loop in its place, wakes all
    /// threads queued until then, so the origin is not certain.
    fn is_far(&self, index: u32, wakeup: &Event) -> bool {
        let record = self.record;
        let Some(slice) = record.waker(index) else { return false };
        let between = match slice.context {
            Context::Vector(Vector::CallFunctionSingle | Vector::CallFunction | Vector::Reschedule) => true,
            Context::HardIrq(irq) => record.irq_name(irq, slice.proof).contains("IPI"),
            Context::Idle(_) => true,
            Context::Thread(tid) => {
                let unseen = wakeup.level == Level::Unsaid && self.may_be_handed_over(wakeup);
                unseen || tid == Tid::IDLE || is_stopper(&record.thread_by_id(tid, wakeup.at).comm)
            }
            _ => false,
        };
        let Some((entry, ..)) = self.open(index, wakeup, slice.begin).call else { return between };
        let mut rest = record
            .events_on(wakeup.cpu, record.event(entry).at, record.until())
            .skip_while(|(place, _)| *place != entry)
            .take_while(|(_, event)| !matches!(event.kind, What::CsdExit { .. } | What::Switch { .. }));
        rest.any(|(place, event)| place != index && matches!(event.kind, What::Wakeup { .. }))
    }

    /// The origin of an event in interrupt context, for `thread`: a work item queued there.
    pub(super) fn behind(&mut self, thread: &Thread, index: u32) -> Waker<'w> {
        let event = self.record.event(index);
        match self.record.slice_before(event.cpu, event.at).copied() {
            Some(slice) if slice.context.is_hard() || matches!(slice.context, Context::Softirq(_)) => {
                self.by_interrupt(thread, &slice, index, event)
            }
            _ => Waker::Unknown("the interrupt is not certain"),
        }
    }

    /// Whether a waking apparently by `tid` may be by an interrupt, because neither its event nor others decide that.
    /// Wakings in a system call and by workers count as their own.
    fn may_be_interrupted(&mut self, tid: Tid, waking: &Event) -> bool {
        let comm = self.record.thread_by_id(tid, waking.at).comm;
        let does = || {
            self.linked.in_call(tid, waking.at).is_some()
                || does_softirqs(&comm)
                || comm.starts_with("kworker/")
        };
        if waking.level != Level::Unsaid || !self.record.window.hides_interrupts || does() {
            return false;
        }
        self.ask("irq_vectors:local_timer_entry");
        true
    }

    fn by_thread(&self, tid: Tid, slice: &Slice, index: u32, waking: &Event) -> Waker<'w> {
        let record = self.record;
        let task = slice.task.filter(|task| task.tid == tid);
        let thread =
            task.map_or_else(|| record.thread_by_id(tid, waking.at), |task| record.thread(task, waking.at));
        let thread = Thread { prio: self.linked.set_itself(tid, waking.at).or(thread.prio), ..thread };
        match self.linked.executing(tid, waking.at) {
            Some((start, work, function)) => Waker::Work {
                worker: thread,
                function: function.map_or("?", |sym| record.text(sym)).to_owned(),
                start,
                queued: self.linked.queued(work, record.event(start).at),
            },
            None => match self.completed(tid, index, waking) {
                Some((complete, dev, sector)) => {
                    let issued = self.linked.issued(dev, sector, waking.at);
                    let (irq, entry) = self.woken_for(&thread, complete);
                    Waker::Request(Request { issued, complete, irq, entry, by: Some(thread) })
                }
                None => Waker::Thread(thread),
            },
        }
    }

    /// The request that `tid` completed just before the waking: on PREEMPT_RT in the interrupt thread.
    fn completed(&self, tid: Tid, index: u32, waking: &Event) -> Option<(u32, u32, u64)> {
        let from = Mono(waking.at.0.saturating_sub(COMPLETING.0));
        let before = self.record.events_on(waking.cpu, from, waking.at).rev();
        for (place, event) in before.skip_while(|(place, _)| *place != index).skip(1).take(64) {
            match event.kind {
                What::BlockComplete { dev, sector, .. } if self.is_own_doing(tid, event) => {
                    return Some((place, dev, sector));
                }
                What::Switch { .. } | What::SysEnter { .. } | What::SysExit { .. } => return None,
                _ => {}
            }
        }
        None
    }

    /// Whether an event is by `tid` itself, not by an interrupt.
    fn is_own_doing(&self, tid: Tid, event: &Event) -> bool {
        let slice = self.record.slice_before(event.cpu, event.at);
        let by_flags =
            !event.level.is_interrupt() || does_softirqs(&self.record.thread_by_id(tid, event.at).comm);
        by_flags && slice.is_some_and(|slice| slice.context == Context::Thread(tid))
    }

    /// Context and time of the waking of the thread that completes a request; the completion itself if it was already
    /// running.
    fn woken_for(&self, thread: &Thread, complete: u32) -> (String, Mono) {
        let record = self.record;
        let done = record.event(complete).at;
        let from = Mono(done.0.saturating_sub(WOKEN.0));
        let waking = record.events_of(thread.tid, from, done).rev().find_map(|(index, event)| {
            matches!(event.kind, What::Waking { task, .. } if task.tid == thread.tid)
                .then_some((index, event.at))
        });
        let Some((index, at)) = waking else { return (thread.to_string(), done) };
        let label = record
            .waker(index)
            .map(|slice| Share::of(record, Phase::Blocked, record.event(index).cpu, &slice));
        let interrupt = label.filter(|share| share.thread.is_none()).map(|share| share.label());
        (interrupt.unwrap_or_else(|| thread.to_string()), at)
    }

    fn by_interrupt(&mut self, thread: &Thread, slice: &Slice, index: u32, waking: &'w Event) -> Waker<'w> {
        let record = self.record;
        let entry = slice.proof.map_or(slice.begin, |proof| record.event(proof).at);
        let open = self.open(index, waking, entry);
        if let Some((proof, timer)) = open.timer
            && let Some(firing) = Firing::of(record, (index, waking)).filter(|firing| firing.expire.is_some())
        {
            return self.by_timer(thread, timer, proof, firing);
        }
        if let Some((proof, timer, function)) = open.wheel {
            return self.by_wheel(thread, proof, timer, function, waking.at);
        }
        if let Some((entry, csd, function)) = open.call {
            return self.by_call(entry, csd, function, waking);
        }
        let label = Share::of(record, Phase::Blocked, waking.cpu, slice).label();
        if let Some(complete) = open.complete
            && let What::BlockComplete { dev, sector, .. } = record.event(complete).kind
        {
            let issued = self.linked.issued(dev, sector, waking.at);
            return Waker::Request(Request { issued, complete, irq: label, entry, by: None });
        }
        if let (Some(received), Context::Softirq(_)) = (open.received, slice.context) {
            return Waker::Packet { sent: self.linked.sent(received), received, softirq: label };
        }
        if self.lacks_its_timer(slice.context) && !does_softirqs(&thread.comm) {
            return Waker::Unknown(TIMER_MISSING);
        }
        if self.lossy {
            return Waker::Unknown(UNREPORTED);
        }
        if let Some(sender) = self.sender(slice, waking) {
            return Waker::Thread(sender);
        }
        let softirq = match slice.context {
            Context::Softirq(vec) => Some(vec),
            _ => None,
        };
        self.ask_what_it_did(slice.context);
        Waker::Interrupt { label, proof: Some(index), softirq }
    }

    fn by_timer(&mut self, thread: &Thread, timer: u64, proof: u32, firing: Firing<'w>) -> Waker<'w> {
        let expires = self.expiry(timer, &firing);
        let armed = self.linked.armed(timer, firing.handler).map(|(index, _)| index);
        let who = armed.and_then(|index| self.linked.actor(index));
        let function = match self.record.event(proof).kind {
            What::TimerExpireEntry { function: Some(function), .. } => self.record.text(function),
            _ => "",
        };
        match who {
            Some(who) if who.tid == thread.tid => Waker::OwnTimer(OwnTimer { firing, expires, proof: armed }),
            // The tick is not a timer of a thread: the work it found is not recorded.
            _ if function.starts_with("tick_") => {
                let label = format!("the tick ({function}) of CPU {}", firing.waking.1.cpu);
                Waker::Interrupt { label, proof: Some(proof), softirq: None }
            }
            // The timer of a sleep is on the sleeper's stack: no other context can have armed it.
            None if function == "hrtimer_wakeup" => {
                Waker::OwnTimer(OwnTimer { firing, expires, proof: armed })
            }
            Some(_) if function == "hrtimer_wakeup" => {
                let expires = firing.programmed();
                Waker::OwnTimer(OwnTimer { firing, expires, proof: None })
            }
            who => {
                if armed.is_none() {
                    self.ask("hrtimer_start");
                }
                Waker::TimerOf(TimerOf { who, armed, firing, expires })
            }
        }
    }

    fn by_wheel(
        &mut self,
        thread: &Thread,
        proof: u32,
        timer: u64,
        function: Option<Sym>,
        at: Mono,
    ) -> Waker<'w> {
        let function = function.map_or("", |sym| self.record.text(sym)).to_owned();
        let armed = self.linked.armed(timer, at).map(|(index, _)| index);
        let who = armed.and_then(|index| self.linked.actor(index));
        match who {
            Some(who) if who.tid == thread.tid => Waker::Timeout { proof: armed },
            _ if function == "process_timeout" => Waker::Timeout { proof: Some(proof) },
            who => {
                if armed.is_none() {
                    self.ask("timer_start");
                }
                Waker::Wheel(WheelTimer { who, armed, function, expire: proof })
            }
        }
    }

    fn by_call(&self, entry: u32, csd: u64, function: Option<Sym>, waking: &Event) -> Waker<'w> {
        let function = function.map_or("?", |sym| self.record.text(sym)).to_owned();
        Waker::Call { queued: self.linked.called(csd, waking.at), entry, function }
    }

    /// What was open or had just ended on the CPU of the waking, since the start of the interrupt.
    fn open(&self, index: u32, waking: &Event, entry: Mono) -> Open {
        let mut open = Open::default();
        let (mut timers_done, mut wheels_done, mut calls_done) = (0, 0, 0);
        let all = self.record.events_on(waking.cpu, Mono(entry.0.saturating_sub(20_000)), waking.at).rev();
        let before = all.skip_while(|(place, _)| *place != index).skip(1).take(FARTHEST);
        for (place, event) in before {
            match event.kind {
                What::TimerExpireExit { .. } => timers_done += 1,
                What::TimerExpireEntry { timer, .. } if timers_done == 0 => {
                    open.timer = open.timer.or(Some((place, timer)));
                    break;
                }
                What::TimerExpireEntry { .. } => timers_done -= 1,
                What::WheelExpireExit { .. } => wheels_done += 1,
                What::WheelExpireEntry { timer, function } if wheels_done == 0 => {
                    open.wheel = open.wheel.or(Some((place, timer, function)));
                    break;
                }
                What::WheelExpireEntry { .. } => wheels_done -= 1,
                What::CsdExit { .. } => calls_done += 1,
                What::CsdEntry { csd, function } if calls_done == 0 => {
                    open.call = open.call.or(Some((place, csd, function)));
                    break;
                }
                What::CsdEntry { .. } => calls_done -= 1,
                What::BlockComplete { .. } => open.complete = open.complete.or(Some(place)),
                What::NetReceive { .. } => open.received = open.received.or(Some(place)),
                What::Switch { .. } => break,
                _ if event.at < entry => break,
                // Activity of the thread before it was interrupted.
                _ if waking.level.is_interrupt() && event.level == Level::Thread => break,
                _ => {}
            }
        }
        open
    }
}

/// Open items around a waking.
#[derive(Default)]
struct Open {
    timer: Option<(u32, u64)>,
    wheel: Option<(u32, u64, Option<Sym>)>,
    call: Option<(u32, u64, Option<Sym>)>,
    complete: Option<u32>,
    received: Option<u32>,
}
