//! Gates of the order in time: completeness, stationarity, independence, and a prediction that is held out.

use super::analyse::{Input, Order};
use super::answer::Gate;
use super::exceedances::Tail;
use super::gate::{condition, tested, tested_or_not};
use super::special::poisson_at_least;
use super::tail::{total, Distribution, Grid};
use super::{blocks, gpd, order};

/// Of all samples.
pub(super) fn order_gates(input: &Input, blocks: &blocks::Blocks) -> Vec<Gate> {
    let mut gates = Vec::new();
    let lost = input.unknown;
    gates.push(condition(
        "complete",
        lost == 0,
        match lost {
            0 => "no sample lost, no activation missed".to_owned(),
            n => format!(
                "at least {n} activations without a latency: they may be the worst; measure without losses"
            ),
        },
    ));
    if let Order::Unknown(why) = &input.order {
        let detail = format!("stationarity and independence cannot be tested: {why}");
        gates.push(condition("order", false, detail));
        return gates;
    }
    let maxima = &blocks.maxima;
    let kpss = order::kpss(maxima);
    gates.push(tested_or_not(
        "stationarity",
        kpss.map(|(_, p)| p),
        kpss.map_or(String::new(), |(k, _)| {
            format!("KPSS {k:.3} over {} block maxima{}", maxima.len(), blocks.drift())
        }),
        "fewer than 10 block maxima, or all equal: measure longer",
    ));
    gates
}

/// Of the exceedances.
pub(super) fn sequence_gates(tail: &Tail) -> Vec<Gate> {
    let excesses = &tail.in_order;
    if excesses.is_empty() {
        return Vec::new();
    }
    let box_test = order::ljung_box(excesses, 10);
    let (first, second) = excesses.split_at(excesses.len() / 2);
    let ks = order::ks(first, second);
    let what = if tail.declustered { "cluster maxima" } else { "excesses" };
    vec![
        tested_or_not(
            "independence",
            box_test.map(|(_, p)| p),
            box_test.map_or(String::new(), |(q, _)| {
                format!(
                    "Ljung-Box(10) {q:.2} over {} {what}; run explain on them where it refuses",
                    excesses.len()
                )
            }),
            "fewer than 30 exceedances in time order: measure longer",
        ),
        tested_or_not(
            "halves",
            ks.map(|(_, p)| p),
            ks.map_or(String::new(), |(d, _)| {
                format!("Kolmogorov-Smirnov distance {d:.3} of the {what} of the first and the second half")
            }),
            "fewer than 10 exceedances in time order: measure longer",
        ),
    ]
}

/// Fits the first half, predicts the level that the second half should exceed five times, and counts.
pub(super) fn holdout_gate(order: &Order, threshold: f64) -> Gate {
    let (values, threshold) = match order {
        Order::Values(values) => (values, threshold),
        Order::Maxima { values, .. } => {
            let first = &values[..values.len() / 2];
            let Some(u) = Distribution::of_values(first, Grid::Exact)
                .and_then(|all| all.threshold_for((first.len() as u64 / 4).max(10)))
            else {
                return condition("hold-out", false, "too few seconds: measure longer".to_owned());
            };
            (values, u)
        }
        Order::Unknown(_) => return condition("hold-out", false, "needs the order in time".to_owned()),
    };
    let (first, second) = values.split_at(values.len() / 2);
    let cells =
        Distribution::of_values(first, Grid::Exact).map(|all| all.excesses(threshold)).unwrap_or_default();
    let (n, Some(fit)) = (total(&cells), gpd::fit(&cells)) else {
        return condition("hold-out", false, "the first half has no tail to fit: measure longer".to_owned());
    };
    let zeta = n as f64 / first.len() as f64;
    let t = (zeta * second.len() as f64 / 5.0).ln();
    if t <= 0.0 || n < 15 {
        return condition("hold-out", false, format!("{n} exceedances in the first half: measure longer"));
    }
    let predicted = threshold + gpd::level(&fit, t);
    let seen = second.iter().filter(|v| **v > predicted).count() as u64;
    let detail =
        format!("{seen} of the second half above {predicted:.1}, which the first half predicts 5 times");
    tested("hold-out", poisson_at_least(seen, 5.0), detail)
}
