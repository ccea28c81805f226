//! POSIX threads: attributes, threads, time. The runtime starts at the first call that creates a thread or an
//! object.

use std::ffi::{c_int, c_uint, c_void};

use super::params::QUANTUM;
use super::posix_attributes::Attributes;
use super::threads::{create, set_result, start, CBody};
use super::{duration, fail};
use crate::config::Config;
use crate::fiber::{self, Thread};
use crate::ops::{self, with};
use crate::policy::{Params, Policy};
use crate::state::current;
use crate::text;

/// PTHREAD_CANCELED.
const CANCELED: *mut c_void = usize::MAX as *mut c_void;

/// Starts the runtime if there is none: returns 0 or an errno, after a line with the reason.
pub(super) fn ensure() -> c_int {
    if !current().is_null() {
        return 0;
    }
    let config = Config { main_quantum: Some(QUANTUM), ..Config::default() };
    let answer = start(&config);
    if answer != 0 {
        text::say("lathunt-runtime: cannot start; lathunt_rt_reason() says why");
    }
    answer
}

fn parameters(policy: c_int, priority: c_int) -> Option<Params> {
    let priority = u8::try_from(priority).ok().filter(|&priority| priority < crate::policy::PRIORITIES)?;
    let (policy, priority) = match policy {
        libc::SCHED_FIFO => (Policy::Fifo, priority),
        libc::SCHED_RR => (Policy::RoundRobin { quantum: QUANTUM }, priority),
        libc::SCHED_OTHER if priority == 0 => (Policy::RoundRobin { quantum: QUANTUM }, 0),
        _ => return None,
    };
    Some(Params { policy, priority, ..Params::default() })
}

/// Parameters inherited from the calling thread: its priority, with round robin.
fn inherited() -> Params {
    let priority = with(|rt| rt.sched.base_priority(crate::policy::ThreadId(rt.on_cpu))).unwrap_or(0);
    Params { policy: Policy::RoundRobin { quantum: QUANTUM }, priority, ..Params::default() }
}

/// See the header.
///
/// # Safety
/// The pointers are null or valid; `body` may run with `argument`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const Attributes,
    body: Option<CBody>,
    argument: *mut c_void,
) -> c_int {
    let Some(body) = body else { return libc::EINVAL };
    match ensure() {
        0 => {}
        error => return error,
    }
    // SAFETY: the caller's promise.
    let given = unsafe { attributes.as_ref() };
    let params = match given {
        Some(given) if given.explicit != 0 => match parameters(given.policy, given.priority) {
            Some(params) => params,
            None => return libc::EINVAL,
        },
        _ => inherited(),
    };
    let stack = given.map(|given| given.stack).filter(|&stack| stack != 0);
    let detached = given.is_some_and(|given| given.detached != 0);
    match create("pthread", &params, stack, detached, body, argument) {
        Ok(made) => {
            // SAFETY: the caller's promise.
            unsafe { thread.write(made.to_bits() as libc::pthread_t) };
            0
        }
        Err(error) => error,
    }
}

/// See the header.
///
/// # Safety
/// `result` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_pthread_join(thread: libc::pthread_t, result: *mut *mut c_void) -> c_int {
    lathunt_pthread_testcancel();
    match Thread::from_bits(thread).join(None) {
        Ok(value) => {
            if !result.is_null() {
                // SAFETY: the caller's promise.
                unsafe { result.write(value as *mut c_void) };
            }
            0
        }
        Err(ops::Error::Cancelled) => end_cancelled(),
        Err(error) => error.errno(),
    }
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn lathunt_pthread_detach(thread: libc::pthread_t) -> c_int {
    super::code(Thread::from_bits(thread).detach())
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn lathunt_pthread_exit(result: *mut c_void) -> ! {
    if ensure() != 0 {
        // SAFETY: ends the process.
        unsafe { libc::exit(1) };
    }
    set_result(result);
    fiber::exit_current()
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn lathunt_pthread_self() -> libc::pthread_t {
    ensure();
    fiber::this().map_or(0, Thread::to_bits) as libc::pthread_t
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn lathunt_pthread_equal(a: libc::pthread_t, b: libc::pthread_t) -> c_int {
    c_int::from(a == b)
}

/// See the header.
///
/// # Safety
/// `once` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_pthread_once(
    once: *mut c_int,
    function: Option<unsafe extern "C" fn()>,
) -> c_int {
    let Some(function) = function else { return libc::EINVAL };
    loop {
        let held = ops::lock_scheduler();
        // SAFETY: the caller's promise; no other thread of the runtime runs here.
        let state = unsafe { once.read_volatile() };
        if state == 0 {
            // SAFETY: as above.
            unsafe { once.write_volatile(1) };
        }
        drop(held);
        match state {
            // SAFETY: the program's function; then as above.
            0 => unsafe {
                function();
                once.write_volatile(2);
                return 0;
            },
            1 if ops::sleep(100_000).is_ok() => {}
            _ => return 0,
        }
    }
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn lathunt_pthread_cancel(thread: libc::pthread_t) -> c_int {
    super::code(Thread::from_bits(thread).cancel())
}

/// Ends the calling thread, which was cancelled.
pub(super) fn end_cancelled() -> ! {
    let _ = with(|rt| rt.sched.take_cancel(crate::policy::ThreadId(rt.on_cpu)));
    lathunt_pthread_exit(CANCELED)
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn lathunt_pthread_testcancel() {
    if ops::cancellation().is_err() {
        end_cancelled();
    }
}

/// See the header.
///
/// # Safety
/// `old` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int {
    if !(0..=1).contains(&state) {
        return libc::EINVAL;
    }
    if ensure() != 0 {
        return libc::EAGAIN;
    }
    let before = with(|rt| rt.sched.set_cancellable(crate::policy::ThreadId(rt.on_cpu), state == 0));
    if !old.is_null() {
        // SAFETY: the caller's promise.
        unsafe { old.write(c_int::from(!before.unwrap_or(true))) };
    }
    0
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn lathunt_pthread_setschedprio(thread: libc::pthread_t, priority: c_int) -> c_int {
    ensure();
    let priority = u8::try_from(priority).unwrap_or(u8::MAX);
    super::code(Thread::from_bits(thread).set_priority(priority))
}

/// See the header.
///
/// # Safety
/// `given` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_pthread_setschedparam(
    thread: libc::pthread_t,
    policy: c_int,
    given: *const libc::sched_param,
) -> c_int {
    ensure();
    // SAFETY: the caller's promise.
    let priority = unsafe { (*given).sched_priority };
    match parameters(policy, priority) {
        Some(params) => super::code(Thread::from_bits(thread).set_policy(params.policy, params.priority)),
        None => libc::EINVAL,
    }
}

/// See the header.
///
/// # Safety
/// The pointers are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_pthread_getschedparam(
    thread: libc::pthread_t,
    policy: *mut c_int,
    parameters: *mut libc::sched_param,
) -> c_int {
    ensure();
    match Thread::from_bits(thread).policy() {
        Ok((known, priority)) => {
            // SAFETY: the caller's promise.
            unsafe {
                policy.write(if matches!(known, Policy::RoundRobin { .. }) {
                    libc::SCHED_RR
                } else {
                    libc::SCHED_FIFO
                });
                (*parameters).sched_priority = priority.into();
            }
            0
        }
        Err(error) => error.errno(),
    }
}

/// See the header.
///
/// # Safety
/// `cleanup` is valid until it is popped.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_cleanup_push(cleanup: *mut fiber::Cleanup) {
    ensure();
    // SAFETY: the caller's promise.
    let _ = with(|rt| unsafe {
        let fiber = &mut rt.fibers[rt.on_cpu as usize];
        (*cleanup).below = fiber.cleanup;
        fiber.cleanup = cleanup;
    });
}

/// See the header.
///
/// # Safety
/// `cleanup` was pushed last.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_cleanup_pop(cleanup: *mut fiber::Cleanup, execute: c_int) {
    // SAFETY: the caller's promise.
    unsafe {
        let _ = with(|rt| rt.fibers[rt.on_cpu as usize].cleanup = (*cleanup).below);
        if execute != 0 {
            ((*cleanup).function)((*cleanup).argument);
        }
    }
}

/// Sleeps; a cancelled thread ends.
fn pause(until: u64) -> c_int {
    match ops::sleep_until(until) {
        Ok(()) => 0,
        Err(ops::Error::Cancelled) => end_cancelled(),
        Err(error) => error.errno(),
    }
}

/// See the header.
///
/// # Safety
/// `time` is valid; `left` is not used: nothing interrupts the sleep.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_nanosleep(time: *const libc::timespec, _left: *mut libc::timespec) -> c_int {
    // SAFETY: the caller's promise.
    let Some(ns) = (unsafe { time.as_ref() }).and_then(duration) else {
        return fail(libc::EINVAL) as c_int;
    };
    ensure();
    match pause(ops::now().saturating_add(ns)) {
        0 => 0,
        error => fail(error) as c_int,
    }
}

/// See the header.
///
/// # Safety
/// `time` is valid; `left` is not used: nothing interrupts the sleep.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_clock_nanosleep(
    clock: libc::clockid_t,
    flags: c_int,
    time: *const libc::timespec,
    _left: *mut libc::timespec,
) -> c_int {
    ensure();
    const CLOCKS: [libc::clockid_t; 4] =
        [libc::CLOCK_REALTIME, libc::CLOCK_MONOTONIC, libc::CLOCK_BOOTTIME, libc::CLOCK_TAI];
    // SAFETY: the caller's promise.
    let time = unsafe { time.as_ref() }.and_then(duration).filter(|_| CLOCKS.contains(&clock));
    let until = time.map(|ns| match flags & libc::TIMER_ABSTIME {
        0 => ops::now().saturating_add(ns),
        _ => crate::clock::to_monotonic(clock, ns),
    });
    until.map_or(libc::EINVAL, pause)
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn lathunt_sleep(seconds: c_uint) -> c_uint {
    ensure();
    pause(ops::now() + u64::from(seconds) * 1_000_000_000);
    0
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn lathunt_usleep(us: libc::useconds_t) -> c_int {
    ensure();
    pause(ops::now() + u64::from(us) * 1000)
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn lathunt_sched_yield() -> c_int {
    ops::yield_now();
    0
}
