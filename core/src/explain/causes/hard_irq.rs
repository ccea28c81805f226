//! Handlers of an interrupt line, one or a storm.

use super::{Blame, Cause};
use crate::explain::cpu::Context;
use crate::explain::share::Share;

/// The rule.
pub const CAUSE: Cause = Cause { name: "hard IRQ", matches, key, clause, advice };

/// Minimum number in one interval for a storm.
const STORM: u32 = 10;

fn matches(share: &Share) -> bool {
    matches!(share.context, Context::HardIrq(_))
}

fn key(blame: &Blame) -> String {
    match blame.count {
        0..STORM => blame.share.name.clone(),
        _ => format!("storm of {}", blame.share.name),
    }
}

fn clause(blame: &Blame) -> String {
    match blame.count {
        0..STORM => {
            format!("{} ran on CPU {}{}", blame.share.name, blame.share.cpu, super::times(blame.count))
        }
        count => format!("a storm of {count} × {} ran on CPU {}", blame.share.name, blame.share.cpu),
    }
}

fn advice(blame: &Blame) -> String {
    let Context::HardIrq(irq) = blame.share.context else { return String::new() };
    match blame.count {
        0..STORM => {
            format!("move it to another CPU: /proc/irq/{irq}/smp_affinity_list; or shorten its handler")
        }
        _ => format!(
            "move it (/proc/irq/{irq}/smp_affinity_list) and limit its rate: interrupt coalescing, budget"
        ),
    }
}
