//! The samples to fit: all above the threshold, or the largest of each cluster.

use super::analyse::{Input, Order};
use super::gpd::{self, Fit};
use super::observed::times_above;
use super::order;
use super::tail::{total, Cell, Distribution, Rounding};
use crate::stats::clusters::INDEPENDENT;

/// Whether the maxima of clusters are fitted instead of all samples: if `theta` shows clusters of `exceedances`.
///
/// The standard deviation of the intervals estimator is `1 / sqrt(n)` for `n` independent exceedances: one in a hundred such
/// samples is more than 2.33 of them below 1. Only below that a sample is called clustered.
pub(super) fn clustered(theta: Option<f64>, exceedances: u64) -> bool {
    let chance = 1.0 - 2.33 / (exceedances as f64).sqrt();
    theta.is_some_and(|theta| theta < INDEPENDENT.min(chance))
}

/// The excesses to fit.
pub(super) struct Tail {
    /// Threshold of the excesses.
    pub(super) threshold: f64,
    pub(super) cells: Vec<Cell>,
    pub(super) grid: Rounding,
    /// Share of all samples that exceed the threshold: all of them, also if only the largest of each cluster is fitted. A
    /// level is a probability per sample, and each sample of a cluster may exceed it.
    pub(super) zeta: f64,
    /// In time order; empty if that is not known.
    pub(super) in_order: Vec<f64>,
    pub(super) declustered: bool,
    /// The extremal index at the threshold; `None`: not known.
    pub(super) theta: Option<f64>,
    /// With a shape of at least [`gpd::SHORTEST`].
    pub(super) fit: Fit,
    /// The tail is shorter than that: no generalised Pareto tail is fitted, and its limit is that of exponential tails.
    pub(super) short: bool,
}

impl Tail {
    pub(super) fn of(input: &Input, threshold: f64, theta: Option<f64>) -> Option<Tail> {
        let all = &input.distribution;
        let above = total(&all.excesses(threshold));
        let clustered = match input.order {
            Order::Values(_) => clustered(theta, above),
            _ => theta.is_some_and(|theta| theta < INDEPENDENT),
        };
        let (cells, grid, in_order) = match &input.order {
            Order::Values(values) if clustered => {
                let maxima = cluster_maxima(values, threshold, theta.unwrap_or(1.0));
                let cells = Distribution::of_values(&maxima, all.grid)?.excesses(threshold);
                (cells, all.grid, maxima.iter().map(|v| v - threshold).collect())
            }
            Order::Values(values) => {
                let in_order = values.iter().filter(|v| **v > threshold).map(|v| v - threshold).collect();
                (all.excesses(threshold), all.grid, in_order)
            }
            Order::Maxima { values, .. } if clustered => {
                let cells = Distribution::of_values(values, Rounding::Exact)?.excesses(threshold);
                (
                    cells,
                    Rounding::Exact,
                    values.iter().filter(|v| **v > threshold).map(|v| v - threshold).collect(),
                )
            }
            Order::Maxima { values, .. } => {
                let in_order = values.iter().filter(|v| **v > threshold).map(|v| v - threshold).collect();
                (all.excesses(threshold), all.grid, in_order)
            }
            Order::Unknown(_) => (all.excesses(threshold), all.grid, Vec::new()),
        };
        let fit = gpd::fit_or_shortest(&cells)?;
        let zeta = above as f64 / all.samples as f64;
        Some(Tail {
            short: fit.xi <= gpd::SHORTEST,
            threshold,
            cells,
            grid,
            zeta,
            in_order,
            declustered: clustered,
            theta,
            fit,
        })
    }
}

/// The largest of each cluster above `threshold`, in time order.
pub(super) fn cluster_maxima(values: &[f64], threshold: f64, theta: f64) -> Vec<f64> {
    let above: Vec<f64> = values.iter().copied().filter(|v| *v > threshold).collect();
    let starts = order::cluster_starts(&times_above(values, threshold), theta);
    let ends = starts.iter().skip(1).copied().chain([above.len()]);
    let largest = |(from, to): (&usize, usize)| above[*from..to].iter().copied().fold(f64::MIN, f64::max);
    starts.iter().zip(ends).map(largest).collect()
}
