//! Scheduling classes and calls that decide which of two threads has the CPU: time slices of SCHED_RR, `sched_yield`,
//! priorities that another thread raised, SCHED_DEADLINE.

use super::Walk;
use crate::explain::thread::{State, Stretch};
use crate::series::Thread;
use crate::time::{Mono, Ns, Prio};
use crate::trace::event::Kind as What;

/// End of the text on a thread that gave way.
pub(super) const YIELDED: &str = ", to which it gave way by sched_yield";

/// Start of the text on a holder that another thread raised.
pub(super) const RAISED_FROM: &str = "raised from ";

/// Maximum time before a wait in which a raised priority is a reason of that wait.
const RAISED: Ns = Ns::from_ms(100);

impl Walk<'_, '_> {
    /// Whether `thread` lost the CPU to `holder` because its time slice was over: a thread by SCHED_FIFO, or with time
    /// left, that is preempted stays before all others of its priority.
    pub(super) fn takes_turns(
        &self,
        thread: &Thread,
        prio: Option<Prio>,
        holder: &Thread,
        stretch: &Stretch,
    ) -> bool {
        let is_same = prio.is_some_and(|prio| prio.is_realtime() && !is_deadline(thread));
        let call = self.linked.in_call(thread.tid, stretch.begin).map(|(_, id, _)| self.record.call_name(id));
        is_same
            && prio == holder.prio
            && stretch.state == State::Preempted
            && self.changed.is_none()
            && call.is_none_or(|call| call != "sched_yield")
    }

    /// Why `holder` came before `thread`: it was raised by another thread not long before, or `thread` gave way to it.
    pub(super) fn let_in(
        &self,
        thread: &Thread,
        prio: Option<Prio>,
        holder: &Thread,
        stretch: &Stretch,
    ) -> String {
        let call =
            || self.linked.in_call(thread.tid, stretch.begin).map(|(_, id, _)| self.record.call_name(id));
        if prio == holder.prio
            && stretch.state == State::Preempted
            && call().is_some_and(|call| call == "sched_yield")
        {
            return YIELDED.to_owned();
        }
        let raised = prio.and_then(|prio| self.raised_from(holder, prio, stretch));
        raised.map_or(String::new(), |raised| format!(", {raised}"))
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
                        .then(|| format!("{RAISED_FROM}{rank} to {new} by {by} ({call} at {set})"));
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
