//! Events that are missing: not recorded, or lost without a word.

use super::Walk;
use crate::explain::cpu::Context;
use crate::trace::event::{Kind as What, Level, Vector};

impl Walk<'_, '_> {
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
