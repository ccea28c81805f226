//! Waits that went on: who wakes a thread that then waits for the same thing again did not end its wait.
//!
//! A condition that does not hold yet, a signal in the midst of a call, a descriptor that is not ready: what ends such a
//! wait is the last waking, and its waker is followed through all of it. Not for locks, whose earlier holders did hold them,
//! nor for calls that consumed something before they were called again. A call that a signal interrupted has neither taken
//! its lock nor consumed anything.
//!
//! Where events are missing and one of them may have shown that a wait went on, nobody is said to have ended it.

use super::clauses::{Weight, AMOUNT};
use super::missing::UNREPORTED;
use super::reason::{Asked, Reason, FROZEN, STOPPED, TRACED};
use super::wakers::{OwnTimer, TimerOf, Waker};
use super::Walk;
use crate::explain::segment::{Kind, Segment};
use crate::explain::thread::{State, Stretch};
use crate::series::Thread;
use crate::time::{Mono, Ns, Tid};
use crate::trace::event::Kind as What;

/// Maximum own time between two waits for the same thing: more is work on what the first wait was for. That of the
/// handler of a signal does not count.
const BRIEF: Ns = Ns::from_us(100);

/// Number of calls examined after a wait.
const FEW: usize = 256;

/// Results of a call that a signal interrupted: -EINTR, and -ERESTARTSYS to -ERESTART_RESTARTBLOCK (include/linux/errno.h).
const INTERRUPTED: [i64; 5] = [-4, -512, -513, -514, -516];

/// State bit of a sleep that signals end (include/linux/sched.h: TASK_INTERRUPTIBLE).
const INTERRUPTIBLE: u32 = 1;

/// A system call: name and arguments.
type Call = (String, [u64; 6]);

/// Whether a wait was over after its waking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Went {
    /// Nothing shows that it was not.
    Ended,
    /// It went on until the end of the part at this place.
    OnTo(usize),
    /// Events that would show it are missing.
    Unsure,
}

/// The calls of a thread after a wait.
#[derive(Default)]
struct After {
    /// The result of the call that waited, if that is the next event.
    result: Option<i64>,
    /// The last return from the handler of a signal.
    handled: Option<Mono>,
    /// The first call other than returns from handlers.
    next: Option<Call>,
    /// The names of these.
    others: Vec<String>,
}

impl After {
    fn is_interrupted(&self) -> bool {
        self.result.is_some_and(|result| INTERRUPTED.contains(&result))
    }
}

impl Walk<'_, '_> {
    /// For each of `stretches` of a thread: whether it is a wait that went on.
    pub(super) fn waits_that_went_on(&self, tid: Tid, stretches: &[Stretch]) -> Vec<Went> {
        let mut went = vec![Went::Ended; stretches.len()];
        // The waits after it, the first one last.
        let mut waits: Vec<(usize, Option<Call>)> = Vec::new();
        for place in (0..stretches.len()).rev() {
            let State::Blocked(bits) = stretches[place].state else { continue };
            let call = self.call_at(tid, &stretches[place]);
            // A signal or the freezer stopped it, and a call that it interrupted is made again after that.
            if bits & (STOPPED | TRACED | FROZEN) != 0
                || call.is_none() && !self.lossy && self.frozen(tid, &stretches[place]).is_some()
            {
                continue;
            }
            let next = waits.last().map(|(next, _)| *next);
            let after = self.calls_after(tid, stretches[place].end, next.map(|next| stretches[next].begin));
            let again = call
                .as_ref()
                .and_then(|call| self.again(tid, stretches, place, (call, after.is_interrupted()), &waits));
            let until = again.or(next).unwrap_or(stretches.len());
            let is_followed =
                stretches[place + 1..until].iter().all(|between| between.state != State::Unknown);
            let may_go_on = || match again {
                // Else it may have consumed something, in a call that is missing.
                Some(_) => !(after.is_interrupted() && is_followed),
                None => !is_followed || self.may_go_on(tid, call.as_ref(), &after, next.is_some()),
            };
            let can_be = bits == 0 || bits & INTERRUPTIBLE != 0;
            // After a signal it waits again, in a call whose start is missing.
            let lacks_call = after.is_interrupted()
                && after.next.is_none()
                && waits.last().is_some_and(|(next, call)| {
                    let is_signalled = |bits| bits & INTERRUPTIBLE != 0;
                    call.is_none()
                        && matches!(stretches[*next].state, State::Blocked(bits) if is_signalled(bits))
                });
            let lacks = self.lossy || lacks_call || self.lacks_result(tid, call.as_ref(), &after);
            went[place] = match again.map(|then| (then, went[then])) {
                _ if lacks && can_be && may_go_on() => Went::Unsure,
                Some((_, Went::Unsure)) => Went::Unsure,
                Some((_, Went::OnTo(end))) => Went::OnTo(end),
                Some((then, Went::Ended)) => Went::OnTo(then),
                None => Went::Ended,
            };
            waits.push((place, call));
        }
        went
    }

    fn call_at(&self, tid: Tid, stretch: &Stretch) -> Option<Call> {
        let (_, id, args) = self.linked.in_call(tid, stretch.begin)?;
        Some((self.name_of(id), args))
    }

    fn name_of(&self, id: i32) -> String {
        if self.record.is_futex(id) {
            "futex".to_owned()
        } else {
            self.record.call_name(id)
        }
    }

    /// The calls of `tid` from `from` on, up to the next wait at `until`.
    fn calls_after(&self, tid: Tid, from: Mono, until: Option<Mono>) -> After {
        let of = self.linked.in_call(tid, Mono(from.0.saturating_sub(1))).map(|(_, id, _)| id);
        let mut after = After::default();
        let mut is_first = true;
        let within = self.linked.doings_from(tid, from).take(FEW);
        for (_, event) in within.take_while(|(_, event)| until.is_none_or(|until| event.at <= until)) {
            match event.kind {
                What::SysExit { id, .. } if self.name_of(id) == "rt_sigreturn" => {
                    after.handled = Some(event.at)
                }
                // Not all recordings name the call of an exit.
                What::SysExit { id, ret } if is_first && (id < 0 || of.is_none_or(|of| of == id)) => {
                    after.result = Some(ret);
                }
                What::SysEnter { id, args } => match self.name_of(id) {
                    name if name == "rt_sigreturn" => {
                        after.handled = Some(event.at);
                        (after.next, after.others) = (None, Vec::new());
                    }
                    name => {
                        after.others.push(name.clone());
                        after.next.get_or_insert((name, args));
                    }
                },
                _ => continue,
            }
            is_first = false;
        }
        after
    }

    /// The wait in which that of `stretches[place]`, in `call`, went on; `waits`: those after it, the first one last.
    fn again(
        &self,
        tid: Tid,
        stretches: &[Stretch],
        place: usize,
        (call, is_interrupted): (&Call, bool),
        waits: &[(usize, Option<Call>)],
    ) -> Option<usize> {
        let from = &stretches[place];
        for (then, again) in waits.iter().rev() {
            let to = &stretches[*then];
            let Some(again) = again else { return None };
            let after = self.calls_after(tid, from.end, Some(to.begin));
            // A signal that interrupted a call was handled, even where the return from the handler is missing.
            let since = if is_interrupted { after.handled.unwrap_or(to.begin) } else { from.end };
            let known = ["futex", "restart_syscall", again.0.as_str()];
            let is_it = match is_interrupted {
                true => is_restart(call, again),
                false => {
                    !is_mutex(call)
                        && is_same(call, again)
                        && after.others.iter().all(|name| known.contains(&name.as_str()))
                }
            };
            let between = &stretches[place + 1..*then];
            if is_it {
                return self.is_brief(tid, since, between, to).then_some(*then);
            }
            // A wait of the handler, or for a lock that has to be taken again on the way.
            let is_on_the_way = is_interrupted && after.handled.is_none() || is_mutex(again);
            if !is_on_the_way {
                return None;
            }
        }
        None
    }

    /// Whether a thread ran only briefly in `between`, from `since` on, and woke nobody there for whom it then waited.
    fn is_brief(&self, tid: Tid, since: Mono, between: &[Stretch], then: &Stretch) -> bool {
        let runs = || between.iter().filter(|stretch| stretch.state == State::Running);
        let own: Ns = runs().map(|run| run.end.since(run.begin.max(since).min(run.end))).sum();
        let waker = then.ended_by.and_then(|index| self.record.event(index).current);
        // What it released itself in between may be what its waker needed.
        let woke = |stretch: &Stretch| {
            let Some(cpu) = stretch.cpu else { return true };
            self.record.events_on(cpu, stretch.begin, stretch.end).any(|(_, event)| {
                let What::Waking { task, .. } = event.kind else { return false };
                event.current == Some(tid) && !event.level.is_interrupt() && Some(task.tid) == waker
            })
        };
        own <= BRIEF && !runs().any(woke)
    }

    /// Whether a wait may have gone on although it seems to have ended, in a record that lost events: neither the result of
    /// its call nor another call shows that it was over. `waits_again`: it waits again after `after`.
    fn may_go_on(&self, tid: Tid, call: Option<&Call>, after: &After, waits_again: bool) -> bool {
        let is_again = |next: &Call| call.is_none_or(|call| is_restart(call, next));
        match (after.result, &after.next) {
            (Some(_), next) if after.is_interrupted() => next.as_ref().is_none_or(is_again),
            // Woken in vain, such a call returns nothing else.
            (Some(_), None) => waits_again && call.is_none_or(|call| is_same(call, call)),
            (Some(_), Some(_)) => false,
            (None, _) if after.handled.is_some() => true,
            (None, Some(next)) => is_again(next),
            // It still waits in its call.
            (None, None) => call.is_none() && self.makes_calls(tid),
        }
    }

    /// Whether the result of `call` is missing, as a return from a handler or the same call again shows, in a record with
    /// other results of it.
    fn lacks_result(&self, tid: Tid, call: Option<&Call>, after: &After) -> bool {
        let Some(call) = call.filter(|_| after.result.is_none()) else { return false };
        let is_again = || after.next.as_ref().is_some_and(|next| is_restart(call, next));
        let mut doings = self.linked.doings(tid, self.record.until());
        (after.handled.is_some() || is_again())
            && doings.any(|(_, event)| match event.kind {
                What::SysExit { id, .. } => id < 0 || self.name_of(id) == call.0,
                _ => false,
            })
    }

    /// Whether it is a thread of a program: those of the kernel make no calls.
    pub(super) fn makes_calls(&self, tid: Tid) -> bool {
        let mut calls = self.linked.doings(tid, self.record.until()).map(|(_, event)| event.kind);
        calls.any(|kind| matches!(kind, What::SysEnter { .. } | What::SysExit { .. }))
    }

    /// The parts of `stretch`, a wait of `thread` that may have gone on after its waking; `None`: what woke it did end it.
    pub(super) fn perhaps_in_vain(
        &mut self,
        thread: &Thread,
        stretch: &Stretch,
        reason: &Reason,
    ) -> Option<Vec<Segment>> {
        if matches!(reason.what, Asked::Stopped(_)) {
            return None;
        }
        let waker = self.waker(thread, stretch);
        let is_certain = match &waker {
            Waker::OwnTimer(_) | Waker::TimerOf(_) => is_timeout(self.timer_function(&waker)),
            Waker::Thread(_) | Waker::Packet { .. } | Waker::Wheel(_) | Waker::Interrupt { .. } => false,
            _ => true,
        };
        if is_certain {
            return None;
        }
        let label = format!(
            "{thread} blocked{}: whether its waking ended the wait is not certain: {UNREPORTED}",
            reason.text
        );
        Some(vec![Segment::unexplained(Kind::Lost, label, stretch.begin, stretch.length())])
    }

    /// The function of a timer that woke a thread; empty if not recorded.
    fn timer_function(&self, waker: &Waker) -> &str {
        let (Waker::OwnTimer(OwnTimer { firing, .. }) | Waker::TimerOf(TimerOf { firing, .. })) = waker
        else {
            return "";
        };
        match firing.expire.map(|(_, event)| event.kind) {
            Some(What::TimerExpireEntry { function: Some(function), .. }) => self.record.text(function),
            _ => "",
        }
    }

    /// The parts of `stretch`, a wait of `thread` that went on to the end of `last`; `None`: as any other wait.
    pub(super) fn woken_in_vain(
        &mut self,
        thread: &Thread,
        (stretch, last): (&Stretch, &Stretch),
        reason: &Reason,
        depth: usize,
    ) -> Option<Vec<Segment>> {
        let (a, b) = (stretch.begin, stretch.end);
        let first = self.waker(thread, stretch);
        let signal = self.signal(thread.tid, stretch).unwrap_or_default();
        let by = match &first {
            Waker::Thread(by) => by.to_string(),
            Waker::TimerOf(TimerOf { who: Some(who), .. }) => format!("a timer of {who}"),
            Waker::OwnTimer(_) if !is_timeout(self.timer_function(&first)) => "a timer of its own".to_owned(),
            Waker::OwnTimer(_) | Waker::Timeout { .. } => "its timeout".to_owned(),
            Waker::TimerOf(_) | Waker::Wheel(_) => "a timer".to_owned(),
            Waker::Packet { .. } => "a packet".to_owned(),
            Waker::Interrupt { label, .. } => label.clone(),
            _ => return None,
        };
        let is_timer = |waker: &Waker| matches!(waker, Waker::OwnTimer(_) | Waker::Timeout { .. });
        let then = self.waker(thread, last);
        let is_first = |who: &Thread| matches!(&first, Waker::Thread(by) if by.tid == who.tid);
        let ended_by = match &then {
            Waker::Thread(by) => Some(by.clone()),
            Waker::Packet { sent: Some(sent), .. } => self.linked.actor(*sent),
            _ => None,
        };
        if is_timer(&first) && is_timer(&then)
            || ended_by.is_some_and(|who| is_first(&who) || self.path.contains(&who.tid))
        {
            return None;
        }
        if !is_timer(&then) {
            let text = format!(
                "{} was blocked {AMOUNT}{}, where {by} woke it{signal} in vain: it waited there again",
                self.subject(thread, depth),
                reason.text
            );
            self.say(Weight::Frame, stretch.length(), text, String::new(), "");
        }
        Some(match then {
            Waker::OwnTimer(_) => {
                let proofs = [stretch.ended_by, last.ended_by];
                vec![self.sleep(thread, (a, b), &proofs, &reason.text, depth)]
            }
            then => self.given_by(then, last.ended_by, thread, (a, b), &reason.text, depth),
        })
    }
}

/// Whether a timer with this function ends the sleep that set it; others send a signal.
fn is_timeout(function: &str) -> bool {
    function.is_empty() || matches!(function, "hrtimer_wakeup" | "process_timeout")
}

/// Whether `again` is `call`, made again after a signal.
fn is_restart(call: &Call, again: &Call) -> bool {
    again.0 == "restart_syscall"
        || call.0 == "restart_syscall"
        || again.0 == call.0 && again.1[0] == call.1[0]
}

/// A lock of the program: glibc waits for a contended mutex with 2, and with inheritance by calls of its own.
fn is_mutex((name, args): &Call) -> bool {
    name == "futex" && !is_condition(args)
}

/// A condition variable or semaphore of glibc waits while a word is 0.
fn is_condition(args: &[u64; 6]) -> bool {
    matches!(args[1] & 0x7f, 0 | 9) && args[2] == 0
}

/// Whether two calls wait for the same and consume nothing: a condition variable alternates between two words.
fn is_same((name, args): &Call, (again, then): &Call) -> bool {
    let waits_for_any = match name.as_str() {
        "futex" => {
            return again == "futex"
                && is_condition(args)
                && is_condition(then)
                && (args[0] == then[0] || args[0] ^ 4 == then[0]);
        }
        "poll" | "ppoll" => args[1] > 0,
        "select" | "pselect6" => args[0] > 0,
        "epoll_wait" | "epoll_pwait" | "epoll_pwait2" => true,
        _ => false,
    };
    waits_for_any && name == again && args[..2] == then[..2]
}
