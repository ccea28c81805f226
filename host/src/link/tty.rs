//! Serial lines, pseudo-terminals and virtio ports: raw mode, a read returns as soon as one byte is there.
//!
//! The transmission time of a character is part of a round trip over a serial line and is reported (10 bits: start, 8, stop).
//! If the driver supports it, low latency is switched on (ASYNC_LOW_LATENCY, which today matters for FTDI's latency timer)
//! and restored.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};

use lathunt_core::latency_box::message::SIZE;
use lathunt_core::latency_box::reception::Reception;

use super::descriptor::{done, Descriptor};
use super::{Framing, Inlet, Link};
use crate::error::{Error, Result};

/// Opens a serial line.
///
/// # Errors
/// If it is absent, busy, not a terminal, or access is denied.
pub fn open(device: &str, rate: u32) -> Result<Link> {
    let fd = open_device(device)?;
    let before = raw_mode(fd.as_raw_fd(), Some(rate)).map_err(|error| {
        let hint = match error.raw_os_error() {
            Some(libc::ENOTTY) => "it is not a serial line",
            Some(libc::EIO) => "the driver found no port for this device",
            _ => "",
        };
        Error::new("set raw mode on", device, error).hint(hint)
    })?;
    let character_us = 10.0 * 1e6 / f64::from(rate);
    let low_latency = LowLatency::set(fd.as_raw_fd());
    let facts = vec![
        format!(
            "serial line {device} at {rate}/s: {character_us:.1} µs a character, {:.0} µs a message of {SIZE} bytes each way, in the \
             round trip",
            character_us * SIZE as f64
        ),
        match &low_latency {
            Some(_) => "the driver's low latency mode is on".to_owned(),
            None => "the driver has no low latency mode".to_owned(),
        },
    ];
    let descriptor = Descriptor::file(fd);
    let inlet = Terminal { descriptor: descriptor.clone(), before: Some(before), _low_latency: low_latency };
    Ok(link(Box::new(inlet), descriptor, facts))
}

/// Opens a port of virtio-serial.
///
/// # Errors
/// If it is absent, busy or access is denied.
pub fn open_port(device: &str) -> Result<Link> {
    // Checked before it is opened: opening has effects on a FIFO or a watchdog, and another file would be overwritten.
    let mut look = File::options();
    look.read(true).custom_flags(libc::O_PATH);
    let found = look.open(device).map_err(|error| refused(device, &error))?;
    if !is_port(&found).map_err(|error| Error::new("open", device, error))? {
        return Err(Error::stated(format!(
            "cannot open {device}: it is not a port of virtio-serial; these are in /dev/virtio-ports"
        )));
    }
    let fd = open_device(&format!("/proc/self/fd/{}", found.as_raw_fd()))?;
    let descriptor = Descriptor::file(fd);
    let inlet = Terminal { descriptor: descriptor.clone(), before: None, _low_latency: None };
    Ok(link(Box::new(inlet), descriptor, Vec::new()))
}

/// Whether it is a character device of the class `virtio-ports` (drivers/char/virtio_console.c).
fn is_port(found: &File) -> io::Result<bool> {
    let metadata = found.metadata()?;
    if !metadata.file_type().is_char_device() {
        return Ok(false);
    }
    let number = metadata.rdev();
    let place = format!("/sys/dev/char/{}:{}/subsystem", libc::major(number), libc::minor(number));
    let class = std::fs::read_link(place).ok();
    Ok(class.is_some_and(|class| class.ends_with("virtio-ports")))
}

fn link(inlet: Box<dyn Inlet>, outlet: Descriptor, facts: Vec<String>) -> Link {
    Link {
        outlet: Box::new(outlet),
        inlet,
        framing: Framing::Stream,
        queues: true,
        reception: Reception::Blocking,
        lifeline: None,
        facts,
    }
}

fn open_device(device: &str) -> Result<OwnedFd> {
    let path = CString::new(device).map_err(|error| Error::new("open", device, error))?;
    // Without O_NONBLOCK the open would wait for the carrier of a line.
    let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC | libc::O_NONBLOCK;
    // SAFETY: a NUL-terminated string.
    let fd = done(unsafe { libc::open(path.as_ptr(), flags) }).map_err(|error| refused(device, &error))?;
    // SAFETY: just made, owned by nobody else.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: no pointers.
    done(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, libc::O_RDWR) })
        .map_err(|error| Error::new("open", device, error))?;
    Ok(fd)
}

/// Only the absence of a network peer is worth waiting for, not that of a device.
fn refused(device: &str, error: &io::Error) -> Error {
    let hint = match error.raw_os_error() {
        Some(libc::EACCES) => "; access denied: run as root or join the device's group (dialout)",
        Some(libc::EBUSY) => "; another program uses it",
        Some(libc::ENOENT | libc::ENXIO | libc::ENODEV) => "; there is no such device",
        _ => "",
    };
    Error::stated(format!("cannot open {device}: {error}{hint}"))
}

/// Raw mode, one byte per read, no flow control, modem lines ignored; returns the old settings.
pub(super) fn raw_mode(fd: RawFd, rate: Option<u32>) -> io::Result<libc::termios> {
    // SAFETY: termios is plain integers, for which zeros are valid.
    let mut mode: libc::termios = unsafe { std::mem::zeroed() };
    // SAFETY: `mode` is valid to write.
    done(unsafe { libc::tcgetattr(fd, &mut mode) })?;
    let before = mode;
    // SAFETY: `mode` was filled by tcgetattr.
    unsafe { libc::cfmakeraw(&mut mode) };
    mode.c_cflag |= libc::CLOCAL | libc::CREAD;
    mode.c_cflag &= !(libc::CRTSCTS | libc::CSTOPB | libc::PARENB);
    (mode.c_cc[libc::VMIN], mode.c_cc[libc::VTIME]) = (1, 0);
    if let Some(speed) = rate.and_then(speed) {
        // Set directly: libc binds cfsetspeed to a versioned symbol, which a static C library lacks.
        mode.c_cflag = (mode.c_cflag & !libc::CBAUD) | speed;
        (mode.c_ispeed, mode.c_ospeed) = (speed, speed);
    }
    // SAFETY: `mode` is valid to read; the buffers hold stale data.
    done(unsafe { libc::tcsetattr(fd, libc::TCSANOW, &mode) })?;
    // SAFETY: no pointers.
    unsafe { libc::tcflush(fd, libc::TCIOFLUSH) };
    Ok(before)
}

fn speed(rate: u32) -> Option<libc::speed_t> {
    Some(match rate {
        1_200 => libc::B1200,
        2_400 => libc::B2400,
        4_800 => libc::B4800,
        9_600 => libc::B9600,
        19_200 => libc::B19200,
        38_400 => libc::B38400,
        57_600 => libc::B57600,
        115_200 => libc::B115200,
        230_400 => libc::B230400,
        460_800 => libc::B460800,
        500_000 => libc::B500000,
        576_000 => libc::B576000,
        921_600 => libc::B921600,
        1_000_000 => libc::B1000000,
        1_500_000 => libc::B1500000,
        2_000_000 => libc::B2000000,
        3_000_000 => libc::B3000000,
        4_000_000 => libc::B4000000,
        _ => return None,
    })
}

/// A line whose settings are restored.
struct Terminal {
    before: Option<libc::termios>,
    // Declared before the descriptor: it is restored while that is open.
    _low_latency: Option<LowLatency>,
    descriptor: Descriptor,
}

impl Inlet for Terminal {
    #[inline]
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.descriptor.receive(buffer)
    }

    fn descriptor(&self) -> Option<RawFd> {
        Some(self.descriptor.raw())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // SAFETY: `before` was filled by tcgetattr of the same descriptor, which is still open.
            unsafe { libc::tcsetattr(self.descriptor.raw(), libc::TCSANOW, before) };
        }
    }
}

/// `struct serial_struct` of include/uapi/linux/serial.h: only its flags are changed.
#[repr(C)]
#[derive(Clone, Copy)]
struct Serial {
    kind: libc::c_int,
    line: libc::c_int,
    port: libc::c_uint,
    irq: libc::c_int,
    flags: libc::c_int,
    rest: [u8; 128],
}

const LOW_LATENCY: libc::c_int = 1 << 13;

struct LowLatency {
    fd: RawFd,
    before: Serial,
}

impl LowLatency {
    /// Switches it on; `None` if it is unsupported, already on, or refused.
    fn set(fd: RawFd) -> Option<LowLatency> {
        let mut serial = Serial { kind: 0, line: 0, port: 0, irq: 0, flags: 0, rest: [0; 128] };
        // SAFETY: `serial` is at least as long as the kernel's structure (72 bytes) and valid to write.
        done(unsafe { libc::ioctl(fd, libc::TIOCGSERIAL as _, &mut serial) }).ok()?;
        let before = serial;
        if serial.flags & LOW_LATENCY != 0 {
            return None;
        }
        serial.flags |= LOW_LATENCY;
        // SAFETY: as above.
        done(unsafe { libc::ioctl(fd, libc::TIOCSSERIAL as _, &serial) }).ok()?;
        Some(LowLatency { fd, before })
    }
}

impl Drop for LowLatency {
    fn drop(&mut self) {
        // SAFETY: `before` was filled by the kernel; dropped before the descriptor that Terminal owns.
        unsafe { libc::ioctl(self.fd, libc::TIOCSSERIAL as _, &self.before) };
    }
}
