//! What holds of a measurement without any model of its tail, at any confidence, also while it goes on.

use super::application::groups;
use super::{Asked, Rules};
use crate::application::Task;
use crate::run::Run;
use crate::series::{Quantity, Series};
use crate::stats::activations::Activations;
use crate::stats::{clusters, model_free};
use crate::time::Ns;
use crate::verdict::ModelFree;

/// About the deadline when it was exceeded, else about the largest that is known, which says more: of a sample, and of
/// those that were missed or lost as long as they were in time. `None` without a sample. Cost: some sums of histograms.
#[must_use]
pub fn claimed(series: &[&Series], deadline: Option<Ns>, confidence: f64) -> Option<ModelFree> {
    let worst = series.iter().filter_map(|series| series.histogram.max()).max()?;
    let missed = series.iter().filter_map(|series| series.activations()?.max());
    let lost = series.iter().filter_map(|series| series.lost_at_most());
    let in_time = |most: &Ns| deadline.is_some_and(|deadline| *most <= deadline);
    let known = missed.chain(lost).filter(in_time).chain([worst]).max()?;
    let level = deadline.filter(|&deadline| worst > deadline).unwrap_or(known);
    let theta = clusters::of_series(series);
    model_free::statement(Activations::of(series.iter().copied(), level), theta, level, confidence)
}

/// The same of a recording: of a system one statement, of an application one for each deadline.
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
