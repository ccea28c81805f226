//! The counter that instrumented programs stamp events with, and the clock description in the metadata.

use crate::{arch, clock};
use std::fs;

use lathunt_core::trace::user_ring::Anchor;

/// Counter and `CLOCK_MONOTONIC` now. `counter`: the program stamps with the CPU's counter, not with nanoseconds.
#[must_use]
pub fn anchor(counter: bool) -> Anchor {
    let before = arch::counter_plain();
    let ns = now_ns(libc::CLOCK_MONOTONIC);
    let after = arch::counter_plain();
    let middle = before + after.wrapping_sub(before) / 2;
    Anchor { counter: if counter { middle } else { ns }, ns }
}

/// Realtime minus monotonic in ns: the tightest of several readings.
#[must_use]
pub fn realtime_offset_ns() -> i64 {
    let reading = |_| {
        let before = now_ns(libc::CLOCK_MONOTONIC);
        let real = now_ns(libc::CLOCK_REALTIME);
        let after = now_ns(libc::CLOCK_MONOTONIC);
        (after - before, real as i64 - (before + (after - before) / 2) as i64)
    };
    (0..16).map(reading).min().map_or(0, |(_, offset)| offset)
}

/// Wall-clock seconds since 1970.
#[must_use]
pub fn realtime_seconds() -> i64 {
    (now_ns(libc::CLOCK_REALTIME) / 1_000_000_000) as i64
}

/// `2026-11-21T21:55:00+0000`
#[must_use]
pub fn iso8601(seconds: i64) -> String {
    // SAFETY: all-zero is a valid tm; both pointers are valid.
    let tm = unsafe {
        let mut tm: libc::tm = std::mem::zeroed();
        libc::gmtime_r(&seconds, &mut tm);
        tm
    };
    let (year, month) = (tm.tm_year + 1900, tm.tm_mon + 1);
    format!("{year}-{month:02}-{:02}T{:02}:{:02}:{:02}+0000", tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec)
}

/// The kernel's id of this boot; empty if /proc is not mounted.
#[must_use]
pub fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").map_or(String::new(), |id| id.trim().to_owned())
}

fn now_ns(id: libc::clockid_t) -> u64 {
    clock::read(id) as u64
}
