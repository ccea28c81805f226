//! Whether a thread was throttled: runnable, while the scheduler chose a lower class or idle.
//!
//! Throttling has no event of its own. The proof is a switch to a thread of a lower class, or to idle, while the thread
//! is on that run queue; a timer close to it identifies the mechanism. For real-time threads there are two: RT
//! bandwidth (`sched_rt_period_timer` ends it; sched_rt_runtime_us, cgroups) and the fair server (`dl_task_timer`
//! starts it). SCHED_OTHER threads wait for the next period of their cgroup's CPU quota (`sched_cfs_period_timer` ends
//! it).

use std::collections::BTreeMap;

use super::waiting::WORTH_MOVING;
use super::Walk;
use crate::explain::cpu::Context;
use crate::explain::thread::{State, Stretch};
use crate::explain::wait::is_stopper;
use crate::series::Thread;
use crate::time::{Cpu, Mono, Ns, Prio, Tid};
use crate::trace::event::{Kind as What, TaskRef};

/// Maximum distance of a mechanism's timer from the start or end.
const NEAR: Ns = Ns::from_ms(2);
/// Default period of both mechanisms.
const PERIOD: Ns = Ns(1_000_000_000);
/// Minimum length; shorter waits are delays of the scheduler.
const SHORTEST: Ns = Ns::from_us(500);

/// Idle time beside a runnable thread that is more than an unrecorded switch.
const LONG_IDLE: Ns = Ns::from_ms(1);
/// Maximum time from the timer that gives a new budget to the switch-in.
const TO_SWITCH: Ns = Ns::from_us(200);

/// If no timer identifies it.
const SOME_MECHANISM: &str = "RT bandwidth or the fair server: a lower class ran while it was runnable";

/// The throttling.
pub(super) struct Throttled {
    /// Its proof, as text.
    pub why: String,
    /// Its short name.
    pub cause: &'static str,
    /// How to fix it.
    pub advice: &'static str,
    /// An event of the mechanism shows it; else it only looks like it.
    pub is_proved: bool,
}

impl Throttled {
    /// Whether it explains idle time of the CPU of this length. A short one without proof may be a missing switch.
    pub fn explains_idle(&self, net: Ns) -> bool {
        net > if self.is_proved { WORTH_MOVING } else { LONG_IDLE }
    }
}

/// Cause for a throttled SCHED_DEADLINE thread.
pub(super) const OVER_BUDGET: &str = "deadline budget";

/// Cause for a throttled SCHED_OTHER thread.
pub(super) const OVER_QUOTA: &str = "CPU quota of the cgroup";

/// Several slices of one thread: a slice is at most 3 to 4 ms (base_slice_ns, a tick).
const UNFAIR: Ns = Ns::from_ms(15);

/// Since 6.18 a thread over its quota runs until it is about to return to user mode, which is at once.
const THROWN_OUT: Ns = Ns::from_us(50);

/// Callbacks of the timers that end the wait for the quota of a cgroup.
const QUOTA_TIMERS: [&str; 2] = ["sched_cfs_period_timer", "sched_cfs_slack_timer"];

impl Walk<'_, '_> {
    /// The throttling, if `thread` was throttled on `cpu` in the span.
    pub(super) fn throttled(
        &self,
        thread: &Thread,
        prio: Option<Prio>,
        stretch: &Stretch,
        cpu: Cpu,
    ) -> Option<Throttled> {
        if stretch.length() < SHORTEST {
            return None;
        }
        if prio.is_some_and(|prio| !prio.is_realtime()) {
            return self.over_quota(thread, stretch, cpu);
        }
        if prio.is_some_and(|prio| prio.0 < 0) {
            return self.over_budget(stretch, cpu);
        }
        let prio = prio?;
        let since = self.queued_since(thread, stretch);
        let chosen = self.record.events_on(cpu, since, stretch.end).any(|(_, event)| match event.kind {
            What::Switch { next, .. } if next.tid != thread.tid => {
                next.tid == Tid::IDLE || next.prio.is_some_and(|next| next > prio && !next.is_realtime())
            }
            _ => false,
        });
        let used = self.used(cpu, since);
        if !(chosen || !used.is_empty() && self.released(stretch)) {
            return None;
        }
        let mechanism = self.mechanism(stretch, cpu);
        if mechanism == SOME_MECHANISM && (used.is_empty() || self.lossy) {
            return None; // no timer of a mechanism, and nothing shows that a budget was used up
        }
        let used = if used.is_empty() {
            String::new()
        } else {
            format!("; in the second before, {used} used CPU {cpu}")
        };
        Some(Throttled {
            why: format!("real-time throttling ({mechanism}){used}"),
            cause: "RT throttling",
            is_proved: mechanism != SOME_MECHANISM,
            advice: "real-time throttling: shorten what the real-time threads of this CPU use, see sched_rt_runtime_us, cgroup limits (RT_GROUP_SCHED) and /sys/kernel/debug/sched/fair_server",
        })
    }

    /// Whether the thread, woken while its run queue was throttled, ran as soon as the timer gave a new budget: an idle CPU
    /// stays idle then, without a switch.
    fn released(&self, stretch: &Stretch) -> bool {
        let from = stretch.begin.max(Mono(stretch.end.0.saturating_sub(TO_SWITCH.0)));
        stretch.state == State::Woken && self.fires("sched_rt_period_timer", from, stretch.end)
    }

    /// A SCHED_OTHER thread that stays on the run queue of a CPU that goes idle, or runs when the timer of the quota
    /// fires.
    fn over_quota(&self, thread: &Thread, stretch: &Stretch, cpu: Cpu) -> Option<Throttled> {
        let since = self.queued_since(thread, stretch);
        let idled = self
            .record
            .events_on(cpu, since, stretch.end)
            .any(|(_, event)| matches!(event.kind, What::Switch { next, .. } if next.tid == Tid::IDLE));
        // Without idle time, the timer must end the wait (a CPU may leave idle without an event), or others must have
        // run far longer than their slices before it: after it, the thread waits for its slice.
        let released = self.quota_renewed(stretch).is_some_and(|at| {
            idled
                || stretch.end.since(at) < NEAR
                || self.thrown_out(thread, stretch)
                || self.overtaken(thread, stretch.begin, at, cpu)
        });
        let why = match (released, idled) {
            // Only this timer gives a new quota: where timers are recorded, it was not that.
            (false, _) if self.lossy || self.record.has.timers => return None,
            (true, _) => "its cgroup had used up its CPU quota (sched_cfs_period_timer ends it)",
            (false, true) => {
                "the scheduler went idle instead of running it, as with a used-up CPU quota of its cgroup"
            }
            (false, false) => return None,
        };
        Some(Throttled {
            why: why.to_owned(),
            cause: OVER_QUOTA,
            is_proved: released,
            advice: "raise the CPU quota of its cgroup (cpu.max, or cpu.cfs_quota_us), or move the thread to another one",
        })
    }

    /// The last time that the timer of a quota fired in the span.
    fn quota_renewed(&self, stretch: &Stretch) -> Option<Mono> {
        let last = |on| {
            let mut events = self.record.events_on(on, stretch.begin, stretch.end).rev();
            events.find(|(_, event)| {
                matches!(event.kind, What::TimerExpireEntry { function: Some(function), .. }
                    if QUOTA_TIMERS.contains(&self.record.text(function)))
            })
        };
        self.record.cpus().filter_map(last).map(|(_, event)| event.at).max()
    }

    /// Time from which a SCHED_OTHER thread had quota again and waited for its slice.
    pub(super) fn in_quota_again(
        &self,
        thread: &Thread,
        prio: Option<Prio>,
        stretch: &Stretch,
    ) -> Option<Mono> {
        let cpu = stretch.cpu?;
        let throttled = self.throttled(thread, prio, stretch, cpu)?;
        let again = self.quota_renewed(stretch).filter(|_| throttled.cause == OVER_QUOTA)?;
        // The event of the timer is part of the wait for it.
        Some(Mono(again.0 + 1)).filter(|again| *again < stretch.end)
    }

    /// Whether the run before the span ended right after its start, without another thread preempting it.
    fn thrown_out(&self, thread: &Thread, stretch: &Stretch) -> bool {
        let from = Mono(stretch.begin.0.saturating_sub(THROWN_OUT.0));
        let events = || self.record.events_of(thread.tid, from, stretch.begin);
        let came = events().rev().find(|(_, event)| {
            matches!(event.kind, What::Switch { next, .. } if next.tid == thread.tid)
                && event.at < stretch.begin
        });
        let Some((_, came)) = came.filter(|_| stretch.state == State::Preempted) else { return false };
        let meanwhile = self.record.events_on(came.cpu, came.at, stretch.begin);
        !meanwhile
            .into_iter()
            .any(|(_, event)| matches!(event.kind, What::Waking { .. } | What::Wakeup { .. }))
    }

    /// Whether a SCHED_OTHER thread without a better nice value got more of `cpu` in `[a, b)` than fair scheduling
    /// allows while `thread` waits there.
    fn overtaken(&self, thread: &Thread, a: Mono, b: Mono, cpu: Cpu) -> bool {
        let mut had: BTreeMap<Tid, Ns> = BTreeMap::new();
        for slice in self.record.slices(cpu, a, b) {
            let (Context::Thread(tid), Some(task)) = (slice.context, slice.task) else { continue };
            if tid != thread.tid && self.record.thread(task, slice.end).prio >= thread.prio {
                let net = had.entry(tid).or_default();
                *net = *net + slice.length();
            }
        }
        had.values().any(|net| *net > UNFAIR)
    }

    /// A SCHED_DEADLINE thread that used up its runtime before the end of its period: another thread, or idle, has the
    /// CPU until the timer of its next period.
    fn over_budget(&self, stretch: &Stretch, cpu: Cpu) -> Option<Throttled> {
        let lower = |next: TaskRef, at: Mono| {
            let is_other = || !is_stopper(&self.record.thread(next, at).comm);
            next.tid == Tid::IDLE || next.prio.is_some_and(|prio| prio.0 >= 0) && is_other()
        };
        let mut events = self.record.events_on(cpu, stretch.begin, stretch.end);
        if !events.any(|(_, event)| matches!(event.kind, What::Switch { next, .. } if lower(next, event.at)))
        {
            return None;
        }
        let released = self.fires("dl_task_timer", stretch.begin, stretch.end);
        released.then(|| Throttled {
            why: "it had used up its SCHED_DEADLINE budget (dl_task_timer gives the next one)".to_owned(),
            cause: OVER_BUDGET,
            is_proved: true,
            advice: "SCHED_DEADLINE: raise sched_runtime above what one period needs at worst, or shorten the work of a period",
        })
    }

    /// Whether a timer with that function expires on any CPU in `[a, b]`.
    fn fires(&self, name: &str, a: Mono, b: Mono) -> bool {
        self.record.cpus().any(|on| {
            self.record.events_on(on, a, b).any(|(_, event)| {
                matches!(event.kind, What::TimerExpireEntry { function: Some(function), .. }
                    if self.record.text(function) == name)
            })
        })
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
            "the fair server gives ordinary threads their 50 ms: dl_task_timer starts it"
        } else if fires("sched_rt_period_timer", stretch.begin, stretch.end) {
            "RT bandwidth: sched_rt_period_timer"
        } else {
            SOME_MECHANISM
        }
    }

    /// Real-time threads that used `cpu` in the previous period, most first.
    fn used(&self, cpu: Cpu, until: Mono) -> String {
        // With its priority at that time.
        let mut used: BTreeMap<Tid, (Ns, Thread)> = BTreeMap::new();
        for slice in self.record.slices(cpu, Mono(until.0.saturating_sub(PERIOD.0)), until) {
            let (Context::Thread(tid), Some(task)) = (slice.context, slice.task) else { continue };
            let thread = self.record.thread(task, slice.end);
            if thread.prio.is_some_and(Prio::is_realtime) {
                let (time, _) = used.entry(tid).or_insert((Ns::ZERO, thread));
                *time = *time + slice.length();
            }
        }
        let mut used: Vec<_> = used.into_values().filter(|(net, _)| *net > Ns::from_ms(5)).collect();
        used.sort_by_key(|(net, _)| std::cmp::Reverse(*net));
        let told: Vec<String> = used.iter().take(3).map(|(net, thread)| format!("{thread} {net}")).collect();
        told.join(", ")
    }
}
