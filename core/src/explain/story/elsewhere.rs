//! Why no other CPU took a thread that waited.

use super::Walk;
use crate::explain::cpu::Context;
use crate::explain::thread::Stretch;
use crate::series::Thread;
use crate::time::{Cpu, Mono, Ns, Prio, Tid};
use crate::trace::event::{Kind as What, TaskRef};

/// A CPU counts as idle in a stretch if it was for this share of it.
const IDLE: f64 = 0.9;

impl Walk<'_, '_> {
    /// Why no other CPU took the thread; `None` where none was idle or, for a real-time thread, ran only what it may
    /// preempt.
    pub(super) fn elsewhere(
        &self,
        thread: &Thread,
        prio: Option<Prio>,
        stretch: &Stretch,
        cpu: Cpu,
    ) -> Option<String> {
        let others = |below: Option<Prio>| -> Vec<String> {
            let free = |other: &Cpu| *other != cpu && self.is_free(*other, stretch.begin, stretch.end, below);
            self.record.cpus().filter(free).map(|other| other.to_string()).collect()
        };
        let (idle, lower) =
            (others(None), prio.filter(|prio| prio.is_realtime()).map(|prio| others(Some(prio))));
        let idle = match lower {
            _ if !idle.is_empty() => format!("while CPU {} was idle", idle.join(", ")),
            Some(lower) if !lower.is_empty() => {
                format!("while CPU {} ran only tasks of lower priority", lower.join(", "))
            }
            _ => return None,
        };
        if is_bound_worker(&thread.comm) {
            return Some(format!("{idle}: a worker bound to CPU {cpu}"));
        }
        let then = "else it could have run there at once";
        let pinned = self.record.window.pinned.get(&thread.tid).copied().filter(|at| *at < stretch.end);
        Some(match (pinned, prio) {
            (Some(at), _) if self.stayed(thread, at, stretch.end, cpu) => {
                format!("{idle}: it is pinned to CPU {cpu} (affinity: sched_setaffinity at {at}), {then}")
            }
            (_, Some(prio)) if prio.is_realtime() => {
                format!("{idle}: it must be pinned to CPU {cpu} (affinity; no migration, the mask is not recorded), {then}")
            }
            _ => format!("{idle}: not migrated (affinity, or load balancing came late)"),
        })
    }

    fn stayed(&self, thread: &Thread, from: Mono, until: Mono, cpu: Cpu) -> bool {
        let mut moves = self.record.events_of(thread.tid, from, until);
        !moves.any(|(_, event)| matches!(event.kind, What::Migrate { task, to, .. } if task.tid == thread.tid && to != cpu))
    }

    /// Whether `cpu` idled nearly all the time, or ran what is below the priority `below`.
    fn is_free(&self, cpu: Cpu, a: Mono, b: Mono, below: Option<Prio>) -> bool {
        let slices = self.record.slices(cpu, a, b);
        let is_below = |task: TaskRef| below.zip(task.prio).is_some_and(|(below, prio)| prio > below);
        let free: Ns = slices
            .iter()
            .filter(|slice| match slice.context {
                Context::Idle(_) => true,
                Context::Thread(_) => slice.task.is_some_and(is_below),
                // An interrupt belongs to whom it interrupts here: it would have come to the thread as well.
                _ => {
                    below.is_some() && slice.task.is_some_and(|task| task.tid == Tid::IDLE || is_below(task))
                }
            })
            .map(super::super::cpu::Slice::length)
            .sum();
        free.0 as f64 >= IDLE * b.since(a).0 as f64
    }
}

/// `kworker/1:2` serves one CPU, `kworker/u8:1` any; `ksoftirqd/1`, `migration/1` and the like as well.
fn is_bound_worker(comm: &str) -> bool {
    let bound = ["kworker/", "ksoftirqd/", "migration/", "ktimers/", "cpuhp/", "irq_work/", "rcuc/"];
    bound.iter().any(|name| {
        comm.strip_prefix(name).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    })
}
