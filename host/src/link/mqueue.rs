//! POSIX message queues. Their names are removed as soon as both ends have them open.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};

use lathunt_core::latency_box::message::SIZE;

use super::descriptor::{done, length};
use super::{Inlet, Outlet};

/// Maximum number of queued messages: enough for a stall, or the kernel's default limit for unprivileged users.
const DEPTHS: [libc::c_long; 2] = [1_024, 10];

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// Creates a queue whose name is already removed.
///
/// # Errors
/// As mq_open: the kernel does not support them, or a limit is reached.
pub fn create() -> io::Result<OwnedFd> {
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = CString::new(format!("/lathunt-{}-{number}", std::process::id()))?;
    let open = |depth| {
        // SAFETY: mq_attr is plain integers, for which zeros are valid.
        let mut attributes: libc::mq_attr = unsafe { std::mem::zeroed() };
        (attributes.mq_maxmsg, attributes.mq_msgsize) = (depth, SIZE as libc::c_long);
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
        // SAFETY: a NUL-terminated name and attributes that are valid to read.
        done(unsafe { libc::mq_open(name.as_ptr(), flags, 0o600 as libc::mode_t, &raw const attributes) })
    };
    let queue = open(DEPTHS[0]).or_else(|_| open(DEPTHS[1]))?;
    // SAFETY: as above.
    unsafe { libc::mq_unlink(name.as_ptr()) };
    // SAFETY: on Linux a queue is a file descriptor; just made, owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(queue) })
}

/// One direction.
pub struct Queue(pub OwnedFd);

impl Outlet for Queue {
    #[inline]
    fn send(&mut self, message: &[u8; SIZE]) -> io::Result<()> {
        // A full queue delays the schedule, which counts skipped stimuli: the box itself loses none.
        // SAFETY: `message` is valid to read for its length.
        done(unsafe { libc::mq_send(self.0.as_raw_fd(), message.as_ptr().cast(), SIZE, 0) }).map(drop)
    }
}

impl Inlet for Queue {
    #[inline]
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // SAFETY: `buffer` is valid to write for its length.
        length(unsafe {
            let (start, len) = (buffer.as_mut_ptr().cast(), buffer.len());
            libc::mq_receive(self.0.as_raw_fd(), start, len, std::ptr::null_mut())
        })
    }

    fn descriptor(&self) -> Option<RawFd> {
        Some(self.0.as_raw_fd())
    }
}
