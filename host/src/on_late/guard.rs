//! Two processes that end everything a command of `--on-late` started, even if one of them is killed.
//!
//! The one that acts is the child of the other, its guard. Both are subreapers: if the first is killed, its descendants
//! become the guard's, which kills them. If the guard is killed, the other one notices that it has a new parent. Killing both
//! at once leaves what they started; only a control group or a PID namespace would end that, and in a namespace a command
//! could not name the processes it is about.

use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use crate::load::{hung_up, until_alone};

/// The guard, as seen by the process below it.
#[derive(Clone, Copy)]
pub(super) struct Guard(libc::pid_t);

impl Guard {
    /// Forks. Returns at once in the process that acts; in the guard, returns `None` when nothing is left below it. If no
    /// process can be created, this one acts without a guard.
    pub fn fork() -> Option<Guard> {
        let guard = std::process::id() as libc::pid_t;
        // SAFETY: plain values; this process has one thread.
        unsafe {
            match libc::fork() {
                0 => {
                    libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1); // it is not inherited
                    Some(Guard(guard))
                }
                -1 => Some(Guard(libc::getppid())),
                acts => {
                    // The socket hangs up when the process that acts ends, not with this one.
                    crate::load::become_ordinary(&[]);
                    libc::prctl(libc::PR_SET_NAME, c"lathunt/guard".as_ptr());
                    while libc::waitpid(acts, std::ptr::null_mut(), 0) == -1
                        && *libc::__errno_location() == libc::EINTR
                    {}
                    until_alone();
                    None
                }
            }
        }
    }

    /// Whether it is alive.
    fn is_there(self) -> bool {
        // SAFETY: no arguments.
        unsafe { libc::getppid() == self.0 }
    }

    /// While nothing runs below it, this process ends with its guard.
    pub fn while_idle<T>(self, wait: impl FnOnce() -> std::io::Result<T>) -> std::io::Result<T> {
        let dies_with_it = |signal: libc::c_int| {
            // SAFETY: plain values.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal) }
        };
        dies_with_it(libc::SIGKILL);
        if !self.is_there() {
            return Err(std::io::ErrorKind::BrokenPipe.into());
        }
        let got = wait();
        dies_with_it(0);
        got
    }
}

/// The conditions for an action to continue: the measuring process, and the guard.
pub(super) struct Line<'a> {
    pub stream: &'a UnixStream,
    pub guard: Guard,
}

impl Line<'_> {
    /// Whether one of them is gone, after at most this many milliseconds.
    pub fn is_cut(&self, milliseconds: libc::c_int) -> bool {
        hung_up(self.stream.as_raw_fd(), milliseconds) || !self.guard.is_there()
    }
}
