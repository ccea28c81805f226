//! RCU grace periods: waits until every CPU has passed through a quiescent state and every preempted reader has left
//! its critical section. No event names the reader (those of RCU need CONFIG_RCU_TRACE), unless it is boosted.

use std::collections::HashMap;

use super::clauses::{Weight, AMOUNT};
use super::wakers::Waker;
use super::Walk;
use crate::explain::segment::{Kind, Segment};
use crate::series::Thread;
use crate::time::{Mono, Ns, Tid};
use crate::trace::event::{Event, Kind as What, LeftAs};

const SOFTIRQ_RCU: u8 = 9;
/// Maximum length of a normal grace period: some ticks.
const LONG: Ns = Ns::from_ms(50);
/// Time before a grace period in which a preemption is searched.
const LOOK_BACK: Ns = Ns::from_ms(1_000);

/// Whether this kernel thread drives grace periods.
pub(super) fn drives(comm: &str) -> bool {
    ["rcu_preempt", "rcu_sched", "rcu_bh", "rcu_exp_", "rcu_tasks_"].iter().any(|name| comm.starts_with(name))
}

/// Whether this kernel thread runs RCU callbacks.
pub(super) fn calls_back(comm: &str) -> bool {
    ["rcuc/", "rcuop/", "rcuos/", "rcuob/", "rcuog/"].iter().any(|name| comm.starts_with(name))
}

impl Walk<'_, '_> {
    /// Whether `waker` shows a wait for a grace period: the callback ran in the RCU softirq.
    pub(super) fn is_callback(&self, waker: &Waker) -> bool {
        matches!(waker, Waker::Interrupt { softirq: Some(SOFTIRQ_RCU), .. })
    }

    /// Whether RCU's own thread was woken because a CPU passed a quiescent state, or to check for one.
    pub(super) fn is_quiescence(&self, waker: &Waker) -> bool {
        match waker {
            Waker::Thread(thread) => calls_back(&thread.comm),
            Waker::Interrupt { .. } | Waker::Timeout { .. } | Waker::Wheel(_) | Waker::Unfinished => true,
            _ => false,
        }
    }

    /// The thread that drives a grace period is blocked: it waits for quiescent states.
    pub(super) fn quiescence(
        &mut self,
        driver: &Thread,
        (a, b): (Mono, Mono),
        proof: Option<u32>,
    ) -> Segment {
        let (boosted, who) = self.readers(a, b);
        let text = format!(
            "the RCU grace period took {AMOUNT}: {driver} waited until all CPUs had switched and all preempted readers had \
             finished{who}"
        );
        let advice = "keep what waits for RCU grace periods out of the interval (membarrier, changes of networks, cgroups, \
                      modules, namespaces); rcupdate.rcu_expedited=1 makes them shorter at the price of IPIs";
        self.say(Weight::Blame, b.since(a), text, "RCU grace period".to_owned(), advice);
        let label = format!("{driver} waits for all CPUs to pass a quiescent state (RCU grace period){who}");
        self.awaited("an RCU grace period", label, a, b, &[boosted, proof])
    }

    /// A grace period for its waiter: the time of the thread that drives it, then the callback.
    pub(super) fn grace_period(
        &mut self,
        thread: &Thread,
        (a, b): (Mono, Mono),
        proof: Option<u32>,
        depth: usize,
    ) -> Vec<Segment> {
        let Some(driver) = self.driver(b) else {
            return vec![self.quiescence(thread, (a, b), proof)];
        };
        let who = self.readers(a, b).1;
        let text = format!("{} waited {AMOUNT} for an RCU grace period{who}", self.subject(thread, depth));
        self.say(Weight::Frame, b.since(a), text, String::new(), "");
        let inside = self.life(&driver, a, b, depth + 1);
        let label = format!("an RCU grace period and its callback, which wakes {thread}");
        let mut group = Segment::group(Kind::Blocked, label, a, b.since(a), inside);
        group.evidence.extend(proof.map(|index| self.record.evidence(index)));
        vec![group]
    }

    /// Readers that a grace period in `[a, b)` may have waited for.
    pub(super) fn readers(&self, a: Mono, b: Mono) -> (Option<u32>, String) {
        match self.boosted_reader(a, b) {
            Some((index, who)) => (Some(index), format!(", also for {who}")),
            None => (None, self.preempted(a, b)),
        }
    }

    /// Threads preempted in `[a, b)`: one of them may be in a read-side critical section. Only one preempted for most
    /// of a long time is mentioned.
    fn preempted(&self, a: Mono, b: Mono) -> String {
        let record = self.record;
        let mut since: HashMap<Tid, Mono> = HashMap::new();
        let mut longest: Option<(Ns, Tid)> = None;
        let from = Mono(a.0.saturating_sub(LOOK_BACK.0));
        let mut switches: Vec<&Event> =
            record.cpus().flat_map(|cpu| record.events_on(cpu, from, b)).map(|(_, event)| event).collect();
        switches.retain(|event| matches!(event.kind, What::Switch { .. }));
        switches.sort_by_key(|event| event.at);
        let mut note = |tid, begin: Mono, end: Mono| {
            let still = end.since(begin.max(a));
            if end > a && longest.is_none_or(|(most, _)| still > most) {
                longest = Some((still, tid));
            }
        };
        for event in switches {
            let What::Switch { prev, left_as, next } = event.kind else { continue };
            if let Some(begin) = since.remove(&next.tid) {
                note(next.tid, begin, event.at);
            }
            if left_as == LeftAs::Runnable && prev.tid != Tid::IDLE {
                since.insert(prev.tid, event.at);
            }
        }
        since.into_iter().for_each(|(tid, begin)| note(tid, begin, b));
        let worth = |still: Ns| b.since(a) >= LONG && still.0 * 2 > b.since(a).0;
        match longest.filter(|(still, _)| worth(*still)) {
            Some((still, tid)) => {
                let who = record.thread_by_id(tid, b);
                format!("; {who} was preempted for {still} of it, perhaps in a read-side section")
            }
            None => String::new(),
        }
    }

    /// The thread that drives normal grace periods, with its priority at `at`.
    fn driver(&self, at: Mono) -> Option<Thread> {
        let switches = || {
            self.record.window.events.iter().filter_map(|event| match event.kind {
                What::Switch { next, .. } if next.tid != Tid::IDLE => {
                    Some((event.at, self.record.thread(next, event.at)))
                }
                _ => None,
            })
        };
        let drives = |thread: &Thread| thread.comm == "rcu_preempt" || thread.comm == "rcu_sched";
        let (_, first) = switches().find(|(_, thread)| drives(thread))?;
        let last = switches().rfind(|(when, thread)| *when <= at && thread.tid == first.tid);
        Some(last.map_or(first, |(_, thread)| thread))
    }

    /// A reader that `rcub` boosted in `[a, b]`.
    fn boosted_reader(&self, a: Mono, b: Mono) -> Option<(u32, String)> {
        let record = self.record;
        let mut boosts = record.cpus().flat_map(|cpu| record.events_on(cpu, a, b));
        boosts.find_map(|(index, event)| {
            let What::PiSetprio { task, old, new } = event.kind else { return None };
            let by = event.current.map(|tid| record.thread_by_id(tid, event.at).comm)?;
            let reader = record.thread_by_id(task.tid, event.at);
            (new < old && by.starts_with("rcub/")).then(|| {
                (
                    index,
                    format!(
                        "{reader}, preempted in its read-side section and boosted by {by} ({old} => {new})"
                    ),
                )
            })
        })
    }
}
