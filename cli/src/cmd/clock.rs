//! `lathunt clock`: what does reading the clock cost, by which path, and do the CPUs agree?

use std::process::ExitCode;

use anyhow::{bail, Result};
use lathunt_core::cpuset::CpuSet;
use lathunt_host::instrument::clock::{measure, Options};
use lathunt_host::topology::Topology;
use lathunt_host::{facts, signals};

use crate::{exit, out};

/// What does reading the clock cost, by which path?
///
/// Each path is read in pairs: the table shows the differences (max, avg, min, standard deviation), what a read takes
/// by another clock, the smallest step and the share of differences that are 0. Which reads enter the kernel is proved
/// with seccomp. Then the CPUs' clocks are compared with each other. Exit code 2 when a clock went backwards.
#[derive(Debug, clap::Args)]
pub struct ClockArgs {
    /// Pairs of reads of each path; 1e8 takes about two minutes
    #[arg(short = 'n', long, value_name = "N", default_value = "1e6", value_parser = count)]
    count: u64,
    /// CPUs to compare; the costs are measured on the last of them
    #[arg(short = 'c', long, value_name = "LIST")]
    cpus: Option<CpuSet>,
    /// Measure under SCHED_FIFO at this priority, with a pause in every 20 ms
    #[arg(short = 'p', long, value_name = "PRIO", value_parser = clap::value_parser!(i32).range(1..=99))]
    priority: Option<i32>,
    /// Put published figures beside
    #[arg(long)]
    compare: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "compare")]
    json: bool,
}

/// Measures and prints.
///
/// # Errors
/// When CPUs are not there or the priority is refused.
pub fn run(args: ClockArgs) -> Result<ExitCode> {
    let topology = Topology::read(std::path::Path::new(facts::LIVE))?;
    let cpus = topology.select(args.cpus.as_ref())?;
    let Some(cpu) = cpus.iter().next_back() else { bail!("cannot measure on no CPU at all") };
    signals::install()?;
    let clocks = measure(&Options { pairs: args.count, cpu, priority: args.priority, cpus })?;
    let text = if args.json { clocks.to_json() + "\n" } else { clocks.to_text(args.compare) };
    out::print(&text)?;
    Ok(if clocks.went_backwards() { exit::EXCEEDED.into() } else { ExitCode::SUCCESS })
}

/// A count, also as `1e8`.
fn count(text: &str) -> Result<u64, String> {
    let value: f64 =
        text.parse().map_err(|_| format!("'{text}' is no number; write for example 1000000 or 1e8"))?;
    const MOST: f64 = 1e12;
    match value.fract() == 0.0 && (1.0..=MOST).contains(&value) {
        true => Ok(value as u64),
        false => Err(format!("'{text}' is not a whole number from 1 to 1e12")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_whole_numbers_also_in_powers_of_ten() {
        assert_eq!((count("1e8"), count("250")), (Ok(100_000_000), Ok(250)));
        for bad in ["0", "-1", "1.5", "x", "", "1e13", "nan", "inf"] {
            assert!(count(bad).is_err(), "{bad}");
        }
    }
}
