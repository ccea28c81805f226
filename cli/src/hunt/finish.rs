//! From what was measured to the verdict, the files and the summary.

use std::process::ExitCode;

use lathunt_core::report::{html, text};
use lathunt_core::run::Run;
use lathunt_core::verdict::{self, Rules};

use super::measure::Measured;
use super::output::{Output, FLIGHT_FILE, REPORT_FILE};
use super::Plan;
use crate::{file, out};

/// Completes `run`, judges it, writes the files, prints the summary.
///
/// # Errors
/// When a file could not be written; the summary is printed all the same.
pub fn finish(plan: &Plan, mut run: Run, measured: Measured, output: &Output) -> anyhow::Result<ExitCode> {
    let flight: Vec<u8> =
        measured.kept.iter().filter_map(|kept| kept.evidence.as_deref()).flatten().copied().collect();
    run.series = measured.series;
    run.interference = measured.interference;
    run.losses = measured.losses;
    run.peaks = measured.kept.into_iter().map(|kept| kept.peak).collect();
    run.conditions.notes.extend(measured.failures);
    run.verdict = Some(verdict::judge(&run, plan.deadline, &Rules::hunt()));
    let written = write(&run, &flight, output);
    print(plan, &run, output)?;
    written?;
    Ok(run.verdict.as_ref().map_or(0, verdict::exit_code).into())
}

fn write(run: &Run, flight: &[u8], output: &Output) -> anyhow::Result<()> {
    file::write_atomic(&output.path(file::RUN_FILE), run.to_json().as_bytes())?;
    if !flight.is_empty() {
        file::write_atomic(&output.path(FLIGHT_FILE), flight)?;
    }
    file::write_atomic(&output.path(REPORT_FILE), html::report(run)?.as_bytes())
}

fn print(plan: &Plan, run: &Run, output: &Output) -> anyhow::Result<()> {
    let (report, file) = (output.path(REPORT_FILE), output.path(file::RUN_FILE));
    let (report, file) = (report.to_string_lossy(), file.to_string_lossy());
    let paths: [(&str, &str); 2] = [("report", &report), ("run", &file)];
    let screen = out::screen(&paths);
    let text = match (plan.json, plan.quiet) {
        (true, _) => run.to_json() + "\n",
        (false, true) => text::verdict(run, &screen),
        (false, false) => text::summary(run, &screen),
    };
    Ok(out::print(&text)?)
}
