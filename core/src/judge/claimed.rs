//! The model-free statement on a measurement at any confidence, also during the measurement.

use super::application::groups;
use super::{Asked, Rules};
use crate::application::Task;
use crate::run::Run;
use crate::series::{Quantity, Series};
use crate::stats::activations::Activations;
use crate::stats::{clusters, model_free};
use crate::time::Ns;
use crate::verdict::ModelFree;

/// The level is the deadline if a sample exceeded it. Else it is the largest sample (as large as its rounding allows), or a
/// larger limit of missed or lost activations if that limit is within the deadline: a lower level is the stronger claim.
/// `None` without samples. Cost: one sum of the histograms.
#[must_use]
pub fn claimed(series: &[&Series], deadline: Option<Ns>, confidence: f64) -> Option<ModelFree> {
    let worst = series.iter().filter_map(|series| series.histogram.max()).max()?;
    let most = series.iter().filter_map(|series| series.max_at_most()).max()?;
    let missed = series.iter().filter_map(|series| series.activations()?.max());
    let lost = series.iter().filter_map(|series| series.lost_at_most());
    let in_time = |most: &Ns| deadline.is_some_and(|deadline| *most <= deadline);
    let known = missed.chain(lost).filter(in_time).chain([most]).max()?;
    let level = deadline.filter(|&deadline| worst > deadline).unwrap_or(known);
    let theta = clusters::of_series(series, level);
    model_free::statement(Activations::of(series.iter().copied(), level), theta, level, confidence)
}

/// The statements on a recording: one for a system, one per deadline for an application.
#[must_use]
pub fn claimed_of_recording(run: &Run, asked: &Asked, confidence: f64) -> Vec<ModelFree> {
    if !asked.is_application {
        let series: Vec<&Series> = run.of(Rules::tasks(run).quantity).collect();
        return claimed(&series, asked.deadline, confidence).into_iter().collect();
    }
    let (groups, _) = groups(run, asked);
    let of_group = |(deadline, tasks): (Option<Ns>, Vec<Task>)| {
        let responses: Vec<&Series> = tasks.iter().filter_map(|task| task.of(Quantity::Response)).collect();
        claimed(&responses, deadline, confidence)
    };
    groups.into_iter().filter_map(of_group).collect()
}
