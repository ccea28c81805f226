//! The timer interrupt itself: other timers before the victim's, the tick, and the path to the waking.

use super::{Blame, Cause};
use crate::explain::cpu::Context;
use crate::explain::segment::Kind;
use crate::explain::share::Share;
use crate::trace::event::Vector;

/// The rule.
pub const CAUSE: Cause = Cause { name: "timer interrupt", matches, key, clause, advice };

fn matches(share: &Share) -> bool {
    share.kind == Kind::TimerInterrupt || share.context == Context::Vector(Vector::LocalTimer)
}

fn key(_: &Blame) -> String {
    "timer interrupt".to_owned()
}

fn clause(blame: &Blame) -> String {
    match blame.share.functions.first() {
        _ if blame.share.is_outside_functions() => {
            format!("timer interrupts (most outside their timers' functions) ran on CPU {}", blame.share.cpu)
        }
        Some((function, _)) => {
            format!("timer interrupts (most in {function}) ran on CPU {}", blame.share.cpu)
        }
        None => format!("timer interrupts ran on CPU {}", blame.share.cpu),
    }
}

fn advice(blame: &Blame) -> String {
    if blame.share.is_outside_functions() {
        return "reprogramming the clock event does not take this long: measure the hardware and the host alone: `lathunt hwlat`"
            .to_owned();
    }
    "keep other timers off this CPU: nohz_full= and rcu_nocbs= against the tick, timer users pinned elsewhere"
        .to_owned()
}
