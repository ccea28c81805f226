//! A thread or softirq ran with interrupts off while the timer was due.

use super::{Blame, Cause};
use crate::explain::interrupted::enables_interrupts;
use crate::explain::share::{Role, Share};

/// The rule.
pub const CAUSE: Cause = Cause { name: "irqs off", matches, key, clause, advice };

fn matches(share: &Share) -> bool {
    matches!(share.role, Role::IrqsOff { .. })
}

fn key(blame: &Blame) -> String {
    format!("irqs off: {}", blame.share.comm())
}

/// The innermost function that is not the one that enables interrupts.
fn section(share: &Share) -> Option<&str> {
    let frames = || share.stack.iter().map(String::as_str);
    frames().find(|frame| !enables_interrupts(frame)).or(frames().next())
}

fn clause(blame: &Blame) -> String {
    let share = blame.share;
    let place = section(share).map_or(String::new(), |frame| format!(", in {frame},"));
    match share.role {
        Role::IrqsOff { sure: true } => {
            format!("{} kept interrupts off on CPU {}{place}", share.name, share.cpu)
        }
        _ => {
            format!("{} ran kernel code on CPU {}{place} probably with interrupts off", share.name, share.cpu)
        }
    }
}

fn advice(blame: &Blame) -> String {
    match section(blame.share) {
        Some(frame) => format!(
            "find the section around {frame} that disables interrupts (driver or kernel update), or move {} away",
            blame.share.comm()
        ),
        None => format!("move {} to another CPU, or find its section with interrupts off", blame.share.comm()),
    }
}
