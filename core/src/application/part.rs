//! A wait outside the main wait that returned at once: the job continues, and is reported in parts.
//!
//! A thread that is late for its timer does not block when it takes the next expiry ([`Activation::at_once`]). In the
//! main wait, one job ends there and the next starts, with a known release. Elsewhere it may be the same (a thread
//! reads its timerfd after epoll_wait), or a timer within a job. So the activations are one job here: its parts have
//! the response times of the first case, and its total length is reported as a doubt (`several`).

use std::borrow::Cow;

use super::places::Id;
use crate::trace::activation::{Activation, LateSleeps};

/// Activations of one job, without the last.
#[derive(Clone)]
pub(super) struct Part {
    pub activations: Vec<Activation>,
    /// Where the last of them blocked.
    pub place: Id,
}

impl Part {
    /// Whether `next` continues this; else the activations in between were lost.
    pub fn goes_on_in(&self, next: &Activation) -> bool {
        let last = self.activations.last();
        last.is_some_and(|last| {
            next.awake && next.switched_in == last.blocked && next.thread.tid == last.thread.tid
        })
    }
}

/// All activations as one; `None`: there are none.
pub(super) fn joined(activations: &[Activation]) -> Option<Cow<'_, Activation>> {
    if let [one] = activations {
        return Some(Cow::Borrowed(one)); // nearly always
    }
    let whole = activations.iter().copied().reduce(|first, next| Activation {
        blocked: next.blocked,
        execution: first.execution + next.execution,
        preemptions: first.preemptions.saturating_add(next.preemptions),
        was_reserved: first.was_reserved || next.was_reserved,
        out_of_quota: first.out_of_quota || next.out_of_quota,
        faults: first.faults.saturating_add(next.faults),
        fault_address: if next.faults > 0 { next.fault_address } else { first.fault_address },
        point: next.point,
        site: next.site,
        stack: next.stack,
        sources: next.sources,
        contended: next.contended,
        stopped: next.stopped,
        stayed: next.stayed,
        at_once: next.at_once,
        blocks: next.blocks,
        late_sleeps: sum(first.late_sleeps, next.late_sleeps),
        thread: next.thread,
        policy: next.policy,
        ..first
    });
    whole.map(Cow::Owned)
}

/// The overruns of two spans, one after the other.
pub(super) fn sum(a: Option<LateSleeps>, b: Option<LateSleeps>) -> Option<LateSleeps> {
    let (Some(a), Some(b)) = (a, b) else { return a.or(b) };
    Some(LateSleeps { count: a.count.saturating_add(b.count), last: b.last, most: a.most.max(b.most) })
}
