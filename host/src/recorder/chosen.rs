//! The table of threads that are measured: `struct waking` of src/bpf/activation.h, as far as user space writes it.
//!
//! A thread sits in the slot of its id's low bits or in one of the next ones, claimed by compare-and-exchange, so that
//! the programs and we may claim at the same time.

use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::{AcqRel, Acquire};

use lathunt_core::time::Tid;

use crate::error::{Error, Result};

const SLOTS: usize = 8192;
const PROBES: usize = 4;

/// A cache line that we read and write the first word of, and what the programs keep for themselves.
#[repr(C)]
struct Waking {
    tid: AtomicI32, // 0: free
    private: [u32; 63],
}

// As in src/bpf/activation.h.
const _: () = assert!(size_of::<Waking>() == 256);

/// The mapped table.
pub(super) struct Chosen {
    base: NonNull<Waking>,
}

// SAFETY: the memory is shared with the kernel; we touch nothing but the atomics.
unsafe impl Send for Chosen {}
// SAFETY: as above.
unsafe impl Sync for Chosen {}

impl Chosen {
    /// Maps the array map `fd`.
    pub fn map(fd: impl AsFd) -> Result<Chosen> {
        // SAFETY: a fresh shared mapping of a map with so many elements of this size.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                SLOTS * size_of::<Waking>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd.as_fd().as_raw_fd(),
                0,
            )
        };
        match NonNull::new(base.cast::<Waking>()) {
            Some(base) if base.as_ptr().cast::<libc::c_void>() != libc::MAP_FAILED => Ok(Chosen { base }),
            _ => Err(Error::last_os("map", "the recorder's table of threads")),
        }
    }

    /// Puts `tid` into the table; false: it is there.
    pub fn add(&self, tid: Tid) -> Result<bool> {
        // SAFETY: the mapping holds SLOTS elements and lives as long as self; zeroed memory is a valid element.
        let slots = unsafe { std::slice::from_raw_parts(self.base.as_ptr(), SLOTS) };
        let places: Vec<&Waking> =
            (0..PROBES).map(|probe| &slots[(tid.0 as usize + probe) % SLOTS]).collect();
        let there = places.iter().any(|slot| slot.tid.load(Acquire) == tid.0);
        let claim = |slot: &&Waking| slot.tid.compare_exchange(0, tid.0, AcqRel, Acquire).is_ok();
        if there {
            return Ok(false);
        }
        let Some(slot) = places.into_iter().find(claim) else {
            let what = format!("thread {tid}");
            return Err(Error::refused("measure", what, "the table of threads is full there"));
        };
        // Who has ended before its slot was claimed gives none back.
        if !std::path::Path::new(&format!("/proc/{tid}")).exists() {
            let _ = slot.tid.compare_exchange(tid.0, 0, AcqRel, Acquire);
        }
        Ok(true)
    }
}

impl Drop for Chosen {
    fn drop(&mut self) {
        // SAFETY: exactly what `map` mapped; no reference outlives self.
        unsafe { libc::munmap(self.base.as_ptr().cast(), SLOTS * size_of::<Waking>()) };
    }
}
