//! Reading the kernel's clocks. (Programming a wake-up: `instrument::cyclic`; the cost of reading by each path:
//! `instrument::clock`.)

use lathunt_core::time::{Mono, Ns};

/// Now, in ns of clock `id`, which must exist. Some 20 ns; no system call if the vDSO serves the clock
/// source and knows the clock.
#[inline]
#[must_use]
pub fn read(id: libc::clockid_t) -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is valid to write to.
    unsafe { libc::clock_gettime(id, &mut now) };
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// Arms an expired timer on each clock that can be set or that advances during suspend: so the recorder's programs know
/// their offsets to `CLOCK_MONOTONIC` before one is set.
pub(crate) fn arm_timers_of_clocks_that_are_set() {
    for id in [libc::CLOCK_REALTIME, libc::CLOCK_BOOTTIME, libc::CLOCK_TAI] {
        let past = libc::timespec { tv_sec: 1, tv_nsec: 0 };
        // SAFETY: `past` is valid to read; nothing is written when the remaining time is not asked for.
        unsafe { libc::clock_nanosleep(id, libc::TIMER_ABSTIME, &past, std::ptr::null_mut()) };
    }
}

/// A tick of the kernel (1/HZ): the resolution of its coarse clocks; zero if it has none.
#[must_use]
pub(crate) fn tick() -> Ns {
    let mut tick = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `tick` is valid to write to.
    unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &mut tick) };
    Ns(tick.tv_nsec as u64)
}

/// Now on `CLOCK_MONOTONIC`, the clock of this tool, which `bpf_ktime_get_ns` reads too.
#[inline]
#[must_use]
pub fn mono() -> Mono {
    Mono(read(libc::CLOCK_MONOTONIC) as u64)
}

/// A clock of the time of day, which several machines can share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WallClock {
    /// UTC: `CLOCK_REALTIME`.
    Realtime,
    /// Without leap seconds: `CLOCK_TAI`. The kernel equates it with UTC until its offset is set.
    Tai,
}

impl WallClock {
    /// Now, ns since 1970; 0 before that.
    #[must_use]
    pub fn now(self) -> u64 {
        let id = match self {
            WallClock::Realtime => libc::CLOCK_REALTIME,
            WallClock::Tai => libc::CLOCK_TAI,
        };
        u64::try_from(read(id)).unwrap_or(0)
    }
}
