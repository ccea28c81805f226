//! A helper thread that polls the epoll while the runtime runs less urgent threads, and interrupts it.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::Arc;

use crate::signal;

const RESTING: u32 = 0;
const WATCHING: u32 = 1;

/// Shared by the helper and the runtime.
pub(super) struct Watcher {
    state: AtomicU32,
    asleep: AtomicBool,
    stopped: AtomicBool,
    epoll: i32,
    user: i32,
}

impl Watcher {
    /// Starts the helper. `priority`: SCHED_FIFO priority of the runtime's kernel thread; the helper gets one more.
    pub(super) fn start(epoll: i32, user: i32, priority: Option<i32>) -> io::Result<Arc<Watcher>> {
        // SAFETY: duplicates a descriptor of ours.
        let epoll = unsafe { libc::fcntl(epoll, libc::F_DUPFD_CLOEXEC, 0) };
        if epoll < 0 {
            return Err(io::Error::last_os_error());
        }
        let watcher = Arc::new(Watcher {
            state: AtomicU32::new(RESTING),
            asleep: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            epoll,
            user,
        });
        let shared = watcher.clone();
        std::thread::Builder::new().name("lathunt-watch".into()).stack_size(64 * 1024).spawn(move || {
            signal::block_all();
            if let Some(priority) = priority {
                let parameters = libc::sched_param { sched_priority: priority + 1 };
                // SAFETY: applies to the calling thread; refused, it stays an ordinary one.
                unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameters) };
            }
            shared.work();
        })?;
        Ok(watcher)
    }

    /// Starts polling; interrupts once.
    pub(super) fn watch(&self) {
        if self.state.swap(WATCHING, Ordering::AcqRel) == RESTING && self.asleep.load(Ordering::Acquire) {
            self.wake();
        }
    }

    /// Stops polling: the runtime checks by itself.
    pub(super) fn rest(&self) {
        self.state.store(RESTING, Ordering::Release);
    }

    /// Ends the helper; if it is sleeping in the epoll, at its next event or with the process.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.state.store(WATCHING, Ordering::Release);
        self.wake();
    }

    fn wake(&self) {
        let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the word lives on.
        unsafe { libc::syscall(libc::SYS_futex, self.state.as_ptr(), operation, 1) };
    }

    fn work(&self) {
        while !self.stopped.load(Ordering::Acquire) {
            if self.state.load(Ordering::Acquire) == RESTING {
                self.asleep.store(true, Ordering::SeqCst);
                let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
                let none = std::ptr::null::<libc::timespec>();
                // SAFETY: the word lives on.
                unsafe { libc::syscall(libc::SYS_futex, self.state.as_ptr(), operation, RESTING, none) };
                self.asleep.store(false, Ordering::SeqCst);
                continue;
            }
            let mut ready = libc::pollfd { fd: self.epoll, events: libc::POLLIN, revents: 0 };
            // SAFETY: one valid entry.
            let count = unsafe { libc::poll(&mut ready, 1, -1) };
            let watching =
                self.state.compare_exchange(WATCHING, RESTING, Ordering::AcqRel, Ordering::Acquire).is_ok();
            if count > 0 && watching && !self.stopped.load(Ordering::Acquire) && !signal::send(self.user) {
                return;
            }
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // SAFETY: ours.
        unsafe { libc::close(self.epoll) };
    }
}
