//! Stacks: anonymous memory above guard pages. The used part of a stack is found by its non-zero pages.

use std::io;

/// Memory for one thread, unmapped when dropped.
#[derive(Debug)]
pub struct Stack {
    base: *mut u8,
    guard: usize,
    size: usize,
}

/// Minimum size for the program's own frames.
const LEAST: usize = 8 * 1024;

/// Bytes of address space below a stack that catch an overrun. A function with a larger frame can step over them, unless it
/// is compiled with -fstack-clash-protection, as Rust's are.
const GUARD: usize = 64 * 1024;

/// Bytes that the kernel may need for a signal frame: all registers of this CPU (AVX-512: 3.3 KiB, AMX: 11 KiB).
#[must_use]
pub fn signal_frame() -> usize {
    // SAFETY: reads the auxiliary vector.
    let least = unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) } as usize;
    least.max(if cfg!(target_arch = "aarch64") { 5120 } else { 2048 })
}

/// Reserve of each stack: the frame of the preemption, its handler, and one handler of the program on top of it.
#[must_use]
pub fn reserve() -> usize {
    2 * signal_frame() + 4096
}

fn page() -> usize {
    // SAFETY: no preconditions.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

impl Stack {
    /// A stack of `size` bytes for the program, besides [`reserve`]; `touched`: its pages are populated now.
    ///
    /// # Errors
    /// The error of mmap: no memory, or too many mappings.
    pub fn new(size: usize, touched: bool) -> io::Result<Stack> {
        let page = page();
        let too_large = || io::Error::from_raw_os_error(libc::ENOMEM);
        let size = size.max(LEAST).checked_add(reserve() + page - 1).ok_or_else(too_large)? & !(page - 1);
        let guard = GUARD.next_multiple_of(page);
        let whole = size.checked_add(guard).ok_or_else(too_large)?;
        let populate = if touched { libc::MAP_POPULATE } else { libc::MAP_NORESERVE };
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK | populate;
        // SAFETY: a new mapping; it hides none.
        let base = unsafe {
            libc::mmap(std::ptr::null_mut(), whole, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let stack = Stack { base: base.cast(), guard, size };
        // SAFETY: the first pages of the new mapping.
        if unsafe { libc::mprotect(base, guard, libc::PROT_NONE) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(stack)
    }

    /// One past its highest byte.
    #[must_use]
    pub fn top(&self) -> *mut u8 {
        // SAFETY: within the mapping, or one past it.
        unsafe { self.base.add(self.guard + self.size) }
    }

    /// Lowest usable address, and one past the highest.
    #[must_use]
    pub fn bounds(&self) -> (usize, usize) {
        (self.base as usize + self.guard, self.top() as usize)
    }

    /// Whether an address is in the guard pages.
    #[must_use]
    pub fn guards(&self, address: usize) -> bool {
        (self.base as usize..self.base as usize + self.guard).contains(&address)
    }

    /// Bytes for the program and the reserve, without the guard pages.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Maximum bytes in use, as far as they were not zeros. Reads the whole stack: not for hot paths.
    #[must_use]
    pub fn used(&self) -> usize {
        let words = self.size / 8;
        // SAFETY: all of it is mapped and readable; only this thread, which is elsewhere, or an ended one writes it.
        let first = (0..words)
            .find(|&word| unsafe { self.base.add(self.guard).cast::<u64>().add(word).read_volatile() != 0 });
        first.map_or(0, |word| self.size - word * 8)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: our mapping, which no thread runs on any more.
        unsafe { libc::munmap(self.base.cast(), self.guard + self.size) };
    }
}

/// Bounds of the calling kernel thread's own stack.
#[must_use]
pub fn native_bounds() -> (usize, usize) {
    // SAFETY: the attributes are initialised by the first call, read, and destroyed.
    unsafe {
        let mut attributes = std::mem::zeroed();
        if libc::pthread_getattr_np(libc::pthread_self(), &mut attributes) != 0 {
            return (0, usize::MAX);
        }
        let (mut base, mut size) = (std::ptr::null_mut(), 0);
        let found = libc::pthread_attr_getstack(&attributes, &mut base, &mut size) == 0;
        libc::pthread_attr_destroy(&mut attributes);
        if found {
            (base as usize, base as usize + size)
        } else {
            (0, usize::MAX)
        }
    }
}
