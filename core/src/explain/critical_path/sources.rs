//! Sources of an interrupt: the sender of packets or IPIs. Never the interrupted thread.

use std::collections::BTreeMap;

use super::Walk;
use crate::explain::cpu::Context;
use crate::explain::share::Share;
use crate::time::{Mono, Ns};
use crate::trace::event::{Kind as What, Vector};

/// Maximum delay of an IPI, unless its CPU was stalled.
const UNDER_WAY: Ns = Ns::from_us(500);
/// Maximum number of events examined for one label: the start of a storm suffices.
const MOST: usize = 20_000;
/// Minimum number of timers to name the threads that armed them.
const FLOOD: u32 = 20;

impl Walk<'_, '_> {
    /// The label of an interrupt's share in `[a, b]`, with the senders.
    pub(super) fn source(&self, share: &Share, a: Mono, b: Mono) -> String {
        let name = share.label();
        let behind = match share.context {
            Context::Softirq(2 | 3) => self.senders_of_packets(share, a, b),
            Context::Vector(Vector::CallFunction | Vector::CallFunctionSingle | Vector::Reschedule) => {
                self.senders_of_ipis(share, a, b)
            }
            Context::Vector(Vector::LocalTimer) | Context::HardIrq(_) | Context::Softirq(1 | 8) => {
                self.owners_of_timers(share, a, b)
            }
            _ => Vec::new(),
        };
        if behind.is_empty() {
            name
        } else {
            format!("{name} ({})", behind.join(", "))
        }
    }

    fn senders_of_packets(&self, share: &Share, a: Mono, b: Mono) -> Vec<String> {
        let mut senders: BTreeMap<String, u32> = BTreeMap::new();
        for (index, event) in self.record.events_on(share.cpu, a, b).take(MOST) {
            let What::NetReceive { device, .. } = event.kind else { continue };
            let device = device.map_or("?", |sym| self.record.text(sym));
            let sender = self.linked.sent(index).and_then(|index| self.linked.actor(index));
            let who = match sender {
                Some(thread) => format!("packets on {device} sent by {thread}"),
                None => format!("packets on {device}"),
            };
            *senders.entry(who).or_default() += 1;
        }
        most(senders)
    }

    /// The threads that armed the timers of a flood, by function.
    fn owners_of_timers(&self, share: &Share, a: Mono, b: Mono) -> Vec<String> {
        let mut owners: BTreeMap<String, u32> = BTreeMap::new();
        for (_, event) in self.record.events_on(share.cpu, a, b).take(MOST) {
            let (timer, function) = match event.kind {
                What::TimerExpireEntry { timer, function, .. }
                    if !matches!(share.context, Context::Softirq(1)) =>
                {
                    (timer, function)
                }
                What::WheelExpireEntry { timer, function }
                    if matches!(share.context, Context::Softirq(1)) =>
                {
                    (timer, function)
                }
                _ => continue,
            };
            let function = function.map_or("?", |sym| self.record.text(sym));
            if function.starts_with("tick_") {
                continue;
            }
            let armed = self.linked.armed(timer, event.at);
            let Some(owner) = armed.and_then(|(index, _)| self.linked.actor(index)) else { continue };
            *owners.entry(format!("timers of {owner}, {function}")).or_default() += 1;
        }
        let flood = owners.values().sum::<u32>() >= FLOOD;
        if flood {
            most(owners)
        } else {
            Vec::new()
        }
    }

    fn senders_of_ipis(&self, share: &Share, a: Mono, b: Mono) -> Vec<String> {
        let mut senders: BTreeMap<String, u32> = BTreeMap::new();
        let wakes = matches!(share.context, Context::Vector(Vector::Reschedule));
        let from = Mono(a.0.saturating_sub(UNDER_WAY.0));
        for (index, event) in self.linked.sent_to(share.cpu, from, b).take(MOST) {
            let function = match event.kind {
                What::CsdQueue { function, .. } if !wakes => function,
                What::IpiSend { callback, .. } | What::IpiSendMask { callback, .. } if wakes => callback,
                _ => continue,
            };
            let Some(sender) = self.linked.actor(index) else { continue };
            let call = self.linked.in_call(sender.tid, event.at).map(|(_, id, _)| self.record.call_name(id));
            let call = call.map_or(String::new(), |call| format!(" in {call}"));
            let function = function.map_or(String::new(), |sym| format!(", {}", self.record.text(sym)));
            *senders.entry(format!("IPIs sent by {sender}{call}{function}")).or_default() += 1;
        }
        most(senders)
    }
}

fn most(senders: BTreeMap<String, u32>) -> Vec<String> {
    let mut senders: Vec<(String, u32)> = senders.into_iter().collect();
    senders.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    senders.into_iter().take(2).map(|(who, count)| format!("{who}: {count}×")).collect()
}
