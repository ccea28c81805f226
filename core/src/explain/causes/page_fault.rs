//! A thread held the CPU while it took page faults one after another.

use super::{Blame, Cause};
use crate::explain::cpu::Context;
use crate::explain::share::Share;

/// The rule.
pub const CAUSE: Cause = Cause { name: "page faults", matches, key, clause, advice };

/// A thread with a fault in each such time does little else (a fault with a new page costs 0.5-20 µs).
const NS_PER_FAULT: u64 = 50_000;
/// Minimum number of faults.
const FEWEST: u32 = 3;

fn matches(share: &Share) -> bool {
    let frequent = share.faults >= FEWEST && share.net.0 / u64::from(share.faults) <= NS_PER_FAULT;
    let handler = |frame: &String| frame.contains("handle_mm_fault") || frame.contains("exc_page_fault");
    matches!(share.context, Context::Thread(_)) && (frequent || share.stack.iter().any(handler))
}

fn key(blame: &Blame) -> String {
    format!("page faults: {}", blame.share.comm())
}

fn clause(blame: &Blame) -> String {
    let share = blame.share;
    match blame.faults {
        0 => format!("{} held CPU {} in the page-fault handler", share.name, share.cpu),
        count => format!("{} held CPU {} while it took {count} page faults,", share.name, share.cpu),
    }
}

fn advice(blame: &Blame) -> String {
    format!(
        "let {} lock and touch its memory before (mlockall, no fresh pages at run time), or move it to another CPU",
        blame.share.comm()
    )
}
