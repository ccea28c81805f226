//! Attributes of POSIX threads.

use std::ffi::c_int;

/// Our contents of a pthread_attr_t (56 bytes on x86-64, 64 on aarch64).
#[repr(C)]
pub struct Attributes {
    pub(super) policy: c_int,
    pub(super) priority: c_int,
    pub(super) explicit: c_int,
    pub(super) detached: c_int,
    pub(super) stack: usize,
}

/// See the header.
///
/// # Safety
/// `attributes` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_pthread_attr_init(attributes: *mut Attributes) -> c_int {
    let fresh = Attributes { policy: libc::SCHED_OTHER, priority: 0, explicit: 0, detached: 0, stack: 0 };
    // SAFETY: the caller's promise; it is smaller than pthread_attr_t.
    unsafe { attributes.write(fresh) };
    0
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn lathunt_pthread_attr_destroy(_: *mut Attributes) -> c_int {
    0
}

/// A function that sets a field of initialised attributes.
macro_rules! set {
    ($name:ident, $value:ident: $kind:ty, $valid:expr, $attributes:ident => $set:expr) => {
        /// See the header.
        ///
        /// # Safety
        /// The pointers are valid, the attributes initialised.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(attributes: *mut Attributes, $value: $kind) -> c_int {
            if !$valid {
                return libc::EINVAL;
            }
            // SAFETY: the caller's promise.
            let $attributes = unsafe { &mut *attributes };
            $set;
            0
        }
    };
}

set!(lathunt_pthread_attr_setdetachstate, state: c_int, (0..=1).contains(&state), a => a.detached = state);
set!(lathunt_pthread_attr_setinheritsched, inherit: c_int, (0..=1).contains(&inherit), a => a.explicit = inherit);
set!(lathunt_pthread_attr_setschedpolicy, policy: c_int, (0..=2).contains(&policy), a => a.policy = policy);
set!(lathunt_pthread_attr_setstacksize, bytes: usize, bytes >= 16_384, a => a.stack = bytes);
set!(lathunt_pthread_attr_setschedparam, given: *const libc::sched_param, !given.is_null(), a => {
    // SAFETY: the caller's promise.
    a.priority = unsafe { (*given).sched_priority }
});

/// See the header.
///
/// # Safety
/// The pointers are valid, the attributes initialised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_pthread_attr_getschedparam(
    attributes: *const Attributes,
    parameters: *mut libc::sched_param,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { (*parameters).sched_priority = (*attributes).priority };
    0
}
