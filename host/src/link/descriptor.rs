//! A file descriptor as one direction of a channel: pipes, terminals, ports, stream sockets.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use lathunt_core::latency_box::message::SIZE;

use super::{Inlet, Outlet};

/// Result of a system call that returns a length.
pub(crate) fn length(result: libc::ssize_t) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Result of a system call that returns 0 or more.
pub(crate) fn done(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

/// A descriptor that both directions of a channel may share.
#[derive(Clone)]
pub struct Descriptor {
    fd: Arc<OwnedFd>,
    socket: bool,
}

impl Descriptor {
    /// Of a file, pipe or terminal.
    #[must_use]
    pub fn file(fd: OwnedFd) -> Descriptor {
        Descriptor { fd: Arc::new(fd), socket: false }
    }

    /// Of a stream socket.
    #[must_use]
    pub fn socket(fd: OwnedFd) -> Descriptor {
        Descriptor { fd: Arc::new(fd), socket: true }
    }

    /// Its number.
    #[must_use]
    pub fn raw(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    #[inline]
    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let (start, len) = (bytes.as_ptr().cast(), bytes.len());
        // SAFETY: `bytes` is valid to read for its length.
        length(unsafe {
            match self.socket {
                true => libc::send(self.raw(), start, len, libc::MSG_NOSIGNAL),
                false => libc::write(self.raw(), start, len),
            }
        })
    }
}

impl Outlet for Descriptor {
    /// A message is small enough to be sent whole; if a terminal accepts a part, the rest follows.
    #[inline]
    fn send(&mut self, message: &[u8; SIZE]) -> io::Result<()> {
        let mut sent = 0;
        while sent < SIZE {
            match self.write(&message[sent..]) {
                Ok(n) => sent += n,
                // Half a message must not remain there: the next one would be garbled.
                Err(error) if sent > 0 && error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Inlet for Descriptor {
    #[inline]
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (start, len) = (buffer.as_mut_ptr().cast(), buffer.len());
        // SAFETY: `buffer` is valid to write for its length.
        length(unsafe {
            match self.socket {
                true => libc::recv(self.raw(), start, len, 0),
                false => libc::read(self.raw(), start, len),
            }
        })
    }

    fn descriptor(&self) -> Option<RawFd> {
        Some(self.raw())
    }

    #[inline]
    fn receive_now(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.socket {
            true => {
                let (start, len) = (buffer.as_mut_ptr().cast(), buffer.len());
                // SAFETY: `buffer` is valid to write for its length.
                length(unsafe { libc::recv(self.raw(), start, len, libc::MSG_DONTWAIT) })
            }
            false if is_ready(self.raw(), 0) => self.receive(buffer),
            false => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

/// Whether `fd` can be read, or is closed, within `ms`.
pub(crate) fn is_ready(fd: RawFd, ms: i32) -> bool {
    let mut polled = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, as stated.
    unsafe { libc::poll(&mut polled, 1, ms) > 0 }
}

/// Whether the process at the other end of `fd`, which carries no data, is gone.
#[must_use]
pub fn hung_up(fd: &OwnedFd) -> bool {
    let mut polled = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLRDHUP, revents: 0 };
    // SAFETY: one entry, as stated.
    unsafe { libc::poll(&mut polled, 1, 0) > 0 }
}
