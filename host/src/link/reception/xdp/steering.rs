//! The XDP program (src/bpf/steer.bpf.c), the flow that it passes to our sockets, and the interface where that arrives.
//!
//! The program is attached by a link: when the process ends, in whatever way, the kernel detaches it.

use std::io;
use std::mem::ManuallyDrop;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{FromRawFd, RawFd};

use libbpf_rs::{Link, Map, MapCore, MapFlags, Object};

use crate::bpf_object;
use crate::error::{Error, Result};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/steer.bpf.o.gz"));

/// Room in the program's map of sockets.
const QUEUES: u32 = 64;

/// Whether `fd` is a UDP socket.
///
/// # Errors
/// One line, if it is not.
pub(super) fn check(fd: RawFd) -> Result<()> {
    let (mut protocol, mut size) = (0, size_of::<libc::c_int>() as libc::socklen_t);
    // SAFETY: `protocol` is valid to write for `size`.
    let asked = unsafe {
        libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL, (&raw mut protocol).cast(), &mut size)
    };
    match asked == 0 && protocol == libc::IPPROTO_UDP {
        true => Ok(()),
        false => Err(Error::refused("receive", "by xdp on this channel", "xdp needs udp:HOST:PORT")),
    }
}

/// The datagrams of one sender to one socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Flow {
    source: SocketAddr,
    destination: SocketAddr,
}

/// An interface of the machine.
pub(super) struct Interface {
    pub(super) index: u32,
    /// Receive queues.
    pub(super) queues: u32,
}

impl Flow {
    /// From the peer of a connected socket.
    ///
    /// # Errors
    /// As the system calls.
    pub(super) fn of(fd: RawFd) -> io::Result<Flow> {
        // SAFETY: an open UDP socket; it is not closed here.
        let socket = ManuallyDrop::new(unsafe { UdpSocket::from_raw_fd(fd) });
        let plain = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
        Ok(Flow { source: plain(socket.peer_addr()?), destination: plain(socket.local_addr()?) })
    }

    /// Where its datagrams arrive: the interface that has the address, or loopback between addresses of this machine.
    ///
    /// # Errors
    /// There is none, or it has too many queues.
    pub(super) fn interface(&self) -> io::Result<Interface> {
        let own = addresses()?;
        let named =
            |ip: IpAddr| own.iter().find(|(_, address)| *address == ip).map(|(name, _)| name.as_str());
        let name = match named(self.source.ip()) {
            Some(_) => "lo",
            None => named(self.destination.ip()).ok_or(io::ErrorKind::AddrNotAvailable)?,
        };
        // The alias of an address is of the same interface: "eth0:1".
        let name = name.split(':').next().unwrap_or(name);
        let c_name = std::ffi::CString::new(name)?;
        // SAFETY: a NUL-terminated string.
        let index = unsafe { libc::if_nametoindex(c_name.as_ptr()) };
        if index == 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Interface { index, queues: queues(name)? })
    }

    /// `struct flow` of the program.
    fn bytes(&self) -> Option<[u8; 40]> {
        let (kind, source, destination) = match (self.source.ip(), self.destination.ip()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                (0x0800_u16, padded(&source.octets()), padded(&destination.octets()))
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => (0x86dd, source.octets(), destination.octets()),
            _ => return None,
        };
        let mut bytes = [0; 40];
        bytes[..2].copy_from_slice(&kind.to_be_bytes());
        bytes[2..4].copy_from_slice(&self.source.port().to_be_bytes());
        bytes[4..6].copy_from_slice(&self.destination.port().to_be_bytes());
        bytes[8..24].copy_from_slice(&source);
        bytes[24..].copy_from_slice(&destination);
        Some(bytes)
    }
}

fn padded(octets: &[u8; 4]) -> [u8; 16] {
    let mut all = [0; 16];
    all[..4].copy_from_slice(octets);
    all
}

/// Receive queues of an interface.
fn queues(name: &str) -> io::Result<u32> {
    let entries = std::fs::read_dir(format!("/sys/class/net/{name}/queues"));
    let count = entries.map_or(1, |entries| {
        // Without sysfs of this network namespace: one.
        entries
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().starts_with("rx-"))
            .count()
            .max(1)
    });
    u32::try_from(count).ok().filter(|&count| count <= QUEUES).ok_or_else(|| {
        io::Error::other(format!("{name} has {count} receive queues, at most {QUEUES} are supported: reduce them with `ethtool -L`"))
    })
}

/// Addresses of the interfaces, with their names.
fn addresses() -> io::Result<Vec<(String, IpAddr)>> {
    let mut first = std::ptr::null_mut();
    // SAFETY: `first` is valid to write.
    super::super::super::descriptor::done(unsafe { libc::getifaddrs(&mut first) })?;
    let mut found = Vec::new();
    let mut next = first;
    while !next.is_null() {
        // SAFETY: an entry of the list, until it is freed below; the address has the size of its family.
        unsafe {
            let name = std::ffi::CStr::from_ptr((*next).ifa_name).to_string_lossy().into_owned();
            let address = (*next).ifa_addr;
            if !address.is_null() {
                let ip = match i32::from((*address).sa_family) {
                    libc::AF_INET => {
                        let address = address.cast::<libc::sockaddr_in>().read_unaligned();
                        Some(IpAddr::from(address.sin_addr.s_addr.to_ne_bytes()))
                    }
                    libc::AF_INET6 => {
                        let address = address.cast::<libc::sockaddr_in6>().read_unaligned();
                        Some(IpAddr::from(address.sin6_addr.s6_addr))
                    }
                    _ => None,
                };
                found.extend(ip.map(|ip| (name, ip)));
            }
            next = (*next).ifa_next;
        }
    }
    // SAFETY: from getifaddrs, and not used any more.
    unsafe { libc::freeifaddrs(first) };
    Ok(found)
}

/// The loaded program.
pub(super) struct Steering {
    object: Object,
    attached: Option<(Flow, Link)>,
}

impl Steering {
    /// Loads the program.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub(super) fn load() -> Result<Steering> {
        let object = bpf_object::load("steer", bpf_object::open("steer", OBJECT)?)?;
        Ok(Steering { object, attached: None })
    }

    /// Whether it passes this flow.
    pub(super) fn steers(&self, flow: &Flow) -> bool {
        self.attached.as_ref().is_some_and(|(attached, _)| attached == flow)
    }

    fn map(&self, name: &str) -> io::Result<Map<'_>> {
        self.object.maps().find(|map| map.name() == name).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Datagrams of this queue go to this socket.
    ///
    /// # Errors
    /// As the system call.
    pub(super) fn pass_to(&self, queue: u32, socket: RawFd) -> io::Result<()> {
        self.map("sockets")?
            .update(&queue.to_ne_bytes(), &socket.to_ne_bytes(), MapFlags::ANY)
            .map_err(io::Error::other)
    }

    /// Passes the flow from now on.
    ///
    /// # Errors
    /// As the system calls: another XDP program is attached.
    pub(super) fn start(&mut self, flow: Flow, interface: u32) -> io::Result<()> {
        let bytes = flow.bytes().ok_or(io::ErrorKind::Unsupported)?;
        let update = self.map("wanted")?.update(&0_u32.to_ne_bytes(), &bytes, MapFlags::ANY);
        update.map_err(io::Error::other)?;
        let program = self.object.progs_mut().next().ok_or(io::ErrorKind::NotFound)?;
        let link = program.attach_xdp(interface as i32).map_err(|error| {
            io::Error::other(format!(
                "cannot attach the XDP program (another one may be there: see `ip link`): {error}"
            ))
        })?;
        self.attached = Some((flow, link));
        Ok(())
    }

    /// Passes nothing any more.
    pub(super) fn stop(&mut self) {
        self.attached = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_is_told_to_the_program_as_it_is_in_the_packet() {
        let flow = |source: &str, destination: &str| Flow {
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
        };
        let bytes = flow("192.0.2.1:258", "192.0.2.9:7777").bytes().unwrap();
        assert_eq!(bytes[..12], [8, 0, 1, 2, 0x1e, 0x61, 0, 0, 192, 0, 2, 1]);
        assert_eq!(bytes[24..28], [192, 0, 2, 9]);
        let bytes = flow("[2001:db8::1]:1", "[2001:db8::2]:2").bytes().unwrap();
        assert_eq!((bytes[..2].to_vec(), bytes[23], bytes[39]), (vec![0x86, 0xdd], 1, 2));
    }

    #[test]
    fn between_addresses_of_this_machine_it_is_loopback() {
        let flow =
            Flow { source: "127.0.0.1:1".parse().unwrap(), destination: "127.0.0.1:2".parse().unwrap() };
        let interface = flow.interface().unwrap();
        assert_eq!((interface.index, interface.queues), (1, 1));
        let elsewhere =
            Flow { source: "240.0.0.1:1".parse().unwrap(), destination: "240.0.0.2:2".parse().unwrap() };
        assert!(elsewhere.interface().is_err());
    }
}
