//! Repeated non-blocking reads. It sleeps when nothing has arrived for a while, and briefly after an answer each half
//! second: a real-time thread that never sleeps would hit its own limit (RLIMIT_RTTIME).

use std::io;
use std::os::fd::RawFd;

use super::super::descriptor::is_ready;
use super::super::Inlet;
use crate::clock;

/// A call returns after this time, so that the end is noticed.
const CALL_NS: u64 = 1_000_000;
/// Without any data for this long it blocks instead.
const PATIENCE_NS: u64 = 100_000_000;
/// Longest time awake.
const AWAKE_NS: u64 = 500_000_000;

/// An inlet that is polled.
pub(super) struct BusyPoll {
    inner: Box<dyn Inlet>,
    fd: RawFd,
    last: u64,
    awake_since: u64,
}

impl BusyPoll {
    pub(super) fn new(inner: Box<dyn Inlet>, fd: RawFd) -> BusyPoll {
        BusyPoll { inner, fd, last: 0, awake_since: 0 }
    }

    fn rest(&mut self) {
        std::thread::sleep(std::time::Duration::from_micros(20));
        self.awake_since = clock::mono().0;
    }
}

impl Inlet for BusyPoll {
    #[inline]
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let begun = clock::mono().0;
        if begun - self.last > PATIENCE_NS {
            let there = is_ready(self.fd, 200);
            self.awake_since = clock::mono().0;
            if !there {
                return Err(io::ErrorKind::Interrupted.into());
            }
        } else if begun - self.awake_since > AWAKE_NS {
            self.rest();
        }
        loop {
            match self.inner.receive_now(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(n) => {
                    self.last = clock::mono().0;
                    return Ok(n);
                }
                other => return other,
            }
            if clock::mono().0 - begun > CALL_NS {
                return Err(io::ErrorKind::Interrupted.into());
            }
            std::hint::spin_loop();
        }
    }

    fn descriptor(&self) -> Option<RawFd> {
        Some(self.fd)
    }

    fn adopt(&mut self) -> io::Result<()> {
        self.inner.adopt()
    }

    fn release(&mut self) {
        self.inner.release();
    }
}
