//! Channels between a box and its responder: one file per kind.
//!
//! A channel has two directions, each used by one thread: an [`Outlet`] sends whole messages, an [`Inlet`] blocks until bytes
//! arrive. No call allocates or makes another system call than the channel's own. Messages and their evaluation are in
//! `lathunt_core::latency_box`; the threads in [`crate::latency_box`].
//!
//! A blocked call ends by a signal of ours that does nothing (`signals::wake_signal`, EINTR), or, if a signal does not
//! interrupt it, by a time limit of its own.

pub mod descriptor;
pub mod ether;
pub mod gpio;
pub mod local;
pub mod lock;
pub mod memory;
pub mod mqueue;
pub mod reception;
pub mod rendezvous;
pub mod stream;
pub mod sysv;
pub mod tty;
pub mod udp;
pub mod wake;

use std::io;
use std::os::fd::{OwnedFd, RawFd};

use lathunt_core::latency_box::channel::Channel;
use lathunt_core::latency_box::message::SIZE;
use lathunt_core::latency_box::reception::Reception;

use crate::error::Result;

/// Sends messages.
pub trait Outlet: Send {
    /// Sends one message.
    ///
    /// # Errors
    /// As the system call. `WouldBlock`: the other side is not there yet or its queue is full.
    fn send(&mut self, message: &[u8; SIZE]) -> io::Result<()>;
}

/// Receives bytes.
pub trait Inlet: Send {
    /// Blocks until bytes arrive; returns their number in `buffer`, 0: the other side closed the channel.
    ///
    /// # Errors
    /// `Interrupted`: by a signal or a time limit, nothing was received. Else as the system call.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize>;

    /// Descriptor that becomes readable when bytes arrive; `None`: this channel has none.
    fn descriptor(&self) -> Option<RawFd> {
        None
    }

    /// As [`Inlet::receive`], without blocking.
    ///
    /// # Errors
    /// `WouldBlock`: nothing has arrived.
    fn receive_now(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.descriptor() {
            Some(fd) if descriptor::is_ready(fd, 0) => self.receive(buffer),
            _ => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// From now on accepts only the sender of the last message (on a channel that is open to all).
    ///
    /// # Errors
    /// As the system call.
    fn adopt(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Accepts all senders again.
    fn release(&mut self) {}
}

/// Whether a channel preserves message boundaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// It does.
    Datagrams,
    /// A stream of bytes.
    Stream,
    /// It carries edges only, as events of `lathunt_core::latency_box::edge`.
    Edges,
}

/// Both directions of a channel, as one end sees them.
pub struct Link {
    /// To the other end.
    pub outlet: Box<dyn Outlet>,
    /// From the other end.
    pub inlet: Box<dyn Inlet>,
    /// Message boundaries.
    pub framing: Framing,
    /// Several stimuli may be in flight.
    pub queues: bool,
    /// How the inlet waits.
    pub reception: Reception,
    /// Closed by the kernel when the process at the other end dies; `None` if the channel itself reports that.
    pub lifeline: Option<OwnedFd>,
    /// Facts about the channel for the run.
    pub facts: Vec<String>,
}

/// Which end of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Sends stimuli.
    Box,
    /// Answers.
    Responder,
}

impl Side {
    /// Direction in which this side sends: 0 stimuli, 1 answers.
    #[must_use]
    pub fn sends(self) -> usize {
        match self {
            Side::Box => 0,
            Side::Responder => 1,
        }
    }

    /// Direction in which it receives.
    #[must_use]
    pub fn receives(self) -> usize {
        1 - self.sends()
    }
}

/// Opens the box's end of a channel.
///
/// # Errors
/// One line: what is absent or refused, and what to do. [`is_absent`]: an error for which waiting may help.
pub fn connect(channel: &Channel) -> Result<Link> {
    match channel {
        Channel::Udp(address) => udp::connect(address),
        Channel::Tcp(address) => stream::connect_tcp(address),
        Channel::Unix(path) => stream::connect_unix(path),
        Channel::Vsock(cid, port) => stream::connect_vsock(*cid, *port),
        Channel::Tty(device, rate) => tty::open(device, *rate),
        Channel::Virtio(device) => tty::open_port(device),
        Channel::Ether(interface) => ether::open(interface, Side::Box),
        Channel::Gpio(chip, out, input) => gpio::open(chip, *out, *input),
        Channel::Local(local) => rendezvous::connect(*local),
        _ => Err(crate::error::Error::refused("open", channel.to_string(), "this channel is not built in")),
    }
}

/// Whether the other end may just not be there *yet*: refused, no such socket, no listener.
#[must_use]
pub fn is_absent(error: &crate::error::Error) -> bool {
    matches!(error.errno(), Some(libc::ECONNREFUSED | libc::ENOENT | libc::ECONNRESET | libc::ENODEV))
}

/// The responder's end: accepts boxes.
pub enum Listener {
    /// Streams, one box after another.
    Streams(stream::Streams),
    /// Channels of one machine.
    Local(rendezvous::Rendezvous),
    /// A device or socket that exists permanently; taken by the first [`Listener::wait`], returned by [`Listener::back`].
    Standing(Option<Link>),
}

impl Listener {
    /// Opens the responder's end of a channel.
    ///
    /// # Errors
    /// One line: what is absent, busy or refused, and what to do.
    pub fn open(channel: &Channel) -> Result<Listener> {
        Ok(match channel {
            Channel::Udp(address) => Listener::Standing(Some(udp::bind(address)?)),
            Channel::Tcp(address) => Listener::Streams(stream::Streams::tcp(address)?),
            Channel::Unix(path) => Listener::Streams(stream::Streams::unix(path)?),
            Channel::Vsock(_, port) => Listener::Streams(stream::Streams::vsock(*port)?),
            Channel::Local(local) => Listener::Local(rendezvous::Rendezvous::listen(*local)?),
            Channel::Ether(interface) => Listener::Standing(Some(ether::open(interface, Side::Responder)?)),
            other => Listener::Standing(Some(connect(other)?)),
        })
    }

    /// Waits at most 100 ms for the next box.
    ///
    /// # Errors
    /// If the listener is broken.
    pub fn wait(&mut self) -> Result<Option<Link>> {
        match self {
            Listener::Streams(streams) => streams.wait(),
            Listener::Local(rendezvous) => rendezvous.wait(),
            Listener::Standing(link) => Ok(link.take()),
        }
    }

    /// Whether another box waits to be served, on a channel that carries one.
    #[must_use]
    pub fn is_called(&self) -> bool {
        matches!(self, Listener::Streams(streams) if streams.is_called())
    }

    /// Returns the link of a finished session.
    pub fn back(&mut self, link: Link) {
        if let Listener::Standing(place) = self {
            *place = Some(link);
        }
    }
}
