//! Locks with priority inheritance as a channel: the thread that waits for a lock is woken by its owner's unlock.
//!
//! Only its owner can release such a lock, so each direction has two, and the sender always owns one of them: for a message
//! it takes the other one and releases the one that the receiver waits for. The kernel hands it over to the waiter
//! (rt_mutex), as to a waiting thread of an application. One message is in flight at a time.

use std::io;
use std::ptr;
use std::sync::atomic::Ordering;
use std::sync::Arc;

use lathunt_core::latency_box::message::SIZE;

use super::memory::{Mailbox, Memory};
use super::{Inlet, Outlet};

/// Whether the locks are those of the C library or plain futexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// pthread_mutex: process-shared, robust, priority inheritance.
    Mutex,
    /// FUTEX_LOCK_PI and FUTEX_UNLOCK_PI.
    Futex,
}

/// A wait ends after this time, so that the end of a measurement is noticed.
const LIMIT_NS: i64 = 200_000_000;

/// Creates the locks of a direction.
///
/// # Errors
/// As the C library.
pub fn make(mailbox: &Mailbox, kind: Kind) -> io::Result<()> {
    if kind == Kind::Mutex {
        let check = |result: libc::c_int| match result {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error)),
        };
        // SAFETY: the room holds two mutexes, and nobody uses it yet; the attribute is made before it is used.
        unsafe {
            let mut attribute: libc::pthread_mutexattr_t = std::mem::zeroed();
            check(libc::pthread_mutexattr_init(&mut attribute))?;
            check(libc::pthread_mutexattr_setpshared(&mut attribute, libc::PTHREAD_PROCESS_SHARED))?;
            check(libc::pthread_mutexattr_setprotocol(&mut attribute, libc::PTHREAD_PRIO_INHERIT))?;
            check(libc::pthread_mutexattr_setrobust(&mut attribute, libc::PTHREAD_MUTEX_ROBUST))?;
            for at in 0..2 {
                check(libc::pthread_mutex_init(mutex(mailbox, at), &attribute))?;
            }
        }
    }
    mailbox.ready.store(1, Ordering::Release);
    Ok(())
}

fn mutex(mailbox: &Mailbox, at: usize) -> *mut libc::pthread_mutex_t {
    mailbox.room().cast::<libc::pthread_mutex_t>().wrapping_add(at)
}

fn until() -> libc::timespec {
    // The time limit of both is on CLOCK_REALTIME.
    let until = crate::clock::read(libc::CLOCK_REALTIME) + LIMIT_NS;
    libc::timespec { tv_sec: until / 1_000_000_000, tv_nsec: until % 1_000_000_000 }
}

/// Takes a lock. `TimedOut` after the limit.
fn acquire(mailbox: &Mailbox, kind: Kind, at: usize, me: u32) -> io::Result<()> {
    match kind {
        Kind::Mutex => {
            let mutex = mutex(mailbox, at);
            // SAFETY: made by `make` before the other end got access.
            match unsafe { libc::pthread_mutex_timedlock(mutex, &until()) } {
                0 => Ok(()),
                libc::EOWNERDEAD => {
                    // SAFETY: as above, and it is ours now.
                    unsafe { libc::pthread_mutex_consistent(mutex) };
                    Ok(())
                }
                error => Err(io::Error::from_raw_os_error(error)),
            }
        }
        Kind::Futex => {
            let word = &mailbox.locks[at];
            if word.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return Ok(());
            }
            let limit = until();
            // SAFETY: the word lives as long as the mapping.
            let result = unsafe {
                libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_LOCK_PI, 0, &raw const limit)
            };
            if result == 0 {
                Ok(())
            } else {
                Err(io::Error::last_os_error())
            }
        }
    }
}

fn release(mailbox: &Mailbox, kind: Kind, at: usize, me: u32) {
    match kind {
        // SAFETY: made by `make`, and ours.
        Kind::Mutex => drop(unsafe { libc::pthread_mutex_unlock(mutex(mailbox, at)) }),
        Kind::Futex => {
            let word = &mailbox.locks[at];
            if word.compare_exchange(me, 0, Ordering::Release, Ordering::Relaxed).is_err() {
                let none = ptr::null::<libc::timespec>();
                // SAFETY: the word lives as long as the mapping.
                unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_UNLOCK_PI, 0, none) };
            }
        }
    }
}

/// One end of a direction; used by one thread, which owns the locks.
pub struct Lock {
    /// Shared with the other end.
    pub memory: Arc<Memory>,
    /// 0 stimuli, 1 answers.
    pub direction: usize,
    /// Of which kind the locks are.
    pub kind: Kind,
    /// Sender: the lock that it owns. Receiver: the one it waits for next.
    pub at: usize,
    /// Number of the last message taken.
    pub seen: u32,
    /// Thread that uses this end, for a futex; 0 before.
    pub me: u32,
    /// Whether the sender owns its first lock.
    pub owns: bool,
}

impl Lock {
    /// An end that has not been used.
    #[must_use]
    pub fn new(memory: &Arc<Memory>, direction: usize, kind: Kind) -> Lock {
        Lock { memory: Arc::clone(memory), direction, kind, at: 0, seen: 0, me: 0, owns: false }
    }

    fn introduce(&mut self) {
        if self.me == 0 {
            self.me = crate::sched::tid().0 as u32;
        }
    }

    /// Takes the sender's first lock: before that, the receiver would not wait.
    fn own(&mut self, mailbox: &Mailbox) -> io::Result<()> {
        if !self.owns {
            acquire(mailbox, self.kind, self.at, self.me)?;
            self.owns = true;
            mailbox.receiver.store(1, Ordering::Release);
        }
        Ok(())
    }
}

impl Outlet for Lock {
    #[inline]
    fn send(&mut self, message: &[u8; SIZE]) -> io::Result<()> {
        self.introduce();
        let memory = Arc::clone(&self.memory);
        let mailbox = &memory.directions[self.direction];
        self.own(mailbox)?;
        let next = 1 - self.at;
        // The receiver should have released it with the last message, but may not have got there.
        acquire(mailbox, self.kind, next, self.me).map_err(|_| io::Error::from(io::ErrorKind::WouldBlock))?;
        mailbox.put(message);
        release(mailbox, self.kind, self.at, self.me);
        self.at = next;
        Ok(())
    }
}

impl Drop for Lock {
    /// Releases a waiting receiver, which finds no message.
    fn drop(&mut self) {
        if self.owns && self.me == crate::sched::tid().0 as u32 {
            release(&self.memory.directions[self.direction], self.kind, self.at, self.me);
        }
    }
}

impl Inlet for Lock {
    #[inline]
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.introduce();
        let memory = Arc::clone(&self.memory);
        let mailbox = &memory.directions[self.direction];
        // Until the sender owns its first lock there is nothing to wait for.
        if mailbox.receiver.load(Ordering::Acquire) == 0 {
            std::thread::sleep(std::time::Duration::from_millis(1));
            return Err(io::ErrorKind::Interrupted.into());
        }
        match acquire(mailbox, self.kind, self.at, self.me) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(libc::ETIMEDOUT) => {
                return Err(io::ErrorKind::Interrupted.into());
            }
            Err(error) => return Err(error),
        }
        let taken = mailbox.take(&mut self.seen, buffer);
        release(mailbox, self.kind, self.at, self.me);
        match taken {
            Some(n) => {
                self.at = 1 - self.at;
                Ok(n)
            }
            None => {
                std::thread::sleep(std::time::Duration::from_micros(200));
                Err(io::ErrorKind::Interrupted.into())
            }
        }
    }
}
