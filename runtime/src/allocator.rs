//! A global allocator for Rust programs: glibc's malloc keeps its caches per kernel thread and must not be interrupted by
//! another runtime thread that allocates.

use std::alloc::{GlobalAlloc, Layout, System};

use std::sync::atomic::{AtomicBool, Ordering};

use crate::ops::{lock_scheduler, SchedulerLock};

/// The system's allocator, called with the scheduler held. Costs two counter updates.
///
/// ```
/// #[global_allocator]
/// static ALLOCATOR: lathunt_runtime::FiberAlloc = lathunt_runtime::FiberAlloc;
/// ```
#[derive(Debug, Default)]
pub struct FiberAlloc;

/// Set once it was called on a thread of a runtime.
static WAS_ASKED: AtomicBool = AtomicBool::new(false);

#[inline]
fn hold() -> SchedulerLock {
    let held = lock_scheduler();
    if held.is_held() {
        WAS_ASKED.store(true, Ordering::Relaxed);
    }
    held
}

/// Whether this program's allocations hold the scheduler: [`FiberAlloc`] is its allocator. Only known on a thread of a
/// runtime; false elsewhere.
#[must_use]
pub fn allocator_holds() -> bool {
    WAS_ASKED.store(false, Ordering::Relaxed);
    drop(std::hint::black_box(Box::new(0_u8)));
    WAS_ASKED.load(Ordering::Relaxed)
}

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for FiberAlloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _held = hold();
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        let _held = hold();
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let _held = hold();
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let _held = hold();
        // SAFETY: the caller's promise.
        unsafe { System.realloc(memory, layout, size) }
    }
}
