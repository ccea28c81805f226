//! The signal that interrupts a running thread: its number, its handler, its mask.
//!
//! The handler runs on the stack of the interrupted thread, so that it can switch to another one: the frame with all
//! registers stays there until the thread continues. The kernel blocks the signal until then. See [`crate::dispatch`].

use std::io;

/// The signal's number: the third last real-time signal, because glibc and Valgrind use others.
#[must_use]
pub fn number() -> i32 {
    libc::SIGRTMAX() - 2
}

/// Installs the handler, for the whole process. Idempotent.
///
/// # Errors
/// The error of sigaction.
pub fn install(handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void)) -> io::Result<()> {
    // SAFETY: a zeroed sigaction is valid; the handler has the signature that SA_SIGINFO demands.
    let answer = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        libc::sigaction(number(), &action, std::ptr::null_mut())
    };
    if answer == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Blocks or unblocks the signal for the calling kernel thread: a system call.
pub fn set_blocked(blocked: bool) {
    let how = if blocked { libc::SIG_BLOCK } else { libc::SIG_UNBLOCK };
    // SAFETY: the set is initialised before use.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, number());
        libc::pthread_sigmask(how, &set, std::ptr::null_mut());
    }
}

/// Blocks all signals for a helper thread: those of the program are for its own threads.
pub fn block_all() {
    // SAFETY: the set is initialised before use.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigfillset(&mut set);
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
    }
}

/// The calling kernel thread's id.
#[must_use]
pub fn thread_id() -> i32 {
    // SAFETY: no preconditions.
    unsafe { libc::syscall(libc::SYS_gettid) as i32 }
}

/// Sends the signal to a kernel thread of this process. False: it has ended.
pub fn send(tid: i32) -> bool {
    // SAFETY: no memory is passed.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, number()) == 0 }
}
