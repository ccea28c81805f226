//! Waits that went on: who wakes a thread that then waits for the same thing again did not end its wait.
//!
//! A condition that does not hold yet, a signal in the midst of a call, a descriptor that is not ready: what ends such a
//! wait is the last waking, and its waker is followed through all of it. Not for locks, whose earlier holders did hold them,
//! nor for calls that consumed something before they were called again.

use super::clauses::Weight;
use super::reason::Reason;
use super::wakers::Waker;
use super::Walk;
use crate::explain::segment::Segment;
use crate::explain::thread::{State, Stretch};
use crate::series::Thread;
use crate::time::{Ns, Tid};
use crate::trace::event::Kind as What;

/// Maximum own time between two waits for the same thing: more is work on what the first wait was for.
const BRIEF: Ns = Ns::from_us(100);

/// Results of a call that a signal interrupted: -EINTR, and -ERESTARTSYS to -ERESTART_RESTARTBLOCK (include/linux/errno.h).
const EINTR: i64 = -4;
const RESTARTED: [i64; 4] = [-512, -513, -514, -516];

/// A system call: name and arguments.
type Call = (String, [u64; 6]);

impl Walk<'_, '_> {
    /// For each of `stretches` of a thread that is a wait which went on, the place of its last part.
    pub(super) fn waits_that_went_on(&self, tid: Tid, stretches: &[Stretch]) -> Vec<Option<usize>> {
        let mut last = vec![None; stretches.len()];
        let mut next: Option<usize> = None;
        for place in (0..stretches.len()).rev() {
            if !matches!(stretches[place].state, State::Blocked(_)) {
                continue;
            }
            let Some(call) = self.call_at(tid, &stretches[place]).filter(|call| !is_mutex(call)) else {
                // A lock that has to be taken again on the way is not another wait.
                next = next.filter(|_| self.call_at(tid, &stretches[place]).is_some());
                continue;
            };
            if let Some(then) = next {
                let end = last[then].unwrap_or(then);
                let between = &stretches[place + 1..then];
                let to = (&stretches[then], &stretches[end]);
                if self.goes_on(tid, (&stretches[place], &call), between, to) {
                    last[place] = Some(end);
                }
            }
            next = Some(place);
        }
        last
    }

    fn call_at(&self, tid: Tid, stretch: &Stretch) -> Option<Call> {
        let (_, id, args) = self.linked.in_call(tid, stretch.begin)?;
        let name = if self.record.is_futex(id) { "futex".to_owned() } else { self.record.call_name(id) };
        Some((name, args))
    }

    /// Whether the wait `from`, in `call`, went on in `to`, the last part of which is `last`.
    fn goes_on(
        &self,
        tid: Tid,
        (from, call): (&Stretch, &Call),
        between: &[Stretch],
        (to, last): (&Stretch, &Stretch),
    ) -> bool {
        let Some(again) = self.call_at(tid, to) else { return false };
        let runs = || between.iter().filter(|stretch| stretch.state == State::Running);
        if runs().map(Stretch::length).sum::<Ns>() > BRIEF {
            return false;
        }
        let (mut result, mut other) = (None, false);
        let within = self.linked.doings(tid, to.begin).take(256);
        for (_, event) in within.take_while(|(_, event)| event.at >= from.end) {
            match event.kind {
                What::SysExit { ret, .. } => result = Some(ret),
                What::SysEnter { id, .. } => {
                    let name = self.record.call_name(id);
                    other |= !["futex", "rt_sigreturn", "restart_syscall"].contains(&name.as_str())
                        && name != again.0;
                }
                _ => {}
            }
        }
        let interrupted = result.is_some_and(|ret| ret == EINTR || RESTARTED.contains(&ret))
            && (again.0 == "restart_syscall" || again.0 == call.0 && again.1[0] == call.1[0]);
        if other || !(interrupted || is_same(call, &again)) {
            return false;
        }
        // What it released itself in between may be what its waker needed.
        let waker = last.ended_by.and_then(|index| self.record.event(index).current);
        let woke = |stretch: &Stretch| {
            let Some(cpu) = stretch.cpu else { return true };
            self.record.events_on(cpu, stretch.begin, stretch.end).any(|(_, event)| {
                let What::Waking { task, .. } = event.kind else { return false };
                event.current == Some(tid) && !event.level.is_interrupt() && Some(task.tid) == waker
            })
        };
        !runs().any(woke)
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
        let (by, signal) = match &first {
            Waker::Thread(by) => (by.to_string(), self.signal(thread.tid, stretch).unwrap_or_default()),
            Waker::TimerOf { who: Some(who), .. } => (format!("a timer of {who}"), String::new()),
            Waker::OwnTimer { .. } | Waker::Timeout { .. } => ("its timeout".to_owned(), String::new()),
            _ => return None,
        };
        let is_timer = |waker: &Waker| matches!(waker, Waker::OwnTimer { .. } | Waker::Timeout { .. });
        let then = self.waker(thread, last);
        let who = match &then {
            Waker::Thread(by) => Some(by.clone()),
            Waker::Packet { sent: Some(sent), .. } => Some(self.linked.actor(*sent)?),
            Waker::OwnTimer { .. } | Waker::Timeout { .. } => None,
            _ => return None,
        };
        let is_first = |who: &Thread| matches!(&first, Waker::Thread(by) if by.tid == who.tid);
        if is_timer(&first) && is_timer(&then)
            || who.as_ref().is_some_and(|who| is_first(who) || self.path.contains(&who.tid))
        {
            return None;
        }
        let text = format!(
            "{} was blocked {{}}{}, where {by} woke it{signal} in vain: it waited there again",
            self.subject(thread, depth),
            reason.text
        );
        let net = stretch.length();
        match (who, then) {
            (Some(who), _) => {
                self.say(Weight::Frame, net, text, String::new(), "");
                Some(self.life(&who, a, b, depth + 1))
            }
            (None, Waker::Timeout { proof }) => Some(self.timeout(thread, (a, b), proof, depth)),
            (None, _) => Some(vec![self.sleep(
                thread,
                (a, b),
                &[stretch.ended_by, last.ended_by],
                &reason.text,
                depth,
            )]),
        }
    }
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
