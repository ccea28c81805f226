//! A ring for each thread: claimed at `thread_init` (or, counted, at the first event), released at the thread's end.
//!
//! Every loaded object (program, shared library, plug-in) caches the thread's ring in its own thread-local pointer, its
//! *slot*: that is the only way to get it with one instruction everywhere. The slots are registered here, so that all of
//! them are cleared when the thread ends or is in a child of fork.

use std::cell::Cell;
use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

use crate::declare;
use crate::layout::Ring;
use crate::mapped::{Mapped, SharedRing};
use crate::process::{self, locked, Process, SharedControl};
use crate::ring;

/// A thread-local cache of the thread's ring.
pub type Slot = *mut *const SharedRing;

const SLOTS: usize = 16;

thread_local! {
    static OWN: Cell<*const SharedRing> = const { Cell::new(std::ptr::null()) };
    static CACHES: [AtomicPtr<*const SharedRing>; SLOTS] =
        const { [const { AtomicPtr::new(std::ptr::null_mut()) }; SLOTS] };
}

/// The control area once it exists; for counting without the lock.
pub(crate) static CONTROL: AtomicPtr<SharedControl> = AtomicPtr::new(std::ptr::null_mut());

/// Placeholder for the ring of a thread that cannot have one: always full, never written. Not in shared memory.
static NO_RING: SharedRing = {
    #[allow(clippy::declare_interior_mutable_const)] // each use is a word of its own
    const ZERO: AtomicU64 = AtomicU64::new(0);
    Ring {
        reserve: AtomicU64::new(u64::MAX),
        committed: ZERO,
        begin_counter: ZERO,
        packet_words: ZERO,
        packet_mask: ZERO,
        clock: ZERO,
        switching: ZERO,
        discarded: ZERO,
        consumed: ZERO,
        overwrite: ZERO,
        drained: ZERO,
        discarded_before: ZERO,
        spare: [ZERO; 4],
        owner: ZERO,
        generation: ZERO,
        name: [ZERO; 2],
        bytes: ZERO,
        events_before: ZERO,
        too_large: ZERO,
    }
};

/// Whether the ring is the placeholder.
pub(crate) fn is_no_ring(ring: *const SharedRing) -> bool {
    std::ptr::eq(ring, &NO_RING)
}

/// Gives the calling thread its ring now, ready to be written without a page fault, and the thread a name in the trace
/// (`None`: the kernel's name). `false`: no memory, limit reached, or tracing is off; the thread's events are then counted
/// and dropped.
pub fn thread_init(name: Option<&CStr>) -> bool {
    let ring = claim(std::ptr::null_mut(), true, name);
    !is_no_ring(ring)
}

/// The ring of the calling thread, claimed if it has none. `eager`: by intention, not by a first event.
pub(crate) fn claim(slot: Slot, eager: bool, name: Option<&CStr>) -> *const SharedRing {
    let own = OWN.get();
    if own.is_null() || (eager && is_no_ring(own)) {
        // Only an eager claim waits: a first event may be in a signal handler that interrupted the lock's owner.
        if locked(eager, |process| OWN.set(take(process, eager))).is_none() {
            return &raw const NO_RING; // not cached: the next event tries again
        }
    }
    let ring = OWN.get();
    if let Some(name) = name {
        rename(ring, name);
    }
    remember(slot, ring);
    ring
}

fn take(process: &mut Process, eager: bool) -> *const SharedRing {
    let own = OWN.get();
    if !own.is_null() && !is_no_ring(own) {
        return own; // a signal handler was faster
    }
    let fresh = process.control.is_null();
    let Some(control) = process.attached() else { return &raw const NO_RING };
    if fresh {
        declare::declare_all(process); // in a child of fork
    }
    if !eager {
        control.lazy_claims.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: all rings of the table are mapped.
    let free = process.rings[1..process.ring_count]
        .iter()
        .map(|&ring| unsafe { &*ring })
        .find(|ring| ring.owner.load(Ordering::Acquire) == 0);
    let Some(ring) = free.or_else(|| process.add_thread_ring()) else { return &raw const NO_RING };
    adopt(ring);
    give_back_at_exit(ring);
    ring
}

/// Makes the calling thread the owner of `ring`, with its kernel name.
pub(crate) fn adopt(ring: &'static SharedRing) {
    // SAFETY: no preconditions.
    let tid = unsafe { libc::syscall(libc::SYS_gettid) } as u64;
    if ring.owner.swap(tid, Ordering::Relaxed) == tid {
        return;
    }
    // SAFETY: the caller ensures that no other thread writes the ring. A packet names one thread.
    ring::close(&unsafe { Mapped::new(ring) });
    ring.generation.fetch_add(1, Ordering::Relaxed);
    let mut comm = [0u8; 16];
    // SAFETY: a buffer of 16 bytes, as the call wants.
    unsafe { libc::prctl(libc::PR_GET_NAME, comm.as_mut_ptr()) };
    store_name(ring, &comm);
}

/// The calling thread's name in the trace from now on, at most 15 bytes of it.
pub(crate) fn rename(ring: *const SharedRing, name: &CStr) {
    if ring.is_null() || is_no_ring(ring) {
        return;
    }
    let mut text = [0; 16];
    let length = name.to_bytes().len().min(15);
    text[..length].copy_from_slice(&name.to_bytes()[..length]);
    // SAFETY: the calling thread's own ring; a new packet carries the new name.
    let memory = unsafe { Mapped::new(ring) };
    ring::close(&memory);
    // SAFETY: mapped.
    store_name(unsafe { &*ring }, &text);
}

fn store_name(ring: &SharedRing, name: &[u8; 16]) {
    for (word, bytes) in ring.name.iter().zip(name.chunks_exact(8)) {
        word.store(u64::from_le_bytes(bytes.try_into().unwrap_or_default()), Ordering::Relaxed);
    }
}

/// Caches `ring` in `slot`, unless there are more objects than can be registered: their slots stay empty, and slow.
fn remember(slot: Slot, ring: *const SharedRing) {
    if slot.is_null() {
        return;
    }
    // The exchange is for signal handlers of this thread that register a slot at the same time.
    let kept = CACHES.with(|places| {
        places.iter().any(|place| {
            let before =
                place.compare_exchange(std::ptr::null_mut(), slot, Ordering::Relaxed, Ordering::Relaxed);
            before.is_ok() || before == Err(slot)
        })
    });
    if kept {
        // SAFETY: a slot is a thread-local of the calling thread.
        unsafe { *slot = ring };
    }
}

/// Clears every cache of the calling thread's ring.
fn forget() {
    let own = OWN.replace(std::ptr::null());
    CACHES.with(|places| {
        for place in places {
            let slot = place.swap(std::ptr::null_mut(), Ordering::Relaxed);
            // SAFETY: a slot is in the calling thread's static TLS block, which lives as long as the thread, even after
            // its object was unloaded; then it may hold something else, which the comparison leaves alone.
            unsafe {
                if !slot.is_null() && *slot == own {
                    *slot = std::ptr::null();
                }
            }
        }
    });
}

/// Arranges for the ring's release when the thread ends. Under the process lock.
fn give_back_at_exit(ring: &'static SharedRing) {
    static KEY: AtomicU64 = AtomicU64::new(u64::MAX);
    let mut key = KEY.load(Ordering::Relaxed) as libc::pthread_key_t;
    // SAFETY: plain libc calls with valid arguments.
    unsafe {
        if KEY.load(Ordering::Relaxed) == u64::MAX {
            if libc::pthread_key_create(&mut key, Some(give_back)) != 0 {
                return; // the ring stays with the dead thread: memory is lost, nothing worse
            }
            KEY.store(u64::from(key), Ordering::Relaxed);
        }
        libc::pthread_setspecific(key, std::ptr::from_ref(ring).cast());
    }
}

/// Called once, before the process has anything that a child could inherit. Under the process lock.
pub(crate) fn watch_forks() {
    static WATCHED: AtomicBool = AtomicBool::new(false);
    if !WATCHED.swap(true, Ordering::Relaxed) {
        // SAFETY: three functions that stay loaded (the library is linked with `nodelete`).
        unsafe {
            libc::pthread_atfork(Some(before_fork), Some(after_fork_in_parent), Some(after_fork_in_child))
        };
    }
}

extern "C" fn give_back(ring: *mut libc::c_void) {
    let ring = ring.cast_const().cast::<SharedRing>();
    if OWN.get() != ring {
        return; // after fork: the parent's
    }
    // SAFETY: the ring of the calling thread, which is about to end.
    let memory = unsafe { Mapped::new(ring) };
    ring::close(&memory);
    forget();
    // SAFETY: mapped. From here on another thread may claim it.
    unsafe { (*ring).owner.store(0, Ordering::Release) };
}

extern "C" fn before_fork() {
    process::lock(true);
}

extern "C" fn after_fork_in_parent() {
    process::unlock();
}

extern "C" fn after_fork_in_child() {
    CONTROL.store(std::ptr::null_mut(), Ordering::Relaxed);
    forget();
    process::forget_after_fork();
    declare::wake_after_fork();
    process::unlock();
}
