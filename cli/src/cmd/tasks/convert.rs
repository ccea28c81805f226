//! `lathunt tasks convert`: converts a set to rt-app's format.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use lathunt_host::restrict::{to_reading, Programs};

use super::{read, warn};
use crate::{file, out};

/// Convert a set to strict JSON for rt-app, without repeated keys.
///
/// Repeated keys, which workgen accepts, get a number, because json-c keeps only one of them; comments are dropped. A finite
/// loop of a task without phases becomes a phase, because rt-app 1.0 would ignore the loop.
#[derive(Debug, clap::Args)]
pub struct ConvertArgs {
    /// Task set in rt-app's JSON; - is stdin
    #[arg(value_name = "SET.json")]
    set: PathBuf,
    /// Keep lathunt's extensions, which rt-app ignores or rejects [default: cputime becomes run, others are dropped]
    #[arg(long)]
    extensions: bool,
    /// Write the set to this file [default: stdout]
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Reads and writes.
///
/// # Errors
/// If the set cannot be read or written.
pub fn run(args: &ConvertArgs) -> Result<ExitCode> {
    let output: Vec<&Path> = args.output.iter().map(PathBuf::as_path).collect();
    to_reading(&output, Programs::None)?;
    let set = read(&args.set)?;
    warn(&set.warnings);
    if !args.extensions {
        warn(&set.losses());
    }
    let text = set.to_json(args.extensions);
    match &args.output {
        Some(path) => file::write_atomic(path, text.as_bytes())?,
        None => out::print(&text)?,
    }
    Ok(ExitCode::SUCCESS)
}
