//! How the ends of a local channel find each other: the responder listens on a socket of its user, the box connects, the
//! responder passes the descriptors (SCM_RIGHTS). The connection stays open: its end means that the other side died.
//!
//! Only processes of the same user, or of root, are served. The socket's name is in the abstract namespace, so no file is
//! left behind; the kernel identifies its creator (SO_PEERCRED), because any user could take the name first.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use lathunt_core::latency_box::channel::Local;

use super::descriptor::{done, is_ready, length};
use super::local::{self, Parts};
use super::{Link, Side};
use crate::error::{Error, Result};

const MOST_FDS: usize = 8;

fn name(local: Local) -> io::Result<SocketAddr> {
    // SAFETY: no preconditions.
    let user = unsafe { libc::geteuid() };
    SocketAddr::from_abstract_name(format!("lathunt-box-{user}-{}", local.name()))
}

/// Credentials of the other end.
fn peer(socket: &impl AsRawFd) -> io::Result<libc::ucred> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut size = size_of::<libc::ucred>() as libc::socklen_t;
    let (level, option) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
    // SAFETY: room of that size.
    done(unsafe { libc::getsockopt(socket.as_raw_fd(), level, option, (&raw mut peer).cast(), &mut size) })?;
    Ok(peer)
}

fn is_trusted(peer: &libc::ucred) -> bool {
    // SAFETY: no preconditions.
    peer.uid == 0 || peer.uid == unsafe { libc::geteuid() }
}

/// The responder's socket.
pub struct Rendezvous {
    listener: UnixListener,
    local: Local,
}

impl Rendezvous {
    /// Binds the name.
    ///
    /// # Errors
    /// If another responder of this user has it.
    pub fn listen(local: Local) -> Result<Rendezvous> {
        let listener = name(local).and_then(|name| UnixListener::bind_addr(&name)).map_err(|error| {
            let hint = match error.kind() {
                io::ErrorKind::AddrInUse => "another responder of this user has that channel: stop it first",
                _ => "",
            };
            Error::new("offer the channel", local.name(), error).hint(hint)
        })?;
        Ok(Rendezvous { listener, local })
    }

    /// Waits at most 100 ms for the next box.
    ///
    /// # Errors
    /// If the channel cannot be created.
    pub fn wait(&mut self) -> Result<Option<Link>> {
        if !is_ready(self.listener.as_raw_fd(), 100) {
            return Ok(None);
        }
        let Ok((stream, _)) = self.listener.accept() else { return Ok(None) };
        match peer(&stream) {
            Ok(who) if is_trusted(&who) => self.hand_over(stream, who.pid).map(Some),
            _ => Ok(None), // another user's: it sees the connection end
        }
    }

    fn hand_over(&self, stream: UnixStream, process: i32) -> Result<Link> {
        let failed = |error| Error::new("make the channel", self.local.name(), error);
        let (theirs, ours) = local::make(self.local).map_err(failed)?;
        send(&stream, &theirs).map_err(failed)?;
        let mut link = local::open(self.local, Side::Responder, ours, process).map_err(failed)?;
        link.lifeline = Some(stream.into());
        Ok(link)
    }
}

/// The box's end.
///
/// # Errors
/// If this user has no responder running.
pub fn connect(local: Local) -> Result<Link> {
    let failed = |error| Error::new("reach a responder on", local.name(), error);
    let stream = name(local).and_then(|name| UnixStream::connect_addr(&name)).map_err(failed)?;
    let who = peer(&stream).map_err(failed)?;
    if !is_trusted(&who) {
        let what = format!("the responder of user {} on {}", who.uid, local.name());
        return Err(Error::refused("trust", what, "run both ends as the same user"));
    }
    let parts = receive(&stream).map_err(|error| match error.kind() {
        io::ErrorKind::TimedOut => failed(error).hint("it may serve another box: stop that one first"),
        _ => failed(error),
    })?;
    let mut link = local::open(local, Side::Box, parts, who.pid).map_err(failed)?;
    link.lifeline = Some(stream.into());
    Ok(link)
}

fn send(stream: &UnixStream, parts: &Parts) -> io::Result<()> {
    let number = parts.number.to_ne_bytes();
    let mut text = libc::iovec { iov_base: number.as_ptr().cast_mut().cast(), iov_len: number.len() };
    let mut control = [0u64; 16];
    let fds: Vec<i32> = parts.fds.iter().map(AsRawFd::as_raw_fd).collect();
    let bytes = size_of_val(fds.as_slice());
    // SAFETY: msghdr is plain integers and pointers, for which zeros are valid; all that it points to outlives the call, and
    // the control buffer has room for one header and at most MOST_FDS descriptors.
    unsafe {
        let mut message: libc::msghdr = mem::zeroed();
        (message.msg_iov, message.msg_iovlen) = (&mut text, 1);
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(bytes as libc::c_uint) as _;
        let header = libc::CMSG_FIRSTHDR(&message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(bytes as libc::c_uint) as _;
        std::ptr::copy_nonoverlapping(fds.as_ptr().cast(), libc::CMSG_DATA(header), bytes);
        length(libc::sendmsg(stream.as_raw_fd(), &message, libc::MSG_NOSIGNAL)).map(drop)
    }
}

fn receive(stream: &UnixStream) -> io::Result<Parts> {
    if !is_ready(stream.as_raw_fd(), 2_000) {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let mut number = [0u8; 4];
    let mut text = libc::iovec { iov_base: number.as_mut_ptr().cast(), iov_len: number.len() };
    let mut control = [0u64; 16];
    let mut fds = Vec::new();
    // SAFETY: as in `send`; the kernel writes at most what the header says there is room for.
    let n = unsafe {
        let mut message: libc::msghdr = mem::zeroed();
        (message.msg_iov, message.msg_iovlen) = (&mut text, 1);
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control) as _;
        let n = length(libc::recvmsg(stream.as_raw_fd(), &mut message, libc::MSG_CMSG_CLOEXEC))?;
        let header = libc::CMSG_FIRSTHDR(&message);
        if !header.is_null() && (*header).cmsg_type == libc::SCM_RIGHTS {
            let bytes = (*header).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
            let start: *const i32 = libc::CMSG_DATA(header).cast();
            for at in 0..(bytes / size_of::<i32>()).min(MOST_FDS) {
                fds.push(OwnedFd::from_raw_fd(start.add(at).read_unaligned()));
            }
        }
        n
    };
    if n != number.len() {
        return Err(io::Error::from_raw_os_error(libc::ECONNRESET));
    }
    Ok(Parts { fds, number: i32::from_ne_bytes(number), owned: false })
}
