//! Events that are missing: not recorded, or lost without a word.

use super::Walk;
use crate::explain::cpu::Context;
use crate::explain::segment::{Kind, Segment};
use crate::time::{Mono, Ns, Tid};
use crate::trace::event::{Event, Kind as What, Level, Vector};

/// Maximum time from setting a timer to the sleep until it.
const ARMING: Ns = Ns::from_ms(1);
/// Why the waker of a thread that a timer woke is unknown.
pub(super) const TIMER_MISSING: &str = "the event of the timer that woke it is missing";
/// Why time has no cause in a trace that lost events without a record of the loss.
pub(super) const UNREPORTED: &str = "the trace lost events without reporting it";

impl Walk<'_, '_> {
    /// Notes whether events around `[a, b]` were lost that the trace does not report.
    pub(super) fn check_whole(&mut self, a: Mono, b: Mono) {
        self.lossy = self.record.lacks_events(a, b);
        if !self.lossy {
            return;
        }
        self.clauses.of_lossy();
        let all = self.record.contradictions(Mono(0), b);
        let inside = self.record.contradictions(a, b);
        let Some(first) = inside.first().or(all.last()) else { return };
        self.missing.push(format!(
            "{UNREPORTED}: {} contradictions in the interval and {} before it, such as {} missing on CPU {} before {}; nothing is concluded from the absence of an event",
            inside.len(),
            all.len() - inside.len(),
            first.missing,
            first.cpu,
            first.at
        ));
    }

    /// Whether a timer that `tid` set for the sleep it is in at `at` would have a recorded `hrtimer_start`.
    pub(super) fn records_arming(&self, tid: Tid, at: Mono) -> bool {
        let left = self
            .record
            .events_of(tid, Mono(0), at)
            .rev()
            .find(|(_, event)| matches!(event.kind, What::Switch { prev, .. } if prev.tid == tid));
        let is_inside =
            |left: &Event| self.record.complete_from(left.cpu).is_some_and(|from| from + ARMING < left.at);
        self.record.has.timer_starts && left.is_some_and(|(_, left)| is_inside(left))
    }

    /// An unexplained part of a record with such losses.
    pub(super) fn unsure(&self, what: &str, a: Mono, b: Mono) -> Segment {
        Segment::unexplained(Kind::Lost, format!("{what}: {UNREPORTED}"), a, b.since(a))
    }

    /// Notes a tracepoint that would have explained a gap.
    pub(super) fn ask(&mut self, tracepoint: &str) {
        self.missing.push(format!("{tracepoint} is not recorded here: it would show the next step"));
    }

    /// Whether an interrupt wakes threads only in its timers, and those are recorded: a waking outside them shows a loss.
    pub(super) fn lacks_its_timer(&self, context: Context) -> bool {
        let has = |is: fn(&What) -> bool| self.record.window.events.iter().any(|event| is(&event.kind));
        match context {
            // The hrtimers, and the tick among them.
            Context::Vector(Vector::LocalTimer) | Context::Softirq(8) => {
                has(|kind| matches!(kind, What::TimerExpireEntry { .. }))
                    && has(|kind| matches!(kind, What::TimerExpireExit { .. }))
            }
            Context::Softirq(1) => has(|kind| matches!(kind, What::WheelExpireEntry { .. })),
            _ => false,
        }
    }

    /// Notes the tracepoint that shows the activity of such an interrupt, if the record has none.
    pub(super) fn ask_what_it_did(&mut self, context: Context) {
        let (tracepoint, is_one): (_, fn(&What) -> bool) = match context {
            Context::Softirq(1) => {
                ("timer_expire_entry", |kind| matches!(kind, What::WheelExpireEntry { .. }))
            }
            Context::Softirq(2 | 3) => ("netif_receive_skb", |kind| matches!(kind, What::NetReceive { .. })),
            Context::Softirq(4) => ("block_rq_complete", |kind| matches!(kind, What::BlockComplete { .. })),
            Context::Softirq(8) | Context::Vector(Vector::LocalTimer) => {
                ("hrtimer_expire_entry", |kind| matches!(kind, What::TimerExpireEntry { .. }))
            }
            Context::Unseen(Level::Softirq) => {
                ("softirq_entry", |kind| matches!(kind, What::SoftirqEntry { .. }))
            }
            // An interrupt line or a vector.
            Context::Unseen(_) => {
                ("irq_vectors:local_timer_entry", |kind| matches!(kind, What::VectorEntry(_)))
            }
            Context::Vector(Vector::CallFunction | Vector::CallFunctionSingle) => {
                ("csd_function_entry", |kind| matches!(kind, What::CsdEntry { .. }))
            }
            _ => return,
        };
        if !self.record.window.events.iter().any(|event| is_one(&event.kind)) {
            self.ask(tracepoint);
        }
    }
}
