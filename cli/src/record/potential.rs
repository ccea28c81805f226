//! `--potential`: how long interrupts or preemption were off, whether anybody waited or not.
//!
//! The kernel tells only where it has the preemptirq tracepoints, which few are built with; elsewhere the request is
//! refused with the option's name, and an estimate from what can be seen is offered instead.

use lathunt_core::cpuset::CpuSet;
use lathunt_core::series::Series;
use lathunt_host::recorder::blocking;

/// A potential latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Potential {
    /// Interrupts were off.
    Irqsoff,
    /// Preemption was off.
    Preemptoff,
    /// Both were off.
    Preemptirqsoff,
    /// Observed blocking: need_resched → scheduler entry.
    Estimate,
}

/// The running estimate.
pub struct Estimate(blocking::Blocking);

/// Starts what is wanted.
///
/// # Errors
/// When the kernel cannot tell: which option it lacks, and what to ask for instead.
pub fn start(wanted: &[Potential], cpus: &CpuSet) -> anyhow::Result<Option<Estimate>> {
    for potential in wanted {
        let (name, tracepoint, option) = match potential {
            Potential::Irqsoff => ("irqsoff", "irq_disable", "CONFIG_IRQSOFF_TRACER"),
            Potential::Preemptoff => ("preemptoff", "preempt_disable", "CONFIG_PREEMPT_TRACER"),
            Potential::Preemptirqsoff => ("preemptirqsoff", "preempt_disable", "CONFIG_PREEMPT_TRACER"),
            Potential::Estimate => continue,
        };
        let why = match blocking::has_tracepoint(tracepoint)? {
            false => format!("this kernel has no tracepoint {tracepoint}: it was built without {option} (CONFIG_PREEMPTIRQ_TRACEPOINTS)"),
            true => "this version of lathunt does not read the preemptirq tracepoints yet".to_owned(),
        };
        anyhow::bail!(
            "cannot record {name}: {why}; --potential estimate gives an observed-blocking estimate instead"
        );
    }
    match wanted.is_empty() {
        true => Ok(None),
        false => Ok(Some(Estimate(blocking::Blocking::start(cpus)?))),
    }
}

impl Estimate {
    /// `blocking` of each CPU with samples.
    pub fn series(&self) -> Vec<Series> {
        self.0.series()
    }
}
