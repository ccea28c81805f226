//! Whether a real-time thread was runnable and the scheduler chose a lower class all the same.
//!
//! Throttling has no event of its own. The proof is a switch to a thread of a lower class, or to idle, while the
//! real-time thread is on that run queue; the timer near it tells which mechanism it was. Two coexist: RT bandwidth
//! (`sched_rt_period_timer` ends it; sched_rt_runtime_us, cgroups) and the fair server (`dl_task_timer` begins it).

use std::collections::BTreeMap;

use super::Walk;
use crate::explain::cpu::Context;
use crate::explain::thread::Stretch;
use crate::series::Thread;
use crate::time::{Cpu, Mono, Ns, Prio, Tid};
use crate::trace::event::Kind as What;

/// How near to the begin or end the timer of a mechanism stands.
const NEAR: Ns = Ns::from_ms(2);
/// The period of both mechanisms by default.
const PERIOD: Ns = Ns(1_000_000_000);
/// Shorter stretches are the scheduler's own delays.
const SHORTEST: Ns = Ns::from_us(500);

impl Walk<'_, '_> {
    /// The words for it, if `thread` was throttled on `cpu` in the stretch.
    pub(super) fn throttled(
        &self,
        thread: &Thread,
        prio: Option<Prio>,
        stretch: &Stretch,
        cpu: Cpu,
    ) -> Option<String> {
        let prio = prio.filter(|prio| prio.is_realtime() && prio.0 >= 0)?;
        if stretch.length() < SHORTEST {
            return None;
        }
        let since = self.queued_since(thread, stretch);
        let chosen = self.record.events_on(cpu, since, stretch.end).any(|(_, event)| match event.kind {
            What::Switch { next, .. } if next.tid != thread.tid => {
                next.tid == Tid::IDLE || next.prio.is_some_and(|next| next > prio && !next.is_realtime())
            }
            _ => false,
        });
        if !chosen {
            return None;
        }
        let mechanism = self.mechanism(stretch, cpu);
        let used = self.used(cpu, since);
        let used = if used.is_empty() {
            String::new()
        } else {
            format!("; in the second before, {used} used CPU {cpu}")
        };
        Some(format!("real-time throttling ({mechanism}){used}"))
    }

    fn mechanism(&self, stretch: &Stretch, cpu: Cpu) -> &'static str {
        let fires = |name: &str, a: Mono, b: Mono| {
            let from = Mono(a.0.saturating_sub(NEAR.0));
            self.record.cpus().any(|on| {
                (on == cpu || name == "sched_rt_period_timer")
                    && self.record.events_on(on, from, b).any(|(_, event)| match event.kind {
                        What::TimerExpireEntry { function: Some(function), .. } => {
                            self.record.text(function) == name
                        }
                        _ => false,
                    })
            })
        };
        if fires("sched_rt_period_timer", stretch.end, stretch.end) {
            "RT bandwidth: sched_rt_period_timer ends it"
        } else if fires("dl_task_timer", stretch.begin, stretch.begin) {
            "the fair server gives ordinary threads their 50 ms: dl_task_timer begins it"
        } else if fires("sched_rt_period_timer", stretch.begin, stretch.end) {
            "RT bandwidth: sched_rt_period_timer"
        } else {
            "RT bandwidth or the fair server: a lower class ran while it was runnable"
        }
    }

    /// Real-time threads that used `cpu` in the period before, most first.
    fn used(&self, cpu: Cpu, until: Mono) -> String {
        let mut used: BTreeMap<Tid, Ns> = BTreeMap::new();
        for slice in self.record.slices(cpu, Mono(until.0.saturating_sub(PERIOD.0)), until) {
            let (Context::Thread(tid), Some(task)) = (slice.context, slice.task) else { continue };
            if self.record.thread(task).prio.is_some_and(Prio::is_realtime) {
                let time = used.entry(tid).or_default();
                *time = *time + slice.length();
            }
        }
        let mut used: Vec<(Tid, Ns)> = used.into_iter().filter(|(_, net)| *net > Ns::from_ms(5)).collect();
        used.sort_by_key(|(_, net)| std::cmp::Reverse(*net));
        let told: Vec<String> = used
            .iter()
            .take(3)
            .map(|(tid, net)| format!("{} {net}", self.record.thread_by_id(*tid)))
            .collect();
        told.join(", ")
    }
}
