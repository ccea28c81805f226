//! Other system vectors: reschedule, irq_work, thermal, errors.

use super::{Blame, Cause};
use crate::explain::cpu::Context;
use crate::explain::share::Share;
use crate::trace::event::Vector;

/// The rule.
pub const CAUSE: Cause = Cause { name: "vector", matches, key, clause, advice };

fn matches(share: &Share) -> bool {
    matches!(share.context, Context::Vector(_))
}

fn key(blame: &Blame) -> String {
    blame.share.name.clone()
}

fn clause(blame: &Blame) -> String {
    format!("{} ran on CPU {}{}", blame.share.name, blame.share.cpu, super::times(blame.count))
}

fn advice(blame: &Blame) -> String {
    match blame.share.context {
        Context::Vector(Vector::ThermalApic) => "the CPU is too hot: look at cooling and power limits",
        Context::Vector(Vector::Reschedule) => {
            "wake-ups from other CPUs: keep threads that wake each other together"
        }
        Context::Vector(Vector::IrqWork) => {
            "find the source of the irq_work on this CPU: perf and tracing queue it"
        }
        _ => "look at /proc/interrupts for the line that counts up on this CPU",
    }
    .to_owned()
}
