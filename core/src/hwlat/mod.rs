//! Time that hardware, firmware or the host took: what a gap is, who is to blame as far as evidence reaches, and the report.
//!
//! Nothing is called hardware by elimination alone: without interrupts off in the probe and a record of the kernel, the
//! answer is "cannot tell". Rules and their order: [`classify`].

pub mod classify;
pub mod text;
pub mod tracer_line;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::histogram::Histogram;
use crate::time::{Cpu, Mono, Ns};
use classify::Judgement;

/// Value of `format` in the JSON form.
pub const FORMAT: &str = "lathunt-hwlat";
/// The version written.
pub const VERSION: u32 = 1;

/// One gap: a loop that never stops did not run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gap {
    /// Where.
    pub cpu: Cpu,
    /// When it began, CLOCK_MONOTONIC (spin) or wall-clock time of the kernel's tracer.
    pub at: Mono,
    /// How long.
    pub gap_ns: Ns,
    /// Who is to blame.
    pub judgement: Judgement,
}

/// What one detector found.
#[derive(Clone, Debug, Serialize)]
pub struct Found {
    /// `kernel tracer` or `spin`.
    pub detector: &'static str,
    /// Time actually watched, per CPU.
    pub watched_ns: Ns,
    /// All gaps at or above the threshold.
    pub gaps: u64,
    /// The largest.
    pub max_ns: Option<Ns>,
    /// All gaps by CPU; of the tracer the largest of each watched part, which is all it tells.
    #[serde(skip)]
    pub histograms: BTreeMap<Cpu, Histogram>,
    /// The worst, with their judgement, worst first.
    pub worst: Vec<Gap>,
    /// Samples of the kernel's tracer as it printed them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<tracer_line::Sample>,
    /// What has to be known beside.
    pub notes: Vec<String>,
}

/// The whole report.
#[derive(Clone, Debug, Serialize)]
pub struct Hwlat {
    /// Always [`FORMAT`].
    pub format: &'static str,
    /// Always [`VERSION`].
    pub version: u32,
    /// CPUs watched.
    pub cpus: String,
    /// A gap counts from here.
    pub threshold_ns: Ns,
    /// Length of a cycle, and of the watched part of it.
    pub window_ns: Ns,
    /// See there.
    pub width_ns: Ns,
    /// Hypervisor by the processor's word; `none`: it denies one.
    pub hypervisor: Option<String>,
    /// SMIs during the run over all CPUs; `None`: not countable here.
    pub smi: Option<u64>,
    /// One or two detectors.
    pub found: Vec<Found>,
}

impl Hwlat {
    /// The largest gap that is not the kernel's own doing; with the tracer every sample is, because interrupts are off.
    #[must_use]
    pub fn worst_not_software(&self) -> Option<Ns> {
        let gaps = self.found.iter().flat_map(|found| &found.worst);
        gaps.filter(|gap| gap.judgement.cause != classify::Cause::Software).map(|gap| gap.gap_ns).max()
    }

    /// The JSON form.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() // plain structs always serialize
    }
}
