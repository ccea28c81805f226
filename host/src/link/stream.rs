//! Stream sockets: TCP without delay, sockets in the file system, vsock. The responder listens and serves one box at a time.

use std::fs;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

use lathunt_core::latency_box::reception::Reception;

use super::descriptor::{done, is_ready, Descriptor};
use super::{udp, Framing, Link};
use crate::error::{Error, Result};

/// Both directions of a connected socket.
pub(super) fn link(socket: OwnedFd) -> Link {
    let socket = Descriptor::socket(socket);
    Link {
        outlet: Box::new(socket.clone()),
        inlet: Box::new(socket),
        framing: Framing::Stream,
        queues: true,
        reception: Reception::Blocking,
        lifeline: None,
        facts: Vec::new(),
    }
}

/// The box's end of TCP.
///
/// # Errors
/// If there is no listener.
pub fn connect_tcp(address: &str) -> Result<Link> {
    let peers = udp::resolve(address)?;
    let limit = std::time::Duration::from_secs(2);
    let mut last = io::Error::from_raw_os_error(libc::EADDRNOTAVAIL);
    for peer in peers {
        match TcpStream::connect_timeout(&peer, limit) {
            Ok(stream) => {
                stream.set_nodelay(true).map_err(|error| Error::new("set TCP_NODELAY on", address, error))?;
                return Ok(link(stream.into()));
            }
            Err(error) => last = error,
        }
    }
    Err(Error::new("connect to", format!("tcp:{address}"), last))
}

/// The box's end of a socket in the file system.
///
/// # Errors
/// If there is no listener.
pub fn connect_unix(path: &str) -> Result<Link> {
    let stream = UnixStream::connect(path).map_err(|error| match error.kind() {
        // Errors that waiting may cure are waited for.
        io::ErrorKind::NotFound => Error::new("connect to", format!("unix:{path}"), error),
        _ => {
            let hint = path_hint(&error);
            Error::new("connect to", format!("unix:{path}"), error).hint(hint)
        }
    })?;
    Ok(link(stream.into()))
}

fn vsock() -> io::Result<OwnedFd> {
    // SAFETY: no pointers; the descriptor is ours.
    let fd = done(unsafe { libc::socket(libc::AF_VSOCK, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: just made, owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn vsock_address(cid: u32, port: u32) -> libc::sockaddr_vm {
    // SAFETY: sockaddr_vm is plain integers, for which zeros are valid.
    let mut address: libc::sockaddr_vm = unsafe { std::mem::zeroed() };
    address.svm_family = libc::AF_VSOCK as libc::sa_family_t;
    (address.svm_cid, address.svm_port) = (cid, port);
    address
}

const VSOCK_SIZE: libc::socklen_t = size_of::<libc::sockaddr_vm>() as libc::socklen_t;

/// The box's end of vsock.
///
/// # Errors
/// If the kernel has no vsock, or there is no listener.
pub fn connect_vsock(cid: u32, port: u32) -> Result<Link> {
    let failed = |error: io::Error| {
        let hint = match error.raw_os_error() {
            Some(libc::ETIMEDOUT | libc::ENODEV | libc::EHOSTUNREACH) => {
                "there is no such machine: 2 is the host, 1 this machine (needs the module vsock_loopback)"
            }
            Some(libc::EAFNOSUPPORT) => "the kernel has no vsock: load the module vsock",
            _ => "",
        };
        Error::new("connect to", format!("vsock:{cid}:{port}"), error).hint(hint)
    };
    let socket = vsock().map_err(failed)?;
    let address = vsock_address(cid, port);
    // SAFETY: `address` is valid to read for its size.
    done(unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), VSOCK_SIZE) })
        .map_err(failed)?;
    Ok(link(socket))
}

fn path_hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "access denied: name a path that both ends may use",
        io::ErrorKind::NotFound => "its directory does not exist",
        io::ErrorKind::InvalidInput => "a path of a socket has at most 107 bytes",
        _ => "",
    }
}

enum Kind {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
    Vsock(OwnedFd),
}

/// A listening socket.
pub struct Streams {
    kind: Kind,
}

/// Whether the socket at `path` has no listener: connect() fails with ECONNREFUSED, whatever the type of the socket was.
fn is_left_over(path: &str) -> bool {
    // SAFETY: sockaddr_un is plain integers, for which zeros are valid.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    if path.len() >= address.sun_path.len() {
        return false;
    }
    for (to, from) in address.sun_path.iter_mut().zip(path.bytes()) {
        *to = from as libc::c_char;
    }
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers.
    let socket = match unsafe { libc::socket(libc::AF_UNIX, kind, 0) } {
        -1 => return false,
        // SAFETY: just made, owned by nobody else.
        raw => unsafe { OwnedFd::from_raw_fd(raw) },
    };
    let size = size_of_val(&address) as libc::socklen_t;
    // SAFETY: `address` is valid to read for its size.
    let connected = unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), size) };
    connected != 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ECONNREFUSED)
}

impl Streams {
    /// TCP.
    ///
    /// # Errors
    /// If the address is not of this machine or in use.
    pub fn tcp(address: &str) -> Result<Streams> {
        let listener = TcpListener::bind(&udp::resolve(address)?[..]).map_err(|error| {
            let hint = match error.kind() {
                io::ErrorKind::AddrInUse => "another program has that port: stop it or name another one",
                io::ErrorKind::AddrNotAvailable => {
                    "the responder listens on an address of its own machine, or 0.0.0.0 for all"
                }
                _ => "",
            };
            Error::new("listen on", format!("tcp:{address}"), error).hint(hint)
        })?;
        Ok(Streams { kind: Kind::Tcp(listener) })
    }

    /// A socket in the file system. One left by a killed responder of the same user is removed.
    ///
    /// # Errors
    /// If another file has that name, or another responder listens.
    pub fn unix(path: &str) -> Result<Streams> {
        let failed = |error: io::Error| {
            let hint = path_hint(&error);
            Error::new("listen on", format!("unix:{path}"), error).hint(hint)
        };
        // SAFETY: no preconditions.
        let me = unsafe { libc::geteuid() };
        if let Ok(there) = fs::symlink_metadata(path) {
            let is_ours = there.file_type().is_socket() && there.uid() == me;
            if !is_ours || !is_left_over(path) {
                let hint = "the path exists, or another responder listens: name another path";
                return Err(Error::refused("listen on", format!("unix:{path}"), hint));
            }
            fs::remove_file(path).map_err(failed)?;
        }
        let listener = UnixListener::bind(path).map_err(failed)?;
        Ok(Streams { kind: Kind::Unix(listener, PathBuf::from(path)) })
    }

    /// vsock, for guests and the host alike.
    ///
    /// # Errors
    /// If the kernel has no vsock or the port is in use.
    pub fn vsock(port: u32) -> Result<Streams> {
        let failed = |error| Error::new("listen on", format!("vsock port {port}"), error);
        let socket = vsock().map_err(failed)?;
        let address = vsock_address(libc::VMADDR_CID_ANY, port);
        // SAFETY: `address` is valid to read for its size.
        done(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), VSOCK_SIZE) })
            .map_err(failed)?;
        // SAFETY: no pointers.
        done(unsafe { libc::listen(socket.as_raw_fd(), 1) }).map_err(failed)?;
        Ok(Streams { kind: Kind::Vsock(socket) })
    }

    fn raw(&self) -> i32 {
        match &self.kind {
            Kind::Tcp(listener) => listener.as_raw_fd(),
            Kind::Unix(listener, _) => listener.as_raw_fd(),
            Kind::Vsock(socket) => socket.as_raw_fd(),
        }
    }

    /// Whether another box has connected.
    pub(super) fn is_called(&self) -> bool {
        is_ready(self.raw(), 0)
    }

    /// Waits at most 100 ms for the next box.
    ///
    /// # Errors
    /// If the socket is broken.
    pub fn wait(&mut self) -> Result<Option<Link>> {
        if !is_ready(self.raw(), 100) {
            return Ok(None);
        }
        // SAFETY: no addresses are asked for; the descriptor is ours.
        let fd = unsafe {
            libc::accept4(self.raw(), std::ptr::null_mut(), std::ptr::null_mut(), libc::SOCK_CLOEXEC)
        };
        let Ok(fd) = done(fd) else { return Ok(None) }; // it left before it was accepted
        if matches!(self.kind, Kind::Tcp(_)) {
            let on: libc::c_int = 1;
            let size = size_of_val(&on) as libc::socklen_t;
            // SAFETY: `on` is valid to read for its size.
            unsafe {
                libc::setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, (&raw const on).cast(), size)
            };
        }
        // SAFETY: just made, owned by nobody else.
        Ok(Some(link(unsafe { OwnedFd::from_raw_fd(fd) })))
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        if let Kind::Unix(_, path) = &self.kind {
            let _ = fs::remove_file(path);
        }
    }
}
