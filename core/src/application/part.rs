//! A wait that returned at once, in a place that is not the main wait: the turn goes on, and is reported by its parts.
//!
//! A thread that has fallen behind its timer does not block when it takes the next expiry ([`Activation::at_once`]). In the
//! main wait that is where one job ends and the next begins, whose release is known. Elsewhere it may be so, too (a thread
//! that waits in epoll_wait reads its timerfd after it), or it may be a timer within a job. So the activations are one turn
//! here, whose parts have the response times that they have in the first case, and whose whole length is a doubt
//! (`several`).

use super::places::Id;
use crate::trace::activation::Activation;

/// Activations of one turn, the last of which is to come.
#[derive(Clone)]
pub(super) struct Part {
    pub activations: Vec<Activation>,
    /// Where the last of them ended.
    pub place: Id,
}

impl Part {
    /// Whether `next` goes on where this ends; else what lay between was lost.
    pub fn goes_on_in(&self, next: &Activation) -> bool {
        let last = self.activations.last();
        last.is_some_and(|last| {
            next.awake && next.switched_in == last.blocked && next.thread.tid == last.thread.tid
        })
    }
}

/// All of them as one. `None`: there is none.
pub(super) fn joined(activations: &[Activation]) -> Option<Activation> {
    activations.iter().copied().reduce(|first, next| Activation {
        blocked: next.blocked,
        execution: first.execution + next.execution,
        preemptions: first.preemptions.saturating_add(next.preemptions),
        faults: first.faults.saturating_add(next.faults),
        fault_address: if next.faults > 0 { next.fault_address } else { first.fault_address },
        point: next.point,
        site: next.site,
        stack: next.stack,
        contended: next.contended,
        stayed: next.stayed,
        at_once: next.at_once,
        blocks: next.blocks,
        late_sleeps: super::turn::sum(first.late_sleeps, next.late_sleeps),
        thread: next.thread,
        policy: next.policy,
        ..first
    })
}
