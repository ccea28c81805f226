//! The counter that stamps events: the time stamp counter if it is invariant and the kernel itself trusts it, else
//! `CLOCK_MONOTONIC` through the vDSO.
//!
//! The counter is stored raw. Each packet begins and ends with an anchor (counter, `CLOCK_MONOTONIC`), and the reader
//! interpolates between anchors: the hot path does no arithmetic, and NTP's corrections of the clock are followed
//! exactly.

use std::ffi::CStr;

use crate::ring::Anchor;

/// Meaning of a counter value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Kind {
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    Monotonic = 0,
    /// Ticks of the CPU's constant-rate counter (TSC, CNTVCT), equal on all CPUs.
    Counter = 1,
}

/// The CPU's counter, unserialised. It costs some 10 ns less than `clock_gettime`.
#[must_use]
#[inline(always)]
pub fn counter() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 CPU has the instruction.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(target_arch = "aarch64")]
    {
        let ticks: u64;
        // SAFETY: Linux lets user space read the virtual counter; nothing else is touched.
        unsafe { std::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack)) };
        ticks
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    monotonic_ns()
}

/// `CLOCK_MONOTONIC` in ns; no system call if the vDSO serves it.
#[must_use]
pub fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is valid for writing; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Counter and `CLOCK_MONOTONIC` together: the counter is the middle of two readings around the clock's.
#[must_use]
pub fn anchor(kind: Kind) -> Anchor {
    match kind {
        Kind::Monotonic => {
            let ns = monotonic_ns();
            Anchor { counter: ns, ns }
        }
        Kind::Counter => {
            let before = counter();
            let ns = monotonic_ns();
            let after = counter();
            Anchor { counter: before + after.wrapping_sub(before) / 2, ns }
        }
    }
}

/// Counter, if the CPU reports it as invariant *and* the kernel keeps time with it: a kernel that has found the
/// counter unstable (or a hypervisor that scales it) uses another clocksource.
#[must_use]
pub fn choose() -> Kind {
    if invariant() && kernel_uses(c"/sys/devices/system/clocksource/clocksource0/current_clocksource") {
        Kind::Counter
    } else {
        Kind::Monotonic
    }
}

#[cfg(target_arch = "x86_64")]
fn invariant() -> bool {
    use std::arch::x86_64::__cpuid;
    // Advanced power management information, EDX bit 8: invariant TSC.
    __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & (1 << 8) != 0
}

#[cfg(not(target_arch = "x86_64"))]
fn invariant() -> bool {
    cfg!(target_arch = "aarch64") // guaranteed for CNTVCT by the architecture
}

fn kernel_uses(path: &CStr) -> bool {
    let name = if cfg!(target_arch = "x86_64") { &b"tsc"[..] } else { b"arch_sys_counter" };
    let mut text = [0; 32];
    let length = crate::file::read_small(path, &mut text);
    text[..length].trim_ascii_end() == name
}

/// Nanoseconds per tick as 32.32 fixed point, measured from `start` until now.
#[must_use]
pub fn tick_q32(start: Anchor, now: Anchor) -> u64 {
    let ticks = now.counter.saturating_sub(start.counter);
    let ns = now.ns.saturating_sub(start.ns);
    if ticks == 0 {
        return 1 << 32;
    }
    ((u128::from(ns) << 32) / u128::from(ticks)) as u64
}
