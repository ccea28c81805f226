//! Functions that `lathunt/trace.h` and the Rust macros call off the hot path. None of these unwinds or
//! allocates.

use std::ffi::{c_char, c_int, CStr};

use crate::clock;
use crate::declare::{self, Event};
use crate::mapped::{Mapped, SharedRing};
use crate::process::{held, lock, unlock};
use crate::ring;
use crate::thread::{self, Slot};

/// Registers a static event. Constructors call it.
///
/// # Safety
/// `event` stays valid until it is unregistered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_trace_register(event: *const Event) {
    // SAFETY: the caller's promise.
    declare::register(unsafe { &*event });
}

/// Unregisters an event whose memory is about to be freed. Destructors call it.
///
/// # Safety
/// It is not emitted any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_trace_unregister(event: *const Event) {
    // SAFETY: the caller's promise.
    unsafe { declare::unregister(event) };
}

/// The calling thread's ring at its first event; never null. Caches it in `slot`.
///
/// # Safety
/// `slot` is a thread-local variable of the calling thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_trace_claim(slot: Slot) -> *const SharedRing {
    thread::claim(slot, false, None)
}

/// See [`thread::thread_init`]: 0 or -1. `name` may be null.
///
/// # Safety
/// `slot` is null or a thread-local variable of the calling thread; `name` is null or NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_trace_thread_init_slot(slot: Slot, name: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    let name = (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) });
    let ring = thread::claim(slot, true, name);
    if thread::is_no_ring(ring) {
        -1
    } else {
        0
    }
}

/// Packet switch; 0 if the event is discarded (and counted).
///
/// # Safety
/// `ring` is the calling thread's, or the init ring under its lock.
#[cold]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_trace_switch(ring: *const SharedRing, words: u64, ticks: u64) -> c_int {
    if thread::is_no_ring(ring) {
        declare::count_no_ring();
        return 0;
    }
    // SAFETY: the caller's promise.
    c_int::from(ring::switch(&unsafe { Mapped::new(ring) }, words, ticks))
}

/// `CLOCK_MONOTONIC` for rings that are stamped with it.
#[unsafe(no_mangle)]
pub extern "C" fn lathunt_trace_monotonic_ns() -> u64 {
    clock::monotonic_ns()
}

/// Locks the init ring, which is never overwritten, and returns it; null if there is none. Not for signal
/// handlers.
#[unsafe(no_mangle)]
pub extern "C" fn lathunt_trace_init_begin() -> *const SharedRing {
    if !lock(true) {
        return std::ptr::null();
    }
    // SAFETY: the lock is held, and stays so until `lathunt_trace_init_end`.
    let process = unsafe { held() };
    if process.attached().is_none() {
        unlock();
        return std::ptr::null();
    }
    let ring = process.rings[0];
    // SAFETY: mapped; the lock makes the calling thread its only writer.
    unsafe { thread::adopt(&*ring) };
    ring
}

/// Unlocks the init ring. Only after a `lathunt_trace_init_begin` that returned one.
#[unsafe(no_mangle)]
pub extern "C" fn lathunt_trace_init_end() {
    unlock();
}
