//! Softirqs deferred to a thread: ksoftirqd, and on PREEMPT_RT the threads of timers and interrupts. Such a thread is
//! not a bystander: from the raising of the softirq until the thread ran, the softirq was pending.

use super::clauses::{Weight, AMOUNT};
use super::Walk;
use crate::explain::cpu::{Context, Slice};
use crate::explain::record::describe::does_softirqs;
use crate::explain::record::softirq_name;
use crate::explain::segment::{Kind, Segment};
use crate::series::Thread;
use crate::time::{Mono, Ns, Tid};
use crate::trace::event::{Event, Kind as What, Vector};

/// Number of events searched back for the raising.
const FARTHEST: usize = 50_000;

/// NET_RX in the order of the kernel (include/linux/interrupt.h).
const NET_RX: u8 = 3;
/// A thread disables softirqs for less than this: an interrupt before did not raise what runs when it enables them.
const PENDING: Ns = Ns::from_ms(1);
/// An interrupt that ended less than this before may have executed the softirq on its way out.
const WAY_OUT: Ns = Ns::from_us(5);

/// A softirq deferred to a thread.
pub(super) struct Deferred {
    /// The thread that executed it.
    worker: Thread,
    /// `softirq TIMER`.
    name: String,
    /// When it was raised.
    pub since: Mono,
    /// The event that shows it.
    raised: Option<u32>,
}

impl Walk<'_, '_> {
    /// The softirq around the event at `index`, if it was deferred to a thread.
    pub(super) fn deferred(&self, index: u32) -> Option<Deferred> {
        let record = self.record;
        let event = record.event(index);
        let slice = record.waker(index).or_else(|| record.slice_before(event.cpu, event.at).copied())?;
        let Context::Softirq(vec) = slice.context else { return None };
        let worker =
            slice.task.map(|task| record.thread(task, event.at)).filter(|task| does_softirqs(&task.comm))?;
        let entry = slice.proof.map_or(slice.begin, |proof| record.event(proof).at);
        let raised = self.raised(event.cpu, vec, entry).or_else(|| self.woken(&worker, entry));
        let since = raised.map_or(entry, |raised| record.event(raised).at);
        Some(Deferred { worker, name: format!("softirq {}", softirq_name(vec)), since, raised })
    }

    /// The thread that sent the packet to this machine that is received in `slice`, around `waking`: it executed the
    /// softirq NET_RX itself, when it enabled softirqs, and no interrupt before can have raised that. Only for records of
    /// all interrupts that do not tell more about packets.
    pub(super) fn sender(&self, slice: &Slice, waking: &Event) -> Option<Thread> {
        let record = self.record;
        let has = |is: fn(&What) -> bool| record.window.events.iter().any(|event| is(&event.kind));
        let tells = |kind: &What| matches!(kind, What::SoftirqRaise { .. } | What::NetReceive { .. });
        let all = has(|kind| matches!(kind, What::VectorEntry(_))) && !record.window.hides_interrupts;
        if slice.context != Context::Softirq(NET_RX) || !all || has(tells) {
            return None;
        }
        let thread = record.thread_by_id(waking.current.filter(|tid| *tid != Tid::IDLE)?, waking.at);
        let (proof, entry) = slice.proof.map(|proof| (proof, record.event(proof)))?;
        if does_softirqs(&thread.comm) || !matches!(entry.kind, What::SoftirqEntry { vec: NET_RX }) {
            return None;
        }
        let from = Mono(entry.at.0.saturating_sub(PENDING.0));
        let before = record.events_on(entry.cpu, from, entry.at).rev();
        for (_, event) in before.skip_while(|(index, _)| *index != proof).skip(1) {
            let is_far = entry.at.since(event.at) > WAY_OUT;
            match event.kind {
                What::Switch { next, .. } => return (next.tid == thread.tid).then_some(thread),
                What::VectorEntry(Vector::LocalTimer) | What::VectorExit(Vector::LocalTimer) if is_far => {}
                What::SoftirqEntry { .. } | What::SoftirqExit { .. } if is_far => {}
                What::VectorEntry(_) | What::VectorExit(_) | What::IrqEntry { .. } | What::IrqExit { .. } => {
                    return None;
                }
                What::SoftirqEntry { vec } | What::SoftirqExit { vec } if vec != NET_RX => return None,
                What::Lost { .. } => return None,
                _ => {}
            }
        }
        Some(thread)
    }

    /// The first raising of `vec` on `cpu` that the run at `entry` serves.
    fn raised(&self, cpu: crate::time::Cpu, vec: u8, entry: Mono) -> Option<u32> {
        let mut first = None;
        for (index, event) in self.record.events_on(cpu, Mono(0), entry).rev().take(FARTHEST) {
            match event.kind {
                What::SoftirqRaise { vec: raised } if raised == vec => first = Some(index),
                What::SoftirqEntry { vec: before } if before == vec && event.at < entry => break,
                What::Lost { .. } => break,
                _ => {}
            }
        }
        first
    }

    /// The waking of `worker` for it.
    fn woken(&self, worker: &Thread, entry: Mono) -> Option<u32> {
        let mut before = self.record.events_of(worker.tid, Mono(0), entry).rev();
        before.find_map(|(index, event)| {
            matches!(event.kind, What::Waking { task, .. } if task.tid == worker.tid).then_some(index)
        })
    }

    /// From the raising to `b`: the time of the thread that executes the softirq.
    pub(super) fn by_softirq_thread(
        &mut self,
        deferred: &Deferred,
        (from, b): (Mono, Mono),
        depth: usize,
    ) -> Segment {
        let Deferred { worker, name, raised, .. } = deferred;
        let text =
            format!("{name} was deferred to {worker}, which took {AMOUNT} from the time it was raised");
        self.say(Weight::Frame, b.since(from), text, String::new(), "");
        let inside = self.life(worker, from, b, depth + 1);
        let label = format!("{name}, deferred to {worker}");
        let mut group = Segment::group(Kind::Softirq, label, from, b.since(from), inside);
        group.evidence.extend(raised.map(|index| self.record.evidence(index)));
        group
    }
}
