//! POSIX conditions, semaphores, barriers, keys: in the memory of glibc's types. A zeroed condition is created on first use.

use std::ffi::{c_int, c_uint, c_void};

use super::objects::{self, store};
use super::posix::{end_cancelled, ensure};
use super::posix_mutexes::{made, PMutex};
use super::{absolute, code, fail};
use crate::ops::{self, with, Error};
use crate::policy::{Refusal, NEVER};
use crate::sync;
use crate::values::Destructor;

/// Contents of a pthread_cond_t (48 bytes).
#[repr(C)]
pub struct PCond {
    id: u32,
    clock: c_int,
}

/// See the header.
///
/// # Safety
/// `attributes` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_pthread_condattr_init(attributes: *mut c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { attributes.write(libc::CLOCK_REALTIME) };
    0
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn lathunt_pthread_condattr_destroy(_: *mut c_int) -> c_int {
    0
}

/// See the header.
///
/// # Safety
/// `attributes` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_pthread_condattr_setclock(
    attributes: *mut c_int,
    clock: libc::clockid_t,
) -> c_int {
    if ![libc::CLOCK_REALTIME, libc::CLOCK_MONOTONIC, libc::CLOCK_TAI].contains(&clock) {
        return libc::EINVAL;
    }
    // SAFETY: the caller's promise.
    unsafe { attributes.write(clock) };
    0
}

/// See the header.
///
/// # Safety
/// The pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_pthread_cond_init(cond: *mut PCond, attributes: *const c_int) -> c_int {
    match ensure() {
        0 => {}
        error => return error,
    }
    // SAFETY: the caller's promise; it is smaller than pthread_cond_t.
    unsafe {
        cond.write(PCond { id: 0, clock: attributes.as_ref().copied().unwrap_or(libc::CLOCK_REALTIME) });
        store(&raw mut (*cond).id, with(|rt| rt.sched.new_condition()))
    }
}

unsafe fn made_cond(cond: *mut PCond) -> Result<u32, Error> {
    if ensure() != 0 {
        return Err(Error::NoRuntime);
    }
    // SAFETY: the caller's promise.
    unsafe {
        let _held = ops::lock_scheduler();
        if (*cond).id == 0 {
            (*cond).id = with(|rt| rt.sched.new_condition())? + 1;
        }
        Ok((*cond).id - 1)
    }
}

unsafe fn wait(cond: *mut PCond, mutex: *mut PMutex, until: u64) -> c_int {
    // SAFETY: the caller's promise.
    let places = unsafe { made_cond(cond).and_then(|cond| Ok((cond, made(mutex)?))) };
    match places.and_then(|(cond, mutex)| objects::wait_condition(cond, mutex, until)) {
        Err(Error::Cancelled) => end_cancelled(),
        other => code(other),
    }
}

/// See the header.
///
/// # Safety
/// The pointers are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_pthread_cond_wait(cond: *mut PCond, mutex: *mut PMutex) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { wait(cond, mutex, NEVER) }
}

/// See the header.
///
/// # Safety
/// The pointers are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_pthread_cond_timedwait(
    cond: *mut PCond,
    mutex: *mut PMutex,
    until: *const libc::timespec,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        match absolute((*cond).clock, until) {
            Some(until) => wait(cond, mutex, until.max(1)),
            None => libc::EINVAL,
        }
    }
}

/// See the header.
///
/// # Safety
/// `cond` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_pthread_cond_signal(cond: *mut PCond) -> c_int {
    // SAFETY: the caller's promise.
    code(unsafe { made_cond(cond) }.and_then(|cond| objects::signal(cond, false)))
}

/// See the header.
///
/// # Safety
/// `cond` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_pthread_cond_broadcast(cond: *mut PCond) -> c_int {
    // SAFETY: the caller's promise.
    code(unsafe { made_cond(cond) }.and_then(|cond| objects::signal(cond, true)))
}

/// See the header.
///
/// # Safety
/// `cond` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_pthread_cond_destroy(cond: *mut PCond) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { (*cond).id } {
        0 => 0,
        id => code(objects::drop_condition(id - 1)),
    }
}

/// See the header.
///
/// # Safety
/// `barrier` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_pthread_barrier_init(
    barrier: *mut u32,
    _: *const c_void,
    threads: c_uint,
) -> c_int {
    match ensure() {
        // SAFETY: the caller's promise.
        0 => unsafe { store(barrier, objects::new_barrier(threads)) },
        error => error,
    }
}

/// See the header.
///
/// # Safety
/// `barrier` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_pthread_barrier_wait(barrier: *mut u32) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { *barrier } {
        0 => libc::EINVAL,
        id => match objects::arrive(id - 1) {
            Ok(true) => libc::PTHREAD_BARRIER_SERIAL_THREAD,
            Ok(false) => 0,
            Err(error) => error.errno(),
        },
    }
}

/// See the header.
///
/// # Safety
/// `barrier` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_pthread_barrier_destroy(barrier: *mut u32) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { *barrier } {
        0 => libc::EINVAL,
        id => code(objects::drop_barrier(id - 1)),
    }
}

/// See the header.
///
/// # Safety
/// `key` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_pthread_key_create(key: *mut u32, destructor: Option<Destructor>) -> c_int {
    match ensure() {
        // SAFETY: the caller's promise.
        0 => unsafe { objects::lathunt_rt_key_create(key, destructor) },
        error => error,
    }
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn lathunt_pthread_key_delete(key: u32) -> c_int {
    objects::delete_key(key)
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn lathunt_pthread_getspecific(key: u32) -> *mut c_void {
    objects::lathunt_rt_get(key)
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn lathunt_pthread_setspecific(key: u32, value: *const c_void) -> c_int {
    objects::lathunt_rt_set(key, value)
}

/// -1 and errno, as semaphore functions return.
fn answer(result: Result<(), Error>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(error) => fail(error.errno()) as c_int,
    }
}

unsafe fn semaphore(sem: *const u32) -> Result<u32, Error> {
    // SAFETY: the caller's promise.
    match unsafe { *sem } {
        0 => Err(Error::Refused(Refusal::Invalid("not initialised"))),
        id => Ok(id - 1),
    }
}

unsafe fn take(sem: *const u32, until: u64) -> c_int {
    // SAFETY: the caller's promise.
    let taken =
        unsafe { semaphore(sem) }.and_then(|sem| ops::cancellation().and_then(|()| sync::take(sem, until)));
    match taken {
        Err(Error::Cancelled) => end_cancelled(),
        other => answer(other),
    }
}

/// See the header.
///
/// # Safety
/// `sem` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_sem_init(sem: *mut u32, shared: c_int, value: c_uint) -> c_int {
    if shared != 0 {
        return fail(libc::ENOSYS) as c_int;
    }
    match ensure() {
        // SAFETY: the caller's promise.
        0 => match unsafe { store(sem, objects::new_semaphore(value)) } {
            0 => 0,
            error => fail(error) as c_int,
        },
        error => fail(error) as c_int,
    }
}

/// See the header.
///
/// # Safety
/// `sem` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_sem_destroy(sem: *mut u32) -> c_int {
    // SAFETY: the caller's promise.
    answer(unsafe { semaphore(sem) }.and_then(objects::drop_semaphore))
}

/// See the header.
///
/// # Safety
/// `sem` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_sem_wait(sem: *mut u32) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { take(sem, NEVER) }
}

/// See the header.
///
/// # Safety
/// `sem` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_sem_trywait(sem: *mut u32) -> c_int {
    // SAFETY: the caller's promise.
    answer(unsafe { semaphore(sem) }.and_then(|sem| sync::take(sem, 0)))
}

/// See the header.
///
/// # Safety
/// The pointers are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_sem_timedwait(sem: *mut u32, until: *const libc::timespec) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { absolute(libc::CLOCK_REALTIME, until) } {
        // SAFETY: as above.
        Some(until) => unsafe { take(sem, until.max(1)) },
        None => fail(libc::EINVAL) as c_int,
    }
}

/// See the header.
///
/// # Safety
/// `sem` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_sem_post(sem: *mut u32) -> c_int {
    // SAFETY: the caller's promise.
    answer(unsafe { semaphore(sem) }.and_then(sync::post))
}

/// See the header.
///
/// # Safety
/// The pointers are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_sem_getvalue(sem: *mut u32, value: *mut c_int) -> c_int {
    // SAFETY: the caller's promise.
    let count = unsafe { semaphore(sem) }.and_then(|sem| with(|rt| rt.sched.count(sem)));
    answer(count.map(|count| {
        // SAFETY: the caller's promise.
        unsafe { value.write(count as c_int) };
    }))
}
