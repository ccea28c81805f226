//! Options of `cyclic` besides CPUs, priority and length, as options of the instrument, and its results.

use anyhow::{bail, Result};
use lathunt_core::conditions::DuringMeasurement;
use lathunt_core::cpuset::CpuSet;
use lathunt_core::peak::Peak;
use lathunt_core::series::Quantity;
use lathunt_core::time::Ns;
use lathunt_core::warm_up::WarmUp;
use lathunt_host::instrument::cyclic::{Alignment, Clock, Options, ThreadResult, ThreadSpec, WorstSample};
use lathunt_host::sched;

use super::late::NO_EVIDENCE;
use super::CyclicArgs;
use crate::start_at::Begin;

/// The measured CPUs: for an unbound thread, all that it may use.
pub(super) fn measured(options: &Options) -> Result<CpuSet> {
    match options.threads.iter().all(|thread| thread.cpu.is_some()) {
        true => Ok(options.threads.iter().filter_map(|thread| thread.cpu).collect()),
        false => Ok(sched::affinity()?),
    }
}

/// With `--deadline-policy`: one thread, on any CPU.
pub(super) fn reserve(args: &CyclicArgs, options: &mut Options) -> Result<()> {
    let Some(reserved) = args.deadline_policy else { return Ok(()) };
    let period = reserved.0.period;
    if args.interval < period {
        bail!(
            "--deadline-policy: the interval of {} is shorter than the period of {period}; give --interval {period} or more",
            args.interval
        );
    }
    options.reservation = Some(reserved.0);
    options.threads = vec![ThreadSpec { cpu: None, priority: 0, interval: args.interval }];
    Ok(())
}

/// Starts the first period at this time.
pub(super) fn begin_at(begin: &Begin, options: &mut Options) {
    options.alignment = Alignment::At(match options.clock {
        Clock::Monotonic => begin.mono.0,
        Clock::Realtime => begin.realtime,
    });
}

/// Notes which threads left their CPU, ended early or were rescheduled.
///
/// # Errors
/// No thread took a sample, and one of them failed: its error.
pub(super) fn note_ends(results: &[ThreadResult], during: &mut DuringMeasurement) -> Result<()> {
    let failed = || results.iter().filter_map(|result| Some((result.series.label(), result.error.as_ref()?)));
    if results.iter().all(|result| result.series.histogram.count() == 0)
        && let Some((_, error)) = failed().next()
    {
        bail!("{error}");
    }
    during.left_cpu = results.iter().filter_map(|result| result.left.clone()).collect();
    during.ended_early.extend(failed().map(|(label, error)| format!("{label}: {error}")));
    let rescheduled = results.iter().filter_map(|one| Some((one.series.label(), one.rescheduled.as_ref()?)));
    during.ended_early.extend(rescheduled.map(|(label, how)| format!("{label}: {how}")));
    Ok(())
}

/// The worst samples of all threads, worst first.
pub(super) fn peaks(results: &[ThreadResult]) -> Vec<Peak> {
    let of = |result: &ThreadResult| {
        let victim = result.series.thread.clone().unwrap_or_default();
        let peak = |worst: &WorstSample| {
            let cpu = result.series.cpu.unwrap_or(worst.cpu);
            let sample = (worst.expected, worst.latency);
            Peak::without_evidence(Quantity::Cyclic, cpu, sample, victim.clone(), NO_EVIDENCE)
        };
        result.worst.iter().map(peak).collect::<Vec<_>>()
    };
    let mut peaks: Vec<Peak> = results.iter().flat_map(of).collect();
    peaks.sort_by_key(|peak| (std::cmp::Reverse(peak.total_ns), peak.begin));
    peaks
}

/// Results of the first `length`.
pub(super) fn warm_up(length: Ns, results: &[ThreadResult]) -> WarmUp {
    let series = results.iter().map(|result| result.series.clone()).collect();
    WarmUp { length_ns: length, series, peaks: peaks(results) }
}
