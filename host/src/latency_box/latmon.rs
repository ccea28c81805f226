//! Sockets of latmon and latmus: listening, connecting, discovery. The protocol is in `lathunt_core::latency_box::latmon`.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{
    IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream, ToSocketAddrs, UdpSocket,
};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use lathunt_core::latency_box::latmon::wire::announcement;

use crate::error::{Error, Result};
use crate::link::descriptor::is_ready;

/// Interval at which latmon announces its address while no client is connected.
const ANNOUNCE: Duration = Duration::from_secs(5);
/// A peer that accepts nothing for this long is gone.
const SEND_LIMIT: Duration = Duration::from_secs(2);

/// A connection, at either end.
pub struct Peer {
    stream: TcpStream,
    /// Address and port of the other end.
    pub name: String,
}

impl Peer {
    fn new(stream: TcpStream, peer: SocketAddr) -> io::Result<Peer> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(SEND_LIMIT))?;
        stream.set_nonblocking(false)?;
        Ok(Peer { stream, name: peer.to_string() })
    }

    /// latmus's end: IPv4 only, like latmon.
    ///
    /// # Errors
    /// If there is no such host or no listener.
    pub fn connect(host: &str, port: u16) -> Result<Peer> {
        let name = format!("latmon at {host}:{port}");
        let found = (host, port).to_socket_addrs().map_err(|error| {
            Error::new("find", name.clone(), error)
                .hint("write an IPv4 address, a name that resolves, or broadcast")
        })?;
        let Some(address) = found.into_iter().find(SocketAddr::is_ipv4) else {
            return Err(Error::refused("find", name, "latmon has IPv4 only: name an IPv4 address"));
        };
        let failed = |error| {
            Error::new("connect to", name.clone(), error)
                .hint("is the box on, and is no other latmus connected to it?")
        };
        let stream = TcpStream::connect_timeout(&address, Duration::from_secs(5)).map_err(failed)?;
        Peer::new(stream, address).map_err(failed)
    }

    /// Sends all of it.
    ///
    /// # Errors
    /// If the peer is gone or accepts nothing for two seconds.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Data received within `ms`; `None`: none. 0 bytes: the peer is gone.
    ///
    /// # Errors
    /// As recv(2).
    pub fn receive(&mut self, buffer: &mut [u8], ms: i32) -> io::Result<Option<usize>> {
        if !is_ready(self.stream.as_raw_fd(), ms) {
            return Ok(None);
        }
        match self.stream.read(buffer) {
            Ok(n) => Ok(Some(n)),
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => Ok(None),
            // It closed with unread bytes of ours.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => Ok(Some(0)),
            Err(error) => Err(error),
        }
    }
}

/// Waits until a latmon announces its address on UDP `port`. The sender's address counts, as in latmus; the text is
/// returned too. `None`: `is_over` returned true first.
///
/// # Errors
/// If the port is in use.
pub fn discover(port: u16, is_over: &dyn Fn() -> bool) -> Result<Option<(Ipv4Addr, String)>> {
    let what = format!("UDP port {port} for the address of a latmon");
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).map_err(|error| {
        Error::new("listen on", what.clone(), error)
            .hint("another latmus may use it: stop it, or name the host instead of broadcast")
    })?;
    let mut buffer = [0; 64];
    while !is_over() {
        if !is_ready(socket.as_raw_fd(), 100) {
            continue;
        }
        if let Ok((n, SocketAddr::V4(from))) = socket.recv_from(&mut buffer) {
            return Ok(Some((*from.ip(), String::from_utf8_lossy(&buffer[..n]).escape_debug().to_string())));
        }
    }
    Ok(None)
}

/// latmon's end: one client at a time, IPv4.
pub struct Server {
    listener: TcpListener,
    at: SocketAddrV4,
    announced: Instant,
}

impl Server {
    /// Starts listening.
    ///
    /// # Errors
    /// If the address is not of this machine or in use.
    pub fn bind(at: SocketAddrV4) -> Result<Server> {
        let failed = |error: io::Error| {
            let hint = match error.kind() {
                ErrorKind::AddrInUse => {
                    "another program has that port: stop it, or give another one with --listen"
                }
                ErrorKind::AddrNotAvailable => "name an address of this machine, or 0.0.0.0 for all",
                _ => "",
            };
            Error::new("listen on", at.to_string(), error).hint(hint)
        };
        let listener = TcpListener::bind(at).map_err(failed)?;
        let at = match listener.local_addr().map_err(failed)? {
            SocketAddr::V4(at) => at,
            SocketAddr::V6(_) => at,
        };
        Ok(Server { listener, at, announced: Instant::now() })
    }

    /// The address it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddrV4 {
        self.at
    }

    /// Whether a client waits, within `ms`.
    #[must_use]
    pub fn is_wanted(&self, ms: i32) -> bool {
        is_ready(self.listener.as_raw_fd(), ms)
    }

    /// Waits at most 100 ms for a client; announces its address every five seconds.
    #[must_use]
    pub fn wait(&mut self) -> Option<Peer> {
        if !self.is_wanted(100) {
            if self.announced.elapsed() >= ANNOUNCE {
                self.announced = Instant::now();
                let _ = self.announce(); // there may be no receiver
            }
            return None;
        }
        let (stream, from) = self.listener.accept().ok()?; // it left before it was accepted
        self.announced = Instant::now();
        Peer::new(stream, from).ok()
    }

    /// One broadcast datagram: on loopback to loopback only.
    fn announce(&self) -> io::Result<()> {
        let own = *self.at.ip();
        let socket = UdpSocket::bind((own, 0))?;
        socket.set_broadcast(true)?;
        let all = if own.is_loopback() { Ipv4Addr::new(127, 255, 255, 255) } else { Ipv4Addr::BROADCAST };
        socket.connect((all, self.at.port()))?;
        let told = match socket.local_addr()?.ip() {
            IpAddr::V4(from) if own.is_unspecified() => from,
            _ => own,
        };
        socket.send(announcement(told.octets()).as_bytes()).map(drop)
    }
}
