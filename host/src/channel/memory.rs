//! A part of a program's file as 64-bit words, every access checked.
//!
//! The program may write at the same time, so words are read atomically and copied before they are interpreted. Its owner
//! could even truncate the file under us: the size is checked first, and pages that vanish later are replaced by zeros (see
//! `survive_shrinking_files`).

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

/// A mapping, readable, and writable if the file is.
#[derive(Debug)]
pub struct Memory {
    start: *mut u8,
    length: usize,
    writable: bool,
}

impl Memory {
    /// Maps `length` bytes at `at`; `None` if the file is shorter, or there is no memory.
    #[must_use]
    pub fn map(file: &File, at: u64, length: usize) -> Option<Memory> {
        Memory::map_with(file, at, length, true)
    }

    /// The same, read-only if `writable` is false.
    #[must_use]
    pub fn map_with(file: &File, at: u64, length: usize, writable: bool) -> Option<Memory> {
        let size = file.metadata().ok()?.len();
        if !at.is_multiple_of(4096) || length == 0 || at.checked_add(length as u64)? > size {
            return None;
        }
        survive_shrinking_files();
        let rights = if writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        // SAFETY: a new mapping of an open file, inside its size.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                rights,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                at as libc::off_t,
            )
        };
        if start == libc::MAP_FAILED {
            return None;
        }
        mapped().insert(start as usize, start as usize + length.next_multiple_of(PAGE));
        Some(Memory { start: start.cast(), length, writable })
    }

    /// Stores a word, if the mapping is writable.
    ///
    /// # Panics
    /// As [`Memory::word`].
    pub fn store(&self, at: usize, value: u64, order: Ordering) {
        if self.writable {
            self.word(at).store(value, order);
        }
    }

    /// Stores a byte, if the mapping is writable.
    ///
    /// # Panics
    /// As [`Memory::byte`].
    pub fn store_byte(&self, at: usize, value: u8) {
        if self.writable {
            self.byte(at).store(value, Ordering::Relaxed);
        }
    }

    /// The word at byte offset `at`.
    ///
    /// # Panics
    /// Outside the mapping: callers check offsets that come from the program.
    #[must_use]
    pub fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at + 8 <= self.length, "word {at} of {}", self.length);
        // SAFETY: inside the mapping, aligned, and atomic words may be shared.
        unsafe { &*self.start.add(at).cast() }
    }

    /// The byte at offset `at`; panics as [`Memory::word`] does.
    #[must_use]
    pub fn byte(&self, at: usize) -> &AtomicU8 {
        assert!(at < self.length, "byte {at} of {}", self.length);
        // SAFETY: inside the mapping.
        unsafe { &*self.start.add(at).cast() }
    }

    /// Replaces `into` by the words in `from..to` (byte offsets, multiples of 8), each read atomically.
    pub fn copy(&self, from: usize, to: usize, into: &mut Vec<u8>) {
        let to = to.min(self.length);
        if from >= to {
            return into.clear();
        }
        let _in_range = self.word(to - 8);
        into.resize(to - from, 0);
        let mut word = self.word(from).as_ptr().cast_const();
        for bytes in into.chunks_exact_mut(8) {
            // SAFETY: between `from` and `to`, both of which have been checked; the program may write concurrently, so each
            // word is read once and as a whole.
            let read = unsafe { AtomicU64::from_ptr(word.cast_mut()).load(Ordering::Relaxed) };
            if let Ok(bytes) = <&mut [u8; 8]>::try_from(bytes) {
                *bytes = read.to_le_bytes();
            }
            // SAFETY: at most one past the last word.
            word = unsafe { word.add(1) };
        }
    }

    /// Bytes mapped.
    #[must_use]
    pub fn length(&self) -> usize {
        self.length
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        mapped().remove(&(self.start as usize));
        // SAFETY: our own mapping; no reference outlives `self`.
        unsafe { libc::munmap(self.start.cast(), self.length) };
    }
}

// SAFETY: plain shared memory; all access is atomic.
unsafe impl Send for Memory {}

const PAGE: usize = 4096;

/// Start and end of every mapping. Nothing touches the mapped memory while this is locked, so the handler of a fault may lock it.
static MAPPED: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

fn mapped() -> MutexGuard<'static, BTreeMap<usize, usize>> {
    MAPPED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A mapped file that its owner has truncated reads as zeros from there on, instead of killing the consumer.
fn survive_shrinking_files() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        crate::signals::keep_bus_errors();
        // SAFETY: the handler only calls mmap, which is safe in signal handlers on Linux.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = replace_by_zeros as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            libc::sigaction(libc::SIGBUS, &action, std::ptr::null_mut());
        }
    });
}

/// Replaces the rest of the mapping, not one page: the kernel limits the number of mappings (vm.max_map_count), and a program
/// chooses which pages are read.
extern "C" fn replace_by_zeros(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    const BEYOND_THE_FILE: libc::c_int = 2; // BUS_ADRERR
                                            // SAFETY: the kernel passes a valid siginfo; the replaced pages no longer have
                                            // any content. Without a mapping of ours, or a real bus error: let it kill us.
    unsafe {
        let page = (*info).si_addr() as usize & !(PAGE - 1);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // Not for a signal that a process sent, which may interrupt the lock.
        let is_ours = (*info).si_code == BEYOND_THE_FILE;
        let end = if is_ours { mapped().range(..=page).next_back().map_or(0, |(_, &end)| end) } else { 0 };
        if end <= page
            || libc::mmap(page as *mut libc::c_void, end - page, rights, flags, -1, 0) == libc::MAP_FAILED
        {
            libc::signal(signal, libc::SIG_DFL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_shrinks_reads_as_zeros() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(8192).unwrap();
        let memory = Memory::map(&file, 0, 8192).unwrap();
        memory.word(4096).store(7, Ordering::Relaxed);
        assert_eq!(memory.word(4096).load(Ordering::Relaxed), 7);
        file.set_len(4096).unwrap();
        assert_eq!(memory.word(4096).load(Ordering::Relaxed), 0);
        assert!(Memory::map(&file, 0, 8192).is_none() && Memory::map(&file, u64::MAX - 4095, 4096).is_none());
    }
}
