//! `lathunt report`: the HTML report of a run, or its summary on the terminal.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use lathunt_core::report::{ci, html, text};
use lathunt_host::restrict::{to_reading, Programs};

use crate::file::write_atomic;
use crate::input::read_run;
use crate::out;

/// Write the report of a run.
///
/// Exit status: 0 whatever the verdict of the run; 1 the run cannot be read or the report cannot be written.
#[derive(Debug, clap::Args)]
pub struct ReportArgs {
    /// A run file, or a directory that holds run.lathunt.json
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// File for the HTML report [default: report.html in the directory of the run file]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print the summary to the terminal; no HTML is written unless -o is given
    #[arg(long)]
    text: bool,
    /// Print all cases and reasons, also those that do not fit the height of the terminal
    #[arg(long)]
    all: bool,
    /// Print only the verdict and its reasons
    #[arg(short, long)]
    quiet: bool,
    /// Write the verdict and each judged series as tests in JUnit XML (- for stdout); INCONCLUSIVE is an error
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Print the verdict and its reasons as GitHub annotations
    #[arg(long)]
    annotations: bool,
}

/// Reads, builds, writes.
///
/// # Errors
/// One line about the file that cannot be read or written.
pub fn run(args: ReportArgs) -> Result<ExitCode> {
    let beside = match args.run.is_dir() {
        true => args.run.join("report.html"),
        false => args.run.with_file_name("report.html"),
    };
    let output = args.output.as_deref().unwrap_or(&beside);
    to_reading(&args.junit.as_deref().into_iter().chain([output]).collect::<Vec<_>>(), Programs::None)?;
    let loaded = read_run(&args.run)?;
    let screen = out::screen(&[], args.all);
    let text = if args.quiet {
        text::verdict(&loaded.run, &screen)
    } else if args.text {
        text::summary(&loaded.run, &screen)
    } else {
        String::new()
    };
    let name = args.run.display().to_string();
    let annotations = if args.annotations { ci::annotations(&name, &loaded.run) } else { String::new() };
    let mut tests = String::new();
    match args.junit.as_deref() {
        Some(path) if path == Path::new("-") => tests = ci::junit(&name, &loaded.run),
        Some(path) => {
            write_atomic(path, ci::junit(&name, &loaded.run).as_bytes())?;
            eprintln!("tests: {}", path.display());
        }
        None => {}
    }
    let other = args.text || args.quiet || args.annotations || args.junit.is_some();
    if args.output.is_some() || !other {
        let output = args.output.unwrap_or_else(|| loaded.path.with_file_name("report.html"));
        write_atomic(&output, html::report(&loaded.run)?.as_bytes())?;
        eprintln!("report: {}", output.display());
    }
    let printed = out::print(&text).and_then(|()| out::print_with_commands(&annotations));
    printed.and_then(|()| out::print(&tests))?;
    Ok(ExitCode::SUCCESS)
}
