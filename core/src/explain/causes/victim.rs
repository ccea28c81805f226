//! The victim itself: still busy, slow on its return to user space, or taking page faults there.

use super::{Blame, Cause};
use crate::explain::share::{Phase, Role, Share};

/// The rule.
pub const CAUSE: Cause = Cause { name: "victim", matches, key, clause, advice };

fn matches(share: &Share) -> bool {
    share.role == Role::Victim
}

fn key(blame: &Blame) -> String {
    match (blame.share.phase, blame.faults) {
        (Phase::Running, 0) => "return to user space".to_owned(),
        (Phase::Running, _) => "page faults of the victim".to_owned(),
        _ => "victim still busy".to_owned(),
    }
}

fn clause(blame: &Blame) -> String {
    match (blame.share.phase, blame.faults) {
        (Phase::Running, 0) => format!("{} was on its way to user space", blame.share.name),
        (Phase::Running, count) => format!("{} took {count} page faults itself", blame.share.name),
        _ => format!("{} itself was still running", blame.share.name),
    }
}

fn advice(blame: &Blame) -> String {
    match (blame.share.phase, blame.faults) {
        (Phase::Running, 0) => {
            "the switch and the way to user space took this long: compare with an idle machine"
        }
        (Phase::Running, _) => "lock and touch all memory of the victim before it starts (mlockall)",
        _ => "the work of one period did not end before the next: shorten it or lengthen the period",
    }
    .to_owned()
}
