//! Was CLOCK_REALTIME set? The kernel cancels timers that ask for it when the clock is set (timerfd_create(2),
//! TFD_TIMER_CANCEL_ON_SET): this also reports a clock that is set and set back between two checks. Slewing is not a
//! step.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::FromRawFd;

use crate::clock;

/// Watches the clock.
pub struct ClockSteps {
    timer: Option<File>,
    offset: i64,
    steps: Vec<i64>,
}

impl Default for ClockSteps {
    fn default() -> ClockSteps {
        ClockSteps::watch()
    }
}

impl ClockSteps {
    /// Starts watching. If the kernel refuses the timer, steps are unknown.
    #[must_use]
    pub fn watch() -> ClockSteps {
        ClockSteps { timer: timer(), offset: offset(), steps: Vec::new() }
    }

    /// Checks whether it was set since the last check; one system call. Steps between two checks count as one.
    pub fn look(&mut self) {
        let Some(timer) = &mut self.timer else { return };
        let Err(error) = timer.read(&mut [0; 8]) else { return };
        if error.kind() == ErrorKind::WouldBlock {
            return;
        }
        // ECANCELED, once per step: read() has re-armed it.
        let now = offset();
        self.steps.push(now - std::mem::replace(&mut self.offset, now));
    }

    /// Each step, ns; positive is forward, and 0 is one that was taken back. `None`: unknown.
    #[must_use]
    pub fn steps(&self) -> Option<Vec<i64>> {
        self.timer.as_ref().map(|_| self.steps.clone())
    }
}

fn offset() -> i64 {
    clock::read(libc::CLOCK_REALTIME) - clock::read(libc::CLOCK_MONOTONIC)
}

fn timer() -> Option<File> {
    // SAFETY: no pointers.
    let fd = unsafe { libc::timerfd_create(libc::CLOCK_REALTIME, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC) };
    if fd < 0 {
        return None;
    }
    // SAFETY: a descriptor that nobody else owns.
    let timer = unsafe { File::from_raw_fd(fd) };
    let never = libc::timespec { tv_sec: libc::time_t::MAX / 4, tv_nsec: 0 };
    let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let due = libc::itimerspec { it_interval: none, it_value: never };
    let flags = libc::TFD_TIMER_ABSTIME | libc::TFD_TIMER_CANCEL_ON_SET;
    // SAFETY: `due` is valid to read, and the old time is not asked for.
    (unsafe { libc::timerfd_settime(fd, flags, &due, std::ptr::null_mut()) } == 0).then_some(timer)
}
