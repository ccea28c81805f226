//! Rings that are shared with the kernel.

use std::io;
use std::os::fd::RawFd;
use std::ptr;
use std::sync::atomic::AtomicU32;

/// Memory shared with the kernel.
pub(super) struct Mapping {
    /// Its first byte.
    pub(super) start: *mut u8,
    length: usize,
}

impl Mapping {
    /// Maps `length` bytes of the ring behind `fd` at `offset`.
    ///
    /// # Errors
    /// As mmap.
    pub(super) fn new(fd: RawFd, length: usize, offset: libc::off_t) -> io::Result<Mapping> {
        Mapping::map(fd, length, offset, libc::MAP_SHARED)
    }

    /// `length` bytes of zeroed memory, from the start of a page.
    ///
    /// # Errors
    /// As mmap.
    pub(super) fn anonymous(length: usize) -> io::Result<Mapping> {
        Mapping::map(-1, length, 0, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS)
    }

    fn map(fd: RawFd, length: usize, offset: libc::off_t, kind: libc::c_int) -> io::Result<Mapping> {
        let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, kind | libc::MAP_POPULATE);
        // SAFETY: a new mapping.
        let start = unsafe { libc::mmap(ptr::null_mut(), length, rights, flags, fd, offset) };
        match start {
            libc::MAP_FAILED => Err(io::Error::last_os_error()),
            start => Ok(Mapping { start: start.cast(), length }),
        }
    }

    /// A word that the kernel changes too.
    pub(super) fn word(&self, offset: u32) -> &AtomicU32 {
        debug_assert!(offset as usize + 4 <= self.length);
        // SAFETY: offsets are the kernel's, within the mapping and aligned; the mapping lives as long as `self`.
        unsafe { &*self.start.add(offset as usize).cast::<AtomicU32>() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped with this length.
        unsafe { libc::munmap(self.start.cast(), self.length) };
    }
}
