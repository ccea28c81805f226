//! Latency from hardware, firmware or the host: gaps, their causes as far as there is evidence, and the report.
//!
//! Hardware is never blamed by elimination alone: unless interrupts are off in the probe or a trace exists, the answer
//! is "cannot tell". Rules: [`classify`].

pub mod classify;
pub mod text;
pub mod tracer_line;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::conditions::LeftCpu;
use crate::histogram::Histogram;
use crate::series::Thread;
use crate::time::{Cpu, Mono, Ns};
use classify::Judgement;

/// Value of `format` in the JSON form.
pub const FORMAT: &str = "lathunt-hwlat";
/// The version written.
pub const VERSION: u32 = 1;

/// One gap: a time in which the busy loop did not run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gap {
    /// Its CPU.
    pub cpu: Cpu,
    /// Its start, CLOCK_MONOTONIC (spin) or wall-clock time (kernel tracer).
    pub at: Mono,
    /// Its length.
    pub gap_ns: Ns,
    /// Its cause.
    pub judgement: Judgement,
    /// Threads that ran in it, other than the loop; empty also if there is no record.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub threads: Vec<Thread>,
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
    /// All gaps by CPU; the kernel tracer reports only the largest of each sampling window.
    #[serde(skip)]
    pub histograms: BTreeMap<Cpu, Histogram>,
    /// The worst gaps with their causes, worst first.
    pub worst: Vec<Gap>,
    /// Samples of the kernel's tracer as it printed them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<tracer_line::Sample>,
    /// Remarks.
    pub notes: Vec<String>,
    /// Threads that were not on their CPU all the time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<LeftCpu>,
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
    /// Smallest gap.
    pub threshold_ns: Ns,
    /// Length of a cycle.
    pub window_ns: Ns,
    /// Part of each cycle in which the detector samples.
    pub width_ns: Ns,
    /// Hypervisor according to CPUID; `none`: there is none.
    pub hypervisor: Option<String>,
    /// SMIs during the run over all CPUs; `None`: cannot be counted.
    pub smi: Option<u64>,
    /// One or two detectors.
    pub found: Vec<Found>,
}

impl Hwlat {
    /// The largest part of a gap that the kernel is not known to have caused; with the kernel tracer the whole gap,
    /// because interrupts are off.
    #[must_use]
    pub fn worst_not_software(&self) -> Option<Ns> {
        let gaps = self.found.iter().flat_map(|found| &found.worst);
        gaps.map(|gap| gap.judgement.foreign(gap.gap_ns)).filter(|time| *time > Ns::ZERO).max()
    }

    /// The same, for gaps with a known cause.
    #[must_use]
    pub fn worst_surely_not_software(&self) -> Option<Ns> {
        let gaps = self.found.iter().flat_map(|found| &found.worst);
        let known = gaps.filter(|gap| gap.judgement.cause != classify::Cause::CannotTell);
        known.map(|gap| gap.judgement.foreign(gap.gap_ns)).filter(|time| *time > Ns::ZERO).max()
    }

    /// Number of gaps above `limit` that were not judged: only the worst of each detector are.
    #[must_use]
    pub fn not_judged_above(&self, limit: Ns) -> u64 {
        let of = |found: &Found| {
            // Bins have edges: a gap in the bin of the limit counts.
            let edge = |gaps: &Histogram| gaps.layout().lower(gaps.layout().index(limit));
            let all: u64 = found.histograms.values().map(|gaps| gaps.count_from(edge(gaps))).sum();
            let from = found.histograms.values().map(edge).min().unwrap_or(limit);
            let judged = found.worst.iter().filter(|gap| gap.gap_ns >= from).count() as u64;
            all.saturating_sub(judged)
        };
        // Gaps of the kernel tracer are not caused by the kernel: the worst is sufficient.
        self.found.iter().filter(|found| found.samples.is_empty()).map(of).sum()
    }

    /// The JSON form.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() // plain structs always serialize
    }
}

#[cfg(test)]
mod tests {
    use super::classify::{Cause, Judgement};
    use super::*;
    use crate::histogram::Layout;

    #[test]
    fn gaps_above_the_limit_that_were_not_judged_are_counted() {
        let (mut gaps, limit) = (Histogram::new(Layout::LATENCY), Ns::from_us(100));
        [50, 100, 300, 400, 500].iter().for_each(|us| gaps.record(Ns::from_us(*us)));
        let judged = |us| Gap {
            cpu: Cpu(0),
            at: Mono(0),
            gap_ns: Ns::from_us(us),
            judgement: Judgement { cause: Cause::Software, remainder_ns: None, reasons: Vec::new() },
            threads: Vec::new(),
        };
        let found = Found {
            detector: "spin",
            watched_ns: Ns(0),
            gaps: 5,
            max_ns: gaps.max(),
            histograms: [(Cpu(0), gaps)].into(),
            worst: vec![judged(500), judged(400)],
            samples: Vec::new(),
            notes: Vec::new(),
            left: Vec::new(),
        };
        let mut report = Hwlat {
            format: FORMAT,
            version: VERSION,
            cpus: "0".to_owned(),
            threshold_ns: Ns::from_us(10),
            window_ns: Ns::from_ms(2),
            width_ns: Ns::from_ms(1),
            hypervisor: None,
            smi: None,
            found: vec![found],
        };
        assert_eq!((report.worst_not_software(), report.not_judged_above(limit)), (None, 2), "300 and 100");
        report.found[0].worst.extend([judged(300), judged(100)]);
        assert_eq!(report.not_judged_above(limit), 0);
        let worst = |report: &Hwlat| (report.worst_not_software(), report.worst_surely_not_software());
        let (open, known) = (Ns::from_us(400), Ns::from_us(300));
        report.found[0].worst[1].judgement.cause = Cause::CannotTell;
        assert_eq!(worst(&report), (Some(open), None));
        report.found[0].worst[2].judgement.cause = Cause::Smi;
        assert_eq!(worst(&report), (Some(open), Some(known)));
    }
}
