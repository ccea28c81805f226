//! Limits of the caller (`ulimit`, control groups) that would end this program with an abort: it ends in order with one line,
//! which the caller of this module prints.

use std::alloc::{GlobalAlloc, Layout};

use lathunt_runtime::FiberAlloc;

/// Error number at the limit of open files (EMFILE).
pub const TOO_MANY_OPEN_FILES: i32 = libc::EMFILE;
/// Stack with which every command works, in bytes.
const STACK: u64 = 1 << 20;
/// Files that every command may have open at once, without the kernel recorder; `trace` of two CPUs has 17.
const FILES: u64 = 64;

/// Raises a smaller limit of the stack as far as the hard limit permits.
///
/// # Errors
/// The limit is too small (bytes); and the number of bytes that are needed.
pub fn ensure_stack() -> Result<(), (u64, u64)> {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: a valid rlimit to write to. Without an answer, no limit is known.
    if unsafe { libc::getrlimit(libc::RLIMIT_STACK, &mut limit) } != 0 || limit.rlim_cur >= STACK {
        return Ok(());
    }
    let wanted = libc::rlimit { rlim_cur: limit.rlim_max.min(STACK), ..limit };
    // SAFETY: an initialised rlimit. The kernel compares the stack with the limit whenever it grows.
    let raised = unsafe { libc::setrlimit(libc::RLIMIT_STACK, &wanted) } == 0;
    let have = if raised { wanted.rlim_cur } else { limit.rlim_cur };
    if have >= STACK {
        Ok(())
    } else {
        Err((have, STACK))
    }
}

/// Ensures that 64 more files can be opened: raises the soft limit as far as the hard limit permits.
///
/// # Errors
/// The limit of open files is too small; and the number that is needed.
pub fn ensure_files() -> Result<(), (u64, u64)> {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: a valid rlimit to write to. Without an answer, no limit is known.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } != 0 || limit.rlim_cur >= 1024 {
        return Ok(()); // open files are not counted at each start
    }
    // SAFETY: F_GETFD only looks whether the descriptor is open.
    let is_open = |&fd: &libc::c_int| unsafe { libc::fcntl(fd, libc::F_GETFD) } != -1;
    let needed = (0..1024).filter(is_open).count() as u64 + FILES;
    let wanted = libc::rlimit { rlim_cur: limit.rlim_max.min(needed), ..limit };
    if limit.rlim_cur < needed {
        // SAFETY: an initialised rlimit. The soft limit is raised to the hard one at most, which needs no privilege.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &wanted) };
    }
    match limit.rlim_max >= needed {
        true => Ok(()),
        false => Err((limit.rlim_max, needed)),
    }
}

/// Raises the limit of open files as far as the hard limit permits.
pub fn raise_files() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a valid rlimit. The soft limit is raised to the hard one at most, which needs no privilege.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}

/// What to do when the kernel refuses `what` with `errno` because of a limit of the caller.
#[must_use]
pub fn remedy(doing: &str, what: &str, errno: i32) -> Option<&'static str> {
    match (errno, doing) {
        (libc::EMFILE, _) => Some("raise the limit of open files (ulimit -n)"),
        (libc::ENFILE, _) => Some("raise the limit of open files of the whole machine (sysctl fs.file-max)"),
        (libc::EAGAIN, _) if what.ends_with("timer") => {
            Some("raise the limit of pending signals (ulimit -i)")
        }
        (libc::EAGAIN, "start") => {
            Some("raise the limit of processes (ulimit -u, pids.max) or of memory (ulimit -v)")
        }
        _ => None,
    }
}

/// [`FiberAlloc`] that ends the process when memory is refused (`ulimit -v`, `ulimit -d`), where Rust would abort. Also
/// for an allocation whose failure the caller would handle.
#[derive(Debug)]
pub struct Allocator {
    refused: fn(usize) -> i32,
}

impl Allocator {
    /// `refused` gets the refused number of bytes and returns the exit code; it must not allocate.
    #[must_use]
    pub const fn new(refused: fn(usize) -> i32) -> Allocator {
        Allocator { refused }
    }

    #[inline]
    fn checked(&self, memory: *mut u8, bytes: usize) -> *mut u8 {
        if memory.is_null() {
            self.end(bytes);
        }
        memory
    }

    #[cold]
    fn end(&self, bytes: usize) {
        let code = (self.refused)(bytes);
        // SAFETY: ends the process; exit handlers might allocate. The kernel releases what is not in a journal.
        unsafe { libc::_exit(code) };
    }
}

// SAFETY: FiberAlloc does the work; its answers are passed on.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        self.checked(unsafe { FiberAlloc.alloc(layout) }, layout.size())
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { FiberAlloc.dealloc(memory, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        self.checked(unsafe { FiberAlloc.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        self.checked(unsafe { FiberAlloc.realloc(memory, layout, size) }, size)
    }
}
