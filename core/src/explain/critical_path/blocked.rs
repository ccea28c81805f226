//! Blocked time: the object that the thread waited for, and the time of the thread that provided it.

use super::clauses::{Weight, AMOUNT};
use super::grace;
use super::missing::TIMER_MISSING;
use super::reason::{Asked, Reason};
use super::wakers::{OwnTimer, TimerOf, Waker};
use super::Walk;
use crate::explain::causes::waited_for::{FIND_THE_STOPPER, STOPPED};
use crate::explain::segment::{Kind, Segment};
use crate::explain::thread::{states, State, Stretch};
use crate::series::Thread;
use crate::time::{Mono, Ns, Tid};
use crate::trace::event::Kind as What;

/// Whether a lock could pass the waiter's priority to the holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inherits {
    /// It waits for a mutex of the program (glibc marks a contended one with 2).
    Could,
    /// It waits for a mutex or a condition variable.
    IfMutex,
    /// No: not a lock of the program, or one that already does.
    No,
}

/// Results of `signal_generate` that mean sent, the second without siginfo (TRACE_SIGNAL_DELIVERED and
/// TRACE_SIGNAL_LOSE_INFO in include/trace/events/signal.h).
const SENT: i32 = 0;
const SENT_BARE: i32 = 4;

impl Inherits {
    fn of(asked: &Asked, waker: &Waker) -> Inherits {
        match (asked, waker) {
            (Asked::Futex { inherits: false, mutex: true, .. }, Waker::Thread(_)) => Inherits::Could,
            (Asked::Futex { inherits: false, .. }, Waker::Thread(_)) => Inherits::IfMutex,
            _ => Inherits::No,
        }
    }
}

/// Advice if `comm`, which is waited for, shares its CPU by fair scheduling.
pub(super) fn fair_advice(waits_for: Option<&Inherits>, inversion: &str, comm: &str) -> String {
    match waits_for {
        Some(Inherits::Could) if !inversion.is_empty() => format!(
            "give the mutex priority inheritance (PTHREAD_PRIO_INHERIT), else give {comm} a real-time priority"
        ),
        _ => format!("give {comm} a real-time priority, or a CPU to itself"),
    }
}

impl Walk<'_, '_> {
    /// The parts of a blocked span.
    pub(super) fn blocked(
        &mut self,
        thread: &Thread,
        stretch: &Stretch,
        reason: &Reason,
        depth: usize,
    ) -> Vec<Segment> {
        let (a, b) = (stretch.begin, stretch.end);
        if let Asked::Stopped(how) = &reason.what {
            return vec![self.stopped(thread, stretch, (how, reason.proof), depth)];
        }
        if let Some(sleep) = self.overdue(thread.tid, b) {
            return self.overslept(thread, (a, b), sleep, &reason.text, depth);
        }
        let waker = self.waker(thread, stretch);
        if reason.what == Asked::Sleep && self.is_not_by_signal(thread, stretch, &waker) {
            return vec![self.sleep_until_woken(thread, (a, b), &[stretch.ended_by], &reason.text, depth)];
        }
        if grace::drives(&thread.comm) && self.is_quiescence(&waker) {
            return vec![self.quiescence(thread, (a, b), stretch.ended_by)];
        }
        if grace::calls_back(&thread.comm) && self.is_quiescence(&waker) {
            return self.grace_period(thread, (a, b), stretch.ended_by, depth);
        }
        if let (Asked::Sleep, Waker::Interrupt { proof, .. }) = (&reason.what, &waker) {
            // In an interrupt only its timer ends it, even if the events of the timer are not recorded.
            return vec![self.sleep_until_woken(thread, (a, b), &[*proof], &reason.text, depth)];
        }
        if !matches!(waker, Waker::OwnTimer(_) | Waker::Unknown(_) | Waker::Unfinished) {
            self.frame(thread, stretch, reason, &waker, depth);
        }
        self.waits_for.push(Inherits::of(&reason.what, &waker));
        let parts = self.given_by(waker, stretch.ended_by, thread, (a, b), &reason.text, depth);
        self.waits_for.pop();
        parts
    }

    /// As `ended_by`; if `index`, the event that ended the wait, is in a softirq deferred to a thread, the last part is
    /// the time of that thread.
    pub(super) fn given_by(
        &mut self,
        waker: Waker,
        index: Option<u32>,
        thread: &Thread,
        (a, b): (Mono, Mono),
        text: &str,
        depth: usize,
    ) -> Vec<Segment> {
        let deferred = index.and_then(|index| self.deferred(index));
        let Some(deferred) = deferred else { return self.ended_by(waker, thread, (a, b), text, depth) };
        let due = match &waker {
            Waker::OwnTimer(OwnTimer { expires: Some(due), .. })
            | Waker::TimerOf(TimerOf { expires: Some(due), .. }) => *due,
            _ => a,
        };
        let from = deferred.since.max(due).clamp(a, b);
        let mut parts =
            if from > a { self.ended_by(waker, thread, (a, from), text, depth) } else { Vec::new() };
        if from < b {
            parts.push(self.by_softirq_thread(&deferred, (from, b), depth));
        }
        parts
    }

    /// The parts of `[a, b)`, at whose end `waker` released `thread`; `text` names the wait.
    pub(super) fn ended_by(
        &mut self,
        waker: Waker,
        thread: &Thread,
        (a, b): (Mono, Mono),
        text: &str,
        depth: usize,
    ) -> Vec<Segment> {
        match waker {
            Waker::Unfinished => {
                let why = "still blocked at the end of the interval";
                let label = format!("{thread} blocked{text}: {why}");
                vec![Segment::unexplained(Kind::Blocked, label, a, b.since(a))]
            }
            Waker::Unknown(why) => {
                vec![Segment::unexplained(
                    Kind::Blocked,
                    format!("{thread} blocked{text}: {why}"),
                    a,
                    b.since(a),
                )]
            }
            Waker::Thread(other) => self.life(&other, a, b, depth + 1),
            Waker::Work { worker, function, start, queued } => {
                self.work(thread, &worker, &function, (start, queued), (a, b), depth)
            }
            Waker::OwnTimer(timer) => self.own_timer(thread, &timer, (a, b), text, depth),
            Waker::TimerOf(timer) => self.timer_of(thread, timer, (a, b), depth),
            Waker::Timeout { proof } => self.timeout(thread, (a, b), proof, depth),
            Waker::Request(request) => self.request(thread, request, (a, b), depth),
            Waker::Packet { sent, received, softirq } => {
                self.packet(thread, sent, received, &softirq, (a, b), depth)
            }
            Waker::Call { queued, entry, function } => {
                self.call(thread, queued, entry, &function, (a, b), depth)
            }
            Waker::Wheel(timer) => self.wheel_timer(thread, timer, (a, b), depth),
            ref callback if self.is_callback(callback) => {
                let Waker::Interrupt { proof, .. } = waker else { return Vec::new() };
                self.grace_period(thread, (a, b), proof, depth)
            }
            Waker::Interrupt { label, proof, .. } => {
                let net = b.since(a);
                let told = format!("{} waited {AMOUNT} for {label}", self.subject(thread, depth));
                let advice = format!(
                    "this is the time until {label} arrived: check the device or timer that raises it"
                );
                self.say(Weight::Blame, net, told, format!("waited for: {label}"), advice);
                vec![self.awaited(&label, format!("waited for {label}"), a, b, &[proof])]
            }
        }
    }

    /// A sleep ends by its timer or by a signal. Whether the apparent waker, a thread or the idle loop, did not send a
    /// signal: then it was interrupted by the timer, whose events are not recorded.
    fn is_not_by_signal(&self, thread: &Thread, stretch: &Stretch, waker: &Waker) -> bool {
        let Some(index) = stretch.ended_by else { return false };
        let waking = self.record.event(index);
        if !matches!(waking.kind, What::Waking { .. }) || self.signal(thread.tid, stretch).is_some() {
            return false;
        }
        match waker {
            Waker::Unknown(TIMER_MISSING) => false,
            Waker::Unknown(_) => true,
            Waker::Thread(other) => {
                let call =
                    self.linked.in_call(other.tid, waking.at).map(|(_, id, _)| self.record.call_name(id));
                call.is_some_and(|call| {
                    !["kill", "sig", "ptrace", "exit", "write", "sys "].iter().any(|part| call.contains(part))
                })
            }
            _ => false,
        }
    }

    /// Adds the clause on the object of the wait and its holder.
    fn frame(&mut self, thread: &Thread, stretch: &Stretch, reason: &Reason, waker: &Waker, depth: usize) {
        let net = stretch.length();
        let subject = self.subject(thread, depth);
        let by = self.signal(thread.tid, stretch).unwrap_or_default();
        let (text, cause, advice) = match (&reason.what, waker) {
            (Asked::Futex { inherits: true, .. }, Waker::Thread(owner)) => {
                let boost = self.boost(owner, stretch);
                (
                    format!("{subject} was blocked {AMOUNT}{}, held by {owner}{boost}", reason.text),
                    format!("PI mutex of {}", owner.comm),
                    format!("the cost of the critical section of {}: shorten it; inheritance already bounds the inversion", owner.comm),
                )
            }
            (Asked::Futex { mutex: true, .. }, Waker::Thread(owner)) => (
                format!("{subject} was blocked {AMOUNT}{}, a mutex without priority inheritance, held by {owner}{by}", reason.text),
                format!("mutex of {}", owner.comm),
                format!("give the mutex priority inheritance (PTHREAD_PRIO_INHERIT), and shorten what {} does while it holds it", owner.comm),
            ),
            (Asked::Futex { address, .. }, Waker::Thread(owner)) => {
                let released = self.wakes(owner, *address, stretch.end);
                let how = if released { "released by" } else { "woken by" };
                let ends = self.linked.in_call(owner.tid, stretch.end).map(|(_, id, _)| self.record.call_name(id));
                let by = match ends.is_some_and(|call| call.starts_with("exit")) {
                    true => format!(", which ended there{by}"),
                    false => by,
                };
                (format!("{subject} was blocked {AMOUNT}{} (a lock, condition or semaphore without priority inheritance), {how} {owner}{by}", reason.text), String::new(), String::new())
            }
            (Asked::Lock, Waker::Thread(owner)) => {
                let boost = self.boost(owner, stretch);
                (format!("{subject} was blocked {AMOUNT}{}, held by {owner}{boost} until it woke it{by}", reason.text), String::new(), String::new())
            }
            (Asked::End, Waker::Thread(other)) => {
                (format!("{subject} was blocked {AMOUNT}{} until {other} woke it, which ended there", reason.text), String::new(), String::new())
            }
            (Asked::Page { place, .. }, Waker::Thread(other)) if self.provides_pages(stretch.ended_by) => {
                (format!("{subject} was blocked {AMOUNT} in a page fault on {place}, until {other} provided the page (userfaultfd)"), String::new(), String::new())
            }
            (Asked::Page { place, is_file }, _) => (
                format!("{subject} was blocked {AMOUNT} in a page fault on {place}"),
                "page fault".to_owned(),
                match is_file {
                    Some(false) => "lock the memory (mlockall), so that it is not swapped out, and touch it before it is needed".to_owned(),
                    Some(true) => "lock and touch the mapped file before it is needed (mlockall, MAP_POPULATE, MAP_LOCKED), or read it in a thread of its own".to_owned(),
                    None => "lock and touch the memory, or the file that is mapped there, before it is needed (mlockall, MAP_POPULATE, MAP_LOCKED): it was read from a disk".to_owned(),
                },
            ),
            (_, Waker::Thread(other)) if grace::drives(&other.comm) => {
                let who = self.readers(stretch.begin, stretch.end).1;
                (format!("{subject} was blocked {AMOUNT}{}, until the end of an RCU grace period, which {other} drives{who}", reason.text), String::new(), String::new())
            }
            (_, Waker::Thread(other)) => {
                (format!("{subject} was blocked {AMOUNT}{} until {other} woke it{by}", reason.text), String::new(), String::new())
            }
            _ => (format!("{subject} was blocked {AMOUNT}{}{by}", reason.text), String::new(), String::new()),
        };
        self.say(Weight::Frame, net, text, cause, advice);
    }

    /// A stopped thread runs again when it is continued: nothing else is to blame.
    fn stopped(
        &mut self,
        thread: &Thread,
        stretch: &Stretch,
        (how, proof): (&str, Option<u32>),
        depth: usize,
    ) -> Segment {
        let sent = proof.or_else(|| self.linked.stopped(thread.tid, stretch.begin));
        // A thread cannot be its own tracer.
        let traced = how.contains("tracer");
        let by = sent.and_then(|index| self.linked.actor(index)).filter(|by| !traced || by.tid != thread.tid);
        let of = if proof.is_some() { ", by" } else { " of" };
        let by = by.map_or(String::new(), |by| format!("{of} {by}"));
        let waker = self.waker(thread, stretch);
        let continues = match waker {
            Waker::Thread(other) if !self.path.contains(&other.tid) => Some(other),
            _ => None,
        };
        let on = continues.as_ref().map_or(String::new(), |other| format!(", until {other} continued it"));
        let text = format!("{} was stopped {how}{by} for {AMOUNT}{on}", self.subject(thread, depth));
        let advice = FIND_THE_STOPPER;
        let label = format!("{thread} is stopped {how}{by}{on}");
        // Follows a continuing thread only if it was delayed itself, or is a tracer; else it chose the time.
        let held_up = |other: &Thread| {
            let lives = states(self.record, other.tid, stretch.begin, stretch.end);
            let is_told =
                |life: &&Stretch| life.state.waits_for_cpu() || traced && life.state == State::Running;
            let told: Ns = lives.iter().filter(is_told).map(Stretch::length).sum();
            told.0 * 4 >= stretch.length().0
        };
        if let Some(other) = continues.clone().filter(held_up) {
            // A task that delays the continuing thread is to blame for that.
            self.say(Weight::Frame, stretch.length(), text, "stopped".to_owned(), advice);
            let inside = self.life(&other, stretch.begin, stretch.end, depth + 1);
            let mut group = Segment::group(Kind::Blocked, label, stretch.begin, stretch.length(), inside);
            let proofs = [sent, stretch.ended_by];
            group.evidence.extend(proofs.into_iter().flatten().map(|index| self.record.evidence(index)));
            return group;
        }
        if self.lossy && !continues.as_ref().is_some_and(|other| self.acts_as_recorded(other, stretch)) {
            let what = format!("{label}; whether it was to be continued earlier");
            return self.unsure(&what, stretch.begin, stretch.end);
        }
        self.say(Weight::Blame, stretch.length(), text, "stopped".to_owned(), advice);
        self.awaited(STOPPED, label, stretch.begin, stretch.end, &[sent, stretch.ended_by])
    }

    /// Whether no event of `other` in the span is certainly missing: each of its waits ends with a waking, each of its runs
    /// starts with a switch.
    fn acts_as_recorded(&self, other: &Thread, stretch: &Stretch) -> bool {
        let lives = states(self.record, other.tid, stretch.begin, stretch.end);
        lives.iter().all(|life| {
            let ends = life.ended_by.map(|index| self.record.event(index).kind);
            let is_woken =
                !matches!(life.state, State::Blocked(_)) || matches!(ends, None | Some(What::Waking { .. }));
            !life.inferred && life.state != State::Unknown && is_woken
        })
    }

    /// ` boosted to RT 80 (sched_pi_setprio 120 => 19)`, if the owner was.
    fn boost(&self, owner: &Thread, stretch: &Stretch) -> String {
        let from = Mono(stretch.begin.0.saturating_sub(Ns::from_ms(1).0));
        let Some(index) = self.linked.boosted(owner.tid, from, stretch.end) else { return String::new() };
        match self.record.event(index).kind {
            What::PiSetprio { old, new, .. } => {
                let own = self.linked.own_prio(owner.tid, self.record.event(index).at).unwrap_or(old);
                format!(
                    ", which is {own} by itself and was boosted to {new} by priority inheritance (sched_pi_setprio {} => {})",
                    old.0, new.0
                )
            }
            _ => String::new(),
        }
    }

    /// Whether `owner` is in a futex wake of this address at `at`: then it released the lock.
    fn wakes(&self, owner: &Thread, address: u64, at: Mono) -> bool {
        let call = self.linked.in_call(owner.tid, at);
        call.is_some_and(|(_, id, args)| self.record.is_futex(id) && args[0] == address)
    }

    /// A signal for `tid`, generated in the context of the waking. One for the whole process names its first thread;
    /// which threads belong to a process is not known.
    pub(super) fn signal(&self, tid: Tid, stretch: &Stretch) -> Option<String> {
        let waking = self.record.event(stretch.ended_by?);
        let from = Mono(waking.at.0.saturating_sub(Ns::from_us(50).0));
        // The event follows the waking caused by the signal.
        let until = waking.at + Ns::from_us(50);
        let mut around = self
            .record
            .events_on(waking.cpu, from, until)
            .filter(|(_, event)| event.current == waking.current);
        around.find_map(|(_, event)| match event.kind {
            What::SignalGenerate { sig, task, result: SENT | SENT_BARE, .. } if task.tid == tid => {
                Some(format!(" with signal {sig} ({})", signal_name(sig)))
            }
            _ => None,
        })
    }
}

/// Names of the signals that programs wake each other with (x86 and ARM numbers).
pub(super) fn signal_name(sig: i32) -> String {
    let names = [
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE",
        "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP",
    ];
    match usize::try_from(sig - 1).ok().and_then(|place| names.get(place)) {
        Some(name) => format!("SIG{name}"),
        None if sig >= 32 => format!("SIGRTMIN+{}", sig - 34),
        None => "signal".to_owned(),
    }
}
