//! The recorder's shared memory: `struct cpu_block` of src/bpf/block.h, restated, mapped, and read.
//!
//! One element per possible CPU, written by that CPU's BPF programs, read here without system calls. Fields that both
//! sides write are atomic; a frozen buffer belongs to user space alone until it is freed.

use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64};

use lathunt_core::cpuset::CpuSet;
use lathunt_core::time::Cpu;

use crate::error::{Error, Result};

pub(super) const SLOTS: usize = 4096;
pub(super) const BUFFERS: usize = 8;
pub(super) const STACKS: usize = 16;
pub(super) const ACTIVATIONS: usize = 4096;
pub(super) const IRQS: usize = 1024;
pub(super) const HIST_BINS: usize = 11_545;
pub(super) const LOSSES: usize = 16;

pub(super) const FREE: u32 = 0;
pub(super) const ACTIVE: u32 = 1;
pub(super) const FROZEN: u32 = 2;

/// `enum option`.
pub(super) const KERNEL_THREADS: u32 = 1;
pub(super) const CHOSEN_ONLY: u32 = 2;
pub(super) const ORDINARY: u32 = 4;
pub(super) const FOLLOW: u32 = 8;
pub(super) const LEAN: u32 = 16;
pub(super) const WITH_ACTIVATIONS: u32 = 32;
pub(super) const SWITCH: u32 = 64;
pub(super) const ALL_CALLS: u32 = 128;

#[repr(C)]
pub(super) struct Source {
    pub count: AtomicU64,
    pub total_ns: AtomicU64,
    pub max_ns: AtomicU64,
}

#[repr(C)]
pub(super) struct Seen {
    pub at: AtomicU64,
    pub tid: AtomicI32,
    pad: u32,
}

#[repr(C)]
pub(super) struct Hist {
    pub count: AtomicU64,
    pub sum_ns: AtomicU64,
    pub min_inverted_ns: AtomicU64,
    pub max_ns: AtomicU64,
    pub first_ns: AtomicU64,
    pub recent_ns: AtomicU64,
    pub bins: [AtomicU64; HIST_BINS],
}

#[repr(C)]
pub(super) struct Buffer {
    pub head: AtomicU64,
    pub begin_seq: AtomicU64,
    pub begin_at: AtomicU64,
    pub frozen_at: AtomicU64,
    pub id: AtomicU64,
    pub stacks: AtomicU64,
    pub total_ns: AtomicU64,
    pub switch_at: AtomicU64,
    pub tid: AtomicI32,
    pub prio: AtomicI32,
    pub comm: [AtomicU64; 2],
    pub state: AtomicU32,
    pub trigger: AtomicU32,
    pad: [u64; 4],
    pub stack: [[AtomicU64; 32]; STACKS],
    pub record: [[AtomicU64; 6]; SLOTS],
}

#[repr(C, align(4096))]
pub(super) struct CpuBlock {
    pub on: AtomicU32,
    pub request: AtomicU32,
    pub serial: AtomicU64,
    pub active: AtomicU32,
    /// Bits of `request` that found no free buffer.
    pub waiting: AtomicU32,
    pub threshold_ns: AtomicU64,
    pub late_timer_ns: AtomicU64,
    freeze_head: u64,
    private_first: [u64; 2],
    /// Written by the programs only, like all private fields: running totals, open windows, open timers.
    stolen: u64,
    /// User page faults since the last switch.
    pub faults: AtomicU64,
    fault_address: u64,
    pub hist_seq: AtomicU64,
    private_too: [u64; 22],
    pub lost: [AtomicU64; LOSSES],
    /// The task switched in last, + 1; 0: unknown.
    pub running: AtomicI32,
    skipped: u32,
    /// Steal time in ns since boot, as of the last timer interrupt; 0: unknown here.
    pub host_stole_ns: AtomicU64,
    pad_last: [u64; 3],
    pub nmi: Source,
    pub irq: [Source; IRQS],
    pub vector: [Source; 16],
    pub softirq: [Source; 16],
    pub hist: [Hist; 5],
    pub buffer: [Buffer; BUFFERS],
    pub activations: AtomicU64,
    /// Since when the thread of the open activation has had the CPU.
    pub run_since: AtomicU64,
    private_at_last: [u64; 2],
    /// That thread; 0: none. Its activation is the next of the ring.
    pub run_tid: AtomicI32,
    /// The task that the last unreported switch switched away from; 0: none.
    pub hidden_tid: AtomicI32,
    private_begun: [u64; 2],
    /// Last switch-out of a task of each real-time priority.
    pub seen: [Seen; 128],
    pad_of_lines: [u64; 4],
    pub activation: [[AtomicU64; lathunt_core::trace::activation::WORDS]; ACTIVATIONS],
    private_end: [u64; 104],
    /// The longest wait that began before the recording and may have been a wake-up.
    pub before_ns: AtomicU64,
    pad_end: u64,
}

// The end of src/bpf/block.h asserts the same numbers.
const _: () = {
    assert!(size_of::<Buffer>() == 128 + STACKS * 256 + SLOTS * 48);
    assert!(std::mem::offset_of!(CpuBlock, faults) == 64 + 8);
    assert!(std::mem::offset_of!(CpuBlock, hist_seq) == 64 + 24);
    assert!(std::mem::offset_of!(CpuBlock, lost) == 272);
    assert!(std::mem::offset_of!(CpuBlock, running) == 400);
    assert!(std::mem::offset_of!(CpuBlock, host_stole_ns) == 408);
    assert!(std::mem::offset_of!(CpuBlock, nmi) == 440);
    assert!(std::mem::offset_of!(CpuBlock, hist) == 25_808);
    assert!(std::mem::offset_of!(CpuBlock, buffer) == 487_848);
    assert!(std::mem::offset_of!(CpuBlock, activations) == 2_094_504);
    assert!(std::mem::offset_of!(CpuBlock, run_tid) == 2_094_504 + 32);
    assert!(std::mem::offset_of!(CpuBlock, hidden_tid) == 2_094_504 + 36);
    assert!(std::mem::offset_of!(CpuBlock, before_ns) == 2_883_904);
    assert!(size_of::<CpuBlock>() == 2_887_680);
};

/// Types that can be mapped as one element per CPU of an array map.
///
/// # Safety
/// `#[repr(C)]` and as large as the element in the kernel; zeroes are a valid value; each field is atomic or never read
/// or written here.
pub(super) unsafe trait Shared: Sync {}

// SAFETY: as it is laid out above, which both sides assert.
unsafe impl Shared for CpuBlock {}

/// Not 0: the recording has ended, on all CPUs at once; what waits for one of them is kept as it is.
#[repr(transparent)]
pub(super) struct Over(pub AtomicU64);

// SAFETY: one atomic word; the map of it (`.data.over`) has one element.
unsafe impl Shared for Over {}

/// The mapped blocks of all possible CPUs.
pub(super) struct Blocks<T: Shared = CpuBlock> {
    base: NonNull<T>,
    cpus: usize,
}

// SAFETY: the memory is shared with the kernel and only accessed through atomics.
unsafe impl<T: Shared> Send for Blocks<T> {}
// SAFETY: as above.
unsafe impl<T: Shared> Sync for Blocks<T> {}

impl<T: Shared> Blocks<T> {
    /// Maps the array map `fd` of `cpus` elements. The kernel has allocated it: no page faults later.
    pub fn map(fd: impl AsFd, cpus: usize) -> Result<Blocks<T>> {
        let length = cpus * size_of::<T>();
        // SAFETY: a fresh shared mapping of a map whose size was set to `cpus` elements; it overlaps nothing of ours.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                fd.as_fd().as_raw_fd(),
                0,
            )
        };
        match NonNull::new(base.cast::<T>()) {
            Some(base) if base.as_ptr().cast::<libc::c_void>() != libc::MAP_FAILED => {
                Ok(Blocks { base, cpus })
            }
            _ => Err(Error::last_os("map", "the recorder's memory")),
        }
    }

    /// The blocks of all possible CPUs.
    pub fn all(&self) -> impl Iterator<Item = &T> {
        (0..self.cpus as u32).filter_map(|cpu| self.of(Cpu(cpu)))
    }

    /// All blocks except those of `cpus`.
    pub fn beside<'b>(&'b self, cpus: &'b CpuSet) -> impl Iterator<Item = &'b T> {
        let others = (0..self.cpus as u32).map(Cpu).filter(|&cpu| !cpus.contains(cpu));
        others.filter_map(|cpu| self.of(cpu))
    }

    pub fn of(&self, cpu: Cpu) -> Option<&T> {
        let index = cpu.0 as usize;
        // SAFETY: below `cpus`, inside the mapping, which lives as long as self; zeroed memory is a valid block.
        (index < self.cpus).then(|| unsafe { self.base.add(index).as_ref() })
    }
}

impl<T: Shared> Drop for Blocks<T> {
    fn drop(&mut self) {
        // SAFETY: exactly what `map` mapped; no reference outlives self.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.cpus * size_of::<T>()) };
    }
}

#[cfg(test)]
impl CpuBlock {
    /// As the kernel allocates it.
    pub(super) fn zeroed() -> Box<CpuBlock> {
        let layout = std::alloc::Layout::new::<CpuBlock>();
        // SAFETY: of the layout by which the box frees it, which is not empty; zeroes are a valid block (`Shared`).
        let block = unsafe { std::alloc::alloc_zeroed(layout) }.cast::<CpuBlock>();
        assert!(!block.is_null());
        // SAFETY: as above, and nobody else has it.
        unsafe { Box::from_raw(block) }
    }
}
