//! `lathunt hunt`: the main job. Facts, calibration, measurement under load, explanation, verdict, report.

mod calibrate;
mod finish;
mod idle;
mod late;
mod measure;
mod peaks;
mod session;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use lathunt_core::cpuset::CpuSet;
use lathunt_core::time::Ns;

use crate::cmd::on_late::OnLateArgs;
use crate::cmd::units::{idle_latency, interval, microseconds, seconds};
use crate::start_at::StartAt;
use crate::strict::Strict;
use crate::until::UntilArg;
use session::Plan;

/// Measure this machine under load, explain its worst latencies, and give a verdict.
///
/// What is stated without any model counts late activations that come together once, as far as the maxima of the seconds tell
/// (from fifty seconds on); in shorter runs it holds if they come independently, and is optimistic where they come in bursts.
///
/// Exit status: 0 within the deadline (or none given), 1 could not measure, 2 deadline exceeded, 3 measured but
/// inconclusive.
#[derive(Args, Debug)]
pub struct HuntArgs {
    /// How long to measure: 60s, 10m, 2h [default: 60s, or as long as --until takes]
    #[arg(short = 'D', long, value_parser = seconds)]
    duration: Option<Ns>,
    #[command(flatten)]
    until: UntilArg,
    /// CPUs to measure, as a list (0-3,6); default: all online ones
    #[arg(short = 'c', long, value_name = "LIST")]
    cpus: Option<CpuSet>,
    /// Real-time priority of the measuring threads (SCHED_FIFO)
    #[arg(short = 'p', long, default_value_t = 95, value_parser = clap::value_parser!(i32).range(1..=99))]
    priority: i32,
    /// Distance of two activations; a bare number counts in µs
    #[arg(short = 'i', long, default_value = "1000", value_parser = interval)]
    interval: Ns,
    /// Latency that must not be exceeded; a bare number counts in µs
    #[arg(long, value_name = "TIME", value_parser = microseconds)]
    deadline: Option<Ns>,
    #[command(flatten)]
    strict: Strict,
    /// End the measurement at the first latency above this, with exit code 2; a bare number counts in µs
    #[arg(long, value_name = "TIME", value_parser = microseconds)]
    stop_at: Option<Ns>,
    #[command(flatten)]
    on_late: OnLateArgs,
    /// auto: stress-ng, or builtin where it is not installed; builtin: our own; none; or a shell command that makes the load
    #[arg(long, value_name = "auto|none|CMD", default_value = "auto")]
    load: String,
    /// Hold /dev/cpu_dma_latency at this many µs: CPUs use no idle state with a longer exit latency. cyclictest holds 0
    ///
    /// This improves the machine under test. Without it hunt measures the machine as it runs, so cyclictest may find less.
    #[arg(long, value_name = "US", value_parser = clap::value_parser!(i32).range(0..))]
    pm_qos: Option<i32>,
    /// Disable idle states of the measured CPUs with a longer exit latency, until it ends; a bare number counts in µs
    #[arg(long, value_name = "TIME", value_parser = idle_latency)]
    idle_latency: Option<Ns>,
    /// Compare: measure with idle states as they are and limited (to --pm-qos, or 0 µs) in alternating rounds
    ///
    /// The report shows the latencies of both kinds of rounds side by side. Verdict and series cover all rounds.
    #[arg(long, conflicts_with_all = ["idle_latency", "until"])]
    compare_idle: bool,
    /// Start to measure at this time, together with other machines: 2026-11-26T13:00:00Z, @SECONDS since 1970, or tai:@SECONDS
    ///
    /// Calibration and load come before it: leave ten seconds at least. How well the clocks of the machines agree is not checked:
    /// ptp4l and chrony report it.
    #[arg(long, value_name = "MOMENT")]
    start_at: Option<StartAt>,
    /// Explain so many worst cases of each CPU
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=64))]
    peaks: u16,
    /// Directory for run.lathunt.json and report.html; default: lathunt-DATE-TIME. A run that
    /// lies there already is set aside, as run.lathunt.json.old
    #[arg(short = 'o', long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Print the run file on stdout instead of the summary
    #[arg(long)]
    json: bool,
    /// Print only the verdict and its reasons
    #[arg(short = 'q', long)]
    quiet: bool,
}

/// Runs the command.
///
/// # Errors
/// When nothing could be measured, or the result could not be written.
pub fn run(args: HuntArgs) -> anyhow::Result<ExitCode> {
    let on_late = args.on_late.wanted();
    on_late.check(args.deadline.is_some(), "--deadline", Ok(()))?;
    let plan = Plan {
        duration: args.duration,
        until: args.until.until,
        cpus: args.cpus,
        priority: args.priority,
        interval: args.interval,
        deadline: args.deadline,
        strict: args.strict,
        stop_at: args.stop_at,
        idle: idle::Wanted { pm_qos: args.pm_qos, latency: args.idle_latency, compare: args.compare_idle },
        start_at: args.start_at,
        on_late,
        load: args.load,
        peaks: usize::from(args.peaks),
        output: args.output,
        json: args.json,
        quiet: args.quiet,
    };
    session::run(&plan)
}
