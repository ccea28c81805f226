//! epoll_wait, then a read.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use super::super::descriptor::done;
use super::super::Inlet;

/// An inlet with an epoll set of its own.
pub(super) struct Epoll {
    inner: Box<dyn Inlet>,
    set: OwnedFd,
    fd: RawFd,
}

impl Epoll {
    pub(super) fn new(inner: Box<dyn Inlet>, fd: RawFd) -> io::Result<Epoll> {
        // SAFETY: no pointers.
        let set = done(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: just made, owned by nobody else.
        let set = unsafe { OwnedFd::from_raw_fd(set) };
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
        // SAFETY: `event` is valid to read.
        done(unsafe { libc::epoll_ctl(set.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &mut event) })?;
        Ok(Epoll { inner, set, fd })
    }
}

impl Inlet for Epoll {
    #[inline]
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut event = libc::epoll_event { events: 0, u64: 0 };
            // SAFETY: room for one event, as stated.
            done(unsafe { libc::epoll_wait(self.set.as_raw_fd(), &mut event, 1, -1) })?;
            match self.inner.receive_now(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
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
