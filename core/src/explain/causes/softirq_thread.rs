//! Softirq work in a thread: ksoftirqd, or on PREEMPT_RT ktimers and rcuc.

use super::{Blame, Cause};
use crate::explain::share::Share;

/// The rule.
pub const CAUSE: Cause = Cause { name: "softirq thread", matches, key, clause, advice };

fn matches(share: &Share) -> bool {
    let comm = share.thread.as_ref().map_or("", |thread| &thread.comm);
    ["ksoftirqd/", "ktimers/", "ktimersoftd/", "rcuc/"].iter().any(|name| comm.starts_with(name))
}

fn key(blame: &Blame) -> String {
    format!("softirq thread: {}", blame.share.comm())
}

fn clause(blame: &Blame) -> String {
    format!("{} did softirq work on CPU {}{}", blame.share.name, blame.share.cpu, super::times(blame.count))
}

fn advice(blame: &Blame) -> String {
    format!(
        "set the victim's priority above {}, and move the interrupts that feed it (network, timers, RCU) elsewhere",
        blame.share.comm()
    )
}
