//! Changes by other threads while a thread waited for a CPU: of its priority, and migrations.
//!
//! Priority inheritance (`sched_pi_setprio`) and migrations have events; other changes of a priority are known from the
//! system call that made them, else only from the priorities before and after.

use std::fmt;

use super::reason::UNINTERRUPTIBLE;
use super::Walk;
use crate::explain::share::Share;
use crate::explain::thread::Stretch;
use crate::explain::wait::is_stopper;
use crate::series::Thread;
use crate::time::{Mono, Ns, Prio, Tid};
use crate::trace::event::{Event, Kind as What, LeftAs};

/// Maximum time from a call that changes the affinity to the migration: the stopper thread may have to run first.
const MOVING: Ns = Ns::from_ms(10);

/// A change of the priority of a waiting thread.
pub(super) struct Change {
    /// Time of the change; `None`: some time during the wait.
    pub at: Option<Mono>,
    /// The new priority.
    pub new: Prio,
    /// For sentences: `after X had lowered it from RT 95 to nice 0 (sched_setscheduler)`.
    pub how: String,
    /// Who lowered it and thus prolonged the wait.
    pub lowered_by: Option<By>,
}

/// The thread that lowered a priority.
#[derive(Clone)]
pub(super) enum By {
    /// The thread of that priority.
    Itself,
    /// Another one.
    Thread(String),
    /// The call is not recorded.
    Unknown,
}

impl By {
    /// `priority lowered by helper`.
    pub fn cause(&self) -> String {
        match self {
            By::Itself => "priority lowered by itself".to_owned(),
            By::Thread(by) => format!("priority lowered by {by}"),
            By::Unknown => "priority lowered".to_owned(),
        }
    }

    /// What to do about it, where `thread` has that priority.
    pub fn advice(&self, thread: &str) -> String {
        match self {
            By::Itself => {
                format!("let {thread} not lower its own priority here, or only when it does not have to run")
            }
            By::Thread(by) => {
                format!("find why {by} lowers the priority of {thread}, or do it when {thread} does not have to run")
            }
            By::Unknown => format!(
                "find which thread lowers the priority of {thread} (sched_setscheduler, setpriority): `lathunt trace` \
                 records these calls"
            ),
        }
    }
}

/// How a write to a cpuset moves a thread.
pub(super) const CPUSET: &str = "write: its cpuset was changed";
/// How a thread is moved by another one whose system calls are not recorded.
pub(super) const AFFINITY: &str = "a change of its affinity or cpuset";

/// What caused a migration.
pub(super) enum Mover {
    /// A system call that sets the affinity.
    Call { by: Thread, name: String },
    /// One of these, in a recording without system calls.
    Affinity(Thread),
    /// A write that changed the cpuset of the thread.
    Cpuset(Thread),
    /// Its CPU was taken offline: the sentence that says so.
    Offline(String),
    /// The scheduler itself, in the context of this thread.
    Scheduler(Thread),
}

impl fmt::Display for Mover {
    /// The end of a sentence, from its separator on: ` by X (sched_setaffinity)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mover::Call { by, name } => write!(f, " by {by} ({name})"),
            Mover::Affinity(by) => write!(f, " by {by} ({AFFINITY})"),
            Mover::Cpuset(by) => write!(f, " by {by} ({CPUSET})"),
            Mover::Offline(why) => write!(f, ": {why}"),
            Mover::Scheduler(by) => write!(f, " by the scheduler, in the context of {by}"),
        }
    }
}

impl Walk<'_, '_> {
    /// Changes of the priority of `thread` during its wait, in order; `prio` is that at its start. A change that made
    /// it lose the CPU comes first.
    pub(super) fn changes(&mut self, thread: &Thread, stretch: &Stretch, prio: Option<Prio>) -> Vec<Change> {
        let Some(mut old) = prio else { return Vec::new() };
        // The span may be the rest of a longer wait.
        let began = stretch.began_by.map(|index| self.record.event(index));
        let since = began.map_or(stretch.begin, |event| event.at);
        let creator = began.and_then(|event| match event.kind {
            What::Fork { parent, .. } => Some(parent),
            What::Waking { new: true, .. } => event.current,
            _ => None,
        });
        let mut changes: Vec<Change> = self.lowered_before(thread, stretch, old).into_iter().collect();
        let events: Vec<_> = self.record.events_of(thread.tid, stretch.begin, stretch.end).collect();
        for (index, event) in events {
            let (new, at, how, by) = match event.kind {
                What::PiSetprio { task, new, .. } if task.tid == thread.tid => {
                    (new, event.at, "sched_pi_setprio".to_owned(), self.linked.actor(index))
                }
                What::Switch { next: task, .. } | What::Migrate { task, .. } if task.tid == thread.tid => {
                    let Some(new) = task.prio.filter(|new| *new != old) else { continue };
                    match self.set_by_call(thread.tid, (since, stretch.end)) {
                        // The one that it was created for: until then it had that of its creator.
                        Some((at, _, by)) if Some(by.tid) == creator => {
                            let (at, how) = (Some(at.max(stretch.begin)), String::new());
                            changes.push(Change { at, new, how, lowered_by: None });
                            old = new;
                            continue;
                        }
                        Some((at, call, by)) => (new, at, call, Some(by)),
                        None => {
                            self.missing.push(format!(
                                "{thread} got another priority while it waited; sched_pi_setprio, or sys_enter of sched_setscheduler, would show who changed it"
                            ));
                            let lowered = changes.pop_if(|change| change.lowered_by.is_some() && new < old);
                            let (how, lowered_by) = match lowered {
                                Some(first) => {
                                    (format!("{} and raised to {new} meanwhile", first.how), first.lowered_by)
                                }
                                None => (
                                    format!(", its priority having changed from {old} to {new} meanwhile"),
                                    None,
                                ),
                            };
                            changes.push(Change { at: None, new, how, lowered_by });
                            return changes;
                        }
                    }
                }
                _ => continue,
            };
            if new == old {
                continue;
            }
            let (verb, lower) = if new > old { ("lowered", true) } else { ("raised", false) };
            let who = by.as_ref().map_or("an interrupt".to_owned(), ToString::to_string);
            let lowered_by = by.filter(|_| lower).map(|by| By::Thread(by.comm));
            let how = format!(", after {who} had {verb} it from {old} to {new} ({how})");
            changes.push(Change { at: Some(at.max(stretch.begin)), new, how, lowered_by });
            old = new;
        }
        changes
    }

    /// The priority in the first event that shows it: that of `thread` itself is the last one in the trace, which a new
    /// thread gets only after it ran.
    pub(super) fn first_prio(&self, thread: &Thread, since: Mono, until: Mono) -> Option<Prio> {
        self.record.events_of(thread.tid, since, until).find_map(|(_, event)| match event.kind {
            What::Waking { task, .. }
            | What::Wakeup { task, .. }
            | What::Migrate { task, .. }
            | What::Switch { next: task, .. }
                if task.tid == thread.tid =>
            {
                task.prio
            }
            _ => None,
        })
    }

    /// The change that lowered its priority to `new` before the wait, in its last run or earlier in the interval, if it
    /// would have had the CPU with the old one.
    fn lowered_before(&self, thread: &Thread, stretch: &Stretch, new: Prio) -> Option<Change> {
        let (at, rival) = self.rival(thread, stretch)?;
        let before = self.record.events_of(thread.tid, Mono(0), at).rev();
        let (mut until, mut ran) = (at, false);
        let mut shown = before.skip_while(|(_, event)| event.at >= at).map_while(|(_, event)| {
            // Its last run counts from its start, which may be before the interval.
            let is_inside = event.at >= self.since || !ran;
            ran |= matches!(event.kind, What::Switch { next, .. } if next.tid == thread.tid);
            is_inside.then_some(event)
        });
        let (since, old) = shown.find_map(|event| match event.kind {
            What::Switch { next: task, .. } | What::Switch { prev: task, .. } | What::Waking { task, .. }
                if task.tid == thread.tid =>
            {
                let rank = task.prio?;
                if rank >= new {
                    until = event.at;
                }
                (rank < new).then_some(Some((event.at, rank)))
            }
            What::PiSetprio { task, .. } if task.tid == thread.tid => Some(None),
            _ => None,
        })??;
        let would_share = !old.is_realtime() && !rival.is_realtime();
        if rival <= old && !would_share {
            return None;
        }
        let (how, lowered_by) = match self.set_by_call(thread.tid, (since, until)) {
            Some((_, call, by)) if by.tid == thread.tid => {
                (format!(", after it had lowered itself from {old} to {new} ({call})"), By::Itself)
            }
            Some((_, call, by)) => {
                let how = format!(", after {by} had lowered it from {old} to {new} ({call})");
                (how, By::Thread(by.comm))
            }
            // Elsewhere the call is in the record, or was lost.
            None if self.record.window.only_blocking_calls && !self.lossy => {
                let how = format!(
                    ", after its priority had been lowered from {old} to {new} (by a call that is not recorded)"
                );
                (how, By::Unknown)
            }
            None => return None,
        };
        Some(Change { at: Some(stretch.begin), new, how, lowered_by: Some(lowered_by) })
    }

    /// When `thread` lost the CPU or came to it, and the priority of the thread that has it.
    fn rival(&self, thread: &Thread, stretch: &Stretch) -> Option<(Mono, Prio)> {
        let began = stretch.began_by.map(|index| self.record.event(index));
        match began {
            Some(Event { at, kind: What::Switch { prev, next, .. }, .. }) if prev.tid == thread.tid => {
                Some((*at, next.prio?))
            }
            _ => {
                let there = self.record.slice_before(stretch.cpu?, Mono(stretch.begin.0 + 1))?.task?;
                Some((stretch.begin, there.prio?))
            }
        }
    }

    /// The system call that set the priority of `holder` in its run, before most of its `share`: no event tells to which
    /// one, and it may have set the old one again before it left the CPU.
    pub(super) fn set_in_run(&self, holder: &Thread, share: &Share) -> Option<(String, Thread)> {
        let mut before = self.record.events_on(share.cpu, Mono(0), share.begin).rev();
        let since = before.find_map(|(_, event)| match event.kind {
            What::Switch { next, .. } if next.tid == holder.tid => Some(event.at),
            _ => None,
        })?;
        let until = share.begin + Ns(share.net.0 / 2);
        self.set_by_call(holder.tid, (since, until)).map(|(_, call, by)| (call, by))
    }

    /// The last system call in `[a, b]` that set the priority of `tid`.
    fn set_by_call(&self, tid: Tid, (a, b): (Mono, Mono)) -> Option<(Mono, String, Thread)> {
        let of_priority = ["sched_setscheduler", "sched_setparam", "sched_setattr", "setpriority"];
        self.call_on(tid, (a, b), &of_priority)
    }

    /// The last call of one of `names` on `tid`, by any thread, in `[a, b]`.
    pub(super) fn call_on(
        &self,
        tid: Tid,
        (a, b): (Mono, Mono),
        names: &[&str],
    ) -> Option<(Mono, String, Thread)> {
        let calls = self.record.cpus().flat_map(|cpu| self.record.events_on(cpu, a, b)).filter_map(
            |(index, event)| {
                let What::SysEnter { id, args } = event.kind else { return None };
                let name = self.record.call_name(id);
                // setpriority: which, who.
                let about = if name == "setpriority" { args[1] } else { args[0] } as i32;
                let is_own = || about == 0 && event.current == Some(tid);
                let is_it = names.contains(&name.as_str()) && (about == tid.0 || is_own());
                is_it.then_some((event.at, name, index))
            },
        );
        let (at, name, index) = calls.max_by_key(|(at, ..)| *at)?;
        Some((at, name, self.linked.actor(index)?))
    }

    /// What caused the migration of `tid` at `index`, if known.
    pub(super) fn mover(&self, tid: Tid, index: u32) -> Option<Mover> {
        let event = self.record.event(index);
        let from = Mono(event.at.0.saturating_sub(MOVING.0));
        // A thread that sleeps is moved when it wakes.
        let slept =
            self.record.events_of(tid, self.since, event.at).rev().find_map(|(_, event)| match event.kind {
                What::Switch { prev, left_as, .. } if prev.tid == tid => {
                    Some(if matches!(left_as, LeftAs::Blocked(_)) { event.at } else { from })
                }
                _ => None,
            });
        let from = from.min(slept.unwrap_or(from));
        if let Some((_, name, by)) = self.call_on(tid, (from, event.at), &["sched_setaffinity"]) {
            return Some(Mover::Call { by, name });
        }
        let left = match event.kind {
            What::Migrate { from, .. } => self.offline(from, event.at, Mono(event.at.0 + 1)),
            _ => None,
        };
        if let Some(why) = left {
            return Some(Mover::Offline(why));
        }
        let by = self.linked.actor(index)?;
        if is_stopper(&by.comm) {
            return self.asker_of(&by, event.at);
        }
        if by.tid == tid {
            return None;
        }
        Some(match self.writes(&by, event.at) && self.is_against_rank(event) {
            true => Mover::Cpuset(by),
            false => Mover::Scheduler(by),
        })
    }

    /// The thread that had `stopper` do a migration at `at`. The scheduler asks it
    /// too, but not in a call in which the thread then waits for it.
    pub(super) fn asker_of(&self, stopper: &Thread, at: Mono) -> Option<Mover> {
        let from = Mono(at.0.saturating_sub(MOVING.0));
        let woken =
            self.record.events_of(stopper.tid, from, at).rev().find(
                |(_, event)| matches!(event.kind, What::Waking { task, .. } if task.tid == stopper.tid),
            );
        let (index, waking) = woken?;
        let by = self.linked.actor(index)?;
        let is_unknown = self.linked.in_call(by.tid, waking.at).is_none();
        let until = at + MOVING;
        let mut later = self.record.events_of(by.tid, waking.at, until);
        let is_other = matches!(waking.kind, What::Waking { target_cpu: Some(cpu), .. } if cpu != waking.cpu);
        let waited = later.find_map(|(_, event)| match event.kind {
            What::Waking { task, .. } if task.tid == by.tid && event.current == Some(stopper.tid) => {
                Some(true)
            }
            // Its wake-up may be missing. The scheduler of a CPU asks the stopper of that CPU.
            What::Switch { prev, left_as: LeftAs::Blocked(bits), .. } if prev.tid == by.tid && is_unknown => {
                Some(bits & UNINTERRUPTIBLE != 0 && is_other)
            }
            _ => None,
        });
        match waited {
            Some(true) if is_unknown => Some(Mover::Affinity(by)),
            Some(true) if self.writes(&by, waking.at) => Some(Mover::Cpuset(by)),
            _ => None,
        }
    }

    fn writes(&self, by: &Thread, at: Mono) -> bool {
        let call = self.linked.in_call(by.tid, at);
        call.is_some_and(|(_, id, _)| self.record.call_name(id) == "write")
    }

    /// Whether a migration took a real-time thread to a CPU that runs another of higher priority: the scheduler does not
    /// do that by itself.
    fn is_against_rank(&self, migration: &Event) -> bool {
        let What::Migrate { task, to, .. } = migration.kind else { return false };
        let there = self.record.slice_before(to, migration.at).and_then(|slice| slice.task);
        let ranks = task.prio.zip(there.and_then(|there| there.prio));
        ranks.is_some_and(|(moved, there)| moved.is_realtime() && there < moved)
    }
}
