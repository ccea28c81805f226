//! Mutexes, conditions, semaphores, barriers, queues, keys. An object's number is its index in the table plus one: zeroed
//! memory is not an object.

use std::ffi::{c_int, c_void};

use super::{code, limit};
use crate::ops::{self, with, Error};
use crate::policy::{Protocol, Refusal, Step};
use crate::sync::{self, Queue};
use crate::values::Destructor;

/// The object's index, or EINVAL for one that was never initialised.
unsafe fn place(object: *const u32) -> Result<u32, Error> {
    // SAFETY: the caller's promise that it is valid or null.
    match unsafe { object.as_ref() } {
        Some(&id) if id != 0 => Ok(id - 1),
        _ => Err(Error::Refused(Refusal::Invalid("not initialised"))),
    }
}

/// Stores a new object's number.
pub(super) unsafe fn store(object: *mut u32, made: Result<u32, Error>) -> c_int {
    match made {
        Ok(id) => {
            // SAFETY: the caller's promise.
            unsafe { object.write(id + 1) };
            0
        }
        Err(error) => error.errno(),
    }
}

fn flat<T>(result: Result<Result<T, Refusal>, Error>) -> Result<T, Error> {
    result?.map_err(Error::Refused)
}

pub(super) fn new_mutex(protocol: Protocol) -> Result<u32, Error> {
    flat(with(|rt| rt.sched.new_mutex(protocol)))
}

pub(super) fn lock(mutex: u32, until: u64) -> Result<(), Error> {
    ops::lock(mutex, until)
}

pub(super) fn try_lock(mutex: u32) -> Result<(), Error> {
    match lock(mutex, 0) {
        // POSIX's result even if the caller holds it.
        Err(Error::Refused(Refusal::WouldBlock | Refusal::Deadlock)) => Err(Error::Refused(Refusal::Busy)),
        other => other,
    }
}

pub(super) fn unlock(mutex: u32) -> Result<(), Error> {
    ops::unlock(mutex)
}

pub(super) fn drop_mutex(mutex: u32) -> Result<(), Error> {
    flat(with(|rt| rt.sched.drop_mutex(mutex)))
}

pub(super) fn wait_condition(condition: u32, mutex: u32, until: u64) -> Result<(), Error> {
    ops::cancellation()?;
    let waited = ops::waiting(|rt| {
        let now = rt.now();
        rt.sched.wait_condition(condition, mutex, until, now)
    });
    ops::timed(waited, until)
}

pub(super) fn signal(condition: u32, all: bool) -> Result<(), Error> {
    with(|rt| {
        let now = rt.now();
        if all {
            rt.sched.broadcast(condition, now);
        } else {
            rt.sched.signal(condition, now);
        }
    })
}

pub(super) fn drop_condition(condition: u32) -> Result<(), Error> {
    flat(with(|rt| rt.sched.drop_condition(condition)))
}

pub(super) fn new_semaphore(count: u32) -> Result<u32, Error> {
    flat(with(|rt| rt.sched.new_semaphore(count)))
}

pub(super) fn drop_semaphore(semaphore: u32) -> Result<(), Error> {
    flat(with(|rt| rt.sched.drop_semaphore(semaphore)))
}

pub(super) fn new_barrier(threads: u32) -> Result<u32, Error> {
    flat(with(|rt| rt.sched.new_barrier(threads)))
}

/// True for the last one to arrive.
pub(super) fn arrive(barrier: u32) -> Result<bool, Error> {
    let mut last = false;
    ops::waiting(|rt| {
        let now = rt.now();
        let step = rt.sched.arrive(barrier, now);
        last = step == Step::Go;
        Ok(step)
    })?;
    Ok(last)
}

pub(super) fn drop_barrier(barrier: u32) -> Result<(), Error> {
    flat(with(|rt| rt.sched.drop_barrier(barrier)))
}

/// See the header.
///
/// # Safety
/// `mutex` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_rt_mutex_init(mutex: *mut u32, protocol: u32, argument: u64) -> c_int {
    let protocol = match protocol {
        0 => Protocol::None,
        1 => Protocol::Inherit,
        2 => Protocol::Ceiling(u8::try_from(argument).unwrap_or(u8::MAX)),
        3 => Protocol::Floor(argument),
        _ => return libc::EINVAL,
    };
    // SAFETY: the caller's promise.
    unsafe { store(mutex, new_mutex(protocol)) }
}

/// A function on an initialised object.
macro_rules! on_object {
    ($name:ident($($argument:ident: $kind:ty),*), $place:ident => $call:expr) => {
        /// See the header.
        ///
        /// # Safety
        /// The object is valid.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(object: *mut u32 $(, $argument: $kind)*) -> c_int {
            // SAFETY: the caller's promise.
            code(unsafe { place(object) }.and_then(|$place| $call))
        }
    };
}

on_object!(lathunt_rt_mutex_destroy(), mutex => drop_mutex(mutex));
on_object!(lathunt_rt_mutex_lock(), mutex => lock(mutex, ops::limit(None)));
on_object!(lathunt_rt_mutex_lock_until(until: u64), mutex => lock(mutex, until));
on_object!(lathunt_rt_mutex_try(), mutex => try_lock(mutex));
on_object!(lathunt_rt_mutex_unlock(), mutex => unlock(mutex));
on_object!(lathunt_rt_cond_destroy(), condition => drop_condition(condition));
on_object!(lathunt_rt_cond_signal(), condition => signal(condition, false));
on_object!(lathunt_rt_cond_broadcast(), condition => signal(condition, true));
on_object!(lathunt_rt_sem_destroy(), semaphore => drop_semaphore(semaphore));
on_object!(lathunt_rt_sem_take(until: u64), semaphore => {
    ops::cancellation().and_then(|()| sync::take(semaphore, until))
});
on_object!(lathunt_rt_sem_post(), semaphore => sync::post(semaphore));
on_object!(lathunt_rt_barrier_destroy(), barrier => drop_barrier(barrier));

/// See the header.
///
/// # Safety
/// The objects are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_rt_cond_init(object: *mut u32) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { store(object, with(|rt| rt.sched.new_condition())) }
}

/// See the header.
///
/// # Safety
/// The objects are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_rt_cond_wait(object: *mut u32, mutex: *mut u32, until: u64) -> c_int {
    // SAFETY: the caller's promise.
    let places = unsafe { place(object).and_then(|condition| Ok((condition, place(mutex)?))) };
    code(places.and_then(|(condition, mutex)| wait_condition(condition, mutex, until)))
}

/// See the header.
///
/// # Safety
/// The object is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_rt_sem_init(object: *mut u32, count: u32) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { store(object, new_semaphore(count)) }
}

/// See the header.
///
/// # Safety
/// The object is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_rt_barrier_init(object: *mut u32, threads: u32) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { store(object, new_barrier(threads)) }
}

/// See the header.
///
/// # Safety
/// The object is valid; `last` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_rt_barrier_wait(object: *mut u32, last: *mut c_int) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { place(object) }.and_then(arrive) {
        Ok(was_last) => {
            if !last.is_null() {
                // SAFETY: the caller's promise.
                unsafe { last.write(c_int::from(was_last)) };
            }
            0
        }
        Err(error) => error.errno(),
    }
}

/// lathunt_rt_queue.
pub struct CQueue {
    queue: Queue<Vec<u8>>,
    /// Unused buffers: none is allocated after the queue was created.
    free: std::cell::RefCell<Vec<Vec<u8>>>,
    bytes: usize,
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn lathunt_rt_queue_create(messages: u32, bytes: usize) -> *mut CQueue {
    let room = (messages as usize).checked_mul(bytes).is_some_and(|all| all <= 1 << 30);
    if !room || bytes == 0 {
        super::fail(libc::EINVAL);
        return std::ptr::null_mut();
    }
    match Queue::new(messages) {
        Ok(queue) => {
            let free = std::cell::RefCell::new((0..messages).map(|_| Vec::with_capacity(bytes)).collect());
            Box::into_raw(Box::new(CQueue { queue, free, bytes }))
        }
        Err(error) => {
            super::fail(error.errno());
            std::ptr::null_mut()
        }
    }
}

/// See the header.
///
/// # Safety
/// `queue` was created here, and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_rt_queue_destroy(queue: *mut CQueue) {
    if !queue.is_null() {
        // SAFETY: the caller's promise.
        drop(unsafe { Box::from_raw(queue) });
    }
}

/// See the header.
///
/// # Safety
/// The pointers are valid, the message for `bytes`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_rt_queue_send(
    queue: *mut CQueue,
    message: *const c_void,
    bytes: usize,
    priority: u32,
    until: u64,
) -> c_int {
    // SAFETY: the caller's promise.
    let queue = unsafe { &*queue };
    if bytes > queue.bytes {
        return libc::EMSGSIZE;
    }
    // SAFETY: the caller's promise; the buffer is written with the scheduler held.
    code(queue.queue.send_with(priority, limit(until), || unsafe {
        let mut buffer = queue.free.borrow_mut().pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(std::slice::from_raw_parts(message.cast(), bytes));
        buffer
    }))
}

/// See the header.
///
/// # Safety
/// The pointers are valid; `message` has room for `*bytes`, which becomes the message's length. `priority` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_rt_queue_receive(
    queue: *mut CQueue,
    message: *mut c_void,
    bytes: *mut usize,
    priority: *mut u32,
    until: u64,
) -> c_int {
    // SAFETY: the caller's promise.
    let (queue, room) = unsafe { (&*queue, *bytes) };
    if room < queue.bytes {
        return libc::EMSGSIZE;
    }
    // SAFETY: the caller's promise.
    code(queue.queue.receive_with(limit(until), |buffer, urgency| unsafe {
        std::ptr::copy_nonoverlapping(buffer.as_ptr(), message.cast(), buffer.len());
        *bytes = buffer.len();
        if !priority.is_null() {
            *priority = urgency;
        }
        queue.free.borrow_mut().push(buffer);
    }))
}

pub(super) fn create_key(destructor: Option<Destructor>) -> Result<u32, Error> {
    with(|rt| rt.keys.create(destructor))?.ok_or(Error::Refused(Refusal::TooManyThreads))
}

pub(super) fn delete_key(key: u32) -> c_int {
    match with(|rt| rt.keys.delete(key)) {
        Ok(true) => 0,
        Ok(false) => libc::EINVAL,
        Err(error) => error.errno(),
    }
}

/// See the header.
///
/// # Safety
/// `key` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_rt_key_create(key: *mut u32, destructor: Option<Destructor>) -> c_int {
    match create_key(destructor) {
        Ok(made) => {
            // SAFETY: the caller's promise.
            unsafe { key.write(made) };
            0
        }
        Err(error) => error.errno(),
    }
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn lathunt_rt_key_delete(key: u32) -> c_int {
    delete_key(key)
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn lathunt_rt_get(key: u32) -> *mut c_void {
    with(|rt| rt.fibers[rt.on_cpu as usize].values.get(&rt.keys, key)).unwrap_or(0) as *mut c_void
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn lathunt_rt_set(key: u32, value: *const c_void) -> c_int {
    match with(|rt| rt.fibers[rt.on_cpu as usize].values.set(&rt.keys, key, value as usize)) {
        Ok(true) => 0,
        Ok(false) => libc::EINVAL,
        Err(error) => error.errno(),
    }
}
