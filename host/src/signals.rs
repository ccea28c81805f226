//! Signals as flags: handlers only store, and the main loop checks. A signal is answered within one iteration of that
//! loop.
//!
//! Measuring threads block all signals except the one that ends their sleep, so that none interrupts a measurement.

use std::mem;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use crate::cpu_time;
use crate::error::{Error, Result};

/// Signals that request the end. The kernel's default for each is to kill, and lose the results: also SIGQUIT (Ctrl-\), the
/// timers that survive exec (`alarm`), a limit of CPU time, and a failing power supply.
pub(crate) const ENDING: [libc::c_int; 9] = [
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGALRM,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGPWR,
    libc::SIGXCPU,
];

static STOP: AtomicI32 = AtomicI32::new(0);
static HAS_RT_LIMIT: AtomicBool = AtomicBool::new(false);
static RT_TIME_EXCEEDED: AtomicBool = AtomicBool::new(false);
static STATUS: AtomicBool = AtomicBool::new(false);
static STATUS_FILE: AtomicBool = AtomicBool::new(false);
static BUS_ERRORS_KEPT: AtomicBool = AtomicBool::new(false);

extern "C" fn on_stop(signal: libc::c_int) {
    // SIGXCPU comes for two limits.
    if signal == libc::SIGXCPU && HAS_RT_LIMIT.load(Ordering::Relaxed) && !cpu_time::is_used_up() {
        RT_TIME_EXCEEDED.store(true, Ordering::Relaxed);
    } else {
        STOP.store(signal, Ordering::Relaxed);
    }
}

extern "C" fn on_status(signal: libc::c_int) {
    if signal == libc::SIGUSR2 {
        STATUS_FILE.store(true, Ordering::Relaxed);
    } else {
        STATUS.store(true, Ordering::Relaxed);
    }
}

/// From now on SIGINT, SIGTERM, SIGHUP and the other signals that would kill request the end, SIGUSR1 and SIGUSR2 the status.
///
/// Of a limit of CPU time (`ulimit -t`), a part is left for the end. Except SIGINT and SIGTERM, signals stay ignored if the
/// process was started that way (`nohup`).
///
/// # Errors
/// If the kernel refuses a handler.
pub fn install() -> Result<()> {
    end_by(on_stop)?;
    handle(libc::SIGUSR1, on_status)?;
    handle(libc::SIGUSR2, on_status)
}

/// From now on the signals of [`ENDING`] call `handler`.
pub(crate) fn end_by(handler: extern "C" fn(libc::c_int)) -> Result<()> {
    for signal in ENDING {
        if matches!(signal, libc::SIGINT | libc::SIGTERM) || !is_ignored(signal) {
            handle(signal, handler)?;
        }
    }
    cpu_time::leave_time_to_end();
    Ok(())
}

/// Catches SIGXCPU for a limit of real-time threads (RLIMIT_RTTIME), too.
pub(crate) fn watch_rt_limit() -> Result<()> {
    HAS_RT_LIMIT.store(true, Ordering::Relaxed);
    handle(libc::SIGXCPU, on_stop)
}

/// Whether a real-time thread exceeded that limit.
pub(crate) fn rt_time_exceeded() -> bool {
    RT_TIME_EXCEEDED.load(Ordering::Relaxed)
}

/// SIGBUS has a handler that lets the process continue: [`on_shortened`] has no effect from now on.
pub(crate) fn keep_bus_errors() {
    BUS_ERRORS_KEPT.store(true, Ordering::Relaxed);
}

/// From now on access to a mapped page beyond the end of its file calls `handler`.
pub(crate) fn on_shortened(handler: extern "C" fn(libc::c_int)) {
    // The consumer of instrumented programs has a handler of its own, which lets it continue.
    if !BUS_ERRORS_KEPT.load(Ordering::Relaxed) {
        let _ = handle(libc::SIGBUS, handler); // without it the kernel kills the process too, silently
    }
}

/// From now on a write beyond the limit of file sizes (RLIMIT_FSIZE) fails like one to a full disk, with a message. By
/// a handler, not by ignoring the signal, which child programs would inherit.
pub fn survive_file_size_limit() {
    extern "C" fn nothing(_signal: libc::c_int) {}
    let _ = handle(libc::SIGXFSZ, nothing); // without it the kernel kills the process at such a write
}

/// The signal that requested the end, if any.
#[must_use]
pub fn stop_requested() -> Option<i32> {
    Some(STOP.load(Ordering::Relaxed)).filter(|&signal| signal != 0)
}

/// Name of a signal that may request the end.
#[must_use]
pub fn name(signal: i32) -> &'static str {
    match signal {
        libc::SIGINT => "SIGINT",
        libc::SIGTERM => "SIGTERM",
        libc::SIGHUP => "SIGHUP",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGALRM => "SIGALRM",
        libc::SIGVTALRM => "SIGVTALRM",
        libc::SIGPROF => "SIGPROF",
        libc::SIGPWR => "SIGPWR: the power supply fails",
        libc::SIGXCPU => "SIGXCPU: the limit of CPU time, ulimit -t",
        _ => "a signal",
    }
}

/// The signal that ends a command of ours after `signal` requested our end: those of a user are passed on.
#[must_use]
pub(crate) fn for_command(signal: i32) -> i32 {
    match signal {
        libc::SIGINT | libc::SIGHUP | libc::SIGQUIT => signal,
        _ => libc::SIGTERM,
    }
}

/// Whether SIGUSR1 came since the last call.
#[must_use]
pub fn take_status_request() -> bool {
    STATUS.swap(false, Ordering::Relaxed)
}

/// Whether SIGUSR2 came since the last call.
#[must_use]
pub fn take_status_file_request() -> bool {
    STATUS_FILE.swap(false, Ordering::Relaxed)
}

/// Installs `handler`, without restarting interrupted system calls.
pub(crate) fn handle(signal: libc::c_int, handler: extern "C" fn(libc::c_int)) -> Result<()> {
    // SAFETY: zeros are a valid sigaction, and the handlers of this crate only store to atomics.
    let done = unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = handler as *const () as libc::sighandler_t;
        libc::sigemptyset(&mut action.sa_mask);
        libc::sigaction(signal, &action, std::ptr::null_mut())
    };
    if done == 0 {
        Ok(())
    } else {
        Err(Error::last_os("handle", format!("signal {signal}")))
    }
}

fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: with a null new action the call only writes the old one.
    unsafe {
        let mut old: libc::sigaction = mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut old) == 0 && old.sa_sigaction == libc::SIG_IGN
    }
}

extern "C" fn on_wake(_: libc::c_int) {}

/// The signal that ends the sleep of a measuring thread and does nothing else.
pub(crate) fn wake_signal() -> libc::c_int {
    libc::SIGRTMIN() + 6
}

/// Signals blocked in this thread until the guard is dropped; threads started before that inherit the block.
pub(crate) struct Blocked {
    old: libc::sigset_t,
}

impl Blocked {
    /// Blocks all signals except the one that ends sleeps, and ensures that this one does not kill.
    pub(crate) fn all_but_wake() -> Result<Blocked> {
        handle(wake_signal(), on_wake)?;
        // SAFETY: the sets are initialised by sigfillset and by the call itself.
        unsafe {
            let mut set: libc::sigset_t = mem::zeroed();
            let mut old: libc::sigset_t = mem::zeroed();
            libc::sigfillset(&mut set);
            libc::sigdelset(&mut set, wake_signal());
            libc::pthread_sigmask(libc::SIG_SETMASK, &set, &mut old);
            Ok(Blocked { old })
        }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: `old` was filled by pthread_sigmask.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.old, std::ptr::null_mut()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_request_is_answered_once() {
        install().unwrap();
        // SAFETY: raise of a handled signal.
        unsafe { libc::raise(libc::SIGUSR1) };
        assert!(take_status_request());
        assert!(!take_status_request());
        assert!(!take_status_file_request());
        assert_eq!(stop_requested(), None);
    }
}
