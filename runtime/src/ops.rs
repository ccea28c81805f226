//! Scheduler calls of threads: each locks, changes the tables, and switches if due. The Rust and the C interface are both
//! thin layers on this.

use std::sync::atomic::Ordering;

use crate::dispatch;
use crate::policy::{Outcome, Refusal, Step, ThreadId, NEVER};
use crate::state::{current, Runtime};

/// Why a call fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The calling kernel thread has no runtime (ENOTSUP): it was not started, or this is a child of fork.
    NoRuntime,
    /// The call would wait while the program holds the scheduler (EPERM): no thread could end the wait.
    Locked,
    /// Timeout (ETIMEDOUT).
    TimedOut,
    /// The caller was cancelled (ECANCELED).
    Cancelled,
    /// The scheduler refuses.
    Refused(Refusal),
}

impl Error {
    /// The errno for it.
    #[must_use]
    pub fn errno(self) -> i32 {
        match self {
            Error::NoRuntime => libc::ENOTSUP,
            Error::Locked => libc::EPERM,
            Error::TimedOut => libc::ETIMEDOUT,
            Error::Cancelled => libc::ECANCELED,
            Error::Refused(refusal) => refusal.errno(),
        }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Error {
        Error::Refused(refusal)
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::NoRuntime => out.write_str("no runtime on this kernel thread"),
            Error::Locked => out.write_str("the call would wait while the program holds the scheduler"),
            Error::TimedOut => out.write_str("timed out"),
            Error::Cancelled => out.write_str("cancelled"),
            Error::Refused(refusal) => refusal.fmt(out),
        }
    }
}

impl std::error::Error for Error {}

/// Runs `call` with the scheduler locked; afterwards a more urgent thread may run first.
///
/// # Errors
/// [`Error::NoRuntime`].
#[inline]
pub(crate) fn with<T>(call: impl FnOnce(&mut Runtime) -> T) -> Result<T, Error> {
    let rt = current();
    if rt.is_null() {
        return Err(Error::NoRuntime);
    }
    // SAFETY: this kernel thread's runtime; locked, the reference is the only one, and it ends before the switch.
    unsafe {
        dispatch::enter(rt);
        let result = call(&mut *rt);
        dispatch::leave(rt);
        Ok(result)
    }
}

/// Like [`with`] for a call that may wait: returns an error of the wait, or nothing.
///
/// # Errors
/// [`Error::NoRuntime`], [`Error::Locked`], a refusal of the call, [`Error::TimedOut`], [`Error::Cancelled`].
#[inline]
pub(crate) fn waiting(call: impl FnOnce(&mut Runtime) -> Result<Step, Refusal>) -> Result<(), Error> {
    let rt = current();
    if rt.is_null() {
        return Err(Error::NoRuntime);
    }
    // SAFETY: as in `with`.
    unsafe {
        if (*rt).locked.load(Ordering::Relaxed) > 0 {
            return Err(Error::Locked);
        }
        dispatch::enter(rt);
        let result = call(&mut *rt);
        dispatch::leave(rt);
        match result? {
            Step::Go => Ok(()),
            Step::Wait => match (*rt).sched.outcome(ThreadId((*rt).on_cpu)) {
                Outcome::Done => Ok(()),
                Outcome::TimedOut => Err(Error::TimedOut),
                Outcome::Cancelled => Err(Error::Cancelled),
            },
        }
    }
}

/// Locks a mutex, waiting until `until` (absolute, in ns).
///
/// # Errors
/// See [`Error`].
#[inline]
pub(crate) fn lock(mutex: u32, until: u64) -> Result<(), Error> {
    let rt = current();
    // SAFETY: this kernel thread's runtime.
    if !rt.is_null() && unsafe { dispatch::at_once(rt, false, |sched| sched.lock_at_once(mutex)) } {
        return Ok(());
    }
    lock_or_wait(mutex, until)
}

#[cold]
fn lock_or_wait(mutex: u32, until: u64) -> Result<(), Error> {
    let locked = waiting(|rt| {
        // Reads the clock only if the protocol needs it, or before waiting.
        let needs_time = rt.sched.owner(mutex).is_some() || rt.sched.lock_needs_time(mutex);
        let now = if needs_time { rt.now() } else { rt.stamp };
        rt.sched.lock(mutex, until, now)
    });
    timed(locked, until)
}

/// Unlocks a mutex; then a more urgent thread may run first.
///
/// # Errors
/// [`Refusal::NotOwner`].
#[inline]
pub(crate) fn unlock(mutex: u32) -> Result<(), Error> {
    let rt = current();
    // SAFETY: this kernel thread's runtime.
    if !rt.is_null() && unsafe { dispatch::at_once(rt, true, |sched| sched.unlock_at_once(mutex)) } {
        return Ok(());
    }
    unlock_and_grant(mutex)
}

#[cold]
fn unlock_and_grant(mutex: u32) -> Result<(), Error> {
    let unlocked = with(|rt| {
        let now = if rt.sched.lock_needs_time(mutex) { rt.now() } else { rt.stamp };
        rt.sched.unlock(mutex, now)
    });
    unlocked?.map_err(Error::Refused)
}

/// A time limit in the past is a timeout, not a refusal.
pub(crate) fn timed(result: Result<(), Error>, until: u64) -> Result<(), Error> {
    match result {
        Err(Error::Refused(Refusal::WouldBlock)) if until > 0 => Err(Error::TimedOut),
        other => other,
    }
}

/// Lets equal threads run first. No effect without a runtime.
#[inline]
pub fn yield_now() {
    let rt = current();
    // SAFETY: this kernel thread's runtime.
    if !rt.is_null() && unsafe { dispatch::yield_at_once(rt) } {
        return;
    }
    yield_to_others();
}

/// Not inlined: the usual case would be slower with this beside it.
#[inline(never)]
fn yield_to_others() {
    let _ = with(|rt| {
        let now = rt.now();
        rt.sched.yield_now(now);
    });
}

/// Waits until an absolute time of `CLOCK_MONOTONIC`, in ns.
///
/// # Errors
/// See [`Error`].
pub fn sleep_until(until: u64) -> Result<(), Error> {
    let slept = waiting(|rt| {
        let now = rt.now();
        if rt.sched.is_cancelled(ThreadId(rt.on_cpu)) {
            return Ok(Step::Go);
        }
        Ok(rt.sched.sleep_until(until, now))
    });
    slept.and(cancellation())
}

/// Waits for a time, in ns.
///
/// # Errors
/// See [`Error`].
pub fn sleep(ns: u64) -> Result<(), Error> {
    sleep_until(now().saturating_add(ns))
}

/// Now, in ns of `CLOCK_MONOTONIC`, read like the kernel's own vDSO does.
#[must_use]
#[inline]
pub fn now() -> u64 {
    crate::clock::monotonic()
}

/// Ends the job of the calling thread: waits for its next release.
///
/// # Errors
/// See [`Error`].
pub fn next_job() -> Result<(), Error> {
    cancellation()?;
    waiting(|rt| {
        let now = rt.now();
        rt.sched.next_job(now)
    })
}

/// [`Error::Cancelled`] once the calling thread was asked to end.
pub(crate) fn cancellation() -> Result<(), Error> {
    let rt = current();
    // SAFETY: this kernel thread's runtime; a flag of the running thread is read.
    if !rt.is_null() && unsafe { (*rt).sched.is_cancelled(ThreadId((*rt).on_cpu)) } {
        return Err(Error::Cancelled);
    }
    Ok(())
}

/// Holds the scheduler: no other thread runs, and no call may wait, until the guard is dropped. For functions that are not
/// reentrant (glibc's stdio, `localtime`, `getaddrinfo`). Signals are served at the end: the time it is held adds to every
/// thread's latency. Nests. No effect without a runtime.
#[must_use]
pub fn lock_scheduler() -> SchedulerLock {
    let rt = current();
    if !rt.is_null() {
        // SAFETY: this kernel thread's runtime.
        unsafe { dispatch::enter(rt) };
    }
    SchedulerLock { held: !rt.is_null(), _here: std::marker::PhantomData }
}

/// The scheduler is held until this is dropped.
#[derive(Debug)]
pub struct SchedulerLock {
    held: bool,
    _here: std::marker::PhantomData<*const ()>,
}

impl SchedulerLock {
    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        self.held
    }
}

impl Drop for SchedulerLock {
    #[inline]
    fn drop(&mut self) {
        if self.held {
            unlock_scheduler();
        }
    }
}

/// Ends [`lock_scheduler`], for C; a surplus call has no effect.
#[inline]
pub(crate) fn unlock_scheduler() {
    let rt = current();
    // SAFETY: this kernel thread's runtime; entered before.
    unsafe {
        if !rt.is_null() && (*rt).locked.load(Ordering::Relaxed) > 0 {
            dispatch::leave(rt);
        }
    }
}

/// "No limit" or an absolute time in ns as a limit.
#[must_use]
pub(crate) fn limit(until: Option<u64>) -> u64 {
    until.unwrap_or(NEVER)
}
