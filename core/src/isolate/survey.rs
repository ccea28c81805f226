//! Placement of work on CPUs, as far as it matters for isolation. Facts only.

use serde::Serialize;

use crate::cpuset::CpuSet;
use crate::time::Cpu;

/// A machine at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Survey {
    /// Online CPUs.
    pub online: CpuSet,
    /// Possible CPUs.
    pub possible: CpuSet,
    /// Words of the kernel's command line.
    pub command_line: Vec<String>,
    /// Available mechanisms.
    pub mechanisms: Vec<Mechanism>,
    /// Why better mechanisms are not available, a line each.
    pub mechanisms_missing: Vec<String>,
    /// Interrupts with an affinity.
    pub interrupts: Vec<Interrupt>,
    /// Affinity of future interrupts.
    pub default_affinity: Option<CpuSet>,
    /// Files with CPU masks: work queues, packet steering.
    pub masks: Vec<Mask>,
    /// All threads.
    pub threads: Vec<Thread>,
    /// Settings of single CPUs: governors, idle states.
    pub cpu_files: Vec<CpuFile>,
}

/// Mechanisms to keep threads off a CPU, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mechanism {
    /// An isolated partition of cgroup v2.
    Cgroup2,
    /// An exclusive cpuset of cgroup v1, with the root's load balancing off.
    Cpuset1,
    /// Only the affinity of each thread.
    Affinity,
}

impl Mechanism {
    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Mechanism::Cgroup2 => "cgroup2",
            Mechanism::Cpuset1 => "cpuset1",
            Mechanism::Affinity => "affinity",
        }
    }
}

/// An interrupt.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Interrupt {
    /// Its number.
    pub number: u32,
    /// Its handlers.
    pub users: String,
    /// Its affinity.
    pub allowed: CpuSet,
    /// Its effective affinity; empty if unknown.
    pub effective: CpuSet,
    /// Managed: the kernel sets its affinity.
    pub managed: bool,
}

/// A file with a CPU mask.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mask {
    /// The file.
    pub path: String,
    /// Its purpose.
    pub about: &'static str,
    /// Its value.
    pub cpus: CpuSet,
}

/// A thread.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Thread {
    /// Process.
    pub pid: i32,
    /// Thread.
    pub tid: i32,
    /// Name.
    pub comm: String,
    /// Whether it is a kernel thread.
    pub kernel: bool,
    /// Its affinity cannot be changed (`PF_NO_SETAFFINITY`).
    pub bound: bool,
    /// Its affinity.
    pub cpus: CpuSet,
}

/// A setting of one CPU.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CpuFile {
    /// The CPU.
    pub cpu: Cpu,
    /// The setting.
    pub of: CpuSetting,
    /// The file.
    pub path: String,
    /// Its value.
    pub value: String,
}

/// Settings per CPU.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum CpuSetting {
    /// `scaling_governor`.
    #[default]
    Governor,
    /// `disable` of an idle state.
    IdleState {
        /// Its name.
        name: String,
        /// Its exit latency, µs.
        exit_us: u64,
    },
}
