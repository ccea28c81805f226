//! A real-time signal to the thread reports arrival (F_SETOWN_EX, F_SETSIG, O_ASYNC: fcntl(2)); then a read. The signal stays
//! blocked and is waited for, so that none is lost between a read and the wait.

use std::io;
use std::mem;
use std::os::fd::RawFd;

use super::super::descriptor::done;
use super::super::Inlet;
use crate::sched;

/// include/uapi/asm-generic/fcntl.h
const F_SETSIG: libc::c_int = 10;
const F_SETOWN_EX: libc::c_int = 15;
const F_OWNER_TID: libc::c_int = 0;

#[repr(C)]
struct Owner {
    kind: libc::c_int,
    thread: libc::pid_t,
}

fn signal() -> libc::c_int {
    libc::SIGRTMIN() + 10
}

/// An inlet whose descriptor sends signals.
pub(super) struct Sigio {
    inner: Box<dyn Inlet>,
    fd: RawFd,
    /// Thread that gets them; the next session may have another one.
    owner: libc::pid_t,
}

impl Sigio {
    pub(super) fn new(inner: Box<dyn Inlet>, fd: RawFd) -> Sigio {
        Sigio { inner, fd, owner: 0 }
    }

    fn own(&mut self) -> io::Result<()> {
        let owner = Owner { kind: F_OWNER_TID, thread: sched::tid().0 };
        // SAFETY: `owner` is valid to read; the others have no pointers.
        unsafe {
            done(libc::fcntl(self.fd, F_SETOWN_EX, &raw const owner))?;
            done(libc::fcntl(self.fd, F_SETSIG, signal()))?;
            let flags = done(libc::fcntl(self.fd, libc::F_GETFL))?;
            done(libc::fcntl(self.fd, libc::F_SETFL, flags | libc::O_ASYNC))?;
        }
        self.owner = owner.thread;
        Ok(())
    }
}

impl Drop for Sigio {
    fn drop(&mut self) {
        // SAFETY: no pointers. The descriptor is still open: `inner` owns it.
        unsafe {
            let flags = libc::fcntl(self.fd, libc::F_GETFL);
            if flags >= 0 {
                libc::fcntl(self.fd, libc::F_SETFL, flags & !libc::O_ASYNC);
            }
        }
    }
}

impl Inlet for Sigio {
    #[inline]
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.owner != sched::tid().0 {
            self.own()?;
        }
        loop {
            match self.inner.receive_now(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
            // SAFETY: the set is made by sigemptyset; the threads of a channel block both signals. The time limit covers an
            // overflowed signal queue.
            let waited = unsafe {
                let mut set: libc::sigset_t = mem::zeroed();
                libc::sigemptyset(&mut set);
                libc::sigaddset(&mut set, signal());
                libc::sigaddset(&mut set, libc::SIGIO);
                let limit = libc::timespec { tv_sec: 0, tv_nsec: 200_000_000 };
                libc::sigtimedwait(&set, std::ptr::null_mut(), &limit)
            };
            if waited < 0 {
                return Err(io::ErrorKind::Interrupted.into());
            }
        }
    }

    fn descriptor(&self) -> Option<RawFd> {
        Some(self.fd)
    }

    fn adopt(&mut self) -> io::Result<()> {
        self.inner.adopt()
    }

    fn release(&mut self) {
        self.inner.release();
    }
}
