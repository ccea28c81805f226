//! GPIO lines through the character device, version 2 (Linux 5.10): one line is driven, the other is watched for falling
//! edges, which the kernel stamps in its interrupt handler. As in latmon and latmus, a line idles high, and a stimulus or an
//! answer is a falling edge; or the other way round, as Zephyr's latmon wants the answers.
//!
//! Not here: software debouncing, which uses a workqueue in steps of jiffies, and version 1 of the interface.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use lathunt_core::latency_box::channel::Line;
use lathunt_core::latency_box::message::SIZE;
use lathunt_core::latency_box::reception::Reception;

use super::descriptor::{done, Descriptor};
use super::{Framing, Link, Outlet};
use crate::error::{Error, Result};

/// include/uapi/linux/gpio.h
const GET_LINE: libc::c_ulong = 0xc250_b407;
const SET_VALUES: libc::c_ulong = 0xc010_b40f;
const INPUT: u64 = 1 << 2;
const OUTPUT: u64 = 1 << 3;
const EDGE_RISING: u64 = 1 << 4;
const EDGE_FALLING: u64 = 1 << 5;
const OUTPUT_VALUES: u32 = 2;
/// Events buffered for a late reader; the kernel drops the oldest beyond that.
const EVENTS: u32 = 1_024;

#[repr(C)]
#[derive(Clone, Copy)]
struct Attribute {
    id: u32,
    padding: u32,
    value: u64,
    mask: u64,
}

#[repr(C)]
struct Request {
    offsets: [u32; 64],
    consumer: [u8; 32],
    flags: u64,
    attributes: u32,
    padding: [u32; 5],
    attribute: [Attribute; 10],
    lines: u32,
    event_buffer: u32,
    padding_too: [u32; 5],
    fd: i32,
}

#[repr(C)]
struct Values {
    bits: u64,
    mask: u64,
}

const _: () = assert!(size_of::<Request>() == 592 && size_of::<Values>() == 16);

impl Request {
    /// One line. Padding must be zero.
    fn new(line: u32, flags: u64) -> Request {
        let mut request = Request {
            offsets: [0; 64],
            consumer: [0; 32],
            flags,
            attributes: 0,
            padding: [0; 5],
            attribute: [Attribute { id: 0, padding: 0, value: 0, mask: 0 }; 10],
            lines: 1,
            event_buffer: 0,
            padding_too: [0; 5],
            fd: -1,
        };
        request.offsets[0] = line;
        request.consumer[..7].copy_from_slice(b"lathunt");
        request
    }

    fn output(line: Line) -> Request {
        let mut request = Request::new(line.offset, OUTPUT);
        request.attributes = 1;
        let idle = u64::from(!line.rising);
        request.attribute[0] = Attribute { id: OUTPUT_VALUES, padding: 0, value: idle, mask: 1 };
        request
    }

    fn input(line: Line) -> Request {
        let edge = if line.rising { EDGE_RISING } else { EDGE_FALLING };
        Request { event_buffer: EVENTS, ..Request::new(line.offset, INPUT | edge) }
    }

    fn take(mut self, chip: RawFd) -> io::Result<OwnedFd> {
        // SAFETY: `self` has the kernel's layout and is valid to read and write.
        done(unsafe { libc::ioctl(chip, GET_LINE as _, &mut self) })?;
        // SAFETY: just made, owned by nobody else.
        Ok(unsafe { OwnedFd::from_raw_fd(self.fd) })
    }
}

/// A line that is driven.
struct Driven {
    line: OwnedFd,
    /// Level of the pulse; the line idles at the other one.
    pulse: bool,
}

impl Driven {
    fn set(&self, high: bool) -> io::Result<()> {
        let mut values = Values { bits: u64::from(high), mask: 1 };
        // SAFETY: `values` has the kernel's layout and is valid to read and write.
        done(unsafe { libc::ioctl(self.line.as_raw_fd(), SET_VALUES as _, &mut values) }).map(drop)
    }
}

impl Outlet for Driven {
    /// The edge that counts; then the line is idle again.
    #[inline]
    fn send(&mut self, _message: &[u8; SIZE]) -> io::Result<()> {
        self.set(self.pulse)?;
        self.set(!self.pulse)
    }
}

/// Requests both lines of a chip.
///
/// # Errors
/// If there is no such chip or line, a line is in use, or it cannot report edges.
pub fn open(chip: &str, out: Line, input: Line) -> Result<Link> {
    let path = CString::new(chip).map_err(|error| Error::new("open", chip, error))?;
    // SAFETY: a NUL-terminated string.
    let fd = done(unsafe { libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) }).map_err(|error| {
        let hint = match error.raw_os_error() {
            Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => "no such GPIO chip; see /dev/gpiochip*",
            Some(libc::EACCES) => "access denied: run as root or join the device's group (gpio)",
            _ => "",
        };
        // Only the absence of a network peer is worth waiting for, not that of a device.
        Error::stated(format!("cannot open {chip}: {error}{}{hint}", if hint.is_empty() { "" } else { "; " }))
    })?;
    // SAFETY: just made, owned by nobody else.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let failed = |Line { offset: line, .. }: Line, what: &str, error: io::Error| {
        let hint = match error.raw_os_error() {
            Some(libc::ENOTTY) => "it is not a GPIO chip, or the kernel is older than 5.10",
            Some(libc::EBUSY) => "a driver or another program uses that line: see gpioinfo",
            Some(libc::EINVAL) => "the chip has no such line",
            Some(libc::ENXIO | libc::EOPNOTSUPP | libc::ENODEV) => {
                "the line cannot report edges: it has no interrupt"
            }
            _ => "",
        };
        Error::stated(format!(
            "cannot take line {line} of {chip} as {what}: {error}{}{hint}",
            if hint.is_empty() { "" } else { "; " }
        ))
    };
    let driven = Request::output(out).take(fd.as_raw_fd()).map_err(|error| failed(out, "output", error))?;
    let watched =
        Request::input(input).take(fd.as_raw_fd()).map_err(|error| failed(input, "input", error))?;
    let idle = if out.rising { "low" } else { "high" };
    Ok(Link {
        outlet: Box::new(Driven { line: driven, pulse: out.rising }),
        inlet: Box::new(Descriptor::file(watched)),
        framing: Framing::Edges,
        queues: false,
        reception: Reception::Blocking,
        lifeline: None,
        facts: vec![
            format!(
                "{chip}: line {} is driven (idle {idle}, {} edges), {} edges of line {} are stamped by the kernel's interrupt \
                 handler",
                out.offset,
                out.edge(),
                input.edge(),
                input.offset
            ),
            "an edge has no number: an answer later than the time limit is taken for the answer to the next stimulus".to_owned(),
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_the_bytes_of_the_kernels_header() {
        // Offsets of include/uapi/linux/gpio.h: consumer 256, flags 288, attributes 296, first attribute 320, lines 560.
        let bytes = |request: &Request| {
            // SAFETY: plain integers without padding, which the size says.
            unsafe {
                std::slice::from_raw_parts((&raw const *request).cast::<u8>(), size_of::<Request>()).to_vec()
            }
        };
        let word = |bytes: &[u8], at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        let line = |offset, rising| Line { offset, rising };
        let input = bytes(&Request::input(line(27, false)));
        assert_eq!((word(&input, 0), &input[256..264]), (27, &b"lathunt\0"[..]));
        assert_eq!([288, 292, 296, 560, 564].map(|at| word(&input, at)), [0b10_0100, 0, 0, 1, EVENTS]);
        let output = bytes(&Request::output(line(17, false)));
        assert_eq!([0, 288, 296, 320, 328, 336].map(|at| word(&output, at)), [17, 0b1000, 1, 2, 1, 1]);
        assert_eq!(word(&bytes(&Request::input(line(27, true))), 288), 0b01_0100);
        assert_eq!([328, 336].map(|at| word(&bytes(&Request::output(line(17, true))), at)), [0, 1]);
        assert!(output[344..560].iter().chain(&output[568..588]).all(|&byte| byte == 0), "padding is zero");
    }

    #[test]
    fn what_is_no_chip_is_told_so() {
        for (chip, says) in [("/dev/absent-chip", "no such GPIO chip"), ("/dev/null", "not a GPIO chip")] {
            let line = |offset| Line { offset, rising: false };
            let error = open(chip, line(1), line(2)).err().unwrap().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
