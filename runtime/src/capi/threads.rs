//! Start, threads, time.

use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_void, CStr, CString};

use super::params::{CConfig, CParams};
use super::{code, limit};
use crate::config::Config;
use crate::fiber::{self, Thread};
use crate::ops::{self, Error};
use crate::policy::Params;
use crate::state::current;

/// lathunt_rt_account.
#[repr(C)]
pub struct CAccount {
    jobs: u64,
    misses: u64,
    overruns: u64,
    cpu_ns: u64,
    worst_response_ns: u64,
    worst_lateness_ns: u64,
    preemptions: u64,
    dispatches: u64,
    stack_used_bytes: u64,
    stack_bytes: u64,
}

/// The function of a C thread. An exception that leaves it ends the process.
pub(super) type CBody = unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void;

thread_local! {
    static REASON: RefCell<CString> = RefCell::new(CString::default());
}

fn remember(reason: &dyn std::fmt::Display) {
    REASON.with(|last| *last.borrow_mut() = CString::new(reason.to_string()).unwrap_or_default());
}

/// Starts with this configuration: 0 or an errno.
pub(super) fn start(config: &Config) -> c_int {
    match crate::start::start(config) {
        Ok(()) => 0,
        Err(error) => {
            remember(&error);
            error.errno()
        }
    }
}

/// See the header.
///
/// # Safety
/// `config` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_rt_start(config: *const CConfig) -> c_int {
    // SAFETY: the caller's promise.
    start(&unsafe { config.as_ref() }.map_or_else(Config::default, CConfig::to_config))
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn lathunt_rt_stop() {
    crate::start::stop();
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn lathunt_rt_reason() -> *const c_char {
    REASON.with(|reason| reason.borrow().as_ptr())
}

/// Creates a thread for a C function: returns an errno on failure.
pub(super) fn create(
    name: &str,
    params: &Params,
    stack: Option<usize>,
    detached: bool,
    body: CBody,
    argument: *mut c_void,
) -> Result<Thread, c_int> {
    let run = Box::new(move || {
        // SAFETY: the program's function with the program's argument.
        let result = unsafe { body(argument) };
        set_result(result);
    });
    fiber::create(name, params, stack, detached, run).map_err(|error| {
        remember(&error);
        error.errno()
    })
}

pub(super) fn set_result(result: *mut c_void) {
    let _ = ops::with(|rt| {
        let id = rt.on_cpu as usize;
        rt.fibers[id].result = result as usize;
    });
}

/// See the header.
///
/// # Safety
/// The pointers are null or valid; `body` may run with `argument`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_rt_create(
    thread: *mut u64,
    params: *const CParams,
    body: Option<CBody>,
    argument: *mut c_void,
) -> c_int {
    let Some(body) = body else { return libc::EINVAL };
    // SAFETY: the caller's promise.
    let given = unsafe { params.as_ref() };
    let (params, stack, detached) = match given.map(CParams::to_params) {
        Some(Err(reason)) => {
            remember(&reason);
            return libc::EINVAL;
        }
        Some(Ok(params)) => {
            (params, given.map_or(0, |given| given.stack_bytes), given.is_some_and(|g| g.detached != 0))
        }
        None => (Params::default(), 0, false),
    };
    let name = match given {
        // SAFETY: the caller's promise.
        Some(given) if !given.name.is_null() => unsafe { CStr::from_ptr(given.name) }.to_string_lossy(),
        _ => "thread".into(),
    };
    let stack = (stack != 0).then_some(stack as usize);
    match create(&name, &params, stack, detached, body, argument) {
        Ok(made) => {
            if !thread.is_null() {
                // SAFETY: the caller's promise.
                unsafe { thread.write(made.to_bits()) };
            }
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
pub unsafe extern "C" fn lathunt_rt_join(thread: u64, result: *mut *mut c_void, until: u64) -> c_int {
    match Thread::from_bits(thread).join(limit(until)) {
        Ok(value) => {
            if !result.is_null() {
                // SAFETY: the caller's promise.
                unsafe { result.write(value as *mut c_void) };
            }
            0
        }
        Err(error) => error.errno(),
    }
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn lathunt_rt_detach(thread: u64) -> c_int {
    code(Thread::from_bits(thread).detach())
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn lathunt_rt_exit(result: *mut c_void) -> ! {
    if current().is_null() {
        // SAFETY: ends the calling kernel thread, as the program asked for.
        unsafe { libc::pthread_exit(result) };
    }
    set_result(result);
    fiber::exit_current()
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn lathunt_rt_self() -> u64 {
    fiber::this().map_or(0, Thread::to_bits)
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn lathunt_rt_cancel(thread: u64) -> c_int {
    code(Thread::from_bits(thread).cancel())
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn lathunt_rt_set_priority(thread: u64, priority: u32) -> c_int {
    code(Thread::from_bits(thread).set_priority(u8::try_from(priority).unwrap_or(u8::MAX)))
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn lathunt_rt_set_deadline(thread: u64, deadline_at: u64) -> c_int {
    code(Thread::from_bits(thread).set_deadline(deadline_at))
}

/// See the header.
///
/// # Safety
/// `sem` is null or an initialised semaphore.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_rt_notify(thread: u64, sem: *const u32) -> c_int {
    // SAFETY: the caller's promise.
    let semaphore = unsafe { sem.as_ref() }.map(|&id| id.wrapping_sub(1));
    code(Thread::from_bits(thread).notify_id(semaphore))
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn lathunt_rt_next_job() -> c_int {
    code(ops::next_job())
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn lathunt_rt_trigger(thread: u64) -> c_int {
    code(Thread::from_bits(thread).trigger())
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn lathunt_rt_suspend() -> c_int {
    code(fiber::suspend())
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn lathunt_rt_resume(thread: u64) -> c_int {
    code(Thread::from_bits(thread).resume())
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn lathunt_rt_yield() {
    ops::yield_now();
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn lathunt_rt_sleep(ns: u64) -> c_int {
    code(ops::sleep(ns))
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn lathunt_rt_sleep_until(until: u64) -> c_int {
    code(ops::sleep_until(until))
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn lathunt_rt_now() -> u64 {
    ops::now()
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn lathunt_rt_to_monotonic(clock: libc::clockid_t, time: u64) -> u64 {
    crate::clock::to_monotonic(clock, time)
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn lathunt_rt_lock() {
    std::mem::forget(ops::lock_scheduler());
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn lathunt_rt_unlock() {
    ops::unlock_scheduler();
}

/// See the header.
///
/// # Safety
/// `account` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_rt_account_of(thread: u64, account: *mut CAccount) -> c_int {
    let thread = Thread::from_bits(thread);
    let known = thread.account().and_then(|known| Ok((known, thread.stack()?)));
    match known {
        Ok((known, stack)) => {
            let (used, bytes) = stack.unwrap_or((0, 0));
            let filled = CAccount {
                jobs: known.jobs,
                misses: known.misses,
                overruns: known.overruns,
                cpu_ns: known.cpu,
                worst_response_ns: known.worst_response,
                worst_lateness_ns: known.worst_lateness,
                preemptions: known.preemptions,
                dispatches: known.dispatches,
                stack_used_bytes: used as u64,
                stack_bytes: bytes as u64,
            };
            // SAFETY: the caller's promise.
            unsafe { account.write(filled) };
            0
        }
        Err(error) => error.errno(),
    }
}

/// See the header.
///
/// # Safety
/// `text` has room for `bytes`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_rt_report(text: *mut c_char, bytes: usize) -> usize {
    let report =
        crate::report::report().map_or_else(|error: Error| error.to_string(), |report| report.to_string());
    if bytes > 0 {
        let length = report.len().min(bytes - 1);
        // SAFETY: the caller's promise.
        unsafe {
            std::ptr::copy_nonoverlapping(report.as_ptr().cast(), text, length);
            text.add(length).write(0);
        }
    }
    report.len()
}
