//! `lathunt tasks generate`: a random task set.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{anyhow, Result};
use lathunt_core::tasks::generate::{generate, Method, Wanted};
use lathunt_core::time::Ns;

use super::super::units;
use crate::{file, out};

/// Generate a random task set of a given utilisation.
///
/// Periodic SCHED_FIFO tasks with deadlines equal to their periods and rate-monotonic priorities. The same seed gives the same
/// set on every machine. Periods are log-uniform. The work of a job is "run", which rt-app knows too: loops of a
/// known length, also if the job is preempted.
#[derive(Debug, clap::Args)]
pub struct GenerateArgs {
    /// Number of tasks
    #[arg(long, value_name = "N", default_value_t = 10)]
    tasks: usize,
    /// Total utilisation (sum of C / T)
    #[arg(long, value_name = "U", default_value_t = 0.8)]
    utilisation: f64,
    /// Seed of the random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Distribution of the utilisations
    #[arg(long, value_enum, default_value = "uunifast")]
    method: How,
    /// Shortest period; bare numbers are µs
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = units::microseconds)]
    period_min: Ns,
    /// Longest period; bare numbers are µs
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = units::microseconds)]
    period_max: Ns,
    /// Granularity of the periods; bare numbers are µs
    #[arg(long, value_name = "TIME", default_value = "100us", value_parser = units::microseconds)]
    granularity: Ns,
    /// Write the set to this file [default: stdout]
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum How {
    /// UUniFast; sets with a task utilisation above 1 are discarded
    Uunifast,
    /// Randfixedsum, which also covers high utilisations of few tasks
    Randfixedsum,
}

/// Generates and writes the set.
///
/// # Errors
/// The request that cannot be satisfied, or why the file cannot be written.
pub fn run(args: &GenerateArgs) -> Result<ExitCode> {
    let method = match args.method {
        How::Uunifast => Method::UuniFastDiscard,
        How::Randfixedsum => Method::RandFixedSum,
    };
    let wanted = Wanted {
        tasks: args.tasks,
        utilisation: args.utilisation,
        periods: (args.period_min, args.period_max),
        granularity: args.granularity,
        method,
        seed: args.seed,
    };
    let set = generate(&wanted).map_err(|error| anyhow!("cannot generate a task set: {error}"))?;
    let text = set.to_json(true);
    match &args.output {
        Some(path) => file::write_atomic(path, text.as_bytes())?,
        None => out::print(&text)?,
    }
    Ok(ExitCode::SUCCESS)
}
