//! The limit of CPU time (RLIMIT_CPU): a measurement that reaches it ends in order, with its results.
//!
//! The kernel sends SIGXCPU at the soft limit, and kills at the hard one. `ulimit -t` sets both to the same value, so that
//! no SIGXCPU comes: the soft limit is lowered then. Programs that are started get it back.

use std::sync::atomic::{AtomicU64, Ordering};

/// "No limit", as in `rlim_t`.
const NONE: u64 = libc::RLIM_INFINITY;
/// The soft limit in force, and the one at the start, in seconds.
static IN_FORCE: AtomicU64 = AtomicU64::new(NONE);
static AT_START: AtomicU64 = AtomicU64::new(NONE);

/// CPU seconds between the soft limit and the hard one in which the results are written: a tenth of the limit, from 1 to 60.
fn reserve(hard: u64) -> u64 {
    (hard / 10).clamp(1, 60)
}

/// The soft limit with which SIGXCPU comes in time before the kernel kills.
fn lowered(limit: libc::rlimit) -> u64 {
    match limit.rlim_max {
        NONE => limit.rlim_cur,
        hard => limit.rlim_cur.min(hard.saturating_sub(reserve(hard)).max(1)),
    }
}

fn read() -> Option<libc::rlimit> {
    let mut limit = libc::rlimit { rlim_cur: NONE, rlim_max: NONE };
    // SAFETY: limit is a valid rlimit to write to. The call is async-signal-safe.
    (unsafe { libc::getrlimit(libc::RLIMIT_CPU, &mut limit) } == 0).then_some(limit)
}

/// From now on SIGXCPU comes before the kernel kills; a second call changes nothing.
pub(crate) fn leave_time_to_end() {
    let Some(limit) = read().filter(|_| AT_START.load(Ordering::Relaxed) == NONE) else { return };
    let soft = lowered(limit);
    let wanted = libc::rlimit { rlim_cur: soft, ..limit };
    // SAFETY: an initialised rlimit. Lowering a soft limit needs no privilege.
    if soft == limit.rlim_cur || unsafe { libc::setrlimit(libc::RLIMIT_CPU, &wanted) } == 0 {
        AT_START.store(limit.rlim_cur, Ordering::Relaxed);
        IN_FORCE.store(soft, Ordering::Relaxed);
    }
}

/// Whether the limit was reached: with SIGXCPU, the kernel raises the soft limit by a second. Async-signal-safe.
pub(crate) fn is_used_up() -> bool {
    let in_force = IN_FORCE.load(Ordering::Relaxed);
    in_force != NONE && read().is_some_and(|limit| limit.rlim_cur > in_force)
}

/// Restores the limit of the start, in a child between fork and exec.
pub(crate) fn give_back() {
    let (Some(limit), soft) = (read(), AT_START.load(Ordering::Relaxed)) else { return };
    if soft != NONE {
        // SAFETY: an initialised rlimit. If it is refused, the program keeps the lower one.
        unsafe { libc::setrlimit(libc::RLIMIT_CPU, &libc::rlimit { rlim_cur: soft, ..limit }) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_is_below_the_hard_one_and_is_never_raised() {
        let soft = |rlim_cur, rlim_max| lowered(libc::rlimit { rlim_cur, rlim_max });
        assert_eq!([soft(NONE, NONE), soft(5, NONE), soft(5, 100)], [NONE, 5, 5]);
        assert_eq!([soft(5, 5), soft(100, 100), soft(NONE, 36_000)], [4, 90, 35_940]);
        assert_eq!([soft(1, 1), soft(2, 2)], [1, 1]);
    }
}
