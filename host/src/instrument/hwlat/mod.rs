//! Does hardware, firmware or the host steal time? Two detectors with one report.
//!
//! [`tracer`]: the kernel's own, in a private instance; interrupts are off in it, so whatever it sees is no software of
//! this kernel. [`spin`]: a loop in user space on every CPU at once, for kernels without that tracer; interrupts are on, so
//! each gap is held against the kernel's record. The judgement is `core::hwlat::classify`.

pub mod spin;
pub mod tracer;

use lathunt_core::cpuset::CpuSet;
use lathunt_core::time::Ns;

use crate::facts::counters;
use crate::tree::{Tree, LIVE};

/// What to watch.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where.
    pub cpus: CpuSet,
    /// For how long in all.
    pub duration: Ns,
    /// Length of a cycle.
    pub window: Ns,
    /// Watched part of it; shorter than `window`.
    pub width: Ns,
    /// Gaps from here on.
    pub threshold: Ns,
}

/// The worst gaps that are kept with their judgement, per detector.
const KEPT: usize = 10;

/// SMIs by CPU since reset, over all CPUs of `cpus`; `None` where they cannot be read.
#[must_use]
pub fn smi_counts(cpus: &CpuSet) -> Option<Vec<u64>> {
    let tree = Tree::new(std::path::Path::new(LIVE));
    cpus.iter().map(|cpu| counters::smi_count(&tree, cpu)).collect()
}
