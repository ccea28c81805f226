//! `lathunt tasks analyse`: schedulability without a run.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{bail, Result};
use lathunt_core::cpuset::CpuSet;
use lathunt_core::printable;
use lathunt_core::tasks::analyse::{analyse, margins, Costs};
use lathunt_core::tasks::show;
use lathunt_core::time::Ns;
use lathunt_host::restrict::{to_reading, Programs};

use super::super::units;
use super::{read, warn};
use crate::{exit, out};

/// Analyse the schedulability of a task set under fixed priorities and EDF.
///
/// Fixed priorities: response-time analysis with blocking, release jitter and arbitrary deadlines. EDF: processor demand by
/// QPA, with the blocking of the stack resource policy. The work of a job is the work stated by its events; its period is that
/// of its timer. If the file has no real-time priorities, they are assigned deadline-monotonically. An unbounded response is
/// reported as "not bounded" (null). If every thread is bound to one CPU, the analysis is done per CPU, else as if all shared one,
/// which is also valid for several CPUs, except for mutexes: their users have no response then. SCHED_DEADLINE threads have none
/// if they lock a mutex, sleep inside a job, or do not fit into their reservation; nor have threads whose phases differ in policy or
/// priority, or threads below the highest of these.
///
/// Exit status: 0 every deadline is met under fixed priorities; 1 error; 2 a response exceeds its deadline; 3 no response
/// exceeds its deadline, but one is not bounded.
#[derive(Debug, clap::Args)]
pub struct AnalyseArgs {
    /// Task set in rt-app's JSON; - is stdin
    #[arg(value_name = "SET.json")]
    set: PathBuf,
    /// CPUs of threads without CPUs in the file, as of a run: with one, users of a shared mutex have responses [default: any]
    #[arg(short, long, value_name = "LIST")]
    cpus: Option<CpuSet>,
    /// Cost of one context switch; each job is charged two, and two for each sleep and each lock that may wait; bare numbers are µs [default: 0]
    #[arg(long, value_name = "TIME", value_parser = units::microseconds)]
    switch_cost: Option<Ns>,
    /// Also print by how much the work of each task can grow
    #[arg(long)]
    sensitivity: bool,
    /// Print the analysis as JSON
    #[arg(long)]
    json: bool,
}

/// Maximum number of threads whose sensitivity is computed.
const MOST_SENSITIVE: usize = 200;

/// Analyses and prints.
///
/// # Errors
/// If the set cannot be read.
pub fn run(args: &AnalyseArgs) -> Result<ExitCode> {
    to_reading(&[], Programs::None)?;
    let mut set = read(&args.set)?;
    for task in &mut set.tasks {
        task.sched.cpus = task.sched.cpus.take().or_else(|| args.cpus.clone());
    }
    let costs = Costs { switch: args.switch_cost.unwrap_or_default() };
    let analysis = analyse(&set, costs);
    warn(&analysis.warnings);
    if args.sensitivity && analysis.rows.len() > MOST_SENSITIVE {
        bail!(
            "--sensitivity repeats the analysis for each thread: at most {MOST_SENSITIVE}, this set has {}",
            analysis.rows.len()
        );
    }
    let margins = args.sensitivity.then(|| margins(&set, costs));
    let text = match args.json {
        true => format!("{:#}\n", show::json(&analysis, margins.as_deref())),
        // Names of tasks come from the file.
        false => show::text(&analysis, margins.as_deref())
            .lines()
            .map(|line| printable::line(line).into_owned() + "\n")
            .collect(),
    };
    out::print(&text)?;
    let missed = analysis.rows.iter().any(|row| row.response.is_some() && !row.schedulable);
    let open = analysis.rows.iter().any(|row| !row.schedulable);
    Ok(match (missed, open) {
        (true, _) => exit::EXCEEDED.into(),
        (false, true) => exit::INCONCLUSIVE.into(),
        (false, false) => ExitCode::SUCCESS,
    })
}
