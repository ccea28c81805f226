//! `--potential`: how long interrupts or preemption were off, whether or not a task was waiting; `--path-analysis`: the terms
//! of a bound of the scheduling latency.
//!
//! Both need the preemptirq tracepoints, which few kernels have; on others the request is refused with the name of the
//! kernel option, and an estimate is offered instead.

use lathunt_core::cpuset::CpuSet;
use lathunt_core::path_analysis::PathAnalysis;
use lathunt_core::peak::Peak;
use lathunt_core::run::Loss;
use lathunt_core::series::{Quantity, Series};
use lathunt_host::recorder::blocking;
use lathunt_host::recorder::path::{self, Paths};
use lathunt_host::recorder::potential::{self, Potentials};

/// A potential latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Potential {
    /// Interrupts disabled
    Irqsoff,
    /// Preemption disabled
    Preemptoff,
    /// Both disabled
    Preemptirqsoff,
    /// Estimate: from need_resched to the scheduler entry, as observed
    Estimate,
}

/// What was requested.
#[derive(Clone, Debug, Default)]
pub struct Chosen {
    /// Potential latencies.
    pub latencies: Vec<Potential>,
    /// The terms of a path analysis.
    pub path_analysis: bool,
}

/// The running recorders of what was requested.
#[derive(Default)]
pub struct Running {
    estimate: Option<blocking::Blocking>,
    potentials: Option<Potentials>,
    paths: Option<Paths>,
}

/// Checks before anything is measured or written.
///
/// # Errors
/// If the kernel cannot report it: the missing option, and an alternative.
pub fn refuse_unless_possible(chosen: &Chosen) -> anyhow::Result<()> {
    let wanted = &chosen.latencies;
    for quantity in quantities(wanted) {
        if let Some(tracepoint) = potential::lacking(quantity)? {
            anyhow::bail!(
                "cannot record {}: this kernel has no tracepoint {tracepoint}: it was built without {} \
                 (CONFIG_PREEMPTIRQ_TRACEPOINTS); --potential estimate gives an observed-blocking estimate instead",
                quantity.name(),
                potential::needs(quantity).1
            );
        }
    }
    if wanted.contains(&Potential::Estimate) {
        blocking::refuse_unless_possible()?;
    }
    if chosen.path_analysis {
        path::refuse_unless_possible()?;
    }
    Ok(())
}

/// Starts the requested recorders.
///
/// # Errors
/// A kernel feature that is missing or refused.
pub fn start(chosen: &Chosen, cpus: &CpuSet) -> anyhow::Result<Running> {
    let wanted = &chosen.latencies;
    let estimate = match wanted.contains(&Potential::Estimate) {
        true => Some(blocking::Blocking::start(cpus)?),
        false => None,
    };
    let quantities: Vec<Quantity> = quantities(wanted).collect();
    let potentials = match quantities.is_empty() {
        true => None,
        false => Some(Potentials::start(cpus, &quantities)?),
    };
    let paths = match chosen.path_analysis {
        true => Some(Paths::start(cpus)?),
        false => None,
    };
    Ok(Running { estimate, potentials, paths })
}

/// The potential latencies among `wanted`.
pub fn quantities(wanted: &[Potential]) -> impl Iterator<Item = Quantity> + '_ {
    wanted.iter().filter_map(|potential| potential.quantity())
}

/// The event fires before the flag is set: an RCU unlock after the program requests again, which fires the event again,
/// until the stack overflows (Fixes: adcc3bfa8806, 6.17).
const CRASH: &str =
    "the estimate uses the tracepoint sched_set_need_resched_tp: a kernel from 6.17 on without commit \
                     53bc5c556b82 (October 2026) can crash while it is in use";

/// Notes on `wanted` for this kernel.
pub fn notes(chosen: &Chosen, preemption_in_force: Option<&str>) -> Vec<String> {
    let wanted = &chosen.latencies;
    let lazy = wanted.contains(&Potential::Estimate) && preemption_in_force == Some("lazy");
    let lazy = lazy.then(|| {
        "the estimate of blocking has lazy requests in it (preempt=lazy): ordinary tasks may go on after them, up to the next \
         tick, with nothing blocked; with preempt=full it has none"
            .to_owned()
    });
    lazy.into_iter().chain(wanted.contains(&Potential::Estimate).then(|| CRASH.to_owned())).collect()
}

impl Potential {
    /// Its quantity, unless it is an estimate.
    pub fn quantity(self) -> Option<Quantity> {
        match self {
            Potential::Irqsoff => Some(Quantity::Irqsoff),
            Potential::Preemptoff => Some(Quantity::Preemptoff),
            Potential::Preemptirqsoff => Some(Quantity::Preemptirqsoff),
            Potential::Estimate => None,
        }
    }
}

impl Running {
    /// The series of each CPU with samples, and the longest of each except the estimate.
    pub fn read(&self) -> (Vec<Series>, Vec<Peak>) {
        let (mut series, peaks) = self.potentials.as_ref().map(Potentials::read).unwrap_or_default();
        series.extend(self.estimate.iter().flat_map(blocking::Blocking::series));
        (series, peaks)
    }

    /// Reads what would be overwritten; at least every 100 ms.
    pub fn poll(&mut self) {
        self.paths.iter_mut().for_each(Paths::poll);
    }

    /// The path analysis of each CPU so far.
    pub fn path_analysis(&mut self) -> Vec<PathAnalysis> {
        self.paths.as_mut().map(Paths::read).unwrap_or_default()
    }

    /// Losses of the potential latencies.
    pub fn losses(&self) -> Vec<Loss> {
        self.potentials.iter().flat_map(Potentials::losses).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn that_lazy_requests_are_in_the_estimate_is_said_where_they_are() {
        let of = |latencies: &[Potential]| Chosen { latencies: latencies.to_vec(), path_analysis: false };
        let both = of(&[Potential::Irqsoff, Potential::Estimate]);
        assert!(notes(&both, Some("lazy"))[0].contains("preempt=full"));
        assert_eq!(notes(&both, Some("full")), [CRASH]);
        assert_eq!(notes(&both, None), [CRASH]);
        assert_eq!(notes(&of(&[Potential::Irqsoff]), Some("lazy")), [""; 0]);
    }
}
