//! UDP. Both ends are connected while a session lasts, so that the kernel drops the datagrams of third parties.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use lathunt_core::latency_box::message::SIZE;
use lathunt_core::latency_box::reception::Reception;

use super::descriptor::{done, is_ready, length};
use super::{Framing, Inlet, Link, Outlet};
use crate::error::{Error, Result};

/// The addresses of `HOST:PORT`.
pub(super) fn resolve(address: &str) -> Result<Vec<SocketAddr>> {
    let found = address.to_socket_addrs().map_err(|error| {
        Error::new("find the address", address, error).hint("write HOST:PORT with a name that resolves")
    })?;
    Ok(found.collect())
}

struct Socket {
    socket: Arc<UdpSocket>,
    /// The last sender, while not connected.
    last: Option<SocketAddr>,
    connected: bool,
}

/// The box's end.
///
/// # Errors
/// If the name does not resolve or no socket is available.
pub fn connect(address: &str) -> Result<Link> {
    let peers = resolve(address)?;
    let local = if peers.first().is_some_and(SocketAddr::is_ipv6) { "[::]:0" } else { "0.0.0.0:0" };
    let socket = UdpSocket::bind(local)
        .map_err(|error| Error::new("open", format!("a socket for udp:{address}"), error))?;
    socket.connect(&peers[..]).map_err(|error| Error::new("reach", format!("udp:{address}"), error))?;
    Ok(link(socket, true))
}

/// The responder's end.
///
/// # Errors
/// If the address is not of this machine or in use.
pub fn bind(address: &str) -> Result<Link> {
    let socket = UdpSocket::bind(&resolve(address)?[..]).map_err(|error| {
        let hint = match error.kind() {
            io::ErrorKind::AddrInUse => "another program has that port: stop it or name another one",
            io::ErrorKind::AddrNotAvailable => {
                "the responder binds an address of its own machine, or 0.0.0.0 for all"
            }
            _ => "",
        };
        Error::new("listen on", format!("udp:{address}"), error).hint(hint)
    })?;
    Ok(link(socket, false))
}

fn link(socket: UdpSocket, connected: bool) -> Link {
    let socket = Arc::new(socket);
    let end = |connected| Socket { socket: Arc::clone(&socket), last: None, connected };
    Link {
        outlet: Box::new(end(connected)),
        inlet: Box::new(end(connected)),
        framing: Framing::Datagrams,
        queues: true,
        reception: Reception::Blocking,
        lifeline: None,
        facts: Vec::new(),
    }
}

impl Outlet for Socket {
    #[inline]
    fn send(&mut self, message: &[u8; SIZE]) -> io::Result<()> {
        // SAFETY: `message` is valid to read for its length.
        length(unsafe {
            libc::send(self.socket.as_raw_fd(), message.as_ptr().cast(), SIZE, libc::MSG_NOSIGNAL)
        })
        .map(drop)
    }
}

impl Socket {
    /// From the connected peer.
    #[inline]
    fn receive_with(&self, buffer: &mut [u8], flags: libc::c_int) -> io::Result<usize> {
        // MSG_TRUNC: a datagram that is too long must not look valid.
        // SAFETY: `buffer` is valid to write for its length.
        let n = length(unsafe {
            libc::recv(
                self.socket.as_raw_fd(),
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                libc::MSG_TRUNC | flags,
            )
        })?;
        // An empty datagram is damaged, not the end.
        Ok(n.clamp(1, buffer.len()))
    }
}

impl Inlet for Socket {
    #[inline]
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.connected {
            let (n, from) = self.socket.recv_from(buffer)?;
            self.last = Some(from);
            return Ok(n.max(1)); // as below
        }
        self.receive_with(buffer, 0)
    }

    fn descriptor(&self) -> Option<RawFd> {
        Some(self.socket.as_raw_fd())
    }

    #[inline]
    fn receive_now(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.connected {
            return self.receive_with(buffer, libc::MSG_DONTWAIT);
        }
        match is_ready(self.socket.as_raw_fd(), 0) {
            true => self.receive(buffer),
            false => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn adopt(&mut self) -> io::Result<()> {
        if let Some(peer) = self.last.take() {
            self.socket.connect(peer)?;
            self.connected = true;
        }
        Ok(())
    }

    fn release(&mut self) {
        // SAFETY: sockaddr is plain bytes, for which zeros are valid.
        let mut nobody: libc::sockaddr = unsafe { std::mem::zeroed() };
        nobody.sa_family = libc::AF_UNSPEC as libc::sa_family_t;
        let size = size_of::<libc::sockaddr>() as libc::socklen_t;
        // SAFETY: `nobody` is valid to read for `size`.
        let _ = done(unsafe { libc::connect(self.socket.as_raw_fd(), &nobody, size) });
        self.connected = false;
    }
}
