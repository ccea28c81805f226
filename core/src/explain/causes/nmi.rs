//! Non-maskable interrupts.

use super::{Blame, Cause};
use crate::explain::cpu::Context;
use crate::explain::share::Share;

/// The rule.
pub const CAUSE: Cause = Cause { name: "NMI", matches, key, clause, advice };

fn matches(share: &Share) -> bool {
    share.context == Context::Nmi
}

fn key(_: &Blame) -> String {
    "NMI".to_owned()
}

fn clause(blame: &Blame) -> String {
    format!("NMIs ran on CPU {}{}", blame.share.cpu, super::times(blame.count))
}

fn advice(_: &Blame) -> String {
    "stop profilers (perf) and the NMI watchdog: sysctl kernel.nmi_watchdog=0".to_owned()
}
