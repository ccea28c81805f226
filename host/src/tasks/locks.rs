//! Mutexes with one protocol each, on futexes: none, priority inheritance (the kernel's), immediate ceiling.
//!
//! Why not the C library's: waits for a mutex without a protocol must be cancelled when the run ends, and the C library's
//! ceiling mutexes restore the policy that they remember, which is stale after a system call of ours.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use lathunt_core::tasks::set::Protocol;
use lathunt_core::time::Ns;

use super::policy;
use crate::clock;

/// Why a lock was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The run ends.
    Stopped,
    /// The owner waits for this thread.
    Deadlock,
    /// The kernel refuses, with this error.
    Kernel(i32),
    /// The runtime of the fibers refuses.
    Runtime(lathunt_runtime::policy::Refusal),
}

fn futex(word: &AtomicU32, operation: libc::c_int, value: u32) -> i32 {
    // SAFETY: the word outlives the call; no timeout, no second word.
    let done = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            operation | libc::FUTEX_PRIVATE_FLAG,
            value,
            std::ptr::null::<libc::timespec>(),
        )
    };
    match done {
        -1 => std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL),
        _ => 0,
    }
}

/// Sleeps while `word` is `value`; returns early for any reason.
pub(super) fn wait(word: &AtomicU32, value: u32) {
    futex(word, libc::FUTEX_WAIT, value);
}

/// Wakes one sleeper.
pub(super) fn wake(word: &AtomicU32) {
    futex(word, libc::FUTEX_WAKE, 1);
}

/// Wakes all sleepers.
pub(super) fn wake_all(word: &AtomicU32) {
    futex(word, libc::FUTEX_WAKE, i32::MAX as u32);
}

/// A lock that inherits priority: the word is the owner's thread id, as the kernel wants it.
#[derive(Default)]
pub(super) struct Inheriting(AtomicU32);

impl Inheriting {
    fn try_lock(&self, tid: u32) -> bool {
        self.0.compare_exchange(0, tid, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Waits without checking the flag: owners unlock when the run ends.
    pub fn lock(&self, tid: u32) -> Result<(), Refused> {
        if self.try_lock(tid) {
            return Ok(());
        }
        loop {
            match futex(&self.0, libc::FUTEX_LOCK_PI, 0) {
                0 => return Ok(()),
                libc::EINTR | libc::EAGAIN => {}
                libc::EDEADLK => return Err(Refused::Deadlock),
                other => return Err(Refused::Kernel(other)),
            }
        }
    }

    pub fn unlock(&self, tid: u32) {
        if self.0.compare_exchange(tid, 0, Ordering::Release, Ordering::Relaxed).is_err() {
            futex(&self.0, libc::FUTEX_UNLOCK_PI, 0);
        }
    }
}

/// 0: free, 1: locked, 2: locked with possible sleepers (Drepper, "Futexes are tricky", mutex 2).
#[derive(Default)]
struct Plain(AtomicU32);

impl Plain {
    fn try_lock(&self) -> bool {
        self.0.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    fn lock(&self, stop: &AtomicBool) -> Result<(), Refused> {
        while self.0.swap(2, Ordering::Acquire) != 0 {
            if stop.load(Ordering::Relaxed) {
                return Err(Refused::Stopped);
            }
            wait(&self.0, 2);
        }
        Ok(())
    }

    fn unlock(&self) {
        if self.0.swap(0, Ordering::Release) == 2 {
            wake(&self.0);
        }
    }
}

enum Kind {
    Plain(Plain),
    Inheriting(Inheriting),
    /// With the priority of its highest user.
    Ceiling(Inheriting, i32),
}

/// A mutex of the set.
pub struct Mutex {
    kind: Kind,
}

/// Priorities of a thread due to the ceilings of the mutexes it holds, above its own. One per thread.
#[derive(Debug, Default)]
pub struct Held {
    /// Mutexes in the order of locking, with their ceilings (0: none).
    stack: Vec<(usize, i32)>,
}

impl Held {
    /// Held mutexes, the latest first.
    pub fn latest(&self) -> Option<usize> {
        self.stack.last().map(|(mutex, _)| *mutex)
    }

    fn ceiling(&self) -> i32 {
        self.stack.iter().map(|(_, ceiling)| *ceiling).max().unwrap_or(0)
    }
}

impl Mutex {
    pub fn new(protocol: Protocol, ceiling: i32) -> Mutex {
        let kind = match protocol {
            Protocol::None => Kind::Plain(Plain::default()),
            Protocol::Inherit => Kind::Inheriting(Inheriting::default()),
            Protocol::Ceiling => Kind::Ceiling(Inheriting::default(), ceiling),
        };
        Mutex { kind }
    }

    /// Locks; returns the time it waited for another thread, if it had to.
    ///
    /// `own`: the thread's own real-time priority, `at`: the number of this mutex.
    pub fn lock(
        &self,
        at: usize,
        tid: u32,
        own: i32,
        held: &mut Held,
        stop: &AtomicBool,
    ) -> Result<Option<Ns>, Refused> {
        let mut ceiling = 0;
        if let Kind::Ceiling(_, of_mutex) = &self.kind {
            ceiling = *of_mutex;
            if ceiling > own.max(held.ceiling()) {
                policy::set_priority(ceiling).map_err(Refused::Kernel)?;
            }
        }
        let at_once = match &self.kind {
            Kind::Plain(plain) => plain.try_lock(),
            Kind::Inheriting(lock) | Kind::Ceiling(lock, _) => lock.try_lock(tid),
        };
        let mut waited = None;
        if !at_once {
            let begun = clock::mono();
            let locked = match &self.kind {
                Kind::Plain(plain) => plain.lock(stop),
                Kind::Inheriting(lock) | Kind::Ceiling(lock, _) => lock.lock(tid),
            };
            if let Err(refused) = locked {
                if ceiling > own.max(held.ceiling()) {
                    let _ = policy::set_priority(own.max(held.ceiling())); // the run ends
                }
                return Err(refused);
            }
            waited = Some(clock::mono().since(begun));
        }
        held.stack.push((at, ceiling));
        Ok(waited)
    }

    /// Unlocks a mutex of this thread.
    pub fn unlock(&self, at: usize, tid: u32, own: i32, held: &mut Held) {
        let before = held.ceiling();
        if let Some(place) = held.stack.iter().rposition(|(mutex, _)| *mutex == at) {
            held.stack.remove(place);
        }
        match &self.kind {
            Kind::Plain(plain) => plain.unlock(),
            Kind::Inheriting(lock) | Kind::Ceiling(lock, _) => lock.unlock(tid),
        }
        let after = held.ceiling();
        if after.max(own) < before {
            let _ = policy::set_priority(after.max(own)); // lowering needs no privilege
        }
    }
}
