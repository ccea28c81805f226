//! Shared memory of a channel that carries only wake-ups: a mailbox each way, and room for the waking primitive.
//!
//! One message is in flight each way. The writer stores the words and then the count; the checksum of the message detects a
//! reader that was overtaken.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::sync::Arc;

use lathunt_core::latency_box::message::SIZE;

use super::descriptor::done;

const WORDS: usize = SIZE / 4;

/// Bytes for the primitive of one direction: the largest is a pthread mutex with a condition variable.
const ROOM: usize = 256;

/// One direction. On cache lines of its own.
#[repr(C, align(128))]
pub struct Mailbox {
    /// Number of messages so far; a futex waits on it.
    pub count: AtomicU32,
    words: [AtomicU32; WORDS],
    /// Thread that receives; 0 until it starts.
    pub receiver: AtomicI32,
    /// The primitive is initialized.
    pub ready: AtomicU32,
    /// Futexes with priority inheritance.
    pub locks: [AtomicU32; 2],
    room: std::cell::UnsafeCell<[u64; ROOM / 8]>,
}

// SAFETY: all but `room` is atomic; `room` is only handed out as a raw pointer for primitives that are made for sharing.
unsafe impl Sync for Mailbox {}

impl Mailbox {
    /// Stores a message. One writer.
    #[inline]
    pub fn put(&self, message: &[u8; SIZE]) {
        let (words, _) = message.as_chunks::<4>();
        for (slot, word) in self.words.iter().zip(words) {
            slot.store(u32::from_ne_bytes(*word), Ordering::Relaxed);
        }
        self.count.fetch_add(1, Ordering::Release);
    }

    /// Copies the message if its number differs from `seen`; returns that number.
    #[inline]
    pub fn take(&self, seen: &mut u32, buffer: &mut [u8]) -> Option<usize> {
        let count = self.count.load(Ordering::Acquire);
        if count == *seen {
            return None;
        }
        *seen = count;
        let (space, _) = buffer.as_chunks_mut::<4>();
        for (slot, word) in space.iter_mut().zip(&self.words) {
            *slot = word.load(Ordering::Relaxed).to_ne_bytes();
        }
        Some(SIZE.min(buffer.len()))
    }

    /// Where the primitive is, aligned for any of them.
    #[must_use]
    pub fn room(&self) -> *mut libc::c_void {
        self.room.get().cast()
    }
}

/// Both directions: 0 stimuli, 1 answers.
#[repr(C)]
pub struct Shared {
    /// The mailboxes.
    pub directions: [Mailbox; 2],
}

/// A mapping of it.
pub struct Memory {
    start: *const Shared,
}

// SAFETY: `Shared` is Sync, and the mapping lives as long as this.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl std::ops::Deref for Memory {
    type Target = Shared;
    fn deref(&self) -> &Shared {
        // SAFETY: mapped with the size of Shared, page-aligned, zeroed by the kernel, for which all fields are valid.
        unsafe { &*self.start }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length.
        unsafe { libc::munmap(self.start.cast_mut().cast(), size_of::<Shared>()) };
    }
}

/// Memory that another process can map: sealed, so that neither can truncate it under the other.
///
/// # Errors
/// As memfd_create, ftruncate.
pub fn create() -> io::Result<OwnedFd> {
    // SAFETY: a NUL-terminated name.
    let fd = done(unsafe {
        libc::memfd_create(c"lathunt-channel".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING)
    })?;
    // SAFETY: just made, owned by nobody else.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: no pointers.
    done(unsafe { libc::ftruncate(fd.as_raw_fd(), size_of::<Shared>() as libc::off_t) })?;
    // SAFETY: no pointers.
    done(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, libc::F_SEAL_SHRINK | libc::F_SEAL_GROW) })?;
    Ok(fd)
}

/// Maps it.
///
/// # Errors
/// If it is not such memory (of another size, or not sealed), or as mmap.
pub fn map(fd: &OwnedFd) -> io::Result<Arc<Memory>> {
    // SAFETY: stat is plain integers, for which zeros are valid.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `stat` is valid to write.
    done(unsafe { libc::fstat(fd.as_raw_fd(), &mut stat) })?;
    // SAFETY: no pointers.
    let seals = done(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GET_SEALS) })?;
    if stat.st_size as usize != size_of::<Shared>() || seals & libc::F_SEAL_SHRINK == 0 {
        return Err(io::Error::from_raw_os_error(libc::EPROTO));
    }
    let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_POPULATE);
    // SAFETY: a new mapping of a file of that size.
    let start =
        unsafe { libc::mmap(std::ptr::null_mut(), size_of::<Shared>(), rights, flags, fd.as_raw_fd(), 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(Arc::new(Memory { start: start.cast() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_taken_once() {
        let memory = map(&create().unwrap()).unwrap();
        let (mailbox, mut seen, mut buffer) = (&memory.directions[1], 0, [0; SIZE]);
        assert_eq!(mailbox.take(&mut seen, &mut buffer), None);
        let message: [u8; SIZE] = std::array::from_fn(|at| at as u8);
        mailbox.put(&message);
        assert_eq!((mailbox.take(&mut seen, &mut buffer), buffer), (Some(SIZE), message));
        assert_eq!(mailbox.take(&mut seen, &mut buffer), None);
    }

    #[test]
    fn memory_that_could_be_taken_away_is_refused() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(size_of::<Shared>() as u64).unwrap();
        assert!(map(&file.into()).is_err());
    }
}
