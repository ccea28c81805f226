//! `lathunt tasks`: a real-time task set: can it meet its deadlines, and does it?

mod analyse;
mod compare;
mod convert;
mod generate;
mod run;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{bail, Context, Result};
use lathunt_core::printable;
use lathunt_core::tasks::set::{TaskSet, Warning};

use crate::input;

/// Analyse real-time task sets, and run them.
///
/// A task set is a file in the JSON grammar of rt-app. An unknown key is an error; a key that rt-app would ignore or
/// misinterpret gives a warning on stderr. Extensions: the event cputime (work in CPU time), the keys deadline, period, wcet,
/// jitter and blocking of a task (µs), and protocol (none, inherit, ceiling) of a mutex in resources.
#[derive(Debug, clap::Args)]
pub struct TasksArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    #[command(
        about = "Run the set under a kernel or user-space scheduler: response times, missed deadlines, and the analysis"
    )]
    Run(run::RunArgs),
    #[command(about = "Run the set under every scheduler that this machine supports, one after the other")]
    Compare(compare::CompareArgs),
    #[command(
        about = "Analyse the schedulability of the set under fixed priorities and EDF (without running it)"
    )]
    Analyse(analyse::AnalyseArgs),
    #[command(about = "Generate a random task set of a given utilisation")]
    Generate(generate::GenerateArgs),
    #[command(about = "Convert a set to strict JSON for rt-app, without repeated keys")]
    Convert(convert::ConvertArgs),
}

/// Runs the subcommand.
///
/// # Errors
/// One line: the file that cannot be read or written, or the set that cannot be run.
pub fn run(args: TasksArgs) -> Result<ExitCode> {
    match args.command {
        Command::Run(args) => run::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Analyse(args) => analyse::run(&args),
        Command::Generate(args) => generate::run(&args),
        Command::Convert(args) => convert::run(&args),
    }
}

/// Reads a task set; `-` is stdin.
fn read(path: &Path) -> Result<TaskSet> {
    let bytes = input::contents(path)?;
    let shown = input::shown(path);
    let Ok(text) = std::str::from_utf8(&bytes) else { bail!("cannot read {shown}: it is not text (UTF-8)") };
    if text.trim().is_empty() {
        bail!("cannot read {shown}: it is empty");
    }
    TaskSet::from_json(text).with_context(|| format!("cannot read the task set {shown}"))
}

/// Maximum number of warnings printed; a set of thousands of tasks may have one for each.
const WARNINGS: usize = 20;

/// Prints warnings on stderr.
fn warn(warnings: &[Warning]) {
    for warning in warnings.iter().take(WARNINGS) {
        eprintln!("warning: {}", printable::line(&warning.to_string()));
    }
    if warnings.len() > WARNINGS {
        eprintln!("warning: {} more like these; --json lists all", warnings.len() - WARNINGS);
    }
}
