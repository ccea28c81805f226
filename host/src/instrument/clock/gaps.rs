//! What interrupts a loop of reads? Runs the non-preempt test for as many iterations as there were pairs: its classifier
//! attributes each gap. The pairs of the table cannot be attributed individually without slowing each of them down.

use lathunt_core::clock::Gaps;
use lathunt_core::cpuset::CpuSet;
use lathunt_core::time::Ns;

use super::{Options, PAUSE, STRETCH};
use crate::error::Result;
use crate::instrument::npt::{self, probe::Kind, Read};

/// An iteration takes some 20 ns: a longer one is a gap.
const THRESHOLD: Ns = Ns(1_000);
/// Limits it to a few seconds, whatever number of pairs was requested.
const MOST_TURNS: u64 = 50_000_000;

pub(super) fn find(options: &Options) -> Result<Gaps> {
    let (read, why) = Read::best();
    let as_ns = |length: std::time::Duration| Ns(length.as_nanos() as u64);
    let found = npt::measure(
        &npt::Options {
            cpus: CpuSet::from_iter([options.cpu]),
            loops: options.pairs.min(MOST_TURNS),
            priority: options.priority.unwrap_or(0),
            read,
            threshold: THRESHOLD,
            probe: Kind::Nothing,
            work: None,
            trace_kernel: false,
            burst: options.priority.map(|_| (as_ns(STRETCH), as_ns(PAUSE))),
            record: true,
            late: None,
            worst: 1,
        },
        |_, _| false,
    )?;
    let histograms = || found.series.iter().map(|series| &series.histogram);
    let longest = histograms().filter_map(|histogram| histogram.max()).max();
    Ok(Gaps {
        threshold_ns: THRESHOLD,
        turns: histograms().map(|histogram| histogram.count()).sum(),
        count: histograms().map(|histogram| histogram.count_from(THRESHOLD)).sum(),
        longest_ns: longest.filter(|&longest| longest >= THRESHOLD),
        sources: found.sources,
        notes: why.into_iter().chain(found.notes).collect(),
    })
}
