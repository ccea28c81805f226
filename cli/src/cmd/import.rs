//! `lathunt import`: output of cyclictest (text or JSON) becomes a run file.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{bail, Context, Result};
use clap::Args;
use lathunt_core::cyclictest::import::{read, Unit};
use lathunt_core::run::Run;

use crate::file::{contents, write_atomic};

/// Arguments of `lathunt import`.
#[derive(Args)]
pub struct ImportArgs {
    /// Output of cyclictest, text or JSON; `-` is stdin. Several files become one run
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Where to write the run file
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// The latencies of a text are ns (cyclictest -N); without this it is guessed, and is µs in doubt
    #[arg(long)]
    ns: bool,
}

/// Reads all files, then writes one run file: all or nothing.
pub fn run(args: ImportArgs) -> Result<ExitCode> {
    let unit = if args.ns { Unit::Ns } else { Unit::Guess };
    let mut merged: Option<Run> = None;
    for path in &args.files {
        // A command line with other bytes may be in there; the figures are ASCII.
        let text = String::from_utf8_lossy(&contents(path)?).into_owned();
        let run = read(&text, unit).with_context(|| format!("cannot import {}", path.display()))?;
        match &mut merged {
            None => merged = Some(run),
            Some(merged) => {
                merged.series.extend(run.series);
                merged.complete &= run.complete;
                let notes = &mut merged.conditions.notes;
                notes.push(format!("{} was added", path.display()));
                notes.extend(run.conditions.notes.iter().map(|note| format!("{}: {note}", path.display())));
            }
        }
    }
    let Some(run) = merged else { bail!("no file to import: name one, or - for stdin") };
    write_atomic(&args.output, run.to_json().as_bytes())?;
    let samples: u64 = run.series.iter().map(|series| series.histogram.count() + series.lost).sum();
    let count = run.series.len();
    eprintln!("{}: {count} series, {samples} samples", args.output.display());
    for note in &run.conditions.notes {
        eprintln!("note: {note}");
    }
    Ok(ExitCode::SUCCESS)
}
