//! Signals as flags: handlers only store, and the main loop checks. A signal is answered within one iteration of that
//! loop.
//!
//! Measuring threads block all signals except the one that ends their sleep, so that none interrupts a measurement.

use std::mem;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

use lathunt_core::time::Mono;

use crate::error::{Error, Result};
use crate::{clock, cpu_time};

/// Signals that request the end. The kernel's default for each is to kill, and lose the results: also SIGQUIT (Ctrl-\), the
/// timers that survive exec (`alarm`), a limit of CPU time, and the announcement of a failing power supply.
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
static CPU_TIME_USED_UP: AtomicBool = AtomicBool::new(false);
static STATUS: AtomicBool = AtomicBool::new(false);
static STATUS_FILE: AtomicBool = AtomicBool::new(false);
static CONTINUED: AtomicU64 = AtomicU64::new(0);
static BUS_ERRORS_KEPT: AtomicBool = AtomicBool::new(false);

/// `si_code` of a signal that the kernel sent by itself (asm-generic/siginfo.h).
const SI_KERNEL: libc::c_int = 0x80;

/// A handler that learns where the signal comes from (SA_SIGINFO).
pub(crate) type Informed = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);

extern "C" fn on_stop(signal: libc::c_int) {
    STOP.store(signal, Ordering::Relaxed);
}

/// SIGXCPU comes for two limits, and from other processes: only the kernel shows that a limit was reached.
extern "C" fn on_cpu_limit(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo.
    let by_limit = unsafe { (*info).si_code } == SI_KERNEL;
    if by_limit && HAS_RT_LIMIT.load(Ordering::Relaxed) && !cpu_time::is_used_up() {
        RT_TIME_EXCEEDED.store(true, Ordering::Relaxed);
    } else {
        CPU_TIME_USED_UP.store(by_limit, Ordering::Relaxed);
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
    if !is_ignored(libc::SIGXCPU) {
        handle_informed(libc::SIGXCPU, on_cpu_limit)?;
    }
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
    handle_informed(libc::SIGXCPU, on_cpu_limit)
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
pub(crate) fn on_shortened(handler: Informed) {
    // The consumer of instrumented programs has a handler of its own, which lets it continue.
    if !BUS_ERRORS_KEPT.load(Ordering::Relaxed) {
        let _ = handle_informed(libc::SIGBUS, handler); // without it the kernel kills the process too, silently
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

/// Name of the signal that requested the end, with the limit that it stands for.
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
        libc::SIGPWR => "SIGPWR",
        libc::SIGXCPU if CPU_TIME_USED_UP.load(Ordering::Relaxed) => {
            "SIGXCPU: the limit of CPU time, ulimit -t"
        }
        libc::SIGXCPU => "SIGXCPU",
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

/// From now on [`take_continued`] knows of SIGCONT, which the main thread takes before anything else after a stop.
///
/// # Errors
/// If the kernel refuses a handler.
pub fn watch_continued() -> Result<()> {
    extern "C" fn on_continue(_signal: libc::c_int) {
        CONTINUED.store(clock::mono().0, Ordering::Relaxed);
    }
    act(libc::SIGCONT, on_continue as *const () as libc::sighandler_t, libc::SA_RESTART)
}

/// When the last SIGCONT since the last call was taken. It may be sent to a process that is not stopped.
#[must_use]
pub fn take_continued() -> Option<Mono> {
    Some(CONTINUED.swap(0, Ordering::Relaxed)).filter(|&at| at > 0).map(Mono)
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
    act(signal, handler as *const () as libc::sighandler_t, 0)
}

/// The same for a handler that learns where the signal comes from.
pub(crate) fn handle_informed(signal: libc::c_int, handler: Informed) -> Result<()> {
    act(signal, handler as *const () as libc::sighandler_t, libc::SA_SIGINFO)
}

fn act(signal: libc::c_int, handler: libc::sighandler_t, flags: libc::c_int) -> Result<()> {
    // SAFETY: zeros are a valid sigaction, `handler` fits `flags`, and the handlers of this crate only store to atomics or
    // end the process.
    let done = unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = flags;
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

    /// What the kernel passes for a limit, and for kill(2).
    fn sigxcpu(code: libc::c_int) {
        // SAFETY: zeros are a valid siginfo.
        let mut info: libc::siginfo_t = unsafe { mem::zeroed() };
        info.si_code = code;
        on_cpu_limit(libc::SIGXCPU, &mut info, std::ptr::null_mut());
    }

    #[test]
    fn a_limit_is_blamed_for_sigxcpu_only_if_the_kernel_sent_it() {
        // In a child: the flags belong to the whole process.
        // SAFETY: the child only calls functions that use atomics and system calls.
        let child = unsafe { libc::fork() };
        if child == 0 {
            HAS_RT_LIMIT.store(true, Ordering::Relaxed);
            sigxcpu(libc::SI_USER);
            let by_user = !rt_time_exceeded() && name(libc::SIGXCPU) == "SIGXCPU";
            let stopped = stop_requested() == Some(libc::SIGXCPU);
            sigxcpu(SI_KERNEL);
            let by_rt_limit = rt_time_exceeded() && name(libc::SIGXCPU) == "SIGXCPU";
            HAS_RT_LIMIT.store(false, Ordering::Relaxed);
            sigxcpu(SI_KERNEL);
            let by_limit = name(libc::SIGXCPU).contains("ulimit -t");
            // SAFETY: ends the child.
            unsafe { libc::_exit(i32::from(!(by_user && stopped && by_rt_limit && by_limit))) };
        }
        let mut status = 0;
        // SAFETY: our child, waited for once.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0);
    }

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
