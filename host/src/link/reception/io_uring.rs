//! A recv (sockets) or read (others) of io_uring: submitted and waited for with one system call. include/uapi/linux/io_uring.h.
//!
//! One request is in flight at a time, into a buffer of this file's own, so that a wait interrupted by a signal loses
//! nothing. Before a box is adopted the inlet's own read is used: it records the sender.

use std::cell::UnsafeCell;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::Ordering;

use super::super::descriptor::{done, length};
use super::super::Inlet;
use super::mapping::Mapping;

const OP_ASYNC_CANCEL: u8 = 14;
const OP_READ: u8 = 22;
const OP_RECV: u8 = 27;
const ENTER_GETEVENTS: libc::c_uint = 1;
const FEATURE_SINGLE_MMAP: u32 = 1;
const OFFSET_RINGS: libc::off_t = 0;
const OFFSET_ENTRIES: libc::off_t = 0x1000_0000;
const ENTRIES: u32 = 4;
/// Longest read.
const ROOM: usize = 4_096;
/// `user_data` of a request and of its cancellation.
const RECEIVE: u64 = 1;
const CANCEL: u64 = 2;

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct SubmissionOffsets {
    head: u32,
    tail: u32,
    mask: u32,
    entries: u32,
    flags: u32,
    dropped: u32,
    array: u32,
    reserved: u32,
    user_address: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct CompletionOffsets {
    head: u32,
    tail: u32,
    mask: u32,
    entries: u32,
    overflow: u32,
    completions: u32,
    flags: u32,
    reserved: u32,
    user_address: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Parameters {
    submissions: u32,
    completions: u32,
    flags: u32,
    thread_cpu: u32,
    thread_idle: u32,
    features: u32,
    wq_fd: u32,
    reserved: [u32; 3],
    submission: SubmissionOffsets,
    completion: CompletionOffsets,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Submission {
    operation: u8,
    flags: u8,
    priority: u16,
    fd: i32,
    offset: u64,
    address: u64,
    length: u32,
    operation_flags: u32,
    user_data: u64,
    rest: [u64; 3],
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Completion {
    user_data: u64,
    result: i32,
    flags: u32,
}

const _: () =
    assert!(size_of::<Parameters>() == 120 && size_of::<Submission>() == 64 && size_of::<Completion>() == 16);

/// An inlet that is read through a ring of its own.
pub(super) struct IoUring {
    inner: Box<dyn Inlet>,
    fd: RawFd,
    is_socket: bool,
    datagrams: bool,
    adopted: bool,
    ring: OwnedFd,
    rings: Mapping,
    entries: Mapping,
    parameters: Parameters,
    /// The kernel writes here while a request is in flight.
    buffer: Box<UnsafeCell<[u8; ROOM]>>,
    under_way: bool,
}

// SAFETY: the mappings are used by the one thread that has `&mut self`; nothing is bound to the thread that made the ring.
unsafe impl Send for IoUring {}

impl IoUring {
    pub(super) fn new(inner: Box<dyn Inlet>, fd: RawFd, datagrams: bool) -> io::Result<IoUring> {
        let mut parameters = Parameters::default();
        // SAFETY: `parameters` has the kernel's layout and is valid to write.
        let ring = unsafe { libc::syscall(libc::SYS_io_uring_setup, ENTRIES, &raw mut parameters) };
        let ring = length(ring as libc::ssize_t)? as RawFd;
        // SAFETY: just made, owned by nobody else.
        let ring = unsafe { OwnedFd::from_raw_fd(ring) };
        if parameters.features & FEATURE_SINGLE_MMAP == 0 {
            return Err(io::Error::from_raw_os_error(libc::ENOSYS)); // before Linux 5.4
        }
        let (submission, completion) = (&parameters.submission, &parameters.completion);
        let of_submissions = submission.array as usize + 4 * parameters.submissions as usize;
        let of_completions =
            completion.completions as usize + size_of::<Completion>() * parameters.completions as usize;
        let rings = Mapping::new(ring.as_raw_fd(), of_submissions.max(of_completions), OFFSET_RINGS)?;
        let size = size_of::<Submission>() * parameters.submissions as usize;
        let entries = Mapping::new(ring.as_raw_fd(), size, OFFSET_ENTRIES)?;
        // SAFETY: stat is plain integers, for which zeros are valid; `stat` is valid to write.
        let is_socket = unsafe {
            let mut stat: libc::stat = std::mem::zeroed();
            done(libc::fstat(fd, &mut stat))?;
            stat.st_mode & libc::S_IFMT == libc::S_IFSOCK
        };
        let buffer = Box::new(UnsafeCell::new([0; ROOM]));
        let (adopted, under_way) = (false, false);
        Ok(IoUring {
            inner,
            fd,
            is_socket,
            datagrams,
            adopted,
            ring,
            rings,
            entries,
            parameters,
            buffer,
            under_way,
        })
    }

    /// Puts an entry into the queue; [`IoUring::enter`] submits it.
    fn push(&self, entry: Submission) {
        let offsets = &self.parameters.submission;
        let tail = self.rings.word(offsets.tail);
        let at = tail.load(Ordering::Relaxed);
        let slot = at & self.rings.word(offsets.mask).load(Ordering::Relaxed);
        // SAFETY: the slot is within the entries by the kernel's mask; the kernel does not read it before the tail says so.
        unsafe { self.entries.start.cast::<Submission>().add(slot as usize).write(entry) };
        self.rings.word(offsets.array + 4 * slot).store(slot, Ordering::Relaxed);
        tail.store(at.wrapping_add(1), Ordering::Release);
    }

    fn enter(&self, submit: u32, wait: u32) -> io::Result<()> {
        // SAFETY: no signal mask is given.
        let entered = unsafe {
            let none = ptr::null::<libc::c_void>();
            libc::syscall(
                libc::SYS_io_uring_enter,
                self.ring.as_raw_fd(),
                submit,
                wait,
                ENTER_GETEVENTS,
                none,
                0,
            )
        };
        length(entered as libc::ssize_t).map(drop)
    }

    fn completion(&self) -> Option<Completion> {
        let offsets = &self.parameters.completion;
        let head = self.rings.word(offsets.head);
        let at = head.load(Ordering::Relaxed);
        if at == self.rings.word(offsets.tail).load(Ordering::Acquire) {
            return None;
        }
        let slot = at & self.rings.word(offsets.mask).load(Ordering::Relaxed);
        // SAFETY: within the completions by the kernel's mask; written before the tail said so.
        let completion = unsafe {
            let first = self.rings.start.add(offsets.completions as usize).cast::<Completion>();
            first.add(slot as usize).read()
        };
        head.store(at.wrapping_add(1), Ordering::Release);
        Some(completion)
    }

    fn request(&mut self, length: usize) {
        let operation_flags = if self.is_socket && self.datagrams { libc::MSG_TRUNC as u32 } else { 0 };
        let address = self.buffer.get() as u64;
        self.push(Submission {
            operation: if self.is_socket { OP_RECV } else { OP_READ },
            fd: self.fd,
            // The file's own position, if it has one; it must be 0 for a socket.
            offset: if self.is_socket { 0 } else { u64::MAX },
            address,
            length: length.min(ROOM) as u32,
            operation_flags: if self.is_socket { operation_flags } else { 0 },
            user_data: RECEIVE,
            ..Submission::default()
        });
        self.under_way = true;
    }

    /// Cancels a request in flight; data it received in the meantime is lost, like that for a box that has gone.
    fn cancel(&mut self) {
        if !self.under_way {
            return;
        }
        self.push(Submission {
            operation: OP_ASYNC_CANCEL,
            fd: -1,
            address: RECEIVE,
            user_data: CANCEL,
            ..Submission::default()
        });
        let mut submit = 1;
        for _ in 0..100 {
            let _ = self.enter(submit, 1); // a signal may end it
            submit = 0;
            while let Some(completion) = self.completion() {
                self.under_way &= completion.user_data != RECEIVE;
            }
            if !self.under_way {
                return;
            }
        }
    }
}

impl Drop for IoUring {
    fn drop(&mut self) {
        self.cancel();
        if self.under_way {
            // The kernel may still write into it.
            std::mem::forget(std::mem::replace(&mut self.buffer, Box::new(UnsafeCell::new([0; ROOM]))));
        }
    }
}

impl Inlet for IoUring {
    #[inline]
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.adopted {
            return self.inner.receive(buffer);
        }
        let submit = u32::from(!self.under_way);
        if !self.under_way {
            self.request(buffer.len());
        }
        self.enter(submit, 1)?;
        while let Some(completion) = self.completion() {
            if completion.user_data != RECEIVE {
                continue; // completion of a cancellation
            }
            self.under_way = false;
            let n = usize::try_from(completion.result)
                .map_err(|_| io::Error::from_raw_os_error(-completion.result))?;
            // An empty datagram is damaged, not the end; one that is too long must not look valid.
            let least = usize::from(self.datagrams);
            let n = n.max(least).min(buffer.len()).min(ROOM);
            // SAFETY: the request is over, so that the kernel writes no more; n is within both.
            unsafe { ptr::copy_nonoverlapping(self.buffer.get().cast::<u8>(), buffer.as_mut_ptr(), n) };
            return Ok(n);
        }
        Err(io::ErrorKind::Interrupted.into())
    }

    fn descriptor(&self) -> Option<RawFd> {
        Some(self.fd)
    }

    fn adopt(&mut self) -> io::Result<()> {
        self.inner.adopt()?;
        self.adopted = true;
        Ok(())
    }

    fn release(&mut self) {
        self.cancel();
        self.adopted = false;
        self.inner.release();
    }
}
