//! AF_XDP sockets: the datagrams of the box, before the kernel's network stack sees them; epoll_wait, then a look into the
//! ring. Needs root, and UDP over Ethernet or loopback.
//!
//! Before a box is adopted the inlet's own read is used: it records the sender. From then on an XDP program ([`steering`])
//! on the interface of the box's datagrams passes them to one socket per receive queue ([`socket`]). What goes another way
//! (fragments, headers with options, a tunnel) still arrives at the UDP socket and is answered; if that is all that arrives,
//! the channel ends with an error, because it would not be what was asked for.
//!
//! Answers go through the UDP socket. The checksum of UDP is not verified: a message has its own.

mod socket;
mod steering;

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use super::super::descriptor::done;
use super::super::Inlet;
use crate::error::Result;
use socket::Socket;
use steering::{Flow, Steering};

/// Datagrams that may arrive at the UDP socket before the first one through AF_XDP: they were on their way.
const ON_THE_WAY: u32 = 64;
/// Mark of the UDP socket in events of the epoll; the others are numbers of sockets.
const OWN: u64 = u64::MAX;

/// An inlet whose datagrams take the way through AF_XDP.
pub(super) struct Xdp {
    inner: Box<dyn Inlet>,
    fd: RawFd,
    steering: Steering,
    set: OwnedFd,
    sockets: Vec<Socket>,
    /// Datagrams through AF_XDP and through the UDP socket since the box was adopted.
    through: u32,
    beside: u32,
}

impl Xdp {
    /// Prepares the UDP socket `fd`.
    ///
    /// # Errors
    /// `fd` is not a UDP socket, the kernel does not support AF_XDP, or the process lacks the capabilities.
    pub(super) fn new(inner: Box<dyn Inlet>, fd: RawFd) -> Result<Xdp> {
        steering::check(fd)?;
        socket::check()?;
        let failed = |error| crate::error::Error::new("receive", "by xdp", error);
        // SAFETY: no pointers.
        let set = done(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }).map_err(failed)?;
        // SAFETY: just made, owned by nobody else.
        let set = unsafe { OwnedFd::from_raw_fd(set) };
        let steering = Steering::load()?;
        let xdp = Xdp { inner, fd, steering, set, sockets: Vec::new(), through: 0, beside: 0 };
        xdp.wait_for(fd, OWN).map_err(failed)?;
        Ok(xdp)
    }

    fn wait_for(&self, fd: RawFd, mark: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: mark };
        // SAFETY: `event` is valid to read.
        done(unsafe { libc::epoll_ctl(self.set.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &mut event) }).map(drop)
    }

    /// The next datagram in the rings, without a system call.
    fn take(&mut self, buffer: &mut [u8]) -> Option<usize> {
        let n = self.sockets.iter_mut().find_map(|socket| socket.take(buffer))?;
        self.through = self.through.saturating_add(1);
        Some(n)
    }

    /// A datagram that arrived at the UDP socket.
    fn take_beside(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.receive_now(buffer)?;
        self.beside += 1;
        if self.through == 0 && self.beside > ON_THE_WAY {
            return Err(io::Error::other(
                "its datagrams do not come through AF_XDP (fragments, IP options, a tunnel or VLAN): use another way to receive",
            ));
        }
        Ok(n)
    }

    /// Waits for an event, at most `limit` ms, -1: without limit; returns its mark.
    fn event(&self, limit: libc::c_int) -> io::Result<Option<u64>> {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        // SAFETY: room for one event, as stated.
        let count = done(unsafe { libc::epoll_wait(self.set.as_raw_fd(), &mut event, 1, limit) })?;
        Ok((count > 0).then_some(event.u64))
    }

    fn next(&mut self, buffer: &mut [u8], limit: libc::c_int) -> io::Result<usize> {
        loop {
            if let Some(n) = self.take(buffer) {
                return Ok(n);
            }
            match self.event(limit)? {
                None => return Err(io::ErrorKind::WouldBlock.into()),
                Some(OWN) => match self.take_beside(buffer) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    other => return other,
                },
                Some(_) => {}
            }
        }
    }
}

impl Inlet for Xdp {
    #[inline]
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.sockets.is_empty() {
            return self.inner.receive(buffer);
        }
        self.next(buffer, -1)
    }

    fn descriptor(&self) -> Option<RawFd> {
        Some(self.set.as_raw_fd())
    }

    #[inline]
    fn receive_now(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.sockets.is_empty() {
            return self.inner.receive_now(buffer);
        }
        self.next(buffer, 0)
    }

    fn adopt(&mut self) -> io::Result<()> {
        self.inner.adopt()?;
        let flow = Flow::of(self.fd)?;
        if self.steering.steers(&flow) {
            return Ok(());
        }
        self.sockets.clear();
        self.steering.stop();
        let interface = flow.interface()?;
        for queue in 0..interface.queues {
            let socket = Socket::open(interface.index, queue)?;
            self.wait_for(socket.raw(), u64::from(queue))?;
            self.steering.pass_to(queue, socket.raw())?;
            self.sockets.push(socket);
        }
        (self.through, self.beside) = (0, 0);
        self.steering.start(flow, interface.index)
    }

    fn release(&mut self) {
        self.steering.stop();
        self.sockets.clear();
        self.inner.release();
    }
}
