//! The victim was blocked until a thread or an interrupt released it.

use super::{Blame, Cause};
use crate::explain::share::{Role, Share};

/// The rule.
pub const CAUSE: Cause = Cause { name: "waited for", matches, key, clause, advice };

fn matches(share: &Share) -> bool {
    share.role == Role::Awaited
}

/// Source of the time for which a thread was stopped.
pub const STOPPED: &str = "being stopped";
/// What to do about a thread that was stopped.
pub const FIND_THE_STOPPER: &str = "find who stops it: a debugger or tracer, job control of a terminal, a supervisor, the freezer of its cgroup; and who continues it";

fn is_stop(blame: &Blame) -> bool {
    blame.share.name == STOPPED && blame.share.thread.is_none()
}

fn key(blame: &Blame) -> String {
    if is_stop(blame) {
        return "stopped".to_owned();
    }
    format!("waited for: {}", blame.share.comm())
}

fn clause(blame: &Blame) -> String {
    if is_stop(blame) {
        return "it was stopped, by a signal, a tracer or the freezer,".to_owned();
    }
    match &blame.share.thread {
        Some(thread) => {
            format!("it was blocked while {thread}, which woke it, ran on CPU {}", blame.share.cpu)
        }
        None => format!("it was blocked until {} on CPU {} woke it,", blame.share.label(), blame.share.cpu),
    }
}

fn advice(blame: &Blame) -> String {
    if is_stop(blame) {
        return FIND_THE_STOPPER.to_owned();
    }
    let name = blame.share.comm();
    match blame.share.thread {
        Some(_) => format!("the victim depends on {name}: raise its priority, or shorten its work before it wakes the victim"),
        None => format!("this is the time until {name} arrived: check the device or timer that raises it"),
    }
}
