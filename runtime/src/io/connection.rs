//! Connections: made and accepted without blocking the kernel thread.

use super::{answer, has_runtime, poll, retry, without_blocking, Answer};
use crate::state::current;
use crate::{dispatch, ops};

/// accept4.
///
/// # Safety
/// As for accept4.
pub unsafe fn accept(
    fd: i32,
    address: *mut libc::sockaddr,
    size: *mut libc::socklen_t,
    flags: i32,
    until: Option<u64>,
) -> Answer {
    // SAFETY: the caller's promise.
    let call = || unsafe { libc::accept4(fd, address, size, flags) } as isize;
    if !has_runtime() {
        return answer(call());
    }
    retry(fd, libc::EPOLLIN, ops::limit(until), || without_blocking(fd, call))
}

/// connect.
///
/// # Safety
/// As for connect.
pub unsafe fn connect(
    fd: i32,
    address: *const libc::sockaddr,
    size: libc::socklen_t,
    until: Option<u64>,
) -> Answer {
    // SAFETY: the caller's promise.
    let call = || unsafe { libc::connect(fd, address, size) } as isize;
    if !has_runtime() {
        return answer(call());
    }
    let rt = current();
    // SAFETY: this kernel thread's runtime.
    let tried = unsafe {
        dispatch::enter(rt);
        let tried = answer(without_blocking(fd, call));
        dispatch::leave(rt);
        tried
    };
    match tried {
        Err(libc::EINPROGRESS) => {}
        other => return other,
    }
    let mut entry = [libc::pollfd { fd, events: libc::POLLOUT, revents: 0 }];
    if poll(&mut entry, until)? == 0 {
        return Err(libc::ETIMEDOUT);
    }
    let (mut error, mut length) = (0i32, 4);
    // SAFETY: four valid bytes.
    unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_ERROR, (&raw mut error).cast(), &mut length) };
    if error == 0 {
        Ok(0)
    } else {
        Err(error)
    }
}
