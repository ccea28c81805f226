//! A softirq that ran on the way out of an interrupt.

use super::{Blame, Cause};
use crate::explain::cpu::Context;
use crate::explain::share::Share;

/// The rule.
pub const CAUSE: Cause = Cause { name: "softirq", matches, key, clause, advice };

fn matches(share: &Share) -> bool {
    matches!(share.context, Context::Softirq(_))
}

fn key(blame: &Blame) -> String {
    blame.share.name.clone()
}

fn clause(blame: &Blame) -> String {
    format!("{} ran on CPU {}{}", blame.share.label(), blame.share.cpu, super::times(blame.count))
}

fn advice(blame: &Blame) -> String {
    match blame.share.name.as_str() {
        "softirq NET_RX" | "softirq NET_TX" => {
            "move the network interrupts and RPS away from this CPU; threadirqs or PREEMPT_RT make softirqs preemptible"
        }
        "softirq TIMER" | "softirq HRTIMER" => "pin the users of these timers to other CPUs; nohz_full= moves some",
        "softirq RCU" => "rcu_nocbs= moves RCU callbacks to threads on other CPUs",
        "softirq BLOCK" => "move the disk's interrupts to another CPU",
        _ => "move the interrupt that raises it to another CPU; PREEMPT_RT makes softirqs preemptible",
    }
    .to_owned()
}
