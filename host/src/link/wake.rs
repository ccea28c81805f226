//! Ways to wake a thread that carry no data: eventfd, futex, semaphores, a signal, a condition variable. The message is in
//! shared memory ([`super::memory`]).

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::Ordering;
use std::sync::Arc;

use lathunt_core::latency_box::message::SIZE;

use super::descriptor::{done, length};
use super::memory::{Mailbox, Memory};
use super::sysv::SysvSet;
use super::{Inlet, Outlet};

/// The waking primitive.
pub enum Wake {
    /// write(2) and read(2) of an eventfd.
    Eventfd(Arc<OwnedFd>),
    /// FUTEX_WAKE and FUTEX_WAIT on the count of the mailbox.
    Futex,
    /// sem_post and sem_wait.
    Semaphore,
    /// semop on a set of two; which of them.
    Sysv(Arc<SysvSet>),
    /// rt_tgsigqueueinfo to a thread of this process, and sigwaitinfo.
    Signal(libc::pid_t),
    /// pthread_cond_signal and pthread_cond_timedwait.
    Condvar,
}

/// One direction of a channel: a mailbox and the primitive that wakes its reader.
pub struct Waker {
    /// Shared with the other end.
    pub memory: Arc<Memory>,
    /// 0 stimuli, 1 answers.
    pub direction: usize,
    /// The waking primitive.
    pub wake: Wake,
    /// Number of the last message taken.
    pub seen: u32,
}

/// Mutex and condition variable in the room of a mailbox.
#[repr(C)]
pub struct Guarded {
    mutex: libc::pthread_mutex_t,
    condition: libc::pthread_cond_t,
}

/// Signal of a direction.
#[must_use]
pub fn signal_of(direction: usize) -> libc::c_int {
    libc::SIGRTMIN() + 8 + direction as libc::c_int
}

/// Initializes the primitive in the mailbox itself.
///
/// # Errors
/// As the C library.
pub fn make(mailbox: &Mailbox, wake: &Wake) -> io::Result<()> {
    let check = |result: libc::c_int| match result {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    };
    match wake {
        // SAFETY: the room is large enough, aligned, and nobody uses it yet.
        Wake::Semaphore => drop(done(unsafe { libc::sem_init(mailbox.room().cast(), 1, 0) })?),
        // SAFETY: as above; the attributes are made before they are used.
        Wake::Condvar => unsafe {
            let guarded: *mut Guarded = mailbox.room().cast();
            let mut mutex: libc::pthread_mutexattr_t = std::mem::zeroed();
            check(libc::pthread_mutexattr_init(&mut mutex))?;
            check(libc::pthread_mutexattr_setpshared(&mut mutex, libc::PTHREAD_PROCESS_SHARED))?;
            check(libc::pthread_mutexattr_setprotocol(&mut mutex, libc::PTHREAD_PRIO_INHERIT))?;
            check(libc::pthread_mutexattr_setrobust(&mut mutex, libc::PTHREAD_MUTEX_ROBUST))?;
            check(libc::pthread_mutex_init(&raw mut (*guarded).mutex, &mutex))?;
            let mut condition: libc::pthread_condattr_t = std::mem::zeroed();
            check(libc::pthread_condattr_init(&mut condition))?;
            check(libc::pthread_condattr_setpshared(&mut condition, libc::PTHREAD_PROCESS_SHARED))?;
            check(libc::pthread_condattr_setclock(&mut condition, libc::CLOCK_MONOTONIC))?;
            check(libc::pthread_cond_init(&raw mut (*guarded).condition, &condition))?;
        },
        _ => {}
    }
    mailbox.ready.store(1, Ordering::Release);
    Ok(())
}

fn futex(mailbox: &Mailbox, operation: libc::c_int, value: u32) -> io::Result<()> {
    let word = mailbox.count.as_ptr();
    // SAFETY: the word lives as long as the mapping; no time limit.
    let result =
        unsafe { libc::syscall(libc::SYS_futex, word, operation, value, ptr::null::<libc::timespec>()) };
    length(result as libc::ssize_t).map(drop)
}

impl Outlet for Waker {
    #[inline]
    fn send(&mut self, message: &[u8; SIZE]) -> io::Result<()> {
        let mailbox = &self.memory.directions[self.direction];
        match &self.wake {
            Wake::Condvar => return signalled(mailbox, message),
            _ => mailbox.put(message),
        }
        match &self.wake {
            Wake::Eventfd(fd) => {
                let one = 1u64;
                // SAFETY: eight bytes, as stated.
                length(unsafe { libc::write(fd.as_raw_fd(), (&raw const one).cast(), 8) }).map(drop)
            }
            Wake::Futex => futex(mailbox, libc::FUTEX_WAKE, 1),
            // SAFETY: made by `make` before the other end was told of it.
            Wake::Semaphore => done(unsafe { libc::sem_post(mailbox.room().cast()) }).map(drop),
            Wake::Sysv(set) => operate(set.id, self.direction, 1),
            Wake::Signal(process) => queue(*process, mailbox, self.direction),
            Wake::Condvar => Ok(()),
        }
    }
}

impl Inlet for Waker {
    #[inline]
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mailbox = &self.memory.directions[self.direction];
        loop {
            match &self.wake {
                Wake::Eventfd(fd) => {
                    let mut count = 0u64;
                    // SAFETY: eight bytes, as stated.
                    length(unsafe { libc::read(fd.as_raw_fd(), (&raw mut count).cast(), 8) })?;
                }
                Wake::Futex => match futex(mailbox, libc::FUTEX_WAIT, self.seen) {
                    Err(error) if error.raw_os_error() != Some(libc::EAGAIN) => return Err(error),
                    _ => {}
                },
                // SAFETY: made by `make` before the other end was told of it.
                Wake::Semaphore => drop(done(unsafe { libc::sem_wait(mailbox.room().cast()) })?),
                Wake::Sysv(set) => operate(set.id, self.direction, -1)?,
                Wake::Signal(_) => wait_for_signal(mailbox, self.direction)?,
                Wake::Condvar => return waited(mailbox, &mut self.seen, buffer),
            }
            // A second wake-up for a message that was already taken is ignored.
            if let Some(n) = mailbox.take(&mut self.seen, buffer) {
                return Ok(n);
            }
        }
    }
}

fn operate(id: libc::c_int, number: usize, by: libc::c_short) -> io::Result<()> {
    let mut operation = libc::sembuf { sem_num: number as libc::c_ushort, sem_op: by, sem_flg: 0 };
    // SAFETY: one operation, as stated.
    done(unsafe { libc::semop(id, &mut operation, 1) }).map(drop)
}

fn queue(process: libc::pid_t, mailbox: &Mailbox, direction: usize) -> io::Result<()> {
    let thread = mailbox.receiver.load(Ordering::Acquire);
    if thread == 0 {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    // SAFETY: siginfo_t is plain bytes, for which zeros are valid.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    (info.si_signo, info.si_code) = (signal_of(direction), libc::SI_QUEUE);
    // SAFETY: `info` is valid to read; the kernel checks that the thread is of that process.
    let result = unsafe {
        libc::syscall(libc::SYS_rt_tgsigqueueinfo, process, thread, signal_of(direction), &raw const info)
    };
    length(result as libc::ssize_t).map(drop)
}

fn wait_for_signal(mailbox: &Mailbox, direction: usize) -> io::Result<()> {
    if mailbox.receiver.load(Ordering::Relaxed) == 0 {
        mailbox.receiver.store(crate::sched::tid().0, Ordering::Release);
    }
    // SAFETY: the set is made by sigemptyset; all threads of ours block this signal.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, signal_of(direction));
        done(libc::sigwaitinfo(&set, ptr::null_mut())).map(drop)
    }
}

fn signalled(mailbox: &Mailbox, message: &[u8; SIZE]) -> io::Result<()> {
    let guarded: *mut Guarded = mailbox.room().cast();
    // SAFETY: made by `make` before the other end was told of it.
    unsafe {
        lock(guarded)?;
        mailbox.put(message);
        libc::pthread_cond_signal(&raw mut (*guarded).condition);
        libc::pthread_mutex_unlock(&raw mut (*guarded).mutex);
    }
    Ok(())
}

/// # Safety
/// `guarded` was made by [`make`].
unsafe fn lock(guarded: *mut Guarded) -> io::Result<()> {
    // SAFETY: as the caller says.
    match unsafe { libc::pthread_mutex_lock(&raw mut (*guarded).mutex) } {
        0 => Ok(()),
        libc::EOWNERDEAD => {
            // SAFETY: as the caller says, and it is ours now.
            unsafe { libc::pthread_mutex_consistent(&raw mut (*guarded).mutex) };
            Ok(())
        }
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

fn waited(mailbox: &Mailbox, seen: &mut u32, buffer: &mut [u8]) -> io::Result<usize> {
    let guarded: *mut Guarded = mailbox.room().cast();
    // A signal does not end this wait: a time limit does.
    let until = crate::clock::mono().0 + 200_000_000;
    let until = libc::timespec {
        tv_sec: (until / 1_000_000_000) as libc::time_t,
        tv_nsec: (until % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: made by `make` before the other end was told of it; locked around each wait.
    unsafe {
        lock(guarded)?;
        let mut result = Err(io::ErrorKind::Interrupted.into());
        loop {
            if let Some(n) = mailbox.take(seen, buffer) {
                result = Ok(n);
                break;
            }
            let (condition, mutex) = (&raw mut (*guarded).condition, &raw mut (*guarded).mutex);
            if libc::pthread_cond_timedwait(condition, mutex, &until) != 0 {
                if let Some(n) = mailbox.take(seen, buffer) {
                    result = Ok(n);
                }
                break;
            }
        }
        libc::pthread_mutex_unlock(&raw mut (*guarded).mutex);
        result
    }
}
