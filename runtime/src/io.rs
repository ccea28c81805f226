//! The calls: each returns what the system call returns, or an errno. Without a runtime they are the plain system calls.
//!
//! With a runtime they wait even if the descriptor itself has O_NONBLOCK; MSG_DONTWAIT is respected.

mod connection;

use std::sync::atomic::Ordering;

pub use connection::{accept, connect};

use crate::dispatch;
use crate::ops;
use crate::policy::{Outcome, ThreadId, NEVER};
use crate::state::{current, Runtime};

/// Result of a call: the system call's value, or an errno. ETIMEDOUT, ECANCELED and EPERM (the scheduler is held) may come
/// from the runtime.
pub type Answer = Result<usize, i32>;

fn errno() -> i32 {
    // SAFETY: the calling thread's errno.
    unsafe { *libc::__errno_location() }
}

fn answer(value: isize) -> Answer {
    usize::try_from(value).map_err(|_| errno())
}

/// Tries until the error is not EAGAIN, waiting for `events` in between.
fn retry(fd: i32, events: i32, until: u64, mut attempt: impl FnMut() -> isize) -> Answer {
    loop {
        // SAFETY: this kernel thread's runtime; references end before the switch in `leave`.
        unsafe {
            let rt = current();
            if (*rt).locked.load(Ordering::Relaxed) > 0 {
                return Err(libc::EPERM);
            }
            ops::cancellation().map_err(ops::Error::errno)?;
            dispatch::enter(rt);
            let tried = answer(attempt());
            if tried != Err(libc::EAGAIN) {
                dispatch::leave(rt);
                return tried;
            }
            let entered = block(&mut *rt, &[(fd, events as u32)], until);
            dispatch::leave(rt);
            entered?;
            after(rt)?;
        }
    }
}

/// Makes the running thread wait for any of these; the caller switches.
fn block(rt: &mut Runtime, fds: &[(i32, u32)], until: u64) -> Result<(), i32> {
    let now = rt.now();
    if until <= now {
        return Err(libc::ETIMEDOUT);
    }
    let thread = rt.on_cpu;
    let priority = rt.sched.urgency(ThreadId(thread)).priority;
    for &(fd, events) in fds {
        if let Err(error) = rt.broker.enter(fd, events, thread, priority) {
            rt.broker.forget(thread);
            return Err(error);
        }
    }
    rt.sched.wait_io(until, now);
    Ok(())
}

/// After the wait: removes the waiter, and returns how it ended.
unsafe fn after(rt: *mut Runtime) -> Result<(), i32> {
    // SAFETY: this kernel thread's runtime.
    unsafe {
        dispatch::enter(rt);
        let thread = (*rt).on_cpu;
        (*rt).broker.forget(thread);
        let outcome = (*rt).sched.outcome(ThreadId(thread));
        dispatch::leave(rt);
        match outcome {
            Outcome::Done => Ok(()),
            Outcome::TimedOut => Err(libc::ETIMEDOUT),
            Outcome::Cancelled => Err(libc::ECANCELED),
        }
    }
}

/// A call that blocks until everything is transferred: goes on where the last part ended (`part`: from this byte on). An error
/// or a time limit after the first part gives what is done so far, 0 (the other end is closed) too.
fn whole(length: usize, mut part: impl FnMut(usize) -> Answer) -> Answer {
    let mut done = 0;
    loop {
        match part(done) {
            Ok(more) if more > 0 && done + more < length => done += more,
            Ok(more) => return Ok(done + more),
            Err(_) if done > 0 => return Ok(done),
            Err(error) => return Err(error),
        }
    }
}

/// Whether it is a socket without message boundaries.
fn is_stream(fd: i32) -> bool {
    let (mut kind, mut size) = (0i32, 4);
    // SAFETY: four valid bytes.
    let asked =
        unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_TYPE, (&raw mut kind).cast(), &mut size) };
    asked == 0 && kind == libc::SOCK_STREAM
}

fn has_runtime() -> bool {
    !current().is_null()
}

/// recvfrom: with `address` null, recv.
///
/// # Safety
/// As for recvfrom.
pub unsafe fn recv_from(
    fd: i32,
    buffer: *mut u8,
    length: usize,
    flags: i32,
    address: *mut libc::sockaddr,
    size: *mut libc::socklen_t,
    until: Option<u64>,
) -> Answer {
    let wait = has_runtime() && flags & libc::MSG_DONTWAIT == 0;
    let all = flags & (libc::MSG_WAITALL | libc::MSG_PEEK) == libc::MSG_WAITALL;
    let flags = if wait { flags | libc::MSG_DONTWAIT } else { flags };
    // SAFETY: the caller's promise; `done` bytes are in the buffer.
    let call = |done: usize| unsafe {
        libc::recvfrom(fd, buffer.add(done).cast(), length - done, flags, address, size)
    };
    let part = |done| retry(fd, libc::EPOLLIN, ops::limit(until), || call(done));
    match wait {
        false => answer(call(0)),
        true if all && is_stream(fd) => whole(length, part),
        true => part(0),
    }
}

/// sendto: with `address` null, send.
///
/// # Safety
/// As for sendto.
pub unsafe fn send_to(
    fd: i32,
    buffer: *const u8,
    length: usize,
    flags: i32,
    address: *const libc::sockaddr,
    size: libc::socklen_t,
    until: Option<u64>,
) -> Answer {
    let wait = has_runtime() && flags & libc::MSG_DONTWAIT == 0;
    let flags = if wait { flags | libc::MSG_DONTWAIT } else { flags };
    // SAFETY: the caller's promise; `done` bytes are sent.
    let call = |done: usize| unsafe {
        libc::sendto(fd, buffer.add(done).cast(), length - done, flags, address, size)
    };
    if wait {
        whole(length, |done| retry(fd, libc::EPOLLOUT, ops::limit(until), || call(done)))
    } else {
        answer(call(0))
    }
}

/// read or write at the file's position: pipes, terminals and sockets wait in the epoll, files in the pool.
unsafe fn transfer(fd: i32, buffer: *mut u8, length: usize, writes: bool) -> Answer {
    let plain = move |buffer: usize| {
        // SAFETY: the caller of `read` or `write` promises the buffer.
        unsafe {
            if writes {
                libc::write(fd, buffer as *const libc::c_void, length)
            } else {
                libc::read(fd, buffer as *mut libc::c_void, length)
            }
        }
    };
    let address = buffer as usize;
    if !has_runtime() {
        return answer(plain(address));
    }
    let vector = libc::iovec { iov_base: buffer.cast(), iov_len: length };
    let events = if writes { libc::EPOLLOUT } else { libc::EPOLLIN };
    let mut without_flag = false;
    let tried = retry(fd, events, NEVER, || {
        // SAFETY: one valid vector; position -1 is the file's own.
        let value = unsafe {
            match (without_flag, writes) {
                (true, _) => -1,
                (false, true) => libc::pwritev2(fd, &vector, 1, -1, libc::RWF_NOWAIT),
                (false, false) => libc::preadv2(fd, &vector, 1, -1, libc::RWF_NOWAIT),
            }
        };
        if without_flag || (value < 0 && errno() == libc::EOPNOTSUPP) {
            // This kind of file, or this kernel (pipes before Linux 6.4), does not support the flag.
            without_flag = true;
            return if is_file(fd) { refuse(libc::EPERM) } else { without_blocking(fd, || plain(address)) };
        }
        value
    });
    // Always ready for epoll, and yet it would block: a file.
    if tried == Err(libc::EPERM) && ops::cancellation().is_ok() {
        return in_pool(move || plain(address));
    }
    tried
}

/// Whether it is a file or a block device, whose reads and writes block without readiness events.
fn is_file(fd: i32) -> bool {
    // SAFETY: a zeroed structure, which the call fills.
    unsafe {
        let mut about: libc::stat = std::mem::zeroed();
        libc::fstat(fd, &mut about) == 0
            && matches!(about.st_mode & libc::S_IFMT, libc::S_IFREG | libc::S_IFBLK)
    }
}

fn refuse(error: i32) -> isize {
    // SAFETY: the calling thread's errno.
    unsafe { *libc::__errno_location() = error };
    -1
}

/// read.
///
/// # Safety
/// As for read.
pub unsafe fn read(fd: i32, buffer: *mut u8, length: usize) -> Answer {
    // SAFETY: the caller's promise.
    unsafe { transfer(fd, buffer, length, false) }
}

/// write.
///
/// # Safety
/// As for write.
pub unsafe fn write(fd: i32, buffer: *const u8, length: usize) -> Answer {
    // SAFETY: the caller's promise; nothing is written to the buffer.
    let part = |done| unsafe { transfer(fd, buffer.add(done).cast_mut(), length - done, true) };
    if has_runtime() {
        whole(length, part)
    } else {
        part(0)
    }
}

/// Runs a blocking call on a helper thread while the calling thread of the runtime waits. EAGAIN: no helper can be started.
///
/// # Errors
/// The call's errno.
pub fn in_pool(call: impl FnOnce() -> isize + Send + 'static) -> Answer {
    if !has_runtime() {
        return answer(call());
    }
    let result = std::sync::Arc::new(std::sync::Mutex::new((0, 0)));
    // SAFETY: this kernel thread's runtime; references end before the switch in `leave`.
    unsafe {
        let rt = current();
        if (*rt).locked.load(Ordering::Relaxed) > 0 {
            return Err(libc::EPERM);
        }
        dispatch::enter(rt);
        let thread = (*rt).on_cpu;
        let shared = result.clone();
        let submitted = (*rt).broker.submit(thread, move || {
            let value = call();
            let error = if value < 0 { errno() } else { 0 };
            *shared.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = (value, error);
        });
        if !submitted {
            dispatch::leave(rt);
            return Err(libc::EAGAIN);
        }
        loop {
            let now = (*rt).now();
            (*rt).sched.wait_io(NEVER, now);
            dispatch::leave(rt);
            dispatch::enter(rt);
            // The buffer belongs to the helper until it is done, even if the thread is cancelled.
            if (*rt).broker.is_done(thread) {
                break;
            }
        }
        (*rt).broker.forget(thread);
        dispatch::leave(rt);
    }
    let (value, error) = *result.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    usize::try_from(value).map_err(|_| error)
}

/// poll, with an absolute time limit in ns: the number of descriptors with events, 0 after the time.
///
/// # Errors
/// The call's errno.
pub fn poll(fds: &mut [libc::pollfd], until: Option<u64>) -> Answer {
    let until = ops::limit(until);
    loop {
        // SAFETY: valid entries; does not wait.
        let mut look =
            || answer(unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, 0) } as isize);
        let rt = current();
        if rt.is_null() {
            return look();
        }
        // SAFETY: this kernel thread's runtime; references end before the switch in `leave`.
        unsafe {
            if (*rt).locked.load(Ordering::Relaxed) > 0 {
                return Err(libc::EPERM);
            }
            ops::cancellation().map_err(ops::Error::errno)?;
            dispatch::enter(rt);
            let found = look();
            if found != Ok(0) {
                dispatch::leave(rt);
                return found;
            }
            let wanted: Vec<_> = fds
                .iter()
                .filter(|entry| entry.fd >= 0)
                .map(|entry| (entry.fd, entry.events as u32))
                .collect();
            let entered = block(&mut *rt, &wanted, until);
            dispatch::leave(rt);
            match entered.and_then(|()| after(rt)) {
                Err(libc::ETIMEDOUT) => return Ok(0),
                other => other?,
            }
        }
    }
}

/// Held while O_NONBLOCK is set: another runtime of this process would take the flag for the program's own, and then block
/// after it is cleared.
static NONBLOCKING: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// Runs a call with O_NONBLOCK set, for its duration, on the open file description: other processes that share it see the
/// flag too. The scheduler is held, so that no other thread of this runtime runs in between.
fn without_blocking(fd: i32, call: impl FnOnce() -> isize) -> isize {
    let _held = NONBLOCKING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    // SAFETY: flags of a descriptor.
    unsafe {
        let flags = libc::fcntl(fd, libc::F_GETFL);
        if flags < 0 {
            return -1;
        }
        if flags & libc::O_NONBLOCK == 0 {
            libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK);
        }
        let value = call();
        let error = errno();
        if flags & libc::O_NONBLOCK == 0 {
            libc::fcntl(fd, libc::F_SETFL, flags);
        }
        *libc::__errno_location() = error;
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_two_runtimes_on_one_descriptor_never_block() {
        let mut ends = [0; 2];
        // SAFETY: two valid places.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        let [reads, writes] = ends;
        let (done, ended) = std::sync::mpsc::channel();
        for _ in 0..2 {
            let done = done.clone();
            std::thread::spawn(move || {
                let read = || {
                    let mut byte = 0u8;
                    // SAFETY: one valid byte.
                    unsafe { libc::read(reads, (&raw mut byte).cast(), 1) }
                };
                let empty = (0..100_000).all(|_| without_blocking(reads, read) == -1);
                let _ = done.send(empty);
            });
        }
        for _ in 0..2 {
            let empty = ended.recv_timeout(std::time::Duration::from_secs(60));
            assert_eq!(empty, Ok(true), "a read waits for the empty pipe");
        }
        // SAFETY: nothing uses them any more.
        unsafe { _ = [reads, writes].map(|end| libc::close(end)) };
    }
}
