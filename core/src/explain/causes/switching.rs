//! Time of the scheduler itself: from the interrupt of the waking to the switch.

use super::{Blame, Cause};
use crate::explain::cpu::Context;
use crate::explain::share::{Role, Share};
use crate::explain::wait::TO_THE_SWITCH;

/// The rule.
pub const CAUSE: Cause = Cause { name: "switching", matches, key, clause, advice };

fn matches(share: &Share) -> bool {
    share.role == Role::Switching
}

fn key(_: &Blame) -> String {
    "switching".to_owned()
}

fn clause(blame: &Blame) -> String {
    match blame.share.context {
        Context::Idle(_) => format!("{TO_THE_SWITCH} on CPU {} took long", blame.share.cpu),
        _ => format!("the scheduler switched away from {} on CPU {}", blame.share.name, blame.share.cpu),
    }
}

fn advice(_: &Blame) -> String {
    "this is the cost of a context switch here: compare with an idle machine, and check CPU frequency and caches"
        .to_owned()
}
