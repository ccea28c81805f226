//! The conditions of a run: a number without its conditions is not a result.
//!
//! Facts only, gathered by `host::facts`; they are judged elsewhere. `None` is "could not be read".

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::time::{Cpu, Mono, Ns};

/// Machine, kernel, knobs, load and tools of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Conditions {
    /// Wall-clock time of the start, RFC 3339.
    pub started: Option<String>,
    /// The common start with other machines (`--start-at`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub common_start: Option<CommonStart>,
    /// Length of the measurement, seconds.
    pub duration_s: Option<f64>,
    /// The command of this run.
    pub command: Option<String>,
    /// Version of the tool.
    pub tool: Option<String>,
    /// Name of the host.
    pub host: Option<String>,
    /// Machine and firmware.
    pub machine: Machine,
    /// Kernel.
    pub kernel: Kernel,
    /// Settings that affect latency.
    pub knobs: Knobs,
    /// Load during the measurement; `None` is "not known", `"none"` is "none".
    pub load: Option<String>,
    /// Capabilities that the process has or lacks.
    pub capabilities: Vec<Capability>,
    /// Events on the machine during the measurement.
    #[serde(default)]
    pub during: DuringMeasurement,
    /// Facts that could not be read and settings that could not be kept, one line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Start of the note on the case that ended a measurement (`--stop-at`).
pub const ENDED_BY_STOP_AT: &str = "ended by --stop-at: ";
/// Start of the note on selected threads that slept throughout a recording: no figure shows them.
pub const SLEPT_THROUGHOUT: &str = "slept from beginning to end, so that no job of theirs is covered: ";

/// The common start of measurements on several machines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CommonStart {
    /// Its clock: `realtime` or `tai`.
    pub clock: String,
    /// Its time, ns since 1970 on that clock.
    pub at_ns: u64,
    /// Its time on CLOCK_MONOTONIC of this machine, converted some 200 ms before.
    pub begin: Mono,
    /// Error limit of that conversion: half of the time of reading both clocks. It does not include the difference
    /// between the clocks of the machines.
    pub uncertainty_ns: Ns,
}

/// Events between the start and the end of the measurement, from counters read at both.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DuringMeasurement {
    /// Steal time of each CPU, in steps of a clock tick (10 ms); `None`: not counted here.
    #[serde(default)]
    pub steal: Option<Vec<CpuSteal>>,
    /// System management interrupts of each CPU; `None`: not countable here.
    #[serde(default)]
    pub smi: Option<Vec<CpuCount>>,
    /// Thermal throttling events of each CPU; `None`: not counted here.
    #[serde(default)]
    pub thermal_throttle: Option<Vec<CpuCount>>,
    /// Kernel messages relevant to latency (real-time throttling, clock problems, stalls); `None`: the kernel log could
    /// not be read.
    #[serde(default)]
    pub kernel_messages: Option<Vec<String>>,
    /// Why the load ended before the measurement; `None`: it did not.
    #[serde(default)]
    pub load_ended_early: Option<String>,
    /// CPU time that the load used; `None`: no load of this tool, or not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_cpu_ns: Option<Ns>,
    /// When the load ran; `None`: no load of this tool, or not watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_over_time: Option<LoadOverTime>,
    /// Why the measurement ended early, one line each: a signal, a measuring thread that ended, a program that failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ended_early: Vec<String>,
    /// Measuring threads that left their CPU.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_cpu: Vec<LeftCpu>,
    /// Other measurements by lathunt on the same CPUs at the same time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub neighbours: Vec<Neighbour>,
    /// Steps of CLOCK_REALTIME during the measurement, ns; `None`: not watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_set_ns: Option<Vec<i64>>,
}

/// A load over the time of the measurement, watched in windows of a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoadOverTime {
    /// Windows in which its processes used at least 1 % of one CPU, or waited for one at the end.
    pub ran_ns: Ns,
    /// Longest time at a stretch without such a window.
    pub longest_pause_ns: Ns,
    /// Whether it may pause by itself: a command of the user.
    pub may_pause: bool,
}

/// Another lathunt that measured on a CPU of this measurement at the same time: each disturbs the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Neighbour {
    /// Its process id, in its own PID namespace.
    pub process: u32,
    /// Wall-clock time of its start, RFC 3339.
    pub since: String,
    /// Its measured CPUs, as a list.
    pub cpus: String,
}

impl std::fmt::Display for Neighbour {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Neighbour { process, since, cpus } = self;
        let several = if cpus.contains([',', '-']) { "CPUs" } else { "CPU" };
        write!(f, "another lathunt measures here since {since} (process {process}, {several} {cpus})")
    }
}

/// A measuring thread that left its CPU: its samples are not only of that CPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeftCpu {
    /// The CPU that it should measure.
    pub cpu: Cpu,
    /// Samples taken on another CPU; `None`: not counted.
    pub samples: Option<u64>,
    /// The other CPU of the last of these samples.
    pub on: Option<Cpu>,
    /// The change that was found: the thread's affinity, the online CPUs.
    pub why: String,
}

impl std::fmt::Display for LeftCpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CPU {}: ", self.cpu)?;
        match (self.samples, self.on) {
            (Some(1), Some(on)) => write!(f, "1 sample was taken on CPU {on}")?,
            (Some(samples), Some(on)) if samples > 0 => {
                write!(f, "{samples} samples were taken on other CPUs, the last on CPU {on}")?;
            }
            _ => write!(f, "the measuring thread may have been on another CPU")?,
        }
        if !self.why.is_empty() {
            write!(f, " ({})", self.why)?;
        }
        write!(f, ": the worst of CPU {} is not known", self.cpu)
    }
}

/// Steal time of one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuSteal {
    /// The CPU.
    pub cpu: Cpu,
    /// Its steal time.
    pub steal_ns: Ns,
}

/// A count on one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuCount {
    /// The CPU.
    pub cpu: Cpu,
    /// The count.
    pub count: u64,
}

/// Hardware, firmware, host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Machine {
    /// `x86_64`, `aarch64`.
    pub architecture: Option<String>,
    /// Model of the CPU.
    pub cpu_model: Option<String>,
    /// Online CPUs as a list.
    pub cpus_online: Option<String>,
    /// CPUs measured, as a list.
    pub cpus_measured: Option<String>,
    /// Maximum clock frequency, Hz, for the rule of thumb.
    pub cpu_max_hz: Option<u64>,
    /// Main memory, bytes.
    pub memory_bytes: Option<u64>,
    /// Board or product name, with firmware version.
    pub product: Option<String>,
    /// Hypervisor according to the CPU; `"none"` if there is none.
    pub hypervisor: Option<String>,
    /// Whether hyperthreads share cores.
    pub smt: Option<String>,
}

/// Kernel and its boot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Kernel {
    /// `uname -r`.
    pub release: Option<String>,
    /// `uname -v`.
    pub version: Option<String>,
    /// Preemption model as compiled: `PREEMPT_RT`, `PREEMPT_DYNAMIC`, …
    pub preemption: Option<String>,
    /// The active model if it can change at run time (`none`, `voluntary`, `full`, `lazy`).
    pub preemption_in_force: Option<String>,
    /// Whether it is a PREEMPT_RT kernel.
    pub realtime: Option<bool>,
    /// Command line.
    pub command_line: Option<String>,
    /// Timer tick, Hz.
    pub hz: Option<u32>,
    /// Build options that affect latency, with the values of the kernel configuration (`y`, `n`, a number); empty if it
    /// could not be read.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub config: BTreeMap<String, String>,
}

impl Kernel {
    /// The preemption model in force, for the wording of causes: `rt` of a PREEMPT_RT kernel, else the active one; `None`: not
    /// known.
    #[must_use]
    pub fn preemption_model(&self) -> Option<String> {
        match self.realtime {
            Some(true) => Some("rt".to_owned()),
            _ => self.preemption_in_force.clone(),
        }
    }
}

/// Settings that affect latency.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Knobs {
    /// Clock source in use.
    pub clocksource: Option<String>,
    /// Frequency governor of each CPU (CPU list → governor); empty: no frequency scaling visible.
    pub governors: BTreeMap<String, String>,
    /// Idle states: name and exit latency in µs, of the first measured CPU.
    pub idle_states: Vec<IdleState>,
    /// Latency that `/dev/cpu_dma_latency` allowed at the start, µs.
    pub cpu_dma_latency_us: Option<i32>,
    /// Latency that this tool wrote there, µs.
    pub cpu_dma_latency_held_us: Option<i32>,
    /// Other processes with `/dev/cpu_dma_latency` open (`comm/pid`).
    pub cpu_dma_latency_holders: Vec<String>,
    /// `sched_rt_runtime_us`; -1 is "no throttling".
    pub rt_runtime_us: Option<i64>,
    /// `sched_rt_period_us`.
    pub rt_period_us: Option<i64>,
    /// Fair server per CPU (`runtime/period` in ns).
    pub fair_server: BTreeMap<String, String>,
    /// Any other knob, by path.
    #[serde(default)]
    pub other: BTreeMap<String, String>,
}

/// An idle state of the CPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IdleState {
    /// Number.
    pub state: u32,
    /// Name.
    pub name: String,
    /// Declared exit latency, µs.
    pub exit_latency_us: Option<u64>,
    /// Disabled by the user.
    pub disabled: Option<bool>,
}

/// A capability of the system that the tool uses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Capability {
    /// `bpf`, `btf`, `sched_fifo`, `mlock`, `kernel_symbols`, …
    pub name: String,
    /// Whether it is present.
    pub present: bool,
    /// If absent: why, the consequence, and how to get it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}
