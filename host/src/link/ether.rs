//! Ethernet frames without IP: AF_PACKET, the EtherType that IEEE 802 reserves for experiments (0x88b5). Needs CAP_NET_RAW.
//!
//! The box broadcasts hello; after the welcome it sends to the responder only. A message is shorter than the shortest frame:
//! padding by the network card is cut off. Times are those of the threads; time stamps of the driver or the card are not
//! used, because they are of CLOCK_REALTIME or of the card's own clock.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use lathunt_core::latency_box::message::{Kind, Message, SIZE};
use lathunt_core::latency_box::reception::Reception;

use super::descriptor::{done, is_ready, length};
use super::{Framing, Inlet, Link, Outlet, Side};
use crate::error::{Error, Result};

const ETHER_TYPE: u16 = 0x88b5;
/// Payload of the shortest frame.
const SHORTEST: usize = 46;
const EVERYBODY: u64 = 0xffff_ffff_ffff;
/// Peer of a responder that has no box.
const NOBODY: u64 = 0;

struct Socket {
    fd: Arc<OwnedFd>,
    index: i32,
    side: Side,
    /// Address of the other end, in the low 48 bits.
    peer: Arc<AtomicU64>,
    last: u64,
}

fn number(address: &[u8]) -> u64 {
    address.iter().take(6).fold(0, |number, &byte| number << 8 | u64::from(byte))
}

fn address(index: i32, to: u64) -> libc::sockaddr_ll {
    // SAFETY: sockaddr_ll is plain integers, for which zeros are valid.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as libc::c_ushort;
    address.sll_protocol = ETHER_TYPE.to_be();
    address.sll_ifindex = index;
    address.sll_halen = 6;
    address.sll_addr[..6].copy_from_slice(&to.to_be_bytes()[2..]);
    address
}

const ADDRESS_SIZE: libc::socklen_t = size_of::<libc::sockaddr_ll>() as libc::socklen_t;

/// Opens one end on this interface.
///
/// # Errors
/// If there is no such interface, it is not Ethernet, or the capability is missing.
pub fn open(interface: &str, side: Side) -> Result<Link> {
    let what = || format!("ether:{interface}");
    let name = CString::new(interface).map_err(|error| Error::new("open", what(), error))?;
    // SAFETY: a NUL-terminated string.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) } as i32;
    if index == 0 {
        return Err(Error::stated(format!(
            "cannot open ether:{interface}: no such interface; see `ip link`"
        )));
    }
    let failed = |error: io::Error| {
        let hint = match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => "run as root or grant CAP_NET_RAW",
            Some(libc::EAFNOSUPPORT) => "the kernel has no packet sockets",
            _ => "",
        };
        Error::new("open", what(), error).hint(hint)
    };
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers.
    let fd = done(unsafe { libc::socket(libc::AF_PACKET, kind, i32::from(ETHER_TYPE.to_be())) })
        .map_err(failed)?;
    // SAFETY: just made, owned by nobody else.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let own = address(index, 0);
    // SAFETY: `own` is valid to read for its size.
    done(unsafe { libc::bind(fd.as_raw_fd(), (&raw const own).cast(), ADDRESS_SIZE) }).map_err(failed)?;
    let mut bound = own;
    let mut size = ADDRESS_SIZE;
    // SAFETY: `bound` is valid to write for its size.
    done(unsafe { libc::getsockname(fd.as_raw_fd(), (&raw mut bound).cast(), &mut size) }).map_err(failed)?;
    if bound.sll_hatype != libc::ARPHRD_ETHER {
        let hint = "it is not an Ethernet interface: on lo use udp:127.0.0.1:PORT";
        return Err(Error::refused("open", what(), hint));
    }
    let fd = Arc::new(fd);
    let peer = Arc::new(AtomicU64::new(if side == Side::Box { EVERYBODY } else { NOBODY }));
    let end = || Socket { fd: Arc::clone(&fd), index, side, peer: Arc::clone(&peer), last: NOBODY };
    Ok(Link {
        outlet: Box::new(end()),
        inlet: Box::new(end()),
        framing: Framing::Datagrams,
        queues: true,
        reception: Reception::Blocking,
        lifeline: None,
        facts: vec![format!("ether:{interface}: EtherType 0x{ETHER_TYPE:04x}, times of the threads, no time stamps of the driver")],
    })
}

impl Outlet for Socket {
    #[inline]
    fn send(&mut self, message: &[u8; SIZE]) -> io::Result<()> {
        let peer = self.peer.load(Ordering::Relaxed);
        if peer == NOBODY {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let to = address(self.index, peer);
        // SAFETY: message and address are valid to read for their sizes.
        length(unsafe {
            libc::sendto(
                self.fd.as_raw_fd(),
                message.as_ptr().cast(),
                SIZE,
                0,
                (&raw const to).cast(),
                ADDRESS_SIZE,
            )
        })
        .map(drop)
    }
}

impl Socket {
    #[inline]
    fn receive_with(&mut self, buffer: &mut [u8], flags: libc::c_int) -> io::Result<usize> {
        let mut from = address(0, 0);
        let mut size = ADDRESS_SIZE;
        // MSG_TRUNC: a frame that is too long must not look valid.
        // SAFETY: buffer and address are valid to write for their sizes.
        let n = length(unsafe {
            let (start, len) = (buffer.as_mut_ptr().cast(), buffer.len());
            let from = (&raw mut from).cast();
            libc::recvfrom(self.fd.as_raw_fd(), start, len, libc::MSG_TRUNC | flags, from, &mut size)
        })?;
        let n = if (SIZE..=SHORTEST).contains(&n) { SIZE } else { n.clamp(1, buffer.len()) };
        let from = number(&from.sll_addr);
        let peer = self.peer.load(Ordering::Relaxed);
        match self.side {
            Side::Box if peer == EVERYBODY => {
                let message = Message::decode(&buffer[..n]);
                if message.is_ok_and(|message| message.kind == Kind::Welcome) {
                    self.peer.store(from, Ordering::Relaxed);
                }
            }
            // Frames of others are dropped here, as the kernel does for connected sockets.
            _ if peer != NOBODY && peer != from => return Err(io::ErrorKind::WouldBlock.into()),
            _ => self.last = from,
        }
        Ok(n)
    }
}

impl Inlet for Socket {
    #[inline]
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.receive_with(buffer, 0)
    }

    fn descriptor(&self) -> Option<RawFd> {
        Some(self.fd.as_raw_fd())
    }

    fn receive_now(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match is_ready(self.fd.as_raw_fd(), 0) {
            true => self.receive_with(buffer, libc::MSG_DONTWAIT),
            false => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn adopt(&mut self) -> io::Result<()> {
        if self.last != NOBODY {
            self.peer.store(self.last, Ordering::Relaxed);
        }
        Ok(())
    }

    fn release(&mut self) {
        self.peer.store(NOBODY, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_ethernet_is_told_so() {
        let error = open("absent0", Side::Box).err().unwrap().to_string();
        assert!(error.contains("no such interface"), "{error}");
        assert_eq!(number(&[1, 2, 3, 4, 5, 6, 7, 8]), 0x0102_0304_0506);
        assert_eq!(address(3, 0x0102_0304_0506).sll_addr[..6], [1, 2, 3, 4, 5, 6]);
    }
}
