//! Function-call IPIs from other CPUs (`smp_call_function`), one or a flood.

use super::{Blame, Cause};
use crate::explain::cpu::Context;
use crate::explain::share::Share;
use crate::trace::event::Vector;

/// The rule.
pub const CAUSE: Cause = Cause { name: "function call", matches, key, clause, advice };

/// Minimum number in one interval for a flood.
const FLOOD: u32 = 10;

fn matches(share: &Share) -> bool {
    matches!(share.context, Context::Vector(Vector::CallFunction | Vector::CallFunctionSingle))
}

fn key(blame: &Blame) -> String {
    match blame.count {
        0..FLOOD => blame.share.name.clone(),
        _ => format!("flood of {}", blame.share.name),
    }
}

fn clause(blame: &Blame) -> String {
    let label = blame.share.label();
    match blame.count {
        0..FLOOD => format!("{label} ran on CPU {}{}", blame.share.cpu, super::times(blame.count)),
        count => format!("a flood of {count} × {label} ran on CPU {}", blame.share.cpu),
    }
}

fn advice(blame: &Blame) -> String {
    match blame.share.functions.first() {
        Some((function, _)) => format!(
            "another CPU requested {function} on this CPU: find the sender (tracepoints csd_queue_cpu, ipi_send_cpu) and stop it"
        ),
        None => "record csd_function_entry to see which function another CPU requested here".to_owned(),
    }
}
