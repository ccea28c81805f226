//! The victim was blocked until a thread or an interrupt released it.

use super::{Blame, Cause};
use crate::explain::share::{Role, Share};

/// The rule.
pub const CAUSE: Cause = Cause { name: "waited for", matches, key, clause, advice };

fn matches(share: &Share) -> bool {
    share.role == Role::Awaited
}

fn key(blame: &Blame) -> String {
    format!("waited for: {}", blame.share.comm())
}

fn clause(blame: &Blame) -> String {
    match &blame.share.thread {
        Some(thread) => {
            format!("it was blocked while {thread}, which woke it, ran on CPU {}", blame.share.cpu)
        }
        None => format!("it was blocked until {} on CPU {} woke it,", blame.share.label(), blame.share.cpu),
    }
}

fn advice(blame: &Blame) -> String {
    let name = blame.share.comm();
    match blame.share.thread {
        Some(_) => format!("the victim depends on {name}: raise its priority, or shorten its work before it wakes the victim"),
        None => format!("this is the time until {name} arrived: check the device or timer that raises it"),
    }
}
