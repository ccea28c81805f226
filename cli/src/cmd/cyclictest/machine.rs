//! Facts of the machine that cyclictest prints: how many CPUs, the kernel's names, memory nodes, SMI counters.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use lathunt_core::cpuset::CpuSet;
use lathunt_core::time::Cpu;
use lathunt_host::sched;

fn text(path: &str) -> String {
    fs::read_to_string(path).map(|text| text.trim_end().to_owned()).unwrap_or_default()
}

fn cpus(path: &str) -> CpuSet {
    text(path).parse().unwrap_or_default()
}

/// How many CPUs this kernel is configured for.
pub fn possible_count() -> u32 {
    cpus("/sys/devices/system/cpu/possible").iter().last().map_or(1, |cpu| cpu.0 + 1)
}

/// CPUs that are online; those that this process may use where the kernel does not say.
pub fn online() -> CpuSet {
    let online = cpus("/sys/devices/system/cpu/online");
    if online.is_empty() {
        sched::affinity().unwrap_or_default()
    } else {
        online
    }
}

/// `uname`, field by field.
pub struct Names {
    pub sysname: String,
    pub nodename: String,
    pub release: String,
    pub version: String,
}

impl Names {
    /// Of the running kernel.
    pub fn read() -> Names {
        let sys = |name: &str| text(&format!("/proc/sys/kernel/{name}"));
        Names {
            sysname: sys("ostype"),
            nodename: sys("hostname"),
            release: sys("osrelease"),
            version: sys("version"),
        }
    }
}

/// Whether the kernel says that it is PREEMPT_RT.
pub fn is_realtime_kernel() -> bool {
    text("/sys/kernel/realtime") == "1"
}

/// `/proc/loadavg`.
pub fn load() -> String {
    text("/proc/loadavg")
}

/// Memory node of `cpu`; -1 when the kernel has none.
pub fn node_of(cpu: Cpu) -> i64 {
    let Ok(entries) = fs::read_dir(format!("/sys/devices/system/cpu/cpu{cpu}")) else { return -1 };
    let node = |name: &str| name.strip_prefix("node")?.parse().ok();
    entries.flatten().find_map(|entry| node(entry.file_name().to_str()?)).unwrap_or(-1)
}

/// The counter of system management interrupts of one CPU (MSR 0x34 of Intel processors).
pub struct SmiCounter {
    msr: File,
    begin: u64,
}

impl SmiCounter {
    /// Counting begins now.
    ///
    /// # Errors
    /// Why it cannot be read: another processor, no `msr` module, no rights, a virtual machine.
    pub fn start(cpu: Cpu) -> Result<SmiCounter, String> {
        if !text("/proc/cpuinfo").contains("GenuineIntel") {
            return Err("not an Intel processor".to_owned());
        }
        let path = format!("/dev/cpu/{cpu}/msr");
        let msr = File::open(&path).map_err(|error| format!("{path}: {error}; `modprobe msr` as root"))?;
        let mut counter = SmiCounter { msr, begin: 0 };
        counter.begin = counter.raw().map_err(|error| format!("{path}: {error}"))?;
        Ok(counter)
    }

    fn raw(&self) -> std::io::Result<u64> {
        let mut value = [0; 8];
        self.msr.read_exact_at(&mut value, 0x34)?;
        Ok(u64::from_le_bytes(value) & 0xffff_ffff)
    }

    /// Since the beginning.
    pub fn count(&self) -> u64 {
        self.raw().map_or(0, |now| now.wrapping_sub(self.begin) & 0xffff_ffff)
    }
}
