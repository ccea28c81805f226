//! What a machine lets run on which CPU, as far as it decides about isolation. Facts only.

use serde::Serialize;

use crate::cpuset::CpuSet;
use crate::time::Cpu;

/// A machine at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Survey {
    /// In use by the scheduler.
    pub online: CpuSet,
    /// Could ever come online.
    pub possible: CpuSet,
    /// Words of the kernel's command line.
    pub command_line: Vec<String>,
    /// What can keep threads away.
    pub mechanisms: Vec<Mechanism>,
    /// Why better ones than the first of those cannot be used, a line each.
    pub mechanisms_missing: Vec<String>,
    /// Interrupts that can come to a CPU of choice.
    pub interrupts: Vec<Interrupt>,
    /// CPUs of interrupts that are not there yet.
    pub default_affinity: Option<CpuSet>,
    /// Files with CPU masks: work queues, packet steering.
    pub masks: Vec<Mask>,
    /// All threads.
    pub threads: Vec<Thread>,
    /// Settings of single CPUs: governors, idle states.
    pub cpu_files: Vec<CpuFile>,
}

/// Ways to keep threads away from a CPU, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mechanism {
    /// An isolated partition of cgroup v2.
    Cgroup2,
    /// An exclusive cpuset of cgroup v1, with the root's load balancing off.
    Cpuset1,
    /// Nothing but the affinity of each thread.
    Affinity,
}

impl Mechanism {
    /// The word for it on the command line.
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
    /// Who handles it.
    pub users: String,
    /// Where it may come.
    pub allowed: CpuSet,
    /// Where it comes; empty when not known.
    pub effective: CpuSet,
    /// Its driver decides where it comes.
    pub managed: bool,
}

/// A file with a CPU mask.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mask {
    /// The file.
    pub path: String,
    /// What it is about.
    pub about: &'static str,
    /// What it holds.
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
    /// One of the kernel's.
    pub kernel: bool,
    /// The kernel does not let it be moved (`PF_NO_SETAFFINITY`).
    pub bound: bool,
    /// Where it may run.
    pub cpus: CpuSet,
}

/// A setting of one CPU.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CpuFile {
    /// Whose.
    pub cpu: Cpu,
    /// What it sets.
    pub of: CpuSetting,
    /// The file.
    pub path: String,
    /// What it holds.
    pub value: String,
}

/// What is set per CPU.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum CpuSetting {
    /// `scaling_governor`.
    #[default]
    Governor,
    /// `disable` of an idle state that takes this many µs to leave.
    IdleState {
        /// Its name.
        name: String,
        /// Its exit latency.
        exit_us: u64,
    },
}
