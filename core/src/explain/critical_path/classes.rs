//! Scheduling classes and calls that decide which of two threads has the CPU: time slices of SCHED_RR, `sched_yield`,
//! priorities that another thread raised, SCHED_DEADLINE.

use std::fmt;

use super::Walk;
use crate::explain::thread::{State, Stretch};
use crate::series::Thread;
use crate::time::{Mono, Ns, Prio};
use crate::trace::event::Kind as What;

/// Why a thread has the CPU before another that is not of higher priority.
pub(super) enum LetIn {
    /// By its priority.
    Rank,
    /// In its time slice.
    Slice,
    /// In its turn: a time slice, or the other one called `sched_yield`, which is not recorded.
    Turn,
    /// The other one called `sched_yield`.
    Yielded,
    /// Another thread raised it: `raised from nice 0 to RT 70 by boss/7 (sched_setscheduler at …)`.
    Raised(String),
}

impl fmt::Display for LetIn {
    /// Behind the name of the thread that has the CPU.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LetIn::Rank => Ok(()),
            LetIn::Slice => write!(f, ", in its time slice of SCHED_RR"),
            LetIn::Turn => write!(f, ", in its turn (by SCHED_RR, or after a sched_yield)"),
            LetIn::Yielded => write!(f, ", to which it gave way by sched_yield"),
            LetIn::Raised(how) => write!(f, ", {how}"),
        }
    }
}

impl LetIn {
    /// What to do for `comm`, which waits for the CPU that `holder` has.
    pub fn advice(&self, comm: &str, holder: &str) -> String {
        match self {
            LetIn::Rank => format!("lower the priority of {holder}, shorten its runs, or let one of the two use another CPU"),
            LetIn::Slice => format!("give {comm} and {holder} different priorities, or SCHED_FIFO: threads of one priority take turns by SCHED_RR, sched_rr_timeslice_ms each"),
            LetIn::Turn => format!("give {comm} and {holder} different priorities; if {comm} does not run by SCHED_RR, it called sched_yield, which lets all threads of its priority run first"),
            LetIn::Yielded => format!("let {comm} not call sched_yield here: it lets all threads of its priority run first"),
            LetIn::Raised(_) => format!("find why {holder} is raised above {comm}, or let that be done when {comm} does not have to run"),
        }
    }
}

/// Maximum time before a wait in which a raised priority is a reason of that wait.
const RAISED: Ns = Ns::from_ms(100);

impl Walk<'_, '_> {
    /// Whether `thread` lost the CPU to `holder` because its time slice was over: a thread by SCHED_FIFO, or with time
    /// left, that is preempted stays before all others of its priority.
    fn takes_turns(&self, thread: &Thread, prio: Option<Prio>, holder: &Thread, stretch: &Stretch) -> bool {
        let is_same = prio.is_some_and(|prio| prio.is_realtime() && !is_deadline(thread));
        let call = self.linked.in_call(thread.tid, stretch.begin).map(|(_, id, _)| self.record.call_name(id));
        is_same
            && prio == holder.prio
            && stretch.state == State::Preempted
            && self.changed.is_none()
            && call.is_none_or(|call| call != "sched_yield")
    }

    /// Why `holder` came before `thread`: its time slice, or it was raised by another thread not long before, or `thread` gave
    /// way to it.
    pub(super) fn let_in(
        &self,
        thread: &Thread,
        prio: Option<Prio>,
        holder: &Thread,
        stretch: &Stretch,
    ) -> LetIn {
        if self.takes_turns(thread, prio, holder, stretch) {
            return if self.sees_yields() { LetIn::Slice } else { LetIn::Turn };
        }
        let call =
            || self.linked.in_call(thread.tid, stretch.begin).map(|(_, id, _)| self.record.call_name(id));
        if prio == holder.prio
            && stretch.state == State::Preempted
            && call().is_some_and(|call| call == "sched_yield")
        {
            return LetIn::Yielded;
        }
        let raised = prio.and_then(|prio| self.raised_from(holder, prio, stretch));
        raised.map_or(LetIn::Rank, LetIn::Raised)
    }

    /// Whether the calls of all threads are recorded, not only chosen ones or those in which the thread of the interval
    /// blocked.
    fn sees_yields(&self) -> bool {
        self.record.window.events.iter().any(|event| {
            let What::SysEnter { id, .. } = event.kind else { return false };
            let call = self.record.call_name(id);
            let chosen =
                ["futex", "sched_set", "setpriority", "sys "].iter().any(|one| call.starts_with(one));
            !chosen && event.current != Some(self.root.tid)
        })
    }

    /// `raised from nice 0 to RT 70 by boss/7 (sched_setscheduler at …)`: from below `prio`, by a call of another thread.
    fn raised_from(&self, holder: &Thread, prio: Prio, stretch: &Stretch) -> Option<String> {
        let from = Mono(stretch.begin.0.saturating_sub(RAISED.0));
        let mut above = None;
        let shown = self.record.events_of(holder.tid, from, stretch.end).rev();
        let ranks = shown.filter_map(|(_, event)| match event.kind {
            What::Switch { next: task, .. } | What::Waking { task, .. } | What::Migrate { task, .. }
                if task.tid == holder.tid =>
            {
                Some((event.at, task.prio?))
            }
            What::Switch { prev, .. } if prev.tid == holder.tid => Some((event.at, prev.prio?)),
            _ => None,
        });
        for (at, rank) in ranks {
            match above {
                _ if rank <= prio => above = Some(at),
                // Lowered again since.
                None => {}
                Some(above) => {
                    let calls = ["sched_setscheduler", "sched_setparam", "sched_setattr", "setpriority"];
                    let (set, call, by) = self.call_on(holder.tid, (at, above), &calls)?;
                    let (new, is_other) = (holder.prio?, by.tid != holder.tid);
                    return is_other
                        .then(|| format!("raised from {rank} to {new} by {by} ({call} at {set})"));
                }
            }
        }
        None
    }
}

pub(super) fn is_deadline(thread: &Thread) -> bool {
    thread.prio.is_some_and(|prio| prio < Prio::from_rt(99))
}

/// Advice for a SCHED_DEADLINE task on the CPU: it has no priority that could be lowered.
pub(super) fn by_deadline(thread: &Thread, comm: &str) -> String {
    match is_deadline(thread) {
        true => format!("both run by SCHED_DEADLINE, the earlier deadline first: reduce the sched_runtime of {comm}, or let one of the two use another CPU"),
        false => format!("{comm} runs by SCHED_DEADLINE, before all other classes: reduce its sched_runtime, or let one of the two use another CPU"),
    }
}
