//! Reading the kernel's clocks. (How a wake-up is programmed on one: `instrument::cyclic`; what reading costs, by every
//! path there is: `instrument::clock`.)

use lathunt_core::time::Mono;

/// Now, in ns of clock `id`, which must be one that exists. Some 20 ns; no system call where the vDSO serves the clock
/// source and knows the clock.
#[inline]
#[must_use]
pub fn read(id: libc::clockid_t) -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is valid to write to.
    unsafe { libc::clock_gettime(id, &mut now) };
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// Now on `CLOCK_MONOTONIC`, the clock of this tool, which `bpf_ktime_get_ns` reads as well.
#[inline]
#[must_use]
pub fn mono() -> Mono {
    Mono(read(libc::CLOCK_MONOTONIC) as u64)
}
