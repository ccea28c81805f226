//! Every way to read a clock, each a loop of its own.

use std::time::{Instant, SystemTime};

use lathunt_core::clock::Cost;

use super::{crates, Pairs};
use crate::arch;

/// Clocks by name, as `clock_gettime(2)` knows them.
pub(super) const CLOCKS: [(&str, libc::clockid_t); 7] = [
    ("MONOTONIC", libc::CLOCK_MONOTONIC),
    ("REALTIME", libc::CLOCK_REALTIME),
    ("MONOTONIC_RAW", libc::CLOCK_MONOTONIC_RAW),
    ("BOOTTIME", libc::CLOCK_BOOTTIME),
    ("TAI", libc::CLOCK_TAI),
    ("MONOTONIC_COARSE", libc::CLOCK_MONOTONIC_COARSE),
    ("REALTIME_COARSE", libc::CLOCK_REALTIME_COARSE),
];

/// Clocks of CPU time: only the kernel can read them.
pub(super) const CPU_TIME: [(&str, libc::clockid_t); 2] = [
    ("PROCESS_CPUTIME_ID", libc::CLOCK_PROCESS_CPUTIME_ID),
    ("THREAD_CPUTIME_ID", libc::CLOCK_THREAD_CPUTIME_ID),
];

/// Clocks that are also read by a forced system call.
const FORCED: [usize; 3] = [0, 1, 2];

/// All paths; `None` for those cut short by a signal.
pub(super) fn all(pairs: &Pairs, tick_ns: f64) -> Vec<Option<Cost>> {
    let mut costs: Vec<Option<Cost>> =
        arch::COUNTER_READS.iter().map(|(path, read)| costs_of(pairs, path, tick_ns, *read)).collect();
    for (name, id) in CLOCKS.iter().chain(&CPU_TIME) {
        costs.push(pairs.cost(&format!("clock_gettime {name}"), 1.0, || gettime(*id)));
    }
    for (name, id) in FORCED.map(|at| CLOCKS[at]) {
        costs.push(pairs.cost(&format!("system call {name}"), 1.0, || gettime_by_system_call(id)));
    }
    costs.push(pairs.cost("gettimeofday", 1000.0, gettimeofday));
    costs.push(pairs.cost("system call gettimeofday", 1000.0, gettimeofday_by_system_call));
    costs.push(pairs.cost_between("Rust Instant::now", Instant::now, |first, second| {
        second.checked_duration_since(*first)
    }));
    costs.push(pairs.cost_between("Rust SystemTime::now", SystemTime::now, |first, second| {
        second.duration_since(*first).ok()
    }));
    costs.extend(crates::all(pairs));
    costs
}

fn costs_of(pairs: &Pairs, path: &str, tick_ns: f64, read: arch::CounterRead) -> Option<Cost> {
    match read {
        arch::CounterRead::Plain => pairs.cost(path, tick_ns, arch::counter_plain),
        arch::CounterRead::Ordered => pairs.cost(path, tick_ns, arch::counter_ordered),
        arch::CounterRead::Fenced => pairs.cost(path, tick_ns, arch::counter),
    }
}

#[inline(always)]
fn ns(time: &libc::timespec) -> u64 {
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

#[inline(always)]
pub(super) fn gettime(id: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid pointer; an unknown clock leaves the zeros.
    unsafe { libc::clock_gettime(id, &mut time) };
    ns(&time)
}

#[inline(always)]
fn gettime_by_system_call(id: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the arguments of clock_gettime(2), the pointer is valid.
    unsafe { libc::syscall(libc::SYS_clock_gettime, id, &raw mut time) };
    ns(&time)
}

#[inline(always)]
pub(super) fn gettimeofday() -> u64 {
    let mut time = libc::timeval { tv_sec: 0, tv_usec: 0 };
    // SAFETY: a valid pointer and no time zone.
    unsafe { libc::gettimeofday(&mut time, std::ptr::null_mut()) };
    time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64
}

#[inline(always)]
fn gettimeofday_by_system_call() -> u64 {
    let mut time = libc::timeval { tv_sec: 0, tv_usec: 0 };
    // SAFETY: the arguments of gettimeofday(2), the pointer is valid.
    unsafe { libc::syscall(libc::SYS_gettimeofday, &raw mut time, std::ptr::null::<libc::c_void>()) };
    time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64
}
