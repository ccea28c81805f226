//! When a thread is on the run queue, and whether another CPU put it there.

use super::Walk;
use crate::explain::thread::Stretch;
use crate::explain::wait::arrives_within;
use crate::series::Thread;
use crate::time::{Cpu, Mono, Ns};
use crate::trace::event::{Event, Kind as What, Vector};

impl Walk<'_, '_> {
    /// Time from which the thread is certainly on the run queue: its preemption, or the arrival of its wake-up.
    pub(super) fn queued_since(&self, thread: &Thread, stretch: &Stretch) -> Mono {
        let within = arrives_within(self.record, stretch);
        if within == Ns::ZERO {
            return stretch.begin;
        }
        let mut events = self.record.events_of(thread.tid, stretch.begin, stretch.end);
        let arrived = events
            .find(|(_, event)| matches!(event.kind, What::Wakeup { task, .. } if task.tid == thread.tid));
        arrived.map_or(stretch.begin + within, |(_, event)| event.at)
    }

    /// Whether an IPI may have executed it: on its target CPU, if IPIs are not recorded.
    pub(super) fn may_be_handed_over(&self, wakeup: &Event) -> bool {
        let elsewhere = |target: Option<Cpu>| target.is_some_and(|target| target != wakeup.cpu);
        if matches!(wakeup.kind, What::Wakeup { target_cpu, .. } if elsewhere(target_cpu)) {
            return false;
        }
        let tells = |kind: &What| {
            matches!(
                kind,
                What::VectorEntry(Vector::Reschedule | Vector::CallFunctionSingle) | What::IpiEntry { .. }
            )
        };
        !self.record.window.events.iter().any(|event| tells(&event.kind))
    }
}
