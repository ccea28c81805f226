//! Pulses produced by a thread of high priority, and the scheduling that pulses need.

use std::ptr::NonNull;

use lathunt_core::time::{Cpu, Ns};

use super::Pulse;
use crate::clock::mono as now;
use crate::error::{Error, Result};

/// Moves the calling thread to `cpu`.
pub(super) fn pin(cpu: Cpu) -> Result<()> {
    // SAFETY: a zeroed set is empty; CPU_SET stays inside it for numbers below its size, which is checked.
    let failed = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if cpu.0 as usize >= 8 * size_of_val(&set) {
            return Err(Error::refused("run on", format!("CPU {cpu}"), "CPUs above 1023 are not supported"));
        }
        libc::CPU_SET(cpu.0 as usize, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &set)
    };
    match failed {
        0 => Ok(()),
        _ => Err(Error::last_os("run on", format!("CPU {cpu}")).hint("its cpuset may not contain this CPU")),
    }
}

/// Makes the calling thread SCHED_FIFO with precise sleeps. If it spins on by mistake, the kernel kills the process:
/// RLIMIT_RTTIME is `longest` plus two seconds.
pub(super) fn fifo(priority: i32, longest: Ns) -> Result<()> {
    watchdog(longest + Ns::from_ms(2_000));
    let param = libc::sched_param { sched_priority: priority };
    // SAFETY: plain values; 0 is the calling thread; PR_SET_TIMERSLACK takes ns.
    let failed = unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong);
        libc::sched_setscheduler(0, libc::SCHED_FIFO, &param)
    };
    match failed {
        0 => Ok(()),
        _ => Err(Error::last_os("use", format!("SCHED_FIFO {priority}")).hint("needs root or CAP_SYS_NICE")),
    }
}

/// Lowers the soft RLIMIT_RTTIME if it allows more than `limit` without a sleep.
fn watchdog(limit: Ns) {
    let us = limit.0.div_ceil(1_000);
    // SAFETY: a valid structure of plain numbers; failure leaves the limit as it was.
    unsafe {
        let mut limits = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        if libc::getrlimit(libc::RLIMIT_RTTIME, &mut limits) == 0 && limits.rlim_cur == libc::RLIM_INFINITY {
            limits.rlim_cur = us.min(limits.rlim_max);
            libc::setrlimit(libc::RLIMIT_RTTIME, &limits);
        }
    }
}

/// Real-time throttling interrupts a FIFO thread that runs long enough; the pulse is then longer than its CPU time.
pub(super) fn throttling(length: Ns) -> Option<String> {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok();
    let runtime_us: u64 = read("sched_rt_runtime_us")?.trim().parse().ok()?; // -1, no throttling, does not parse
    (length >= Ns::from_us(runtime_us)).then(|| {
        format!("real-time throttling (sched_rt_runtime_us {runtime_us}) may interrupt pulses this long")
    })
}

/// Holds the CPU by polling the clock.
pub(super) fn spin(length: Ns) -> Pulse {
    let begin = now();
    loop {
        let end = now();
        if end.since(begin) >= length {
            return Pulse { begin, end };
        }
    }
}

/// Memory that is discarded and touched again: each touch is a page fault.
pub(super) struct Faults {
    memory: NonNull<u8>,
}

const PAGE: usize = 4096;
const PAGES: usize = 16;

// SAFETY: the memory is ours alone and moves with the value.
unsafe impl Send for Faults {}
// SAFETY: it is only touched through `&mut self`.
unsafe impl Sync for Faults {}

impl Faults {
    pub fn new() -> Result<Faults> {
        // SAFETY: a fresh private anonymous mapping.
        let memory = unsafe {
            let (access, flags) =
                (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            libc::mmap(std::ptr::null_mut(), PAGE * PAGES, access, flags, -1, 0)
        };
        let memory = NonNull::new(memory.cast::<u8>())
            .filter(|at| at.as_ptr().cast::<libc::c_void>() != libc::MAP_FAILED)
            .ok_or_else(|| Error::last_os("allocate", "memory for page faults"))?;
        // SAFETY: our own mapping. Locked memory (mlockall) cannot be discarded: unlock it here.
        unsafe { libc::munlock(memory.as_ptr().cast(), PAGE * PAGES) };
        Ok(Faults { memory })
    }

    /// Page faults until `length` has passed.
    pub fn pulse(&mut self, length: Ns) -> Pulse {
        let begin = now();
        loop {
            // SAFETY: our own mapping of PAGES pages; discarding it leaves zero pages behind.
            unsafe { libc::madvise(self.memory.as_ptr().cast(), PAGE * PAGES, libc::MADV_DONTNEED) };
            for page in 0..PAGES {
                // SAFETY: inside the mapping.
                unsafe { self.memory.add(page * PAGE).as_ptr().write_volatile(1) };
                let end = now();
                if end.since(begin) >= length {
                    return Pulse { begin, end };
                }
            }
        }
    }
}

impl Drop for Faults {
    fn drop(&mut self) {
        // SAFETY: exactly what `new` mapped.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), PAGE * PAGES) };
    }
}
