//! The CPU was idle, and its exit from the idle state took time.

use super::{Blame, Cause};
use crate::explain::cpu::Context;
use crate::explain::share::{Role, Share};

/// The rule.
pub const CAUSE: Cause = Cause { name: "idle exit", matches, key, clause, advice };

fn matches(share: &Share) -> bool {
    share.role == Role::Idle
}

fn key(blame: &Blame) -> String {
    match blame.share.name.strip_prefix("idle in ") {
        Some(state) => format!("idle exit {state}"),
        None => "idle exit".to_owned(),
    }
}

fn clause(blame: &Blame) -> String {
    format!("CPU {} was {} and left it late,", blame.share.cpu, blame.share.name)
}

fn advice(blame: &Blame) -> String {
    match blame.share.context {
        Context::Idle(Some(_)) => {
            "forbid deep idle states (write 0 to /dev/cpu_dma_latency); on a virtual machine the host wakes this CPU: idle=poll"
        }
        _ => "record cpu_idle to see the idle state; try idle=poll, or 0 in /dev/cpu_dma_latency",
    }
    .to_owned()
}
