//! From the measurement to the verdict, the files and the summary.

use std::process::ExitCode;

use lathunt_core::judge::{self, Rules};
use lathunt_core::run::Run;

use super::measure::Measured;
use super::session::Plan;
use crate::exit;
use crate::outdir::Output;

/// Moves the measurement into `run`. Returns the flight records of its worst cases.
pub fn fill(run: &mut Run, measured: Measured) -> Vec<u8> {
    let flight =
        measured.kept.iter().filter_map(|kept| kept.evidence.as_deref()).flatten().copied().collect();
    run.series = measured.series;
    run.interference = measured.interference;
    run.losses = measured.losses;
    run.peaks = measured.kept.into_iter().map(|kept| kept.peak).collect();
    flight
}

/// Judges `run`, writes the files, prints the summary.
///
/// # Errors
/// If a file could not be written; the summary is printed nevertheless.
pub fn finish(plan: &Plan, mut run: Run, flight: &[u8], output: &Output) -> anyhow::Result<ExitCode> {
    run.verdict = Some(plan.strict.judge(judge::judge(&run, plan.deadline, &Rules::hunt())));
    let written = output.write(&run, flight);
    exit::all([output.print(&run, plan.json, plan.quiet, false), written])?;
    Ok(exit::of(run.verdict.as_ref()))
}
