//! Series for a measurement that never ends: each look takes the largest latency since the look before it.
//!
//! [`Recorder::poll`] files a maximum for every second, which is right for a run and would fill the memory of a daemon
//! of months. Here counts and maximum are read as one: the kernel side's sequence counter tells whether a sample came
//! in between, and then both are read again, so that a sample is in the counts exactly if it is in the maximum.

use std::sync::atomic::Ordering::{Acquire, Relaxed};

use lathunt_core::series::Series;
use lathunt_core::time::{Cpu, Ns};

use super::block::CpuBlock;
use super::figures::{self, QUANTITIES};
use super::{frozen, Frozen, Recorder};

/// How often a CPU's histograms are read again when samples come meanwhile.
const ATTEMPTS: usize = 500;

/// One series so far, and the largest latency since the last look.
#[derive(Clone, Debug)]
pub struct Look {
    /// All samples since the recorder began.
    pub series: Series,
    /// The largest since the last look; `None`: no sample since.
    pub max: Option<Ns>,
}

impl Recorder {
    /// Every series that has a sample or lost one, each with its maximum since this was called last. Do not mix with
    /// [`Recorder::poll`], which takes the same maxima.
    pub fn look(&mut self) -> Vec<Look> {
        let cpus = self.cpus.iter().filter_map(|cpu| Some((cpu, self.blocks.of(cpu)?)));
        let looks = cpus.flat_map(|(cpu, block)| look(cpu, block));
        looks.filter(|look| look.series.histogram.count() > 0 || look.series.lost > 0).collect()
    }

    /// What was frozen since the last call, as [`Recorder::poll`] gives it, and nothing else.
    pub fn take_frozen(&mut self) -> Vec<Frozen> {
        let mut taken = Vec::new();
        for cpu in self.cpus.iter() {
            let Some(block) = self.blocks.of(cpu) else { continue };
            for (header, chunk) in frozen::take(cpu, block) {
                taken.push(Frozen::joined(&mut self.previous, cpu, header, chunk));
            }
        }
        taken
    }
}

fn look(cpu: Cpu, block: &CpuBlock) -> Vec<Look> {
    let mut recent = [0; QUANTITIES.len()];
    let mut attempt = 1;
    loop {
        let before = block.hist_seq.load(Acquire);
        for (recent, hist) in recent.iter_mut().zip(&block.hist) {
            *recent = hist.recent_ns.swap(0, Relaxed).max(*recent);
        }
        let all: Vec<Series> =
            (0..QUANTITIES.len()).map(|which| figures::series(cpu, block, which, &[])).collect();
        std::sync::atomic::fence(Acquire);
        let torn = before % 2 == 1 || block.hist_seq.load(Relaxed) != before;
        if !torn || attempt == ATTEMPTS {
            let max = |ns: u64| (ns > 0).then_some(Ns(ns));
            return all.into_iter().zip(recent).map(|(series, ns)| Look { series, max: max(ns) }).collect();
        }
        attempt += 1;
    }
}
