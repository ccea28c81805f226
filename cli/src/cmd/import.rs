//! `lathunt import`: converts the result of another latency tool to a run file.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{bail, Context, Result};
use clap::Args;
use lathunt_core::import::{self, read, Unit};
use lathunt_core::merge;
use lathunt_core::numbers::counted;
use lathunt_host::restrict::{to_reading, Programs};

use super::merge::named;
use crate::file::write_atomic;
use crate::input::{contents, Loaded};

/// Arguments of `lathunt import`.
#[derive(Args)]
pub struct ImportArgs {
    /// Results of cyclictest or another program of rt-tests (oslat, hwlatdetect, ptsematest, pmqtest, svsematest, sigwaittest,
    /// signaltest, cyclicdeadline), of rtla timerlat or osnoise hist, rtla timerlat top, jitterdebugger, Xenomai's latency or
    /// EVL's latmus, as text or JSON, the XML of rteval, a histogram of the kernel's events (hist trigger), or the 1000 lines of
    /// a latency box; - is stdin. Several files become one run
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// File for the run
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Latencies in text files are in ns (cyclictest -N) [default: the unit is detected, and µs if in doubt]
    #[arg(long)]
    ns: bool,
}

/// Reads all files, then writes one run file: all or nothing.
pub fn run(args: ImportArgs) -> Result<ExitCode> {
    let unit = if args.ns { Unit::Ns } else { Unit::Guess };
    to_reading(&[&args.output], Programs::None)?;
    let mut files: Vec<Loaded> = Vec::new();
    for path in &args.files {
        // A command line in it may not be UTF-8; the figures are ASCII.
        let bytes = contents(path)?;
        let text = import::text(&bytes);
        let run = read(&text, unit).with_context(|| format!("cannot import {}", path.display()))?;
        if let Some(same) = files.iter().find(|file| file.run == run) {
            let (path, same) = (path.display(), same.path.display());
            bail!("{path} has the same samples as {same}: they would count twice; import one of the files");
        }
        files.push(Loaded { path: path.clone(), run });
    }
    let run = match files.len() {
        1 => files.remove(0).run,
        _ => merge::side_by_side(&named(files)),
    };
    write_atomic(&args.output, run.to_json().as_bytes())?;
    let samples = run.series.iter().map(|series| series.histogram.count().saturating_add(series.lost));
    let samples = samples.fold(0, u64::saturating_add);
    let count = run.series.len();
    eprintln!("{}: {count} series, {}", args.output.display(), counted(samples, "sample"));
    for note in &run.conditions.notes {
        eprintln!("note: {note}");
    }
    Ok(ExitCode::SUCCESS)
}
