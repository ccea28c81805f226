//! Why no other CPU ran a waiting thread.

use super::moved::Moved;
use super::Walk;
use crate::explain::cpu::Context;
use crate::explain::thread::Stretch;
use crate::series::Thread;
use crate::time::{Cpu, Mono, Ns, Prio, Tid};
use crate::trace::event::{Event, Kind as What, TaskRef};

/// Minimum share of a span for a CPU to count as idle.
const IDLE: f64 = 0.9;

/// Maximum time from the last run of the thread that takes a CPU offline to a wait that starts after it.
const GOING_OFFLINE: Ns = Ns::from_ms(100);

/// Other CPUs that could have run a waiting thread.
pub(super) struct Elsewhere {
    /// `while CPU 1 was idle`.
    pub when: String,
    /// Why they did not, from its separator on: `: it is pinned to CPU 0`. Said once in a sentence.
    pub why: String,
    /// Kind of the reason.
    pub reason: Because,
}

/// Kinds of reasons why no other CPU ran a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Because {
    /// Its affinity, or any other that is recorded.
    Known,
    /// Not recorded.
    Unknown,
    /// The other CPU was taken offline.
    Offline,
}

impl Elsewhere {
    /// With the migration before the wait, if there was one.
    pub fn after(moved: Option<&Moved>, elsewhere: Option<Elsewhere>) -> Option<Elsewhere> {
        let Some(moved) = moved else { return elsewhere };
        let (when, why, reason) = match elsewhere {
            Some(Elsewhere { when, reason: Because::Unknown, .. }) => {
                (format!("{moved}, {when}"), ": its affinity was changed".to_owned(), Because::Known)
            }
            Some(Elsewhere { when, why, reason }) => (format!("{moved}, {when}"), why, reason),
            None => (moved.to_string(), String::new(), Because::Known),
        };
        Some(Elsewhere { when, why, reason })
    }
}

impl Walk<'_, '_> {
    /// Why no other CPU ran the thread; `None` if none was idle or, for a real-time thread, ran only preemptible work.
    pub(super) fn elsewhere(
        &mut self,
        thread: &Thread,
        prio: Option<Prio>,
        stretch: &Stretch,
        cpu: Cpu,
    ) -> Option<Elsewhere> {
        let (a, b) = (stretch.begin, stretch.end);
        let away: Vec<(Cpu, String)> = self
            .record
            .cpus()
            .filter(|other| *other != cpu)
            .filter_map(|other| Some((other, self.offline(other, a, b)?)))
            .collect();
        let is_there = |other: &Cpu| *other != cpu && away.iter().all(|(gone, _)| gone != other);
        let others = |below: Option<Prio>| -> Vec<String> {
            let free = |other: &Cpu| is_there(other) && self.is_free(*other, a, b, below);
            self.record.cpus().filter(free).map(|other| other.to_string()).collect()
        };
        let (idle, lower) =
            (others(None), prio.filter(|prio| prio.is_realtime()).map(|prio| others(Some(prio))));
        let when = match lower {
            _ if !idle.is_empty() => format!("while CPU {} was idle", idle.join(", ")),
            Some(lower) if !lower.is_empty() => {
                format!("while CPU {} ran only tasks of lower priority", lower.join(", "))
            }
            _ => {
                let why = String::new();
                return away.into_iter().next().map(|(_, gone)| Elsewhere {
                    when: format!("while {gone}"),
                    why,
                    reason: Because::Offline,
                });
            }
        };
        let why = self.why_not(thread, prio, stretch, cpu);
        let reason = if why.is_some() { Because::Known } else { Because::Unknown };
        let why = why.unwrap_or_else(|| ": why it was not migrated is not recorded (its affinity was changed, migration was disabled, or the scheduler was late)".to_owned());
        Some(Elsewhere { when, why, reason })
    }

    /// Why a thread that waits for `cpu` was not run by another one, which was free; `None`: not recorded.
    fn why_not(
        &mut self,
        thread: &Thread,
        prio: Option<Prio>,
        stretch: &Stretch,
        cpu: Cpu,
    ) -> Option<String> {
        let (a, b) = (stretch.begin, stretch.end);
        if is_bound_worker(&thread.comm) {
            return Some(format!(": a worker bound to CPU {cpu}"));
        }
        if let Some(line) = line_of_thread(&thread.comm) {
            return Some(format!(": its affinity is that of the interrupt (/proc/irq/{line}/smp_affinity)"));
        }
        let then = "else it could have run there at once";
        let pinned = self.record.window.pinned.get(&thread.tid).copied().filter(|at| *at < stretch.end);
        Some(match (pinned, prio) {
            (Some(at), _) if self.stayed(thread, at, stretch.end, cpu) => {
                format!(": it is pinned to CPU {cpu} (affinity: sched_setaffinity at {at}), {then}")
            }
            (_, Some(prio)) if prio.is_realtime() && self.came_from_elsewhere(thread, stretch.end, cpu) => {
                return None;
            }
            (_, Some(prio)) if prio.is_realtime() && self.may_be_offline(cpu, a, b) => {
                self.ask("cpuhp_enter");
                ", or going offline: a thread cpuhp of another CPU ran".to_owned()
            }
            // The event of a migration may be missing.
            (_, Some(prio)) if prio.is_realtime() && self.lossy => return None,
            (_, Some(prio)) if prio.is_realtime() => {
                format!(": it must be pinned to CPU {cpu} (affinity; no migration, the mask is not recorded), {then}")
            }
            _ => ": not migrated (affinity, or load balancing came late)".to_owned(),
        })
    }

    /// `CPU 1 was taken offline by kworker/0:1/22, for operator/114 (cpuhp_enter at …)`, if that is recorded and the
    /// CPU was not online in all of `[a, b)`.
    pub(super) fn offline(&self, cpu: Cpu, a: Mono, b: Mono) -> Option<String> {
        let record = self.record;
        let of_cpu = |event: &&Event| matches!(event.kind, What::Hotplug { cpu: of, .. } if of == cpu);
        let turns: Vec<&Event> = record.window.hotplug.iter().filter(of_cpu).collect();
        let until = |place: usize| turns.get(place + 1).map_or(Mono(u64::MAX), |next| next.at);
        let mut away = turns.iter().enumerate().filter(|(place, event)| {
            matches!(event.kind, What::Hotplug { down: true, .. }) && event.at < b && until(*place) > a
        });
        let (_, event) = away.next()?;
        let by = event.current.filter(|tid| *tid != Tid::IDLE);
        let asker = by.and_then(|by| {
            let (_, work, _) = self.linked.executing(by, event.at)?;
            self.linked.actor(self.linked.queued(work, event.at)?)
        });
        let by = by.map_or(String::new(), |by| format!(" by {}", record.thread_by_id(by, event.at)));
        let asker = asker.map_or(String::new(), |asker| format!(", for {asker}"));
        Some(format!("CPU {cpu} was taken offline{by}{asker} (cpuhp_enter at {})", event.at))
    }

    /// Whether a CPU other than `cpu` may have gone offline before `b`: the thread that does it ran there.
    fn may_be_offline(&self, cpu: Cpu, a: Mono, b: Mono) -> bool {
        let from = Mono(a.0.saturating_sub(GOING_OFFLINE.0));
        let record = self.record;
        record.window.hotplug.is_empty()
            && record.cpus().filter(|other| *other != cpu).any(|other| {
                record.events_on(other, from, b).any(|(_, event)| match event.kind {
                    What::Switch { next, .. } => record.thread(next, event.at).comm.starts_with("cpuhp/"),
                    _ => false,
                })
            })
    }

    /// Whether the thread migrated to `cpu` or ran on another: it was not always pinned here.
    fn came_from_elsewhere(&self, thread: &Thread, until: Mono, cpu: Cpu) -> bool {
        let pinned = self.record.window.pinned.get(&thread.tid).copied().unwrap_or_default();
        self.record.events_of(thread.tid, pinned, until).any(|(_, event)| match event.kind {
            What::Migrate { task, from, .. } => task.tid == thread.tid && from != cpu,
            What::Switch { next, .. } => next.tid == thread.tid && event.cpu != cpu,
            _ => false,
        })
    }

    fn stayed(&self, thread: &Thread, from: Mono, until: Mono, cpu: Cpu) -> bool {
        let mut moves = self.record.events_of(thread.tid, from, until);
        !moves.any(|(_, event)| matches!(event.kind, What::Migrate { task, to, .. } if task.tid == thread.tid && to != cpu))
    }

    /// Whether `cpu` was idle nearly all the time, or ran only tasks below priority `below`.
    pub(super) fn is_free(&self, cpu: Cpu, a: Mono, b: Mono, below: Option<Prio>) -> bool {
        let slices = self.record.slices(cpu, a, b);
        let is_below = |task: TaskRef| below.zip(task.prio).is_some_and(|(below, prio)| prio > below);
        let free: Ns = slices
            .iter()
            .filter(|slice| match slice.context {
                Context::Idle(_) => true,
                Context::Thread(_) => slice.task.is_some_and(is_below),
                // An interrupt counts as the interrupted task: it would have interrupted the thread as well.
                _ => {
                    below.is_some() && slice.task.is_some_and(|task| task.tid == Tid::IDLE || is_below(task))
                }
            })
            .map(super::super::cpu::Slice::length)
            .sum();
        free.0 as f64 >= IDLE * b.since(a).0 as f64
    }
}

/// 3 in `irq/3-ttyS3`: an interrupt thread follows the affinity of its interrupt (kernel/irq/manage.c:
/// irq_thread_check_affinity).
fn line_of_thread(comm: &str) -> Option<&str> {
    let (line, _) = comm.strip_prefix("irq/")?.split_once('-')?;
    line.bytes().all(|digit| digit.is_ascii_digit()).then_some(line)
}

/// Whether it is a per-CPU kernel thread: `kworker/1:2` (but not `kworker/u8:1`), `ksoftirqd/1`, `migration/1`, etc.
fn is_bound_worker(comm: &str) -> bool {
    let bound = ["kworker/", "ksoftirqd/", "migration/", "ktimers/", "cpuhp/", "irq_work/", "rcuc/"];
    bound.iter().any(|name| {
        comm.strip_prefix(name).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    })
}
