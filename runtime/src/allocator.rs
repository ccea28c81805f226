//! A global allocator for Rust programs: glibc's malloc keeps its caches per kernel thread and must not be interrupted by another
//! thread of the runtime that allocates.

use std::alloc::{GlobalAlloc, Layout, System};

use crate::ops::lock_scheduler;

/// The system's allocator, with the scheduler held. Costs two counters.
///
/// ```
/// #[global_allocator]
/// static ALLOCATOR: lathunt_runtime::FiberAlloc = lathunt_runtime::FiberAlloc;
/// ```
#[derive(Debug, Default)]
pub struct FiberAlloc;

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for FiberAlloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _held = lock_scheduler();
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        let _held = lock_scheduler();
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let _held = lock_scheduler();
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let _held = lock_scheduler();
        // SAFETY: the caller's promise.
        unsafe { System.realloc(memory, layout, size) }
    }
}
