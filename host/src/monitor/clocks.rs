//! The three clocks of [`ClockOffsets`](lathunt_core::monitor::timepiece::ClockOffsets), and the CPUs that are online.

use std::path::Path;

use lathunt_core::cpuset::CpuSet;
use lathunt_core::monitor::timepiece::Reading;
use lathunt_core::monitor::window::UnixMs;
use lathunt_core::time::{Cpu, Mono, Ns};

use crate::clock;

/// All three clocks, read within a microsecond unless the reader is interrupted.
#[must_use]
pub fn read() -> Reading {
    Reading {
        wall_ns: clock::read(libc::CLOCK_REALTIME),
        mono_ns: clock::read(libc::CLOCK_MONOTONIC),
        boot_ns: clock::read(libc::CLOCK_BOOTTIME),
    }
}

/// The wall clock.
#[must_use]
pub fn wall() -> UnixMs {
    UnixMs(clock::read(libc::CLOCK_REALTIME).div_euclid(1_000_000))
}

/// `CLOCK_MONOTONIC`.
#[must_use]
pub fn mono() -> Mono {
    clock::mono()
}

/// Online CPUs below `root`; `None` if unreadable.
#[must_use]
pub fn online(root: &Path) -> Option<CpuSet> {
    std::fs::read_to_string(root.join("sys/devices/system/cpu/online")).ok()?.trim().parse().ok()
}

/// Thermal throttling time of each of `cpus` since boot, below `root`; CPUs whose kernel does not count it are absent.
#[must_use]
pub fn throttled(root: &Path, cpus: &CpuSet) -> Vec<(Cpu, Ns)> {
    let of = |cpu: Cpu| {
        let name = format!("sys/devices/system/cpu/cpu{cpu}/thermal_throttle/core_throttle_total_time_ms");
        let ms: u64 = std::fs::read_to_string(root.join(name)).ok()?.trim().parse().ok()?;
        Some((cpu, Ns::from_ms(ms)))
    };
    cpus.iter().filter_map(of).collect()
}

/// CPU time, user and system, of this process so far.
#[must_use]
pub fn own_cpu_time() -> Ns {
    Ns(u64::try_from(clock::read(libc::CLOCK_PROCESS_CPUTIME_ID)).unwrap_or(0))
}

/// Resident bytes of this process; `None` if /proc does not say.
#[must_use]
pub fn own_resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().trim_end_matches(" kB").parse::<u64>().ok()? * 1024)
}
