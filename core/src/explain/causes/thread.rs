//! A thread was entitled to the CPU: equal or higher priority, or fair scheduling among SCHED_OTHER threads.

use super::{Blame, Cause};
use crate::explain::cpu::Context;
use crate::explain::share::{Role, Share};

/// The rule.
pub const CAUSE: Cause = Cause { name: "thread", matches, key, clause, advice };

fn matches(share: &Share) -> bool {
    matches!(share.context, Context::Thread(_))
}

fn key(blame: &Blame) -> String {
    format!("thread: {}", blame.share.comm())
}

fn clause(blame: &Blame) -> String {
    let share = blame.share;
    let right = match share.role {
        Role::Wins => ", of equal or higher priority,",
        Role::SharesFairly => ", an ordinary thread like the victim,",
        _ => "",
    };
    format!("{}{right} held CPU {}{}", share.name, share.cpu, super::times(blame.count))
}

fn advice(blame: &Blame) -> String {
    let comm = blame.share.comm();
    match blame.share.role {
        Role::SharesFairly => {
            "give the victim a real-time priority (chrt -f), or a CPU of its own".to_owned()
        }
        Role::Wins => format!("lower the priority of {comm}, shorten its runs, or pin it to another CPU"),
        _ => format!("record priorities (sched_switch) to judge {comm}; or pin it to another CPU"),
    }
}
