//! `lathunt report`: the HTML report of a run, or its summary on the terminal.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use lathunt_core::report::{html, text};

use crate::file::{read_run, write_atomic};
use crate::out;

/// Builds the report of a run.
///
/// Exit status: 0 whatever the verdict of the run is, 1 when the run cannot be read or the report cannot be written.
#[derive(Debug, clap::Args)]
pub struct ReportArgs {
    /// A run file, or a directory that holds run.lathunt.json
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// Where the HTML goes; default: report.html beside the run file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print the summary on the terminal; writes no HTML unless -o is given
    #[arg(long)]
    text: bool,
    /// Print every case and reason, also those beyond the height of the terminal
    #[arg(long)]
    all: bool,
    /// Print only the verdict and its reasons
    #[arg(short, long)]
    quiet: bool,
}

/// Reads, builds, writes.
///
/// # Errors
/// One line about the file that cannot be read or written.
pub fn run(args: ReportArgs) -> Result<ExitCode> {
    let loaded = read_run(&args.run)?;
    let screen = out::screen(&[], args.all);
    let text = if args.quiet {
        text::verdict(&loaded.run, &screen)
    } else if args.text {
        text::summary(&loaded.run, &screen)
    } else {
        String::new()
    };
    if args.output.is_some() || !(args.text || args.quiet) {
        let output = args.output.unwrap_or_else(|| loaded.path.with_file_name("report.html"));
        write_atomic(&output, html::report(&loaded.run)?.as_bytes())?;
        eprintln!("report: {}", output.display());
    }
    out::print(&text).context("cannot write to stdout")?;
    Ok(ExitCode::SUCCESS)
}
