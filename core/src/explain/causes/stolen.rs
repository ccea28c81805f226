//! The hypervisor ran something else (steal time).

use super::{Blame, Cause};
use crate::explain::share::{Role, Share};

/// The rule.
pub const CAUSE: Cause = Cause { name: "host", matches, key, clause, advice };

fn matches(share: &Share) -> bool {
    share.role == Role::Host
}

fn key(_: &Blame) -> String {
    "host took the CPU".to_owned()
}

fn clause(blame: &Blame) -> String {
    format!("the host ran something else on CPU {} (steal clock)", blame.share.cpu)
}

fn advice(_: &Blame) -> String {
    "dedicate a host CPU to this virtual CPU (pin it, no overcommitment), or measure on bare metal".to_owned()
}
