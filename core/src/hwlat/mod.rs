//! Time that hardware, firmware or the host took: what a gap is, who is to blame as far as evidence reaches, and the report.
//!
//! Nothing is called hardware by elimination alone: without interrupts off in the probe and a record of the kernel, the
//! answer is "cannot tell". Rules and their order: [`classify`].

pub mod classify;
pub mod text;
pub mod tracer_line;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::conditions::LeftCpu;
use crate::histogram::Histogram;
use crate::time::{Cpu, Mono, Ns};
use classify::Judgement;

/// Value of `format` in the JSON form.
pub const FORMAT: &str = "lathunt-hwlat";
/// The version written.
pub const VERSION: u32 = 1;

/// One gap: a loop that never stops did not run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// Watching threads that were not on their CPU all the time.
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
    /// The most of a gap that is not known to be the kernel's own doing; with the tracer all of it, because interrupts
    /// are off.
    #[must_use]
    pub fn worst_not_software(&self) -> Option<Ns> {
        let gaps = self.found.iter().flat_map(|found| &found.worst);
        gaps.map(|gap| gap.judgement.foreign(gap.gap_ns)).filter(|time| *time > Ns::ZERO).max()
    }

    /// The same of the gaps whose cause is known.
    #[must_use]
    pub fn worst_surely_not_software(&self) -> Option<Ns> {
        let gaps = self.found.iter().flat_map(|found| &found.worst);
        let known = gaps.filter(|gap| gap.judgement.cause != classify::Cause::CannotTell);
        known.map(|gap| gap.judgement.foreign(gap.gap_ns)).filter(|time| *time > Ns::ZERO).max()
    }

    /// How many gaps above `limit` are not among the judged ones, which are the worst of each detector.
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
        // Whatever the kernel's tracer sees is not its own doing: its worst says all.
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
