//! A threaded interrupt handler (`irq/N-name`).

use super::{Blame, Cause};
use crate::explain::share::Share;

/// The rule.
pub const CAUSE: Cause = Cause { name: "irq thread", matches, key, clause, advice };

fn matches(share: &Share) -> bool {
    share.thread.as_ref().is_some_and(|thread| thread.comm.starts_with("irq/"))
}

fn key(blame: &Blame) -> String {
    format!("irq thread: {}", blame.share.comm())
}

fn clause(blame: &Blame) -> String {
    format!("{} ran on CPU {}{}", blame.share.name, blame.share.cpu, super::times(blame.count))
}

fn advice(blame: &Blame) -> String {
    format!(
        "set the victim's priority above {}, or move its interrupt to another CPU (/proc/irq/N/smp_affinity_list)",
        blame.share.comm()
    )
}
