//! `lathunt compare`: two or more runs side by side.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use lathunt_core::report::compare::Comparison;

use crate::file::{read_run, Loaded};

/// Compares runs; the first is the reference.
#[derive(Debug, clap::Args)]
pub struct CompareArgs {
    /// Run files, or directories that hold run.lathunt.json
    #[arg(value_name = "RUN", required = true, num_args = 2..)]
    runs: Vec<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// Reads, compares, prints.
///
/// # Errors
/// One line about the file that cannot be read.
pub fn run(args: CompareArgs) -> Result<ExitCode> {
    let loaded: Vec<Loaded> = args.runs.iter().map(|path| read_run(path)).collect::<Result<_>>()?;
    let names: Vec<String> = loaded.iter().map(|loaded| loaded.path.display().to_string()).collect();
    let sides: Vec<_> =
        names.iter().zip(&loaded).map(|(name, loaded)| (name.as_str(), &loaded.run)).collect();
    let comparison = Comparison::of(&sides);
    let text =
        if args.json { serde_json::to_string_pretty(&comparison)? + "\n" } else { comparison.to_text(100) };
    crate::out::print(&text).context("cannot write to stdout")?;
    Ok(ExitCode::SUCCESS)
}
