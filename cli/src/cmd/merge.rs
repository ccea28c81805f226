//! `lathunt merge`: the runs of many machines as one.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{anyhow, bail, Result};
use lathunt_core::merge;
use lathunt_core::report::text;
use lathunt_core::run::Run;
use lathunt_host::restrict::{to_reading, Programs};

use crate::conditions;
use crate::file::write_atomic;
use crate::input::{read_run, Loaded};
use crate::{exit, out};

/// Merge runs into one: histograms add exactly, the conditions of each run are kept.
///
/// `report`, `plot` and `compare` accept the result. Its verdict is that of the worst run.
#[derive(Debug, clap::Args)]
pub struct MergeArgs {
    /// Run files, or directories that hold run.lathunt.json
    #[arg(value_name = "RUN", required = true, num_args = 2..)]
    runs: Vec<PathBuf>,
    /// Join a run of `lathunt box` and a run of `lathunt respond -o`, in this order, into one measurement of both ends, by
    /// session and stimulus number
    #[arg(long)]
    pair: bool,
    /// File for the merged run
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Print only the verdict and its reasons
    #[arg(short, long)]
    quiet: bool,
}

/// Reads, merges, writes.
///
/// # Errors
/// One line about the file that cannot be read, merged or written.
pub fn run(args: MergeArgs) -> Result<ExitCode> {
    to_reading(&[&args.output], Programs::None)?;
    let loaded: Vec<Loaded> = args.runs.iter().map(|path| read_run(path)).collect::<Result<_>>()?;
    let output = std::fs::canonicalize(&args.output).ok(); // none: it does not exist yet
    let is_input = |one: &&Loaded| output.is_some() && std::fs::canonicalize(&one.path).ok() == output;
    if let Some(input) = loaded.iter().find(is_input) {
        bail!("{} is one of the runs: name another file with -o, or it would be lost", input.path.display());
    }
    let mut merged = match args.pair {
        true => pair(&loaded)?,
        false => merge::merge(&named(loaded)).map_err(|error| anyhow!("cannot merge: {error}"))?,
    };
    merged.conditions.command = Some(conditions::command_line());
    merged.conditions.tool = Some(conditions::tool());
    write_atomic(&args.output, merged.to_json().as_bytes())?;
    let path = args.output.to_string_lossy();
    let paths = [("run", path.as_ref())];
    let screen = out::screen(&paths, false);
    out::print(&match args.quiet {
        true => text::verdict(&merged, &screen),
        false => text::summary(&merged, &screen),
    })?;
    Ok(exit::of(merged.verdict.as_ref()))
}

/// Both ends of one measurement.
fn pair(loaded: &[Loaded]) -> Result<Run> {
    let [boxed, responded] = loaded else {
        bail!("--pair joins two runs, that of the box and that of the responder, not {}", loaded.len());
    };
    let (boxed_name, responded_name) =
        (boxed.path.display().to_string(), responded.path.display().to_string());
    merge::pair::pair((&boxed_name, &boxed.run), (&responded_name, &responded.run))
        .map_err(|error| anyhow!("cannot pair: {error}"))
}

/// The host's name if known, else that of the file; numbered if two are the same.
pub(super) fn named(loaded: Vec<Loaded>) -> Vec<(String, Run)> {
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    let name = |one: Loaded| {
        let name = one.run.conditions.host.clone().unwrap_or_else(|| one.name());
        let number = seen.entry(name.clone()).or_default();
        *number += 1;
        let name = if *number > 1 { format!("{name} ({number})") } else { name };
        (name, one.run)
    };
    loaded.into_iter().map(name).collect()
}
