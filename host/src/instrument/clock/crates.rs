//! Crates that many Rust programs read the time with, each called as documented. Only this file uses these dependencies.
//!
//! Selection: well-maintained, small crates that measure time. Crates for dates (chrono, time, jiff) call `SystemTime`,
//! which has its own row, and then compute the calendar. minstant and fastant calibrate for at least 20 ms before `main`
//! in every program that links them, and so in every other command here.

use lathunt_core::clock::Cost;
use rustix::time::{clock_gettime, ClockId};

use super::Pairs;

/// All of them; `None` for those cut short by a signal.
pub(super) fn all(pairs: &Pairs) -> Vec<Option<Cost>> {
    // Its first read calibrates the processor's counter, which takes up to 0.2 s: done in advance.
    std::hint::black_box(quanta::Instant::now());
    vec![
        pairs
            .cost_between("crate quanta", quanta::Instant::now, |first, second| {
                second.checked_duration_since(*first)
            })
            .map(|cost| noted(cost, "the CPU's counter, scaled, if quanta trusts it")),
        pairs
            .cost_between("crate coarsetime", coarsetime::Instant::now, |first, second| {
                Some(second.duration_since(*first).into())
            })
            .map(|cost| noted(cost, "CLOCK_MONOTONIC_COARSE: steps of a tick")),
        pairs
            .cost_between(
                "crate rustix",
                || clock_gettime(ClockId::Monotonic),
                |first, second| {
                    let ns = |time: &rustix::time::Timespec| {
                        u64::try_from(time.tv_sec)
                            .ok()?
                            .checked_mul(1_000_000_000)?
                            .checked_add(time.tv_nsec as u64)
                    };
                    ns(second)?.checked_sub(ns(first)?).map(std::time::Duration::from_nanos)
                },
            )
            .map(|cost| noted(cost, "CLOCK_MONOTONIC, by the vDSO that it looks up itself")),
    ]
}

fn noted(mut cost: Cost, note: &str) -> Cost {
    note.clone_into(&mut cost.note);
    cost
}
