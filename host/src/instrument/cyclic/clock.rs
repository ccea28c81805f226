//! Reads a clock and waits for a time: the measuring loop's only contact with the kernel.

use std::cell::Cell;
use std::io;
use std::mem;

use lathunt_core::time::Ns;

use crate::error::{Error, Result};
use crate::sched;

/// Clock of the activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// `CLOCK_MONOTONIC`: what everything else in this tool uses.
    Monotonic,
    /// `CLOCK_REALTIME`: steps and is slewed; only for comparison with other tools.
    Realtime,
}

/// The system call by which a thread waits for its next activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// `clock_nanosleep` until an absolute time: the way a periodic task should wait.
    Absolute,
    /// `clock_nanosleep` for one interval from now.
    Relative,
    /// `nanosleep` for one interval from now.
    Nanosleep,
    /// A POSIX timer with a signal for `sigwait`, first set absolutely or relatively.
    PosixTimer {
        /// The first expiry is an absolute time.
        absolute: bool,
    },
}

impl Clock {
    fn id(self) -> libc::clockid_t {
        match self {
            Clock::Monotonic => libc::CLOCK_MONOTONIC,
            Clock::Realtime => libc::CLOCK_REALTIME,
        }
    }

    /// Now, in ns of this clock. Some 20 ns; no system call if the vDSO serves the clock source.
    #[inline]
    pub fn now(self) -> u64 {
        crate::clock::read(self.id()) as u64
    }
}

/// Resolution that the kernel states for `clock`, ns.
#[must_use]
pub fn resolution(clock: Clock) -> u64 {
    let mut resolution = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `resolution` is valid to write to.
    unsafe { libc::clock_getres(clock.id(), &mut resolution) };
    resolution.tv_sec as u64 * 1_000_000_000 + resolution.tv_nsec as u64
}

/// Smallest step between consecutive readings of `clock`, ns: its resolution, or the cost of reading it if that is
/// more. Takes about 1 ms; 0 if it never advanced.
#[must_use]
pub fn measured_resolution(clock: Clock) -> u64 {
    let begin = clock.now();
    let (mut last, mut smallest) = (begin, u64::MAX);
    for _ in 0..100_000 {
        let now = clock.now();
        if now > last {
            smallest = smallest.min(now - last);
        }
        last = now;
        if now - begin > 1_000_000 {
            break;
        }
    }
    if smallest == u64::MAX {
        0
    } else {
        smallest
    }
}

/// How a wait ended.
pub(super) enum Woken {
    /// By its time; holds the programmed time, and the overrun count of a timer.
    At { expected: u64, overrun: u64 },
    /// By a signal; holds the programmed time.
    Interrupted { expected: u64 },
    /// Not at all.
    Failed(io::Error),
}

/// Waits for activations on one clock by one method.
pub(super) struct Sleeper {
    clock: Clock,
    wait: Wait,
    interval: u64,
    timer: Option<Timer>,
}

impl Sleeper {
    /// For the calling thread; its first activation is at `first`.
    pub(super) fn new(clock: Clock, wait: Wait, interval: Ns, first: u64) -> Result<Sleeper> {
        let timer = match wait {
            Wait::PosixTimer { absolute } => {
                Some(Timer::start(clock, interval.0, absolute.then_some(first))?)
            }
            _ => None,
        };
        Ok(Sleeper { clock, wait, interval: interval.0, timer })
    }

    /// Due time of the first activation: `planned`, or one interval after the start of a relative timer.
    pub(super) fn first(&self, planned: u64) -> u64 {
        self.timer.as_ref().map_or(planned, |timer| timer.next.get())
    }

    /// Waits until `expected`, or for one interval if the method is relative. Skips expiries of a timer before `expected`:
    /// the caller counted them as missed while their signals were pending.
    #[inline]
    pub(super) fn wait(&self, expected: u64) -> Woken {
        let (failed, expected) = match (&self.timer, self.wait) {
            (Some(timer), _) => return timer.wait(expected),
            (None, Wait::Relative) => {
                let now = self.clock.now();
                (sleep(self.clock, 0, self.interval), now + self.interval)
            }
            (None, Wait::Nanosleep) => {
                let now = self.clock.now();
                (nanosleep(self.interval), now + self.interval)
            }
            (None, _) => (sleep(self.clock, libc::TIMER_ABSTIME, expected), expected),
        };
        match failed {
            0 => Woken::At { expected, overrun: 0 },
            libc::EINTR => Woken::Interrupted { expected },
            error => Woken::Failed(io::Error::from_raw_os_error(error)),
        }
    }

    /// Whether activations are on a fixed grid, so that one can be missed.
    pub(super) fn has_grid(&self) -> bool {
        !matches!(self.wait, Wait::Relative | Wait::Nanosleep)
    }
}

fn timespec(ns: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    }
}

#[inline]
fn sleep(clock: Clock, flags: libc::c_int, ns: u64) -> libc::c_int {
    // SAFETY: the request lives through the call; no remainder is asked for.
    unsafe { libc::clock_nanosleep(clock.id(), flags, &timespec(ns), std::ptr::null_mut()) }
}

fn nanosleep(ns: u64) -> libc::c_int {
    // SAFETY: the request lives through the call; no remainder is asked for.
    if unsafe { libc::nanosleep(&timespec(ns), std::ptr::null_mut()) } == 0 {
        return 0;
    }
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL)
}

/// A POSIX timer that signals one thread.
struct Timer {
    id: libc::timer_t,
    set: libc::sigset_t,
    interval: u64,
    /// Due time of the expiry that the next signal reports.
    next: Cell<u64>,
}

impl Timer {
    fn start(clock: Clock, interval: u64, first: Option<u64>) -> Result<Timer> {
        let wake = crate::signals::wake_signal();
        // SAFETY: zeros are valid for these plain structs; every pointer outlives its call; the signal goes to this
        // thread, which blocks it (and the wake signal) and takes both with sigwait.
        unsafe {
            let mut set: libc::sigset_t = mem::zeroed();
            libc::sigemptyset(&mut set);
            libc::sigaddset(&mut set, libc::SIGALRM);
            libc::sigaddset(&mut set, wake);
            libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
            let mut event: libc::sigevent = mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = libc::SIGALRM;
            event.sigev_notify_thread_id = sched::tid().0;
            let mut id: libc::timer_t = mem::zeroed();
            if libc::timer_create(clock.id(), &mut event, &mut id) != 0 {
                return Err(Error::last_os("create", "a POSIX timer"));
            }
            // Read before the timer is set, so that no latency is underestimated.
            let next = Cell::new(first.unwrap_or_else(|| clock.now() + interval));
            let timer = Timer { id, set, interval, next };
            let flags = if first.is_some() { libc::TIMER_ABSTIME } else { 0 };
            let when = libc::itimerspec {
                it_interval: timespec(interval),
                it_value: timespec(first.unwrap_or(interval)),
            };
            if libc::timer_settime(id, flags, &when, std::ptr::null_mut()) != 0 {
                return Err(Error::last_os("start", "a POSIX timer"));
            }
            Ok(timer)
        }
    }

    fn wait(&self, expected: u64) -> Woken {
        loop {
            let mut signal = 0;
            // SAFETY: both pointers are valid; the set was filled on creation.
            match unsafe { libc::sigwait(&self.set, &mut signal) } {
                0 if signal == libc::SIGALRM => {}
                0 => return Woken::Interrupted { expected: expected.max(self.next.get()) },
                error => return Woken::Failed(io::Error::from_raw_os_error(error)),
            }
            // SAFETY: the timer lives as long as self.
            let overrun = u64::try_from(unsafe { libc::timer_getoverrun(self.id) }).unwrap_or(0);
            let first = self.next.get();
            let last = first + overrun * self.interval;
            self.next.set(last + self.interval);
            if last >= expected {
                let expected = first.max(expected);
                return Woken::At { expected, overrun: (last - expected) / self.interval };
            }
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: created by start, deleted once.
        unsafe { libc::timer_delete(self.id) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: u64 = 10_000_000;

    /// On a thread of its own, whose signals are masked.
    fn on_a_thread(test: fn()) {
        crate::threads::spawn(test).unwrap().join().unwrap();
    }

    fn due(sleeper: &Sleeper, expected: u64) -> u64 {
        let Woken::At { expected, .. } = sleeper.wait(expected) else { panic!("not by its time") };
        assert!(Clock::Monotonic.now() >= expected, "woken before it was due");
        expected
    }

    #[test]
    fn an_expiry_whose_signal_was_pending_while_it_was_counted_as_missed_does_not_come_again() {
        on_a_thread(|| {
            let first = Clock::Monotonic.now() + INTERVAL;
            let wait = Wait::PosixTimer { absolute: true };
            let sleeper = Sleeper::new(Clock::Monotonic, wait, Ns(INTERVAL), first).unwrap();
            let mut expected = sleeper.first(first);
            for round in 0..4 {
                let due = due(&sleeper, expected);
                assert!((due - first).is_multiple_of(INTERVAL) && due >= expected, "round {round}");
                // Late between the signal and the reading of the clock.
                std::thread::sleep(std::time::Duration::from_nanos(INTERVAL * 5 / 2));
                expected = due + (Clock::Monotonic.now() - due).div_ceil(INTERVAL) * INTERVAL;
            }
        });
    }

    #[test]
    fn a_relative_timer_is_due_one_interval_after_its_start_wherever_the_grid_is() {
        on_a_thread(|| {
            let (begin, planned) = (Clock::Monotonic.now(), Clock::Monotonic.now() + 10 * INTERVAL);
            let wait = Wait::PosixTimer { absolute: false };
            let sleeper = Sleeper::new(Clock::Monotonic, wait, Ns(INTERVAL), planned).unwrap();
            let first = due(&sleeper, sleeper.first(planned));
            assert!(first >= begin + INTERVAL && first < planned, "{} ns", first - begin);
            assert!(due(&sleeper, first + INTERVAL) >= first + INTERVAL);
        });
    }
}
