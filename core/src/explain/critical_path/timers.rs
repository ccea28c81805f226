//! A thread woken by a timer: its own sleep, or a timer armed by another context, and the lateness of the timer.

use super::clauses::{Weight, AMOUNT};
use super::known_timers::known;
use super::wakers::{OwnTimer, TimerOf, WheelTimer};
use super::Walk;
use crate::explain::causes;
use crate::explain::lateness::{self, Firing};
use crate::explain::segment::{Kind, Segment};
use crate::explain::share::{tally, Phase, Share};
use crate::series::Thread;
use crate::time::{Cpu, Mono, Ns};
use crate::trace::event::{Event, Kind as What};

impl Walk<'_, '_> {
    /// Due time of the timer of `firing`, if recorded. A timer with slack may fire earlier: then it is not late.
    pub(super) fn expiry(&mut self, timer: u64, firing: &Firing) -> Option<Mono> {
        let armed = self.linked.last_armed(timer, firing.handler);
        let on_clock = |at: Ns| firing.on_clock(self.record, at);
        let (expires, may_fire) = match (firing.programmed(), armed.map(|(_, event)| event.kind)) {
            (Some(due), _) => (on_clock(Ns(due.0)), true),
            (None, Some(What::HrtimerStart { expires, soft, .. })) => {
                let begun = soft.and_then(on_clock).is_some_and(|soft| soft <= firing.handler);
                (on_clock(expires), begun)
            }
            _ => (None, false),
        };
        if expires.is_none() && armed.is_some() && self.record.window.other_clock {
            let limit = "the trace's clock may not be CLOCK_MONOTONIC: the lateness of timers is unknown (trace-cmd record -C mono, perf record -k mono)";
            self.missing.push(limit.to_owned());
        }
        expires.filter(|due| *due <= firing.handler || may_fire).map(|due| due.min(firing.handler))
    }

    /// A sleep as requested by the thread, and the lateness of its timer; if that is not recorded, until it fired.
    pub(super) fn own_timer(
        &mut self,
        thread: &Thread,
        &OwnTimer { ref firing, expires, proof }: &OwnTimer,
        (a, b): (Mono, Mono),
        reason: &str,
        depth: usize,
    ) -> Vec<Segment> {
        let due = expires.unwrap_or(firing.handler).clamp(a, b);
        let wanted = self.wanted(proof, firing).unwrap_or(due).clamp(a, due);
        let mut parts = Vec::new();
        if wanted > a {
            let expire = firing.expire.map(|(index, _)| index);
            let proofs = [expire, proof];
            parts.push(match expires {
                Some(_) => self.sleep(thread, (a, wanted), &proofs, reason, depth),
                None if proof.is_none() && self.records_arming(thread.tid, a) => Segment::unexplained(
                    Kind::Blocked,
                    format!("{thread} sleeps{reason}: the event that set its timer is missing"),
                    a,
                    wanted.since(a),
                ),
                None => self.sleep_until_woken(thread, (a, wanted), &proofs, reason, depth),
            });
        }
        if wanted < due {
            parts.push(self.slack(thread, (wanted, due), proof, depth));
        }
        parts.extend(self.lateness(thread, due, b, firing, depth));
        parts
    }

    /// Requested end of a sleep, if its timer had slack.
    fn wanted(&self, armed: Option<u32>, firing: &Firing) -> Option<Mono> {
        if let Some(What::TimerExpireEntry { expires: Some(due), slack: Some(slack), .. }) =
            firing.expire.map(|(_, event)| event.kind)
        {
            return Some(Mono(due.0.saturating_sub(u64::from(slack.get()))))
                .filter(|soft| *soft <= firing.handler);
        }
        match self.record.event(armed?).kind {
            What::HrtimerStart { expires, soft: Some(soft), .. } if soft < expires => {
                firing.on_clock(self.record, soft).filter(|soft| *soft <= firing.handler)
            }
            _ => None,
        }
    }

    /// Timer slack, which the kernel adds to the sleeps of SCHED_OTHER threads so that timers expire together.
    pub(super) fn slack(
        &mut self,
        thread: &Thread,
        (a, b): (Mono, Mono),
        armed: Option<u32>,
        depth: usize,
    ) -> Segment {
        let text = format!(
            "{} slept {AMOUNT} longer than requested, by its timer slack",
            self.subject(thread, depth)
        );
        let advice = "timer slack: prctl(PR_SET_TIMERSLACK, 1), or a real-time priority, which has none";
        self.say(Weight::Blame, b.since(a), text, "timer slack".to_owned(), advice);
        let label = format!("{thread} sleeps on: timer slack");
        self.awaited("timer slack", label, a, b, &[armed])
    }

    /// A sleep without a known requested end.
    pub(super) fn sleep_until_woken(
        &mut self,
        thread: &Thread,
        span: (Mono, Mono),
        proofs: &[Option<u32>],
        reason: &str,
        depth: usize,
    ) -> Segment {
        let clause = format!(
            "{} slept {AMOUNT}{reason} until its own timer woke it: the lateness of the timer is not recorded",
            self.subject(thread, depth)
        );
        let label = format!(
            "{thread} SLEEPS{reason} until its own timer woke it (the lateness of the timer is not recorded)"
        );
        let is_recorded = |of: &Event| matches!(of.kind, What::TimerExpireEntry { .. });
        let advice = match self.record.window.events.iter().any(is_recorded) {
            true => "the timer was armed before the part of the trace that is read for this interval (or without hrtimer_start): whether it slept longer than requested is unknown",
            false => "record hrtimer_start and hrtimer_expire_entry: they show whether it slept longer than requested",
        };
        self.slept(thread, span, (label, clause), advice, proofs, depth)
    }

    /// The sleep itself.
    pub(super) fn sleep(
        &mut self,
        thread: &Thread,
        span: (Mono, Mono),
        proofs: &[Option<u32>],
        reason: &str,
        depth: usize,
    ) -> Segment {
        if let Some(later) = self.futex_timeout(thread.tid, span) {
            let clause = format!(
                "{} waited {AMOUNT}{reason} until its own timeout: {later}",
                self.subject(thread, depth)
            );
            let label = format!("{thread} WAITS{reason} until its own timeout: {later}");
            let advice = "the wait ended by its timeout, not by a wake: find the thread that should have woken that futex, or that held the lock";
            return self.slept(thread, span, (label, clause), advice, proofs, depth);
        }
        let clause = format!(
            "{} slept {AMOUNT} as requested{reason} (woken by its own timer)",
            self.subject(thread, depth)
        );
        let label = format!("{thread} SLEEPS as requested{reason} (its own timer)");
        let advice = match depth {
            0 => "the thread slept as long as it requested".to_owned(),
            _ => {
                let (root, other) = self.apart(thread);
                format!("{other} sleeps while {root} waits for it: let it hand over first")
            }
        };
        self.slept(thread, span, (label, clause), &advice, proofs, depth)
    }

    /// A sleep on its own timer: intended in the thread of the interval; in another thread it is a cause, because that
    /// one was waited for.
    pub(super) fn slept(
        &mut self,
        thread: &Thread,
        (a, b): (Mono, Mono),
        (label, clause): (String, String),
        advice: &str,
        proofs: &[Option<u32>],
        depth: usize,
    ) -> Segment {
        let (weight, cause) = match depth {
            0 => (Weight::Wanted, "its own sleep".to_owned()),
            _ => (Weight::Blame, format!("sleep of {}", thread.comm)),
        };
        if depth == 0 {
            self.clauses.slept(b.since(a));
        }
        self.say(weight, b.since(a), clause, cause, advice);
        self.awaited("its own timer", label, a, b, proofs)
    }

    /// A timer armed by another thread or the kernel.
    pub(super) fn timer_of(
        &mut self,
        thread: &Thread,
        TimerOf { who, armed, firing, expires }: TimerOf,
        (a, b): (Mono, Mono),
        depth: usize,
    ) -> Vec<Segment> {
        let function = match firing.expire.map(|(_, event)| event.kind) {
            Some(What::TimerExpireEntry { function: Some(function), .. }) => {
                self.record.text(function).to_owned()
            }
            _ => "timer".to_owned(),
        };
        let due = expires.unwrap_or(firing.handler).clamp(a, b);
        let mut from = a;
        let mut parts = Vec::new();
        let by = match (&who, armed) {
            (Some(who), Some(index)) => self.armed_by(who, index),
            (Some(who), None) => format!("armed by {who}"),
            (None, _) => "armed by an unknown task (not recorded)".to_owned(),
        };
        if let (Some(who), Some(index)) = (&who, armed) {
            let at = self.record.event(index).at.clamp(a, due);
            if at > a {
                parts.push(self.until(who, "arms the timer", (a, at), depth));
            }
            from = at;
        }
        if due > from && self.lossy && armed.is_none() {
            parts.push(self.unsure(
                &format!("the event that set the timer ({function}) is missing"),
                from,
                due,
            ));
        } else if due > from {
            let until = match expires {
                Some(_) => "it expired",
                None => "it fired: its lateness is not recorded",
            };
            let text = format!(
                "{} waited {AMOUNT} for a timer ({function}) {by}, until {until}",
                self.subject(thread, depth)
            );
            let (text, cause, advice) = match (known(&function), &who) {
                (Some(known), _) => (format!("{text}: {}", known.what), known.cause.to_owned(), known.advice),
                (None, who) => {
                    let cause = who
                        .as_ref()
                        .map_or(format!("timer {function}"), |who| format!("timer armed by {}", who.comm));
                    let advice = match expires {
                        Some(_) => "the timer was set for this moment: find the code that sets it",
                        None => "find the code that sets the timer, and its expiry",
                    };
                    (text, cause, advice)
                }
            };
            self.say(Weight::Blame, due.since(from), text, cause, advice);
            let expire = firing.expire.map(|(index, _)| index);
            let label = format!("timer ({function}) {by} runs until {until}");
            parts.push(self.awaited(&format!("timer {function}"), label, from, due, &[armed, expire]));
        }
        parts.extend(self.lateness(thread, due, b, &firing, depth));
        parts
    }

    /// A wheel timer armed by another thread or the kernel: it runs in softirq TIMER.
    pub(super) fn wheel_timer(
        &mut self,
        thread: &Thread,
        WheelTimer { who, armed, function, expire }: WheelTimer,
        (a, b): (Mono, Mono),
        depth: usize,
    ) -> Vec<Segment> {
        let fired = self.record.event(expire).at.clamp(a, b);
        let set = armed.map_or(a, |index| self.record.event(index).at).clamp(a, fired);
        let delays = function == "delayed_work_timer_fn";
        let known = known(&function);
        let what = match known {
            Some(known) => format!("{} ({function}, timer wheel)", known.what),
            None if delays => "the delay of a work item (delayed_work_timer_fn)".to_owned(),
            None => format!("a timer ({function}, timer wheel)"),
        };
        let by = match (&who, armed) {
            (Some(who), Some(index)) => format!(" {}", self.armed_by(who, index)),
            (_, Some(_)) => " armed in an interrupt".to_owned(),
            _ => ", armed by an unknown task (not recorded)".to_owned(),
        };
        let mut parts = Vec::new();
        if let Some(index) = armed.filter(|_| set > a) {
            match &who {
                Some(who) => parts.push(self.until(who, "arms the timer", (a, set), depth)),
                None => {
                    let cause = self.behind(thread, index);
                    let before = self.given_by(cause, Some(index), thread, (a, set), "", depth + 1);
                    let label = "until the timer is armed in an interrupt".to_owned();
                    parts.push(Segment::group(Kind::Blocked, label, a, set.since(a), before));
                }
            }
        }
        if fired > set {
            let text = format!("{what}{by} took {AMOUNT} until it expired");
            let cause = match &who {
                _ if known.is_some() => known.map_or("", |known| known.cause).to_owned(),
                Some(who) => format!("timer armed by {}", who.comm),
                None => format!("timer {function}"),
            };
            let advice = match known {
                Some(known) => known.advice,
                None if delays => "the kernel delays this work on purpose: look for a setting of the subsystem that queued it, or do not wait for it here",
                None => "the timer was set for this moment: find the code that sets it",
            };
            self.say(Weight::Blame, fired.since(set), text, cause, advice);
            let label = format!("{what}{by} runs until its expiry (in whole ticks, never early)");
            parts.push(self.awaited(&format!("timer {function}"), label, set, fired, &[armed, Some(expire)]));
        }
        if b > fired {
            let inside = self.on_the_way(self.record.event(expire).cpu, fired, b);
            let label = "from the expiry to the wake-up".to_owned();
            parts.push(Segment::group(Kind::Softirq, label, fired, b.since(fired), inside));
        }
        parts
    }

    /// `armed by X in nanosleep`: `armed` is the event.
    fn armed_by(&self, who: &Thread, armed: u32) -> String {
        let call = self.linked.in_call(who.tid, self.record.event(armed).at);
        let call = call.map_or(String::new(), |(_, id, _)| format!(" in {}", self.record.call_name(id)));
        format!("armed by {who}{call}")
    }

    fn lateness(
        &mut self,
        thread: &Thread,
        due: Mono,
        b: Mono,
        firing: &Firing,
        depth: usize,
    ) -> Vec<Segment> {
        if due >= b {
            return Vec::new();
        }
        if b < firing.waking.1.at {
            // Its softirq was deferred to a thread: until it was raised, the timer interrupt was late.
            let inside = self.on_the_way(firing.waking.1.cpu, due, b);
            return vec![Segment::group(
                Kind::TimerLate,
                "timer interrupt, which raises the softirq",
                due,
                b.since(due),
                inside,
            )];
        }
        let mut shares = Vec::new();
        let parts = lateness::explain(self.record, thread.tid, due, firing, &mut shares);
        let late = b.since(due);
        let explained: Ns = parts.iter().map(Segment::total_explained).sum();
        if !self.lossy || explained.0 * 2 >= late.0 {
            let whole = format!(
                "the timer interrupt of {} took {AMOUNT} from expiry to wake-up",
                self.subject(thread, depth)
            );
            self.say_late(thread, (&shares, &parts), late, whole, depth);
        }
        self.shares.append(&mut shares);
        parts
    }

    /// Says what kept a timer of `thread` back, `late` in all: the culprits of `shares`, and what is left, with its gaps in
    /// `parts`. `whole`: the clause if no culprit is named.
    pub(super) fn say_late(
        &mut self,
        thread: &Thread,
        (shares, parts): (&[Share], &[Segment]),
        late: Ns,
        whole: String,
        depth: usize,
    ) {
        let timer = match depth {
            0 => "its timer".to_owned(),
            _ => format!("the timer of {thread}"),
        };
        let mut left = late;
        for told in causes::tell(self.record, shares, late) {
            left = left.saturating_sub(told.net);
            let text = format!("{timer} came late: {} for {AMOUNT}", told.clause);
            self.say(Weight::Blame, told.net, text, told.cause, told.advice);
        }
        let gaps = parts.iter().flat_map(Segment::all_gaps).filter(|gap| gap.is_stall());
        let stalled: Ns = gaps.map(|gap| gap.duration_ns).sum();
        let advice = match 2 * stalled.0 > left.0 {
            true => causes::MEASURE_THE_HARDWARE,
            false => "find the code that kept interrupts off on that CPU, or whether the hardware or the host was late",
        };
        let text = match left < late {
            true => format!("{timer} was late by {AMOUNT} more"),
            false => whole,
        };
        self.say(Weight::Blame, left, text, causes::TIMER_LATE.to_owned(), advice);
    }

    /// The contexts on `cpu` in `[a, b)`, while something was pending there.
    pub(super) fn on_the_way(&mut self, cpu: Cpu, a: Mono, b: Mono) -> Vec<Segment> {
        let counted = tally(self.record, Phase::Blocked, cpu, &self.record.slices(cpu, a, b));
        let mut parts = counted.gaps;
        for share in counted.shares {
            let label = self.source(&share, a, b);
            parts.push(share.leaf(label));
            self.shares.push(share);
        }
        parts
    }
}
