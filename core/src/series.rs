//! A series: one latency quantity on one CPU or of one thread, with everything that may be said of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::histogram::Histogram;
use crate::time::{Cpu, Mono, Ns, Prio, Tid};

/// What was measured, from which moment to which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Quantity {
    /// Programmed wake-up time → first instruction of the thread in user space (what cyclictest prints).
    Cyclic,
    /// Programmed expiry → timer handler.
    Timer,
    /// sched_waking → switched in.
    Wakeup,
    /// Programmed expiry → switched in.
    #[serde(rename = "timer+wakeup")]
    TimerWakeup,
    /// Time a loop that never stops was stopped.
    Npt,
    /// Gap that no software explains.
    Hardware,
    /// Stimulus → response seen from outside.
    Roundtrip,
}

impl Quantity {
    /// The name in files and tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Quantity::Cyclic => "cyclic",
            Quantity::Timer => "timer",
            Quantity::Wakeup => "wakeup",
            Quantity::TimerWakeup => "timer+wakeup",
            Quantity::Npt => "npt",
            Quantity::Hardware => "hardware",
            Quantity::Roundtrip => "roundtrip",
        }
    }
}

/// A thread as it was when seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Thread {
    /// Thread id.
    pub tid: Tid,
    /// Name (`comm`), at most 15 bytes; may be empty when it was not recorded.
    pub comm: String,
    /// Priority on the kernel's scale; `None` where not recorded.
    pub prio: Option<Prio>,
}

impl std::fmt::Display for Thread {
    /// `comm/tid (RT 95)`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let comm = if self.comm.is_empty() { "<unknown>" } else { &self.comm };
        match self.prio {
            Some(prio) => write!(f, "{comm}/{} ({prio})", self.tid),
            None => write!(f, "{comm}/{}", self.tid),
        }
    }
}

/// The largest latency of one second of the run; the time order that tests of independence need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecondMax {
    /// Seconds since the series began.
    pub second: u32,
    /// The largest latency in that second.
    pub max_ns: Ns,
}

/// One latency quantity on one CPU (or of one thread).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    /// What was measured.
    pub quantity: Quantity,
    /// Where; `None` for a thread that moves.
    pub cpu: Option<Cpu>,
    /// Of whom; `None` when it is of every real-time task on the CPU.
    pub thread: Option<Thread>,
    /// When the first sample was taken.
    pub begin: Option<Mono>,
    /// Distance of two activations; `None` when there is no fixed one.
    pub interval_ns: Option<Ns>,
    /// All samples, nothing clipped.
    pub histogram: Histogram,
    /// The same with each missed activation counted at the latency it would have had, where the instrument knows
    /// (the other view of a stall; Tene calls the difference coordinated omission).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replayed: Option<Histogram>,
    /// Maxima of each second, in time order; seconds without a sample are absent.
    pub seconds: Vec<SecondMax>,
    /// Activations that passed inside a stall and gave no sample of their own.
    pub missed: u64,
    /// Samples taken but lost before they were counted.
    pub lost: u64,
}

impl Series {
    /// An empty series.
    #[must_use]
    pub fn new(quantity: Quantity, cpu: Option<Cpu>, histogram: Histogram) -> Series {
        Series {
            quantity,
            cpu,
            thread: None,
            begin: None,
            interval_ns: None,
            histogram,
            replayed: None,
            seconds: Vec::new(),
            missed: 0,
            lost: 0,
        }
    }

    /// A short name for legends: `CPU 1` or `comm/tid`.
    #[must_use]
    pub fn label(&self) -> String {
        match (&self.cpu, &self.thread) {
            (Some(cpu), _) => format!("CPU {cpu}"),
            (None, Some(thread)) => thread.to_string(),
            (None, None) => "all".to_owned(),
        }
    }
}
