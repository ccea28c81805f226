//! `lathunt hunt`: the main command. Facts, calibration, measurement under load, explanation, verdict, report.

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
use crate::cmd::units::{idle_latency, interval, microseconds, seconds, whole_microseconds};
use crate::start_at::StartAt;
use crate::strict::Strict;
use crate::until::UntilArg;
use session::Plan;

/// Measure this machine under load, explain its worst latencies, and give a verdict.
///
/// The model-free bound counts a cluster of late activations once. Clusters are detected from the maximum of each second, in
/// runs of at least 20 s. In shorter runs the bound assumes independent late activations, and is optimistic if they come in
/// bursts.
///
/// Exit status: 0 within the deadline (or none given); 1 could not measure; 2 deadline exceeded; 3 inconclusive.
#[derive(Args, Debug)]
pub struct HuntArgs {
    /// Length of the measurement: 60s, 10m, 2h [default: 60s, or as long as --until takes]
    #[arg(short = 'D', long, value_parser = seconds)]
    duration: Option<Ns>,
    #[command(flatten)]
    until: UntilArg,
    /// CPUs to measure, as a list: 0-3,6 [default: all online CPUs]
    #[arg(short = 'c', long, value_name = "LIST")]
    cpus: Option<CpuSet>,
    /// Real-time priority of the measuring threads (SCHED_FIFO)
    #[arg(short = 'p', long, default_value_t = 95, value_parser = clap::value_parser!(i32).range(1..=99))]
    priority: i32,
    /// Period of the measuring threads; bare numbers are µs
    #[arg(short = 'i', long, default_value = "1000us", value_parser = interval)]
    interval: Ns,
    /// Latency that must not be exceeded; bare numbers are µs
    #[arg(long, value_name = "TIME", value_parser = microseconds)]
    deadline: Option<Ns>,
    #[command(flatten)]
    strict: Strict,
    /// Stop the measurement at the first latency above this, with exit status 2; bare numbers are µs
    #[arg(long, value_name = "TIME", value_parser = microseconds)]
    stop_at: Option<Ns>,
    #[command(flatten)]
    on_late: OnLateArgs,
    /// Load: auto (stress-ng, or builtin if it is not installed), builtin, none, or a shell command that generates the load
    #[arg(long, value_name = "auto|none|CMD", default_value = "auto")]
    load: String,
    /// Limit the exit latency of idle states to this many µs, by holding /dev/cpu_dma_latency (cyclictest holds 0)
    ///
    /// This improves the latency of the machine under test. Without it, hunt measures the machine as configured, so cyclictest
    /// may report lower latencies.
    #[arg(long, value_name = "US", value_parser = whole_microseconds)]
    pm_qos: Option<i32>,
    /// Disable idle states with a longer exit latency on the measured CPUs, until the measurement ends; bare numbers are µs
    #[arg(long, value_name = "TIME", value_parser = idle_latency)]
    idle_latency: Option<Ns>,
    /// Measure in alternating rounds with idle states as configured and limited (to --pm-qos, or 0 µs)
    ///
    /// The report compares the latencies of both kinds of rounds. Verdict and series cover all rounds.
    #[arg(long, conflicts_with_all = ["idle_latency", "until"])]
    compare_idle: bool,
    /// Start the measurement at this time, together with other machines: 2026-11-26T13:00:00Z, @SECONDS since 1970, or
    /// tai:@SECONDS
    ///
    /// Calibration and load start before that time: allow at least ten seconds. The offset between the clocks of the machines
    /// is not checked; ptp4l and chrony report it.
    #[arg(long, value_name = "TIME")]
    start_at: Option<StartAt>,
    /// Number of worst cases to explain per CPU
    #[arg(long, alias = "peaks", value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=64))]
    worst: u16,
    /// Directory for run.lathunt.json and report.html [default: lathunt-DATE-TIME]. An existing run is renamed to
    /// run.lathunt.json.old
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
/// If nothing could be measured, or the result could not be written.
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
        peaks: usize::from(args.worst),
        output: args.output,
        json: args.json,
        quiet: args.quiet,
    };
    session::run(&plan)
}
