//! Functions called by `lathunt/runtime.h` and `lathunt/pthread.h`. None of them unwinds; errors are errnos.

mod calls;
mod objects;
mod params;
mod posix;
mod posix_attributes;
mod posix_mutexes;
mod posix_waits;
mod threads;

use std::ffi::c_int;

use crate::ops::Error;
use crate::policy::NEVER;

/// 0 or the errno.
fn code(result: Result<(), Error>) -> c_int {
    result.err().map_or(0, Error::errno)
}

/// LATHUNT_RT_FOREVER is no limit.
fn limit(until: u64) -> Option<u64> {
    (until != NEVER).then_some(until)
}

/// An absolute time of a clock as ns of `CLOCK_MONOTONIC`; `None`: not a valid time.
unsafe fn absolute(clock: libc::clockid_t, time: *const libc::timespec) -> Option<u64> {
    // SAFETY: the caller's promise that it is valid or null.
    let time = unsafe { time.as_ref() }?;
    nanoseconds(time).map(|ns| crate::clock::to_monotonic(clock, ns))
}

fn nanoseconds(time: &libc::timespec) -> Option<u64> {
    if !(0..1_000_000_000).contains(&time.tv_nsec) {
        return None;
    }
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Some(seconds.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64))
}

/// A duration, which is not negative; `None`: not a valid one.
fn duration(time: &libc::timespec) -> Option<u64> {
    nanoseconds(time).filter(|_| time.tv_sec >= 0)
}

/// Sets errno.
fn fail(error: i32) -> isize {
    // SAFETY: the calling thread's errno.
    unsafe { *libc::__errno_location() = error };
    -1
}
