//! The table of measured threads: `struct waking` of src/bpf/activation.h; user space reads it and writes only the first
//! word.
//!
//! A thread is in the slot of its id's low bits or in one of the next ones, claimed by compare-and-exchange, so that the
//! programs and user space may claim at the same time.

use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{AcqRel, Acquire};
use std::sync::atomic::{AtomicI32, AtomicU64};

use lathunt_core::time::Tid;
use lathunt_core::trace::activation::WORDS;

use crate::error::{Error, Result};

const SLOTS: usize = 8192;
const PROBES: usize = 4;

/// `struct waking`: user space writes only its first word.
#[repr(C)]
pub(super) struct Waking {
    pub tid: AtomicI32, // 0: free
    pub waker_tid: AtomicI32,
    pub at: AtomicU64,
    pub expires: AtomicU64,
    pub entry: AtomicU64,
    /// `waker_prio` to `job_ended`.
    pub circumstances: AtomicU64,
    woken_due: u64,
    pub waker_comm: [AtomicU64; 2],
    pub saved: [AtomicU64; WORDS],
    /// Once recording has ended, see `AT_THE_END` in src/bpf/over.h.
    pub armed: AtomicU64,
    /// `armed_timer` and `jobs`.
    pub last: AtomicU64,
    slack: u64,
    /// `more_armed`, `more_timers`, `sleep`.
    timers: [u64; 5],
}

// As in src/bpf/activation.h.
const _: () = assert!(size_of::<Waking>() == 320 && std::mem::offset_of!(Waking, saved) == 64);

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

    /// All slots; most are free.
    pub fn slots(&self) -> &[Waking] {
        // SAFETY: the mapping holds SLOTS elements and lives as long as self; zeroed memory is a valid element.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), SLOTS) }
    }

    /// The slot of `tid`.
    pub fn of(&self, tid: Tid) -> Option<&Waking> {
        let slot = |probe| &self.slots()[(tid.0 as usize).wrapping_add(probe) % SLOTS];
        (0..PROBES).map(slot).find(|slot| tid.0 > 0 && slot.tid.load(Acquire) == tid.0)
    }

    /// Puts `tid` into the table; false: it is there already.
    pub fn add(&self, tid: Tid) -> Result<bool> {
        let slots = self.slots();
        let places: Vec<&Waking> =
            (0..PROBES).map(|probe| &slots[(tid.0 as usize + probe) % SLOTS]).collect();
        let there = places.iter().any(|slot| slot.tid.load(Acquire) == tid.0);
        let claim = |slot: &&Waking| slot.tid.compare_exchange(0, tid.0, AcqRel, Acquire).is_ok();
        if there {
            return Ok(false);
        }
        let Some(slot) = places.into_iter().find(claim) else {
            let what = format!("thread {tid}");
            return Err(Error::refused("measure", what, "the table of threads is full"));
        };
        // A thread that ended before its slot was claimed will not free it.
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
