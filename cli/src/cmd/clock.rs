//! `lathunt clock`: what does reading the clock cost, by which path, and do the CPUs agree?

use std::process::ExitCode;

use anyhow::{bail, Result};
use lathunt_core::cpuset::CpuSet;
use lathunt_host::instrument::clock::{measure, Options};
use lathunt_host::signals;
use lathunt_host::topology::Topology;
use lathunt_host::tree::LIVE;

use super::units;
use crate::{exit, out};

/// Measure the cost of reading the clock, for each path.
///
/// Each path is read in pairs. The table shows the differences (max, avg, min, standard deviation), the duration of a read by
/// another clock, the smallest step and the share of differences that are 0. Reads that enter the kernel are detected with
/// seccomp. Then the clocks of the CPUs are compared with each other. Exit status 2 if a clock went backwards.
#[derive(Debug, clap::Args)]
pub struct ClockArgs {
    /// Pairs of reads per path; 1e8 takes about ten minutes
    #[arg(short = 'n', long, value_name = "N", default_value = "1e6", value_parser = units::count)]
    count: u64,
    /// CPUs to compare; the cost is measured on the last of them [default: all]
    #[arg(short = 'c', long, value_name = "LIST")]
    cpus: Option<CpuSet>,
    /// Measure with SCHED_FIFO at this priority, with a pause every 20 ms
    #[arg(short = 'p', long, value_name = "PRIO", value_parser = clap::value_parser!(i32).range(1..=99))]
    priority: Option<i32>,
    /// Also read on a thread of lathunt-runtime (see `lathunt tasks run --scheduler fiber-fp`)
    #[arg(long)]
    runtime: bool,
    /// Also print published figures for comparison
    #[arg(long)]
    compare: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "compare")]
    json: bool,
}

/// Measures and prints.
///
/// # Errors
/// If CPUs do not exist or the priority is refused.
pub fn run(args: ClockArgs) -> Result<ExitCode> {
    let topology = Topology::read(std::path::Path::new(LIVE))?;
    let cpus = topology.select(args.cpus.as_ref())?;
    let Some(cpu) = cpus.iter().next_back() else {
        bail!("cannot measure on an empty list of CPUs: name at least one with -c")
    };
    signals::install()?;
    let terminal = out::can_draw();
    let begins: fn(&str) = if terminal { |path| eprint!("\rreading by {path} …\x1b[K") } else { |_| () };
    let ClockArgs { count: pairs, priority, runtime, .. } = args;
    let clocks = measure(&Options { pairs, cpu, priority, cpus, runtime, begins });
    if terminal {
        eprint!("\r\x1b[K");
    }
    let clocks = clocks?;
    let text = if args.json { clocks.to_json() + "\n" } else { clocks.to_text(args.compare) };
    out::print(&text)?;
    Ok(if clocks.went_backwards() { exit::EXCEEDED.into() } else { ExitCode::SUCCESS })
}
