//! The verdict of merged runs: the worst of all, never better.

use std::collections::BTreeSet;

use super::all_series;
use crate::judge::{criteria, judge, Rules};
use crate::run::Run;
use crate::series::{Quantity, Series};
use crate::stats::activations::Activations;
use crate::stats::{clusters, model_free};
use crate::time::Ns;
use crate::verdict::{JudgedBy, Outcome, Verdict};

/// Confidence of the model-free statement.
const CONFIDENCE: f64 = 0.95;

/// The verdict of all `runs`, merged into `merged`.
pub(super) fn of_all(runs: &[(String, Run)], merged: &Run) -> Verdict {
    let verdicts: Vec<Verdict> = runs.iter().map(|(_, run)| of_one(run)).collect();
    let deadlines: Vec<Option<Ns>> = verdicts.iter().map(|verdict| verdict.deadline_ns).collect();
    let same = deadlines.windows(2).all(|pair| pair[0] == pair[1]);
    let deadline_ns = deadlines.first().copied().flatten().filter(|_| same);
    let outcomes = || verdicts.iter().map(|verdict| verdict.outcome);
    let outcome = match deadline_ns {
        // It was observed, whatever the deadlines of the others.
        _ if outcomes().any(|outcome| outcome == Some(Outcome::Fail)) => Some(Outcome::Fail),
        _ if outcomes().any(|outcome| outcome == Some(Outcome::Inconclusive)) && deadline_ns.is_none() => {
            Some(Outcome::Inconclusive)
        }
        None => None,
        Some(_) if outcomes().all(|outcome| outcome == Some(Outcome::Pass)) => Some(Outcome::Pass),
        Some(_) => Some(Outcome::Inconclusive),
    };
    let mut reasons = Vec::new();
    let of_each = || {
        let all = runs.iter().zip(&verdicts).map(|((name, _), verdict)| (name, verdict));
        all.filter(|(_, verdict)| outcome.is_none() || verdict.outcome == outcome)
    };
    for (name, verdict) in of_each() {
        reasons.extend(verdict.split().0.iter().map(|reason| format!("{name}: {reason}")));
    }
    let failures = reasons.len();
    if !same {
        reasons.push(
            "the runs have different deadlines: no single deadline is claimed for all of them".to_owned(),
        );
    }
    for (name, verdict) in of_each() {
        reasons.extend(verdict.split().1.iter().map(|reason| format!("{name}: {reason}")));
    }
    let quantities = || merged.series.iter().map(|series| series.quantity);
    let judged = quantities().filter(|&quantity| runs.iter().all(|(_, run)| is_judged(run, quantity)));
    let main = judged
        .min_by_key(|&quantity| quantity.facts().rank)
        .or_else(|| quantities().min_by_key(|&quantity| quantity.facts().rank));
    let sum = main.and_then(|main| merged.of(main).next());
    let model_free = sum.and_then(|sum| {
        let level = deadline_ns.filter(|_| outcome == Some(Outcome::Pass)).or(sum.histogram.max())?;
        let theta = theta(merged, sum, level);
        model_free::statement(Activations::of(std::iter::once(sum), level), theta, level, CONFIDENCE)
    });
    let judged_by = Some(JudgedBy::Merged);
    Verdict {
        outcome,
        deadline_ns,
        quantity: main,
        judged_by,
        reasons,
        failures,
        model_free,
        rule_of_thumb: None,
        criteria: main.map(|main| criteria(&[merged], main)).unwrap_or_default(),
        strict: false,
    }
}

/// Extremal index of `sum` at `level`: from the maxima of the longest stretch of all runs, one run after the other. `None` if one has
/// no maxima.
fn theta(merged: &Run, sum: &Series, level: Ns) -> Option<f64> {
    let of_runs = merged.merged.iter().flat_map(|run| &run.series);
    let of_runs = || of_runs.clone().filter(|one| one.quantity == sum.quantity && one.samples > 0);
    let stretch = of_runs().map(|one| one.maxima_stretch).max()?;
    let mut maxima = Vec::new();
    for one in of_runs() {
        if one.maxima_ns.is_empty() || one.maxima_stretch == 0 || !stretch.is_multiple_of(one.maxima_stretch)
        {
            return None;
        }
        // Neighbours: stretches without a sample are absent, and rare.
        let together = one.maxima_ns.chunks((stretch / one.maxima_stretch) as usize);
        maxima.extend(together.filter_map(|part| part.iter().max()).map(|max| max.0 as f64));
    }
    clusters::of_histogram(&maxima, sum.activations().unwrap_or(&sum.histogram), level)
}

/// The verdict of one run. A run without one is judged, because its measurement may be invalid (lost samples).
fn of_one(run: &Run) -> Verdict {
    if let Some(verdict) = &run.verdict {
        return verdict.clone();
    }
    let quantity =
        run.series.iter().map(|series| series.quantity).min_by_key(|&quantity| quantity.facts().rank);
    let judged = quantity.map(|quantity| judge(run, None, &Rules::instrument(quantity)));
    let void = judged.filter(|verdict| verdict.outcome.is_some());
    void.unwrap_or(Verdict {
        outcome: None,
        deadline_ns: None,
        quantity: None,
        judged_by: None,
        failures: 0,
        reasons: Vec::new(),
        model_free: None,
        rule_of_thumb: None,
        criteria: Vec::new(),
        strict: false,
    })
}

/// The quantity judged by the run's verdict, if it can be determined.
pub(super) fn judged(run: &Run) -> Option<Quantity> {
    if let Some(quantity) = run.verdict.as_ref().and_then(|verdict| verdict.quantity) {
        return Some(quantity);
    }
    // Each once: a run may have thousands of series.
    let all: BTreeSet<Quantity> = all_series(run).map(|series| series.quantity).collect();
    let first = |of: &mut dyn Iterator<Item = Quantity>| of.min_by_key(|quantity| quantity.facts().rank);
    let told = first(&mut all.iter().copied().filter(|&quantity| is_judged(run, quantity)));
    told.or_else(|| first(&mut all.iter().copied()))
}

/// Whether the run's verdict may be on the samples of `quantity`.
fn is_judged(run: &Run, quantity: Quantity) -> bool {
    let of_it = all_series(run).filter(|series| series.quantity == quantity);
    let activations = Activations::of(of_it, Ns::ZERO).all;
    let said = run.verdict.as_ref().and_then(|verdict| verdict.model_free.as_ref());
    said.is_some_and(|said| said.samples == activations)
}
