//! An idle CPU while a thread was runnable: leaving idle, not idle after all, or kept from running the thread.

use super::clauses::{Weight, AMOUNT};
use super::throttled::{Throttled, OVER_BUDGET, OVER_QUOTA};
use super::waiting::WORTH_MOVING;
use super::Walk;
use crate::explain::cpu::Context;
use crate::explain::segment::{Kind, Segment};
use crate::explain::share::Share;
use crate::explain::thread::{State, Stretch};
use crate::explain::wait::{beyond_idle, is_after_idle, ARRIVES, SWITCHING, TO_THE_SWITCH};
use crate::series::Thread;
use crate::time::{Ns, Tid};
use crate::trace::event::{Event, Kind as What};

impl Walk<'_, '_> {
    /// Takes the time out of an idle share in which an event shows that the CPU was not idle: one outside recorded
    /// interrupts and not part of entering or leaving idle. The work after that event is not recorded.
    pub(super) fn awake(&mut self, share: &mut Share, thread: &Thread, stretch: &Stretch) -> Option<Segment> {
        let (cpu, pieces) = (share.cpu, share.pieces.clone());
        let pieces = if pieces.is_empty() { vec![(share.begin, share.begin + share.net)] } else { pieces };
        let shows = |index: u32, event: &Event| {
            matches!(event.kind, What::Waking { .. } | What::Wakeup { .. })
                && event.current == Some(Tid::IDLE)
                && self.record.waker(index).is_some_and(|slice| {
                    matches!(
                        slice.context,
                        Context::Idle(_) | Context::Unseen(_) | Context::Unknown | Context::Thread(Tid::IDLE)
                    )
                })
        };
        let mut taken = Ns::ZERO;
        let mut first = None;
        for (begin, end) in pieces {
            let mut within = self.record.events_on(cpu, begin, end);
            let seen = within.find(|(index, event)| event.at < end && shows(*index, event));
            if let Some((_, event)) = seen {
                let ended = self.record.events_on(cpu, begin, end).rev().find(|(_, edge)| {
                    edge.at >= event.at && (is_edge(&edge.kind) || matches!(edge.kind, What::IdleExit))
                });
                let until = ended.map_or(end, |(_, edge)| edge.at).max(event.at);
                taken = taken + until.since(event.at);
                first = first.or(Some(event.at));
            }
        }
        let (first, taken) = (first?, taken.min(share.net));
        if taken == Ns::ZERO || taken <= SWITCHING && is_after_idle(self.record, share, stretch) {
            return None;
        }
        share.net = share.net.saturating_sub(taken);
        share.pieces.clear();
        let at = first.max(stretch.begin);
        self.ask("irq_vectors:* or irq:irq_handler_entry, and power:cpu_idle,");
        let taken = Share { begin: at, net: taken, ..share.clone() };
        Some(beyond_idle(thread, &taken))
    }

    /// The time after the interrupt that woke `thread` on its own CPU.
    pub(super) fn after_idle(&mut self, share: &mut Share, thread: &Thread) -> Segment {
        if share.net > SWITCHING {
            self.ask("irq_vectors:* or irq:irq_handler_entry, and power:cpu_idle,");
            return beyond_idle(thread, share);
        }
        share.kind = Kind::Scheduler;
        let advice = "this is the cost of a context switch here: compare with an idle machine, and check CPU frequency and caches";
        let text = format!("{TO_THE_SWITCH} took {AMOUNT}");
        self.say(Weight::Blame, share.net, text, "switching".to_owned(), advice);
        share.leaf(TO_THE_SWITCH.to_owned())
    }

    /// A CPU that goes idle although `thread` is runnable does not need to leave idle for it: something keeps the
    /// thread off.
    pub(super) fn kept_off(&mut self, share: &Share, thread: &Thread, stretch: &Stretch) -> Option<Segment> {
        // Its run there and its next sleep may be missing.
        if self.lossy && share.net > ARRIVES {
            let what = format!("CPU {} seems to idle although {thread} was runnable", share.cpu);
            return Some(self.unsure(&what, share.begin, share.begin + share.net));
        }
        let came = matches!(self.began(stretch), Some(What::Migrate { .. }));
        if came || share.net < WORTH_MOVING {
            return None;
        }
        if stretch.state != State::Preempted {
            return self.was_not_there(share, thread, stretch);
        }
        self.ask("timer:hrtimer_expire_entry");
        let cpu = share.cpu;
        let label = format!(
            "CPU {cpu} idled although {thread} was runnable: it was throttled (a quota, RT bandwidth, a SCHED_DEADLINE budget) or held in another way that is not recorded"
        );
        Some(Segment::unexplained(Kind::WakeupWait, label, share.begin, share.net))
    }

    /// A CPU that goes idle has no runnable thread: one woken before ran meanwhile, and those switches are missing.
    fn was_not_there(&self, share: &Share, thread: &Thread, stretch: &Stretch) -> Option<Segment> {
        let since = self.queued_since(thread, stretch);
        let mut events = self.record.events_on(share.cpu, since, stretch.end);
        events.find(|(_, event)| {
            event.at > since && matches!(event.kind, What::Switch { next, .. } if next.tid == Tid::IDLE)
        })?;
        let label = format!("CPU {} went idle although {thread} was woken for it before: switches are missing, or it was throttled", share.cpu);
        Some(Segment::unexplained(Kind::WakeupWait, label, share.begin, share.net))
    }

    pub(super) fn idle(
        &mut self,
        thread: &Thread,
        share: &Share,
        stretch: &Stretch,
        throttled: Option<&Throttled>,
        depth: usize,
    ) -> String {
        let subject = self.subject(thread, depth);
        let cpu = share.cpu;
        if let Some(Throttled { why, cause, advice, .. }) =
            throttled.filter(|held| held.explains_idle(share.net))
        {
            let text = if [OVER_BUDGET, OVER_QUOTA].contains(cause) {
                format!("{subject} could not run for {AMOUNT}: {why}")
            } else {
                format!("{subject} was runnable for {AMOUNT} while CPU {cpu} idled: {why}")
            };
            self.say(Weight::Blame, share.net, text, (*cause).to_owned(), *advice);
            return format!("CPU {cpu} {}: {why}", share.name);
        }
        let vector =
            self.record.events_on(cpu, stretch.begin, stretch.end).find_map(|(_, event)| match event.kind {
                What::VectorEntry(vector) => Some(vector.name()),
                _ => None,
            });
        let by = vector.map_or(String::new(), |name| format!(" by interrupt {name}"));
        let text = format!("CPU {cpu} took {AMOUNT} to wake up from idle{by}");
        self.say(Weight::Blame, share.net, text, "idle exit".to_owned(),
            "forbid deep idle states (0 in /dev/cpu_dma_latency); on a virtual machine the host wakes this CPU: idle=poll");
        format!("CPU {cpu} {}, woken up{by}", share.name)
    }
}

/// Whether it is the entry or exit of an interrupt.
fn is_edge(kind: &What) -> bool {
    matches!(
        kind,
        What::VectorEntry(_)
            | What::VectorExit(_)
            | What::IrqEntry { .. }
            | What::IrqExit { .. }
            | What::SoftirqEntry { .. }
            | What::SoftirqExit { .. }
            | What::IpiEntry { .. }
            | What::IpiExit { .. }
    )
}
