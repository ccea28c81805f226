//! Calls that block one thread.

use std::ffi::{c_int, c_void};

use super::{fail, limit};
use crate::io::{self, Answer};

fn value(answer: Answer) -> isize {
    match answer {
        Ok(value) => value as isize,
        Err(error) => fail(error),
    }
}

/// See the header.
///
/// # Safety
/// As for read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_rt_read(fd: c_int, buffer: *mut c_void, bytes: usize) -> isize {
    // SAFETY: the caller's promise.
    value(unsafe { io::read(fd, buffer.cast(), bytes) })
}

/// See the header.
///
/// # Safety
/// As for write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_rt_write(fd: c_int, buffer: *const c_void, bytes: usize) -> isize {
    // SAFETY: the caller's promise.
    value(unsafe { io::write(fd, buffer.cast(), bytes) })
}

/// See the header.
///
/// # Safety
/// As for recv.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_rt_recv(
    fd: c_int,
    buffer: *mut c_void,
    bytes: usize,
    flags: c_int,
    until: u64,
) -> isize {
    let (none, size) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: the caller's promise.
    value(unsafe { io::recv_from(fd, buffer.cast(), bytes, flags, none, size, limit(until)) })
}

/// See the header.
///
/// # Safety
/// As for recvfrom.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_rt_recvfrom(
    fd: c_int,
    buffer: *mut c_void,
    bytes: usize,
    flags: c_int,
    from: *mut libc::sockaddr,
    size: *mut libc::socklen_t,
    until: u64,
) -> isize {
    // SAFETY: the caller's promise.
    value(unsafe { io::recv_from(fd, buffer.cast(), bytes, flags, from, size, limit(until)) })
}

/// See the header.
///
/// # Safety
/// As for send.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_rt_send(
    fd: c_int,
    buffer: *const c_void,
    bytes: usize,
    flags: c_int,
    until: u64,
) -> isize {
    // SAFETY: the caller's promise.
    value(unsafe { io::send_to(fd, buffer.cast(), bytes, flags, std::ptr::null(), 0, limit(until)) })
}

/// See the header.
///
/// # Safety
/// As for sendto.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_rt_sendto(
    fd: c_int,
    buffer: *const c_void,
    bytes: usize,
    flags: c_int,
    to: *const libc::sockaddr,
    size: libc::socklen_t,
    until: u64,
) -> isize {
    // SAFETY: the caller's promise.
    value(unsafe { io::send_to(fd, buffer.cast(), bytes, flags, to, size, limit(until)) })
}

/// See the header.
///
/// # Safety
/// As for accept4.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_rt_accept(
    fd: c_int,
    from: *mut libc::sockaddr,
    size: *mut libc::socklen_t,
    flags: c_int,
    until: u64,
) -> c_int {
    // SAFETY: the caller's promise.
    value(unsafe { io::accept(fd, from, size, flags, limit(until)) }) as c_int
}

/// See the header.
///
/// # Safety
/// As for connect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_rt_connect(
    fd: c_int,
    to: *const libc::sockaddr,
    size: libc::socklen_t,
    until: u64,
) -> c_int {
    // SAFETY: the caller's promise.
    value(unsafe { io::connect(fd, to, size, limit(until)) }) as c_int
}

/// See the header.
///
/// # Safety
/// As for poll.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_rt_poll(fds: *mut libc::pollfd, count: usize, until: u64) -> c_int {
    let entries = if count == 0 {
        &mut []
    } else {
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(fds, count) }
    };
    value(io::poll(entries, limit(until))) as c_int
}

/// See the header.
///
/// # Safety
/// The function may run with the argument on another kernel thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathunt_rt_in_helper(
    function: Option<unsafe extern "C" fn(*mut c_void) -> isize>,
    argument: *mut c_void,
) -> isize {
    let Some(function) = function else { return fail(libc::EINVAL) };
    let argument = argument as usize;
    // SAFETY: the caller's promise.
    value(io::in_pool(move || unsafe { function(argument as *mut c_void) }))
}
