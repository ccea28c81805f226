//! The time of a job in parts, from its activations alone: exact sums, no events needed.
//!
//! An activation has the times of its waking, switch-in and block, its CPU time, and its waker. So every job has an
//! explanation ([`explanation`]), even if the flight recorder no longer holds its events. The task on the CPU in the
//! meantime, and what the holder of a lock did, need the flight recorder: `explain::explain_job`.

use super::advice::{advice, WHEEL};
use super::job::{Job, StartDelay};
use super::point::{Class, Place};
use crate::explain::causes::TIMER_LATE;
use crate::explain::{Explanation, Kind, Segment};
use crate::series::Thread;
use crate::time::{Mono, Ns, Tid};
use crate::trace::activation::{Activation, Point, Via};

/// SCHED_DEADLINE (include/uapi/linux/sched.h).
const DEADLINE: u8 = 6;
/// Maximum number of separate sums; the rest is `other waits`.
const APART: usize = 64;
/// Minimum share of a part that the sentence mentions.
const TOLD: f64 = 0.05;
/// With a page fault in each such time, faults that do not block take most or much of it (1 µs and more each).
const FAULT: Ns = Ns(5_000);
/// Here copies of pages may take most of it: 1 to 10 µs each, most on virtual machines.
const SLOW_FAULT: Ns = Ns(15_000);

const PREEMPTED: &str = "preempted";
const HELD_BY: &str = "CPU held by ";
pub(super) const OUT_OF_BUDGET: &str = "SCHED_DEADLINE budget used up, or preempted by an earlier deadline";
pub(super) const OUT_OF_QUOTA: &str = "CPU quota of its cgroup used up, or preempted";
pub(super) const WOKEN_OUT_OF_QUOTA: &str = "CPU quota of its cgroup used up, or CPU held by others";
const STOPPED: &str = "stopped in its wait, by a signal, a debugger or the freezer";
const FROZEN: &str = "stopped in its sleep by the freezer of its cgroup";
pub(super) const HELD_UP: &str = "page fault or lock of the kernel";
const BEHIND: &str = "behind its own schedule";
pub(super) const ARMED_LATE: &str = "its timer was armed late by another thread";

/// Kind of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The previous job was not finished.
    Backlog,
    /// The time it waited for had passed before its previous job started.
    Behind,
    /// It was stopped in the wait for its release.
    Stopped,
    /// Its timer was programmed later than requested (timer slack of a SCHED_OTHER thread).
    Slack,
    /// Its timer was late.
    TimerLate,
    /// It waited for a CPU after its waking.
    WakeUp,
    /// It ran.
    Runs,
    /// It was runnable without a CPU.
    Preempted,
    /// It slept as requested.
    Sleeps,
    /// It was blocked.
    Blocked,
}

/// A part of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Its kind.
    pub what: What,
    /// Text: `blocked in futex FUTEX_WAIT 0x…, released by logger/7`.
    pub label: String,
    /// Its cause for rankings, without thread ids: `mutex without inheritance, held by logger`.
    pub cause: String,
    /// Its start.
    pub begin: Mono,
    /// Its length.
    pub net: Ns,
    /// Occurrences.
    pub count: u32,
    /// Number of page faults.
    pub faults: u32,
    /// The thread that ended the wait.
    pub by: Option<Thread>,
}

/// The parts of `job`.
#[must_use]
pub(super) fn of(job: &Job, name: fn(Point) -> Option<&'static str>) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut cursor = job.begin;
    if let Some(backlog) = &job.backlog {
        let until = backlog.until.clamp(job.begin, job.end);
        let (what, label, cause) = match &backlog.why {
            StartDelay::Stopped => (What::Stopped, STOPPED.to_owned(), STOPPED),
            StartDelay::ArmedLate => (What::TimerLate, ARMED_LATE.to_owned(), ARMED_LATE),
            StartDelay::Behind => {
                let label = format!("{BEHIND}: its release had passed before its previous job started");
                (What::Behind, label, BEHIND)
            }
            StartDelay::StillBehind => {
                let label = format!("backlog: the previous job was not finished ({BEHIND})");
                (What::Behind, label, BEHIND)
            }
            StartDelay::Overrun(None) => {
                let label = "backlog: the previous job was not finished".to_owned();
                (What::Backlog, label, "backlog of the job before")
            }
            StartDelay::Overrun(Some(cause)) => {
                let label = format!("backlog: the previous job was not finished ({cause})");
                (What::Backlog, label, cause.as_str())
            }
        };
        push(&mut parts, &mut cursor, until, what, label, cause.to_owned());
    }
    let mut before = None;
    for a in &job.steps {
        step(before, a, &mut cursor, name, &mut parts);
        before = Some(a);
    }
    parts.extend(job.more.iter().cloned());
    parts
}

/// Appends the time from `cursor` to the end of `a`, which follows `before` in the same job.
pub(super) fn step(
    before: Option<&Activation>,
    a: &Activation,
    cursor: &mut Mono,
    name: fn(Point) -> Option<&'static str>,
    parts: &mut Vec<Part>,
) {
    if let Some(before) = before {
        waits(before, a, cursor, name, parts);
    }
    if let Some((due, _)) = a.timer.filter(|_| a.slack > Ns::ZERO) {
        let kind = if a.rounded > Ns::ZERO { WHEEL } else { "timer slack" };
        let label = format!("{kind}: its timer may expire this much later");
        push(parts, cursor, due + a.slack, What::Slack, label, kind.to_owned());
    }
    if a.is_thawed() {
        push(parts, cursor, a.waking, What::Stopped, FROZEN.to_owned(), FROZEN.to_owned());
    } else if a.timer.is_some() {
        let (label, cause) = ("its timer was late".to_owned(), TIMER_LATE.to_owned());
        push(parts, cursor, a.waking, What::TimerLate, label, cause);
    }
    let (label, cause) = match a.before.tid {
        Tid(0) if !a.woken_out_of_quota => {
            ("woken, waits for an idle CPU to run it".to_owned(), "wake-up of an idle CPU".to_owned())
        }
        _ if a.woken_out_of_quota => (
            format!("woken, waits for the next period of its cgroup's CPU quota, or for CPU {}", a.cpu),
            WOKEN_OUT_OF_QUOTA.to_owned(),
        ),
        _ if a.before.tid == a.thread.tid => {
            ("woken before it had left the CPU".to_owned(), "wake-up".to_owned())
        }
        _ if a.after_several => (
            format!("woken, waits for CPU {}, held by several tasks, last by {}", a.cpu, a.before.thread()),
            format!("{HELD_BY}several tasks"),
        ),
        _ => (
            format!("woken, waits for CPU {}, last held by {}", a.cpu, a.before.thread()),
            format!("{HELD_BY}{}", a.before.comm.text()),
        ),
    };
    push(parts, cursor, a.switched_in, What::WakeUp, label, cause);
    let ran = a.execution.min(a.blocked.since(*cursor));
    let (faults, until) = (u32::from(a.faults), *cursor + ran);
    if ran > Ns::ZERO {
        let most = |cost: Ns| u64::from(faults) * cost.0 > ran.0;
        let cause = match faults {
            2.. if most(FAULT) => "page faults in its own code",
            20.. if most(SLOW_FAULT) => "page faults or its own code",
            _ => "its own code or system calls",
        };
        let label = crate::explain::segment::with_faults("runs (interrupts included)", faults);
        push(parts, cursor, until, What::Runs, label, cause.to_owned());
        parts.iter_mut().last().into_iter().for_each(|part| part.faults = faults);
    }
    let times = match a.preemptions {
        0 => "an interrupt's way out or in".to_owned(),
        1 => "preempted once, waits for a CPU".to_owned(),
        times => format!("preempted {times} times, waits for a CPU"),
    };
    // A SCHED_DEADLINE thread is preempted only by earlier deadlines; else it has used up its runtime.
    let (times, cause) = match a.was_reserved || a.policy == DEADLINE {
        true => (format!("{times}, or for the next period of its SCHED_DEADLINE budget"), OUT_OF_BUDGET),
        false if a.out_of_quota => {
            (format!("{times}, or for the next period of its cgroup's CPU quota"), OUT_OF_QUOTA)
        }
        false => (times, PREEMPTED),
    };
    push(parts, cursor, a.blocked, What::Preempted, times, cause.to_owned());
}

/// Appends the wait from the block of `before` to the waking of `a`.
fn waits(
    before: &Activation,
    a: &Activation,
    cursor: &mut Mono,
    name: fn(Point) -> Option<&'static str>,
    parts: &mut Vec<Part>,
) {
    let place = Place::of(before.point, name);
    if let Some((due, _)) = a.timer {
        let label = format!("sleeps as it asked in {}", place.name);
        push(parts, cursor, due, What::Sleeps, label, format!("its own sleep in {}", call(&place.name)));
        return;
    }
    let by = (a.via == Via::Thread && a.waker.tid != a.thread.tid).then(|| a.waker.thread());
    let who = a.waker.comm.text();
    let (label, cause) = match (&by, place.class) {
        (Some(by), _) if before.stopped => (
            format!("stopped by a signal, a debugger or the freezer, until {by} continued it"),
            format!("stopped, until {who} continued it"),
        ),
        (Some(by), Class::Lock) if is_pi(before.point) => (
            format!("blocked on a mutex with priority inheritance, {}, held by {by}", place.name),
            format!("mutex with inheritance, held by {who}"),
        ),
        (Some(by), Class::Lock) if before.contended && before.point.operation & 0x7f == 0 => (
            format!("blocked on a mutex without priority inheritance, {}, held by {by}", place.name),
            format!("mutex without inheritance, held by {who}"),
        ),
        (Some(by), Class::Lock) => (
            format!("blocked in {} (a condition, a semaphore or a lock), until {by} woke it", place.name),
            format!("condition or lock, released by {who}"),
        ),
        (Some(by), _) if before.point.held_up_in().is_some() => (
            format!("blocked in {}, until {by} woke it", place.name),
            format!("{HELD_UP}, until {who} woke it"),
        ),
        (None, _) if before.point.held_up_in().is_some() => {
            (format!("blocked in {}, until an interrupt woke it", place.name), HELD_UP.to_owned())
        }
        (_, Class::PageFault) => {
            ("blocked in a page fault, until its page was there".to_owned(), "page fault".to_owned())
        }
        (Some(by), _) => (
            format!("blocked in {}, until {by} woke it", place.name),
            format!("{}, until {who} woke it", call(&place.name)),
        ),
        (None, _) => (
            format!("blocked in {}, until an interrupt woke it", place.name),
            format!("waited in {}", call(&place.name)),
        ),
    };
    let had = parts.len();
    push(parts, cursor, a.waking, What::Blocked, label, cause);
    parts[had..].iter_mut().for_each(|part| part.by.clone_from(&by));
}

/// The name of the system call without its arguments.
fn call(place: &str) -> &str {
    place.split_once(' ').map_or(place, |(call, _)| call)
}

/// FUTEX_LOCK_PI, FUTEX_TRYLOCK_PI and FUTEX_LOCK_PI2; FUTEX_WAIT_REQUEUE_PI waits for a condition.
fn is_pi(point: Point) -> bool {
    matches!(point.operation & 0x7f, 6 | 8 | 13)
}

fn push(parts: &mut Vec<Part>, cursor: &mut Mono, until: Mono, what: What, label: String, cause: String) {
    if until <= *cursor {
        return;
    }
    let net = until.since(*cursor);
    parts.push(Part { what, label, cause, begin: *cursor, net, count: 1, faults: 0, by: None });
    *cursor = until;
}

/// Adds `fresh` to the sums; parts of the same kind and cause become one.
pub(super) fn add_up(sums: &mut Vec<Part>, fresh: Vec<Part>) {
    for part in fresh {
        let known = sums.iter().position(|known| known.what == part.what && known.cause == part.cause);
        let at = known.or((sums.len() >= APART).then_some(APART - 1));
        let Some(sum) = at.map(|at| &mut sums[at]) else {
            sums.push(part);
            continue;
        };
        if known.is_none() {
            (sum.label, sum.cause) = ("other waits".to_owned(), "other waits".to_owned());
        }
        sum.net = sum.net + part.net;
        sum.count = sum.count.saturating_add(1);
        sum.faults = sum.faults.saturating_add(part.faults);
    }
}

/// The cause of `job` by its activations alone, as in [`super::LateCause`].
#[must_use]
pub fn counted_cause(job: &Job, name: fn(Point) -> Option<&'static str>) -> Option<String> {
    main_cause(&job.parts(name), job.usual).map(|(cause, _)| cause)
}

/// Whether an explanation from events may know more than `counted`, a cause by activations: these do not show what kept a
/// timer or the CPU back, beside the task there.
#[must_use]
pub fn is_coarse(counted: &str) -> bool {
    counted == TIMER_LATE || counted == PREEMPTED || counted.starts_with(HELD_BY)
}

/// Whether `cause`, from events, says no more than `counted`.
#[must_use]
pub fn is_same_cause(counted: &str, cause: &str) -> bool {
    counted == cause || counted.strip_prefix(HELD_BY).is_some_and(|comm| cause == format!("thread: {comm}"))
}

/// The cause with the most time, of which `usual` is not counted as the thread's own ([`Job::usual`]): its name and time.
#[must_use]
pub fn main_cause(parts: &[Part], usual: Ns) -> Option<(String, Ns)> {
    by_cause(parts, usual).into_iter().next().map(|(part, net)| (part.cause.clone(), net))
}

/// Kind of the cause with the most time.
pub(super) fn main_kind(parts: &[Part]) -> Option<What> {
    by_cause(parts, Ns::ZERO).first().map(|(part, _)| part.what)
}

/// Each cause with its largest part and total time. The largest total comes first, without `usual` of its own running.
fn by_cause(parts: &[Part], usual: Ns) -> Vec<(&Part, Ns)> {
    let mut causes: Vec<(&Part, Ns)> = Vec::new();
    for part in parts {
        match causes.iter_mut().find(|(known, _)| known.cause == part.cause) {
            Some((known, net)) => {
                *net = *net + part.net;
                if part.net > known.net {
                    *known = part;
                }
            }
            None => causes.push((part, part.net)),
        }
    }
    let runs =
        causes.iter().filter(|(part, _)| part.what == What::Runs).map(|(part, net)| (part.faults > 0, *net));
    let without_faults: Ns = runs.filter(|(faults, _)| !faults).map(|(_, net)| net).sum();
    let weight = |(part, net): &(&Part, Ns)| match (part.what, part.faults) {
        (What::Runs, 0) => net.saturating_sub(usual),
        (What::Runs, _) => net.saturating_sub(usual.saturating_sub(without_faults)),
        _ => *net,
    };
    causes.sort_by_key(|cause| (std::cmp::Reverse(weight(cause)), std::cmp::Reverse(cause.1), cause.0.begin));
    causes
}

/// Explanation of `job` from its activations; `why`: why there are no events.
#[must_use]
pub fn explanation(job: &Job, name: fn(Point) -> Option<&'static str>, why: &str) -> Option<Explanation> {
    let thread = job.steps.last()?.thread.thread();
    let (parts, total) = (job.parts(name), job.total());
    let leaves = parts.iter().map(leaf).collect();
    let label = format!("job of {thread}, from its release to its next wait");
    let mut tree = Segment::group(Kind::Passage, label, job.begin, total, leaves);
    tree.thread = Some(thread.clone());
    let causes = by_cause(&parts, job.usual);
    let told = causes.iter().filter(|(_, net)| net.0 as f64 >= TOLD * total.0 as f64).take(5);
    let told: Vec<String> = told.map(|(part, net)| clause(part, *net)).collect();
    let sentence = format!("{thread} took {total}: {}", told.join("; "));
    let (cause, advice) = causes.first().map_or_else(
        || ("unexplained".to_owned(), String::new()),
        |(part, _)| (part.cause.clone(), advice(part, &thread)),
    );
    let unexplained_ns = tree.total_unexplained();
    let limits = vec![format!("{why}: the parts are sums that the recorder keeps per thread")];
    let total_ns = tree.duration_ns;
    Some(Explanation { sentence, advice, tree, total_ns, unexplained_ns, cause, limits })
}

fn leaf(part: &Part) -> Segment {
    let kind = match part.what {
        What::Backlog | What::Behind | What::Stopped | What::Blocked | What::Sleeps => Kind::Blocked,
        What::TimerLate | What::Slack => Kind::TimerLate,
        What::WakeUp | What::Preempted => Kind::WakeupWait,
        What::Runs => Kind::Running,
    };
    let mut leaf = Segment::leaf(kind, part.label.clone(), part.begin, part.net);
    (leaf.count, leaf.thread) = (part.count, part.by.clone());
    leaf
}

fn clause(part: &Part, net: Ns) -> String {
    match part.what {
        What::Runs => part.label.replacen("runs", &format!("ran {net} itself"), 1),
        What::Preempted if part.cause == PREEMPTED => format!("was preempted for {net}"),
        What::Preempted => format!("could not run for {net} ({})", part.cause),
        What::Sleeps => part.label.replacen("sleeps", &format!("slept {net}"), 1),
        What::Blocked => part.label.replacen("blocked", &format!("was blocked {net}"), 1),
        What::TimerLate if part.cause == ARMED_LATE => {
            format!("another thread armed its timer {net} after it was due")
        }
        What::TimerLate => format!("its timer was {net} late"),
        What::Slack if part.cause == WHEEL => format!("the timer wheel ran its timer {net} later"),
        What::Slack => format!("its timer had {net} of slack"),
        What::WakeUp => format!("waited {net} for a CPU ({})", part.cause),
        What::Stopped => format!("was {} for {net}", part.label),
        What::Backlog | What::Behind => format!("{net} {}", part.label),
    }
}

#[cfg(test)]
#[path = "parts_tests.rs"]
mod tests;
