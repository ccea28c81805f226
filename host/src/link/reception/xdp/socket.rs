//! One AF_XDP socket: its memory, its rings, and the datagram in a frame. Documentation/networking/af_xdp.rst.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::Ordering;

use super::super::super::descriptor::done;
use super::super::mapping::Mapping;
use crate::error::{Error, Result};

/// Frames, and entries of each ring; a power of two.
const FRAMES: u32 = 64;
/// Bytes of a frame; longer packets are dropped by the kernel.
const FRAME: u32 = 2_048;

/// Longest wait for a queue that another socket has.
const FREED_WITHIN_MS: u32 = 1_000;

const ETHERNET: usize = 14;
const UDP: usize = 8;

/// Whether the kernel opens such sockets for us.
///
/// # Errors
/// One line with what is missing.
pub(super) fn check() -> Result<()> {
    open().map(drop).map_err(|error| {
        let hint = match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => "run as root",
            Some(libc::EAFNOSUPPORT) => "the kernel has no AF_XDP (CONFIG_XDP_SOCKETS)",
            _ => "",
        };
        Error::new("receive", "by xdp", error).hint(hint)
    })
}

fn open() -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    let fd = done(unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: just made, owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn set<T>(fd: &OwnedFd, option: libc::c_int, value: &T) -> io::Result<()> {
    let size = size_of::<T>() as libc::socklen_t;
    let value: *const T = value;
    // SAFETY: `value` is valid to read for its size.
    done(unsafe { libc::setsockopt(fd.as_raw_fd(), libc::SOL_XDP, option, value.cast(), size) }).map(drop)
}

/// A ring: words and entries at these offsets of its mapping.
struct Ring {
    mapping: Mapping,
    at: libc::xdp_ring_offset,
}

impl Ring {
    fn map(fd: &OwnedFd, at: libc::xdp_ring_offset, entry: usize, offset: libc::off_t) -> io::Result<Ring> {
        let length = at.desc as usize + FRAMES as usize * entry;
        Ok(Ring { mapping: Mapping::new(fd.as_raw_fd(), length, offset)?, at })
    }

    /// Entry number `index`, which wraps.
    fn entry<T>(&self, index: u32) -> *mut T {
        // SAFETY: within the mapping: it was mapped for this many entries of this type.
        unsafe { self.mapping.start.add(self.at.desc as usize).cast::<T>().add((index % FRAMES) as usize) }
    }
}

/// A socket on one receive queue.
pub(super) struct Socket {
    fd: OwnedFd,
    /// Frames that the kernel may fill.
    fill: Ring,
    /// Frames that it has filled.
    filled: Ring,
    memory: Mapping,
    /// Of frames that were sent: the kernel demands it.
    _sent: Ring,
}

// SAFETY: the mappings are used by the one thread that has `&mut self`; nothing is bound to the thread that made them.
unsafe impl Send for Socket {}

impl Socket {
    /// Opens a socket on this queue, in copy mode: every driver has it.
    ///
    /// # Errors
    /// As the system calls; EBUSY: another program has the queue.
    pub(super) fn open(interface: u32, queue: u32) -> io::Result<Socket> {
        let fd = open()?;
        let memory = Mapping::anonymous((FRAMES * FRAME) as usize)?;
        // SAFETY: plain integers, for which zeros are valid.
        let mut area: libc::xdp_umem_reg = unsafe { mem::zeroed() };
        area.addr = memory.start as u64;
        area.len = u64::from(FRAMES * FRAME);
        area.chunk_size = FRAME;
        set(&fd, libc::XDP_UMEM_REG, &area)?;
        for ring in [libc::XDP_UMEM_FILL_RING, libc::XDP_UMEM_COMPLETION_RING, libc::XDP_RX_RING] {
            set(&fd, ring, &FRAMES)?;
        }
        // SAFETY: plain integers, for which zeros are valid.
        let mut offsets: libc::xdp_mmap_offsets = unsafe { mem::zeroed() };
        let mut size = size_of_val(&offsets) as libc::socklen_t;
        // SAFETY: `offsets` is valid to write for `size`.
        done(unsafe {
            let to = (&raw mut offsets).cast();
            libc::getsockopt(fd.as_raw_fd(), libc::SOL_XDP, libc::XDP_MMAP_OFFSETS, to, &mut size)
        })?;
        if (size as usize) < size_of_val(&offsets) {
            return Err(io::Error::from_raw_os_error(libc::ENOSYS)); // before Linux 5.4
        }
        let (address, descriptor) = (size_of::<u64>(), size_of::<libc::xdp_desc>());
        let fill_at = libc::XDP_UMEM_PGOFF_FILL_RING as libc::off_t;
        let sent_at = libc::XDP_UMEM_PGOFF_COMPLETION_RING as libc::off_t;
        let socket = Socket {
            fill: Ring::map(&fd, offsets.fr, address, fill_at)?,
            _sent: Ring::map(&fd, offsets.cr, address, sent_at)?,
            filled: Ring::map(&fd, offsets.rx, descriptor, libc::XDP_PGOFF_RX_RING)?,
            fd,
            memory,
        };
        (0..FRAMES).for_each(|frame| socket.give(u64::from(frame * FRAME)));
        // SAFETY: plain integers, for which zeros are valid.
        let mut own: libc::sockaddr_xdp = unsafe { mem::zeroed() };
        own.sxdp_family = libc::AF_XDP as u16;
        own.sxdp_flags = libc::XDP_COPY;
        own.sxdp_ifindex = interface;
        own.sxdp_queue_id = queue;
        let size = size_of_val(&own) as libc::socklen_t;
        // SAFETY: `own` is valid to read for `size`.
        let bind = || done(unsafe { libc::bind(socket.raw(), (&raw const own).cast(), size) });
        let mut bound = bind();
        // The kernel frees the queue of a closed socket later, in a kworker.
        for _ in 0..FREED_WITHIN_MS {
            match &bound {
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                    bound = bind();
                }
                _ => break,
            }
        }
        bound?;
        Ok(socket)
    }

    /// Its descriptor.
    pub(super) fn raw(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Gives a frame to the kernel. The ring has room for all.
    fn give(&self, frame: u64) {
        let producer = self.fill.mapping.word(self.fill.at.producer as u32);
        let at = producer.load(Ordering::Relaxed);
        // SAFETY: the kernel does not read this entry before the producer says so.
        unsafe { self.fill.entry::<u64>(at).write(frame) };
        producer.store(at.wrapping_add(1), Ordering::Release);
    }

    /// Copies the next datagram, or as much as has room; returns its length there, at least 1: an empty one is damaged, not
    /// the end.
    pub(super) fn take(&mut self, buffer: &mut [u8]) -> Option<usize> {
        let consumer = self.filled.mapping.word(self.filled.at.consumer as u32);
        let producer = self.filled.mapping.word(self.filled.at.producer as u32);
        let at = consumer.load(Ordering::Relaxed);
        if at == producer.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: written before the producer said so.
        let entry = unsafe { self.filled.entry::<libc::xdp_desc>(at).read() };
        let within = entry.addr + u64::from(entry.len) <= u64::from(FRAMES * FRAME);
        let length = if within { entry.len as usize } else { 0 };
        // SAFETY: within the memory, and ours until it is given back.
        let frame = unsafe {
            std::slice::from_raw_parts(
                self.memory.start.add(entry.addr as usize * usize::from(within)),
                length,
            )
        };
        let datagram = datagram(frame).unwrap_or_default();
        let n = datagram.len().min(buffer.len());
        buffer[..n].copy_from_slice(&datagram[..n]);
        consumer.store(at.wrapping_add(1), Ordering::Release);
        self.give(entry.addr & !u64::from(FRAME - 1));
        Some(n.max(1))
    }
}

/// The payload of the UDP datagram in an Ethernet frame that the XDP program has passed: IPv4 without options or IPv6
/// without extension headers.
fn datagram(frame: &[u8]) -> Option<&[u8]> {
    let ip = match frame.get(12..ETHERNET)? {
        [0x08, 0x00] => 20,
        [0x86, 0xdd] => 40,
        _ => return None,
    };
    let udp = frame.get(ETHERNET + ip..)?;
    let length = usize::from(u16::from_be_bytes([*udp.get(4)?, *udp.get(5)?]));
    udp.get(UDP..length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(ip: &[u8], kind: [u8; 2], length: u16, payload: &[u8]) -> Vec<u8> {
        let length = length.to_be_bytes();
        let udp = [0x1e, 0x61, 0xb9, 0x3c, length[0], length[1], 0, 0];
        [&[0; 12], &kind[..], ip, &udp, payload].concat()
    }

    #[test]
    fn the_payload_is_cut_by_its_length_and_never_beyond_the_frame() {
        let v4 = |length, payload: &[u8]| frame(&[0; 20], [8, 0], length, payload);
        assert_eq!(datagram(&v4(12, b"abcd")), Some(&b"abcd"[..]));
        assert_eq!(datagram(&v4(10, b"abcd and the padding of a short frame")), Some(&b"ab"[..]));
        assert_eq!(datagram(&frame(&[0; 40], [0x86, 0xdd], 9, b"a")), Some(&b"a"[..]));
        assert_eq!(datagram(&v4(8, b"")), Some(&b""[..]), "empty");
        assert_eq!(datagram(&v4(13, b"abcd")), None, "longer than the frame");
        assert_eq!(datagram(&v4(7, b"abcd")), None, "shorter than its header");
        assert_eq!(datagram(&frame(&[0; 20], [8, 6], 12, b"abcd")), None, "not IP");
        let whole = v4(12, b"abcd");
        for length in 0..whole.len() {
            assert_eq!(datagram(&whole[..length]), None);
        }
    }
}
