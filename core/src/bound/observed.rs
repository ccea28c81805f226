//! The statement without a model of the tail, corrected for clusters.

use super::analyse::{Input, Order, Request};
use super::answer::Observed;
use super::blocks::{self, Blocks};
use super::order;
use super::tail::{Cell, Rounding};
use crate::stats::activations::Activations;
use crate::stats::{clusters, model_free};

/// The extremal index at a threshold; `None` if it is not identifiable.
pub(super) fn index(input: &Input, threshold: Option<f64>) -> Option<f64> {
    match &input.order {
        Order::Unknown(_) => None,
        Order::Values(values) => order::extremal_index(&times_above(values, threshold?)),
        Order::Maxima { values, per_block } => {
            blocks::extremal_index(&input.distribution, values, *per_block)
        }
    }
}

pub(super) fn times_above(values: &[f64], threshold: f64) -> Vec<f64> {
    values.iter().enumerate().filter(|(_, v)| **v > threshold).map(|(at, _)| at as f64).collect()
}

/// [`clusters::of_few`] of plain values in clusters.
fn limited(input: &Input, threshold: Option<f64>, theta: f64) -> f64 {
    let (Order::Values(values), Some(threshold)) = (&input.order, threshold) else { return theta };
    let times = times_above(values, threshold);
    let theta = theta.min(around(&times, values.len()).unwrap_or(theta));
    match theta < clusters::INDEPENDENT {
        true => clusters::of_few(theta * times.len() as f64, theta),
        false => theta,
    }
}

/// The index with the gap from the last exceedance around to the first, if that is longer than chance allows: the intervals
/// estimator knows only the gaps between exceedances, of which one long cluster has none.
pub(super) fn around(times: &[f64], samples: usize) -> Option<f64> {
    let (first, last, all) = (times.first()?, times.last()?, samples as f64);
    let share = (all - (last - first)) / all;
    // Of n points at random places of a circle, the gap after a given one (W. L. Stevens, Ann. Eugenics 9, 1939). Clusters are the
    // points, at least two.
    let points = (order::extremal_index(times)? * times.len() as f64).max(2.0);
    let chance = (1.0 - share).powf(points - 1.0);
    let closed: Vec<f64> = times.iter().copied().chain([first + all]).collect();
    order::extremal_index(&closed).filter(|_| chance < 1e-3)
}

/// The reason where the number of missed activations is not known, and whether there is a statement: an activation is
/// missed during the latency of an earlier one, which ends with a sample, so it waits less than that one.
fn without_missed(reason: String, above: u64) -> (String, bool) {
    const NONE_ABOVE: &str = "missed activations are not counted, because the file does not have their number; each waited less than a sample";
    match above {
        0 => (format!("{reason}; {NONE_ABOVE}"), true),
        _ => (
            "because the file does not have the number of missed activations, which may also be above"
                .to_owned(),
            false,
        ),
    }
}

/// The statement for the deadline, or for the largest sample.
pub(super) fn observed(
    input: &Input,
    blocks: &Blocks,
    threshold: Option<f64>,
    theta: Option<f64>,
    request: &Request,
) -> Observed {
    let all = &input.distribution;
    let level = request.deadline.unwrap_or(all.most);
    let may_exceed = |cell: &&Cell| if cell.is_exact() { cell.lo > level } else { cell.hi - 1e-9 > level };
    let classes = matches!(all.grid, Rounding::Classes(_));
    let may = |cell: &&Cell| if classes { cell.hi - 1.0 > level } else { may_exceed(cell) };
    let seen = if all.most <= level { 0 } else { all.cells.iter().filter(may).map(|c| c.count).sum::<u64>() };
    // Of the maxima themselves: their blocks are shorter than those of the gates.
    let maxima = match &input.order {
        Order::Maxima { values, .. } => values,
        _ => &blocks.maxima,
    };
    let lower = theta.map(|theta| limited(input, threshold, theta));
    let [theta, lower] =
        [theta, lower].map(|theta| clusters::at_level(theta, maxima, level, seen, all.samples));
    // Lost samples below the largest one may be above a lower level.
    let (below, unknown) = match level < all.most {
        true => (0, input.unknown.saturating_add(input.bounded)),
        false => (input.bounded, input.unknown),
    };
    let samples = all.samples.saturating_add(unknown).saturating_add(below);
    let above = seen.saturating_add(unknown);
    let activations = Activations { all: samples, above, unknown, ..Activations::default() };
    // Each cluster counts once, in samples and in exceedances.
    let (n, k) = lower.map_or((samples, above), |theta| model_free::for_limit(activations, theta));
    let effective = theta.map(|theta| model_free::effective_samples(activations, theta));
    let reason = match &input.order {
        Order::Unknown(why) => format!("assuming independent late samples, which cannot be tested: {why}"),
        _ if theta.is_none() => {
            "assuming independent late samples: too few exceedances to test it".to_owned()
        }
        _ => {
            "for this workload and this configuration; clusters of late samples counted once each, later ones assumed to be no longer".to_owned()
        }
    };
    let (reason, is_known) = match input.uncounted {
        true => without_missed(reason, above),
        false => (reason, true),
    };
    let reason = match unknown {
        0 => reason,
        1 => format!("{reason}; 1 of those above was lost or missed; its latency is unknown"),
        n => format!("{reason}; {n} of those above were lost or missed; their latencies are unknown"),
    };
    let reason = match all.max <= level && level < all.most {
        true => format!("{reason}; the values were rounded down: the largest may be above"),
        false => reason,
    };
    Observed {
        samples,
        effective_samples: effective.map(|n| n.saturating_sub(unknown)),
        theta,
        theta_lower: lower,
        max_ns: all.max,
        level_ns: level,
        above,
        probability_upper: model_free::upper_limit(n, k.min(n), request.confidence).filter(|_| is_known),
        confidence: request.confidence,
        reason,
    }
}
