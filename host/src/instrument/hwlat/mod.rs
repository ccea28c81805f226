//! Does hardware, firmware or the host steal time? Two detectors, one report.
//!
//! [`tracer`]: the kernel's own, in a private instance; it runs with interrupts off, so its gaps are not caused by software
//! of this kernel. [`spin`]: a loop in user space on every CPU at once, for kernels without that tracer; interrupts are on,
//! so each gap is compared with the kernel's record. `core::hwlat::classify` judges.

pub mod spin;
pub mod tracer;
mod window;

use lathunt_core::cpuset::CpuSet;
use lathunt_core::time::Ns;

use crate::facts::counters;
use crate::tree::{Tree, LIVE};

/// What to watch.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where.
    pub cpus: CpuSet,
    /// Total duration.
    pub duration: Ns,
    /// Length of a cycle.
    pub window: Ns,
    /// Sampled part of it; shorter than `window`.
    pub width: Ns,
    /// Minimum length of a gap.
    pub threshold: Ns,
}

/// Number of worst gaps kept with their judgement, per detector.
const KEPT: usize = 10;

/// SMIs by CPU since reset, for all of `cpus`; `None` if they cannot be read.
#[must_use]
pub fn smi_counts(cpus: &CpuSet) -> Option<Vec<u64>> {
    let tree = Tree::new(std::path::Path::new(LIVE));
    cpus.iter().map(|cpu| counters::smi_count(&tree, cpu)).collect()
}
