//! POSIX mutexes, in the memory of glibc's type, so that its static initialisers work. All bytes zero is a mutex with default
//! attributes that is created on first use.

use std::ffi::c_int;

use super::objects::{self, store};
use super::posix::ensure;
use super::{absolute, code};
use crate::ops::{self, with, Error};
use crate::policy::{Protocol, NEVER};

/// Contents of a pthread_mutex_t (40 bytes or more). `kind` is where glibc's static initialisers put it.
#[repr(C)]
pub struct PMutex {
    id: u32,
    depth: u32,
    spare: [u32; 2],
    kind: c_int,
}

const RECURSIVE: c_int = libc::PTHREAD_MUTEX_RECURSIVE;

/// Contents of a pthread_mutexattr_t (4 bytes): type, protocol, ceiling.
fn unpack(attributes: u32) -> (c_int, u32, u8) {
    ((attributes & 3) as c_int, attributes >> 2 & 3, (attributes >> 8) as u8)
}

/// See the header.
///
/// # Safety
/// `attributes` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_pthread_mutexattr_init(attributes: *mut u32) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { attributes.write(0) };
    0
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn lathunt_pthread_mutexattr_destroy(_: *mut u32) -> c_int {
    0
}

/// A function that sets bits of attributes.
macro_rules! set_bits {
    ($name:ident, $valid:expr, $shift:expr, $mask:expr) => {
        /// See the header.
        ///
        /// # Safety
        /// `attributes` is valid.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(attributes: *mut u32, value: c_int) -> c_int {
            if !($valid).contains(&value) {
                return libc::EINVAL;
            }
            // SAFETY: the caller's promise.
            unsafe { *attributes = (*attributes & !($mask << $shift)) | ((value as u32) << $shift) };
            0
        }
    };
}

set_bits!(lathunt_pthread_mutexattr_settype, 0..=2, 0, 3);
set_bits!(lathunt_pthread_mutexattr_setprotocol, 0..=2, 2, 3);
set_bits!(lathunt_pthread_mutexattr_setprioceiling, 0..=98, 8, 0xff);

/// See the header.
///
/// # Safety
/// The pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_pthread_mutex_init(mutex: *mut PMutex, attributes: *const u32) -> c_int {
    match ensure() {
        0 => {}
        error => return error,
    }
    // SAFETY: the caller's promise.
    let (kind, protocol, ceiling) = unpack(unsafe { attributes.as_ref() }.copied().unwrap_or(0));
    let protocol = match protocol {
        1 => Protocol::Inherit,
        2 => Protocol::Ceiling(ceiling),
        _ => Protocol::None,
    };
    // SAFETY: the caller's promise; it is smaller than pthread_mutex_t.
    unsafe {
        mutex.write(PMutex { id: 0, depth: 0, spare: [0; 2], kind });
        store(&raw mut (*mutex).id, objects::new_mutex(protocol))
    }
}

/// The mutex's index, creating it if it was initialised statically.
pub(super) unsafe fn made(mutex: *mut PMutex) -> Result<u32, Error> {
    if ensure() != 0 {
        return Err(Error::NoRuntime);
    }
    // SAFETY: the caller's promise. No other thread runs in between: creating does not switch.
    unsafe {
        let _held = ops::lock_scheduler();
        if (*mutex).id == 0 {
            (*mutex).id = objects::new_mutex(Protocol::None)? + 1;
        }
        Ok((*mutex).id - 1)
    }
}

unsafe fn lock(mutex: *mut PMutex, call: impl FnOnce(u32) -> Result<(), Error>) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let id = match made(mutex) {
            Ok(id) => id,
            Err(error) => return error.errno(),
        };
        let mine = with(|rt| rt.sched.owner(id) == Some(crate::policy::ThreadId(rt.on_cpu))).unwrap_or(false);
        if mine && (*mutex).kind == RECURSIVE {
            (*mutex).depth += 1;
            return 0;
        }
        code(call(id))
    }
}

/// See the header.
///
/// # Safety
/// `mutex` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_pthread_mutex_lock(mutex: *mut PMutex) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { lock(mutex, |id| objects::lock(id, NEVER)) }
}

/// See the header.
///
/// # Safety
/// `mutex` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_pthread_mutex_trylock(mutex: *mut PMutex) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { lock(mutex, objects::try_lock) }
}

/// See the header.
///
/// # Safety
/// The pointers are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_pthread_mutex_timedlock(
    mutex: *mut PMutex,
    until: *const libc::timespec,
) -> c_int {
    // SAFETY: the caller's promise.
    let Some(until) = (unsafe { absolute(libc::CLOCK_REALTIME, until) }) else { return libc::EINVAL };
    // SAFETY: as above.
    unsafe { lock(mutex, |id| objects::lock(id, until.max(1))) }
}

/// See the header.
///
/// # Safety
/// `mutex` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_pthread_mutex_unlock(mutex: *mut PMutex) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        match made(mutex) {
            Ok(id) if (*mutex).depth > 0 => {
                let mine = with(|rt| rt.sched.owner(id) == Some(crate::policy::ThreadId(rt.on_cpu)));
                if mine != Ok(true) {
                    return libc::EPERM;
                }
                (*mutex).depth -= 1;
                0
            }
            Ok(id) => code(objects::unlock(id)),
            Err(error) => error.errno(),
        }
    }
}

/// See the header.
///
/// # Safety
/// `mutex` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_pthread_mutex_destroy(mutex: *mut PMutex) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        match (*mutex).id {
            0 => 0,
            id => {
                let answer = code(objects::drop_mutex(id - 1));
                if answer == 0 {
                    (*mutex).id = 0;
                }
                answer
            }
        }
    }
}
