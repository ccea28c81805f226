//! The process's share: one file with the control area, the init ring and a ring per thread.
//!
//! The file persists when the process dies, at any instruction. A record lock on it, which the kernel drops at
//! death and at exec, shows that the process lives. A child of fork gets its own file when it first needs one. All
//! space is reserved with `fallocate`, so that a full tmpfs fails here and never with SIGBUS later.

use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock;
use crate::environment::{env, env_bytes, read_comm, start_ticks};
use crate::file::{errno, lock_file, map, own_directory, reserve_space, same_file};
use crate::layout::{
    Control, State, CONTROL_BYTES, MAGIC, RINGS_MAX, RING_HEADER_BYTES, RING_TABLE_AT, VERSION,
};
use crate::mapped::SharedRing;
use crate::session::Session;
use crate::text::{path_into, text_of};
use crate::thread;

/// The control area in memory.
pub type SharedControl = Control<AtomicU64>;

/// Size of a packet: small enough that a switch touches one page, large enough that it is rare.
pub const PACKET_BYTES: u64 = 4096;
const INIT_RING_PACKETS: u64 = 16;
/// Default size of a thread's packets: 100 ms of events at 80 MB/s.
const RING_BYTES_DEFAULT: u64 = 8 << 20;
const RING_BYTES_MIN: u64 = 4 * PACKET_BYTES;
const MEMORY_MAX_DEFAULT: u64 = 1 << 30;

/// State of this process's own share. Guarded by [`locked`].
pub struct Process {
    /// The mapped control area; null before the first use, after fork, and if tracing is off.
    pub control: *mut u8,
    /// Mapped rings; index 0 is the init ring.
    pub rings: [*const SharedRing; RINGS_MAX],
    /// Entries of `rings` in use.
    pub ring_count: usize,
    /// Refused permanently: switched off, or no memory.
    pub refused: bool,
    fd: i32,
    file_bytes: u64,
    base: [u8; 256],
    base_length: usize,
    path: [u8; 512],
    ring_bytes: u64,
    memory_max: u64,
    uid: u32,
    created: crate::ring::Anchor,
}

struct Guarded {
    lock: UnsafeCell<libc::pthread_mutex_t>,
    process: UnsafeCell<Process>,
}

// SAFETY: `process` is touched only while `lock` is held.
unsafe impl Sync for Guarded {}

static SHARE: Guarded = Guarded {
    lock: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER),
    process: UnsafeCell::new(Process {
        control: std::ptr::null_mut(),
        rings: [std::ptr::null(); RINGS_MAX],
        ring_count: 0,
        refused: false,
        fd: -1,
        file_bytes: 0,
        base: [0; 256],
        base_length: 0,
        path: [0; 512],
        ring_bytes: RING_BYTES_DEFAULT,
        memory_max: 0,
        uid: 0,
        created: crate::ring::Anchor { counter: 0, ns: 0 },
    }),
};

/// Runs `act` under the lock. `None` if another thread has it and `wait` is false: a signal handler must not wait
/// for the thread that it interrupted.
pub fn locked<T>(wait: bool, act: impl FnOnce(&mut Process) -> T) -> Option<T> {
    if !lock(wait) {
        return None;
    }
    // SAFETY: the lock is held.
    let result = act(unsafe { held() });
    unlock();
    Some(result)
}

/// # Safety
/// The caller holds the lock, and no other reference.
pub(crate) unsafe fn held() -> &'static mut Process {
    // SAFETY: the caller's promise.
    unsafe { &mut *SHARE.process.get() }
}

pub(crate) fn lock(wait: bool) -> bool {
    // SAFETY: a statically initialised mutex.
    unsafe {
        if wait {
            libc::pthread_mutex_lock(SHARE.lock.get()) == 0
        } else {
            libc::pthread_mutex_trylock(SHARE.lock.get()) == 0
        }
    }
}

pub(crate) fn unlock() {
    // SAFETY: called by the thread that holds it (after fork: by its copy).
    unsafe { libc::pthread_mutex_unlock(SHARE.lock.get()) };
}

/// In the child of fork, which has inherited the lock: drops the parent's share.
pub(crate) fn forget_after_fork() {
    // SAFETY: the child has one thread, and it holds the lock.
    let process = unsafe { &mut *SHARE.process.get() };
    if process.fd >= 0 {
        // SAFETY: our descriptor; the parent has its own.
        unsafe { libc::close(process.fd) };
    }
    process.fd = -1;
    process.control = std::ptr::null_mut();
    process.ring_count = 0;
    process.refused = false;
}

/// Runs when the process exits in order.
extern "C" fn at_exit() {
    locked(true, Process::end);
}

#[used]
#[cfg_attr(target_os = "linux", unsafe(link_section = ".fini_array"))]
static AT_EXIT: extern "C" fn() = at_exit;

impl Process {
    /// The control area, created on first use. `None`: tracing is off or refused.
    pub fn attached(&mut self) -> Option<&'static SharedControl> {
        if self.control.is_null() && !self.refused {
            self.refused = !self.attach();
        }
        // SAFETY: not null means mapped for the life of the process.
        (!self.control.is_null()).then(|| unsafe { &*self.control.cast() })
    }

    /// The session that covers this process now.
    #[must_use]
    pub fn session(&self) -> Option<Session> {
        let mut comm = [0; 16];
        read_comm(&mut comm);
        Session::read(&self.base[..self.base_length], self.uid)
            .filter(|session| session.covers(text_of(&comm), u64::from(std::process::id())))
    }

    fn attach(&mut self) -> bool {
        thread::watch_forks();
        self.configure();
        let bytes = (CONTROL_BYTES + RING_HEADER_BYTES) as u64 + INIT_RING_PACKETS * PACKET_BYTES;
        if self.base_length == 0 || !self.create(bytes) {
            return false;
        }
        let Some(control) = map(self.fd, 0, CONTROL_BYTES as u64) else { return self.give_up() };
        self.control = control;
        self.file_bytes = CONTROL_BYTES as u64;
        // SAFETY: just mapped, zeroed, and large enough.
        let shared: &SharedControl = unsafe { &*control.cast() };
        self.fill(shared);
        if self.add_ring(INIT_RING_PACKETS * PACKET_BYTES).is_none() {
            return self.give_up();
        }
        shared.magic.store(MAGIC, Ordering::Release);
        thread::CONTROL.store(control.cast(), Ordering::Release);
        true
    }

    /// Reads directory and sizes from the environment; set-user-id programs ignore it.
    fn configure(&mut self) {
        if self.base_length == 0 {
            let base = env(c"LATHUNT_TRACE_DIR").map_or(&b"/dev/shm"[..], CStr::to_bytes);
            if base.len() < self.base.len()
                && env(c"LATHUNT_TRACE").map_or(&b""[..], CStr::to_bytes) != b"off"
            {
                self.base[..base.len()].copy_from_slice(base);
                self.base_length = base.len();
            }
        }
        // SAFETY: no preconditions.
        let (uid, pages) = unsafe { (libc::geteuid(), libc::sysconf(libc::_SC_PHYS_PAGES)) };
        self.uid = uid;
        let sixteenth = pages.max(0) as u64 * 4096 / 16;
        self.memory_max = env_bytes(c"LATHUNT_TRACE_MEMORY").unwrap_or(sixteenth.min(MEMORY_MAX_DEFAULT));
        let asked = env_bytes(c"LATHUNT_TRACE_RING").or_else(|| self.session().and_then(|s| s.ring_bytes()));
        self.ring_bytes = asked.unwrap_or(RING_BYTES_DEFAULT).clamp(RING_BYTES_MIN, 1 << 30);
    }

    /// A new, locked file of `bytes`: `BASE/lathunt-UID/PID-START-N`; N counts the images of one process (exec).
    fn create(&mut self, bytes: u64) -> bool {
        let mut directory = [0; 512];
        let uid = self.uid;
        let base = &self.base[..self.base_length];
        let Some(directory) = path_into(&mut directory, format_args!("/lathunt-{uid}"), base) else {
            return false;
        };
        if !own_directory(directory, uid) {
            return false;
        }
        let (pid, start) = (std::process::id(), start_ticks());
        for image in 0..1000 {
            let name = format_args!("/{pid}-{start}-{image}");
            let Some(path) = path_into(&mut self.path, name, directory.to_bytes()) else { return false };
            let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC | libc::O_NOFOLLOW;
            // SAFETY: a NUL-terminated path.
            self.fd = unsafe { libc::open(path.as_ptr(), flags, 0o600) };
            if self.fd >= 0 {
                return (lock_file(self.fd) && reserve_space(self.fd, 0, bytes)) || self.give_up();
            }
            if errno() != libc::EEXIST {
                return false;
            }
        }
        false
    }

    fn fill(&mut self, shared: &SharedControl) {
        let kind = clock::choose();
        self.created = clock::anchor(kind);
        shared.version.store(VERSION, Ordering::Relaxed);
        shared.pid.store(u64::from(std::process::id()), Ordering::Relaxed);
        shared.start_ticks.store(start_ticks(), Ordering::Relaxed);
        shared.created_ns.store(self.created.ns, Ordering::Relaxed);
        shared.clock.store(kind as u64, Ordering::Relaxed);
        shared.tick_q32.store(1 << 32, Ordering::Relaxed);
        let mut comm = [0; 16];
        read_comm(&mut comm);
        for (word, bytes) in shared.comm.iter().zip(comm.chunks_exact(8)) {
            word.store(u64::from_le_bytes(bytes.try_into().unwrap_or_default()), Ordering::Relaxed);
        }
    }

    fn give_up(&mut self) -> bool {
        // SAFETY: our own path and descriptor.
        unsafe {
            libc::unlink(self.path.as_ptr().cast());
            libc::close(self.fd);
        }
        self.fd = -1;
        self.control = std::ptr::null_mut();
        false
    }

    /// A ring for one more thread: of the requested size while that is at most 1/64 of what the limit leaves, so
    /// that the first threads get large ones and the five-hundredth still gets a small one.
    pub fn add_thread_ring(&mut self) -> Option<&'static SharedRing> {
        let left = self.memory_max.saturating_sub(self.file_bytes);
        let fair = (left / 64).max(RING_BYTES_MIN).min(self.ring_bytes);
        let size = 1 << fair.ilog2();
        if size + RING_HEADER_BYTES as u64 > left {
            return None;
        }
        self.add_ring(size)
    }

    fn add_ring(&mut self, packets_bytes: u64) -> Option<&'static SharedRing> {
        let index = self.ring_count;
        if index == RINGS_MAX || !self.descriptor_is_ours() {
            return None;
        }
        let (at, bytes) = (self.file_bytes, packets_bytes + RING_HEADER_BYTES as u64);
        if !reserve_space(self.fd, at, bytes) {
            return None;
        }
        let ring = map(self.fd, at, bytes)?.cast::<SharedRing>().cast_const();
        self.file_bytes += bytes;
        self.rings[index] = ring;
        self.ring_count += 1;
        // SAFETY: mapped for the life of the process.
        let (ring, control) = unsafe { (&*ring, &*self.control.cast::<SharedControl>()) };
        let overwrite = index > 0 && self.session().is_some_and(|session| session.overwrites());
        prepare(ring, bytes, control.clock.load(Ordering::Relaxed), overwrite);
        let kind = if ring.clock.load(Ordering::Relaxed) == 0 {
            clock::Kind::Monotonic
        } else {
            clock::Kind::Counter
        };
        control.tick_q32.store(clock::tick_q32(self.created, clock::anchor(kind)), Ordering::Relaxed);
        // SAFETY: the table has RINGS_MAX aligned words inside the control area.
        let entry = unsafe { &*self.control.add(RING_TABLE_AT).cast::<AtomicU64>().add(index) };
        entry.store(at, Ordering::Relaxed);
        control.rings.store(self.ring_count as u64, Ordering::Release);
        Some(ring)
    }

    /// Programs that close all descriptors (daemons) close ours too: then the file is opened and locked again.
    fn descriptor_is_ours(&mut self) -> bool {
        if same_file(self.fd, &self.path) {
            return true;
        }
        // SAFETY: a NUL-terminated path.
        self.fd = unsafe {
            libc::open(self.path.as_ptr().cast(), libc::O_RDWR | libc::O_CLOEXEC | libc::O_NOFOLLOW)
        };
        self.fd >= 0 && lock_file(self.fd)
    }

    /// Directory of this user's files. Allocates.
    #[must_use]
    pub fn directory(&self) -> std::path::PathBuf {
        let path = text_of(&self.path).to_string_lossy().into_owned();
        std::path::Path::new(&path).parent().map_or_else(Default::default, std::path::Path::to_path_buf)
    }

    /// At an orderly exit. Without a session the memory is not needed: it is removed at once.
    pub fn end(&mut self) {
        if self.control.is_null() {
            return;
        }
        // SAFETY: mapped.
        let control = unsafe { &*self.control.cast::<SharedControl>() };
        control.ended.store(1, Ordering::Release);
        if self.session().is_none() {
            // SAFETY: our own path.
            unsafe { libc::unlink(self.path.as_ptr().cast()) };
        }
    }
}

fn prepare(ring: &SharedRing, bytes: u64, clock: u64, overwrite: bool) {
    let packets = (bytes - RING_HEADER_BYTES as u64) / PACKET_BYTES;
    ring.packet_words.store(PACKET_BYTES / 8, Ordering::Relaxed);
    ring.packet_mask.store(packets - 1, Ordering::Relaxed);
    ring.clock.store(clock, Ordering::Relaxed);
    ring.bytes.store(bytes, Ordering::Relaxed);
    ring.consumed.store(1, Ordering::Relaxed);
    ring.overwrite.store(u64::from(overwrite), Ordering::Relaxed);
    let full = State::new(0, 0, State::CLOSED); // the first event opens packet 1
    ring.reserve.store(full.0, Ordering::Relaxed);
    ring.committed.store(full.0, Ordering::Relaxed);
}
