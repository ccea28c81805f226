//! Gates that need the time order: completeness, stationarity, independence, constant rate, and a hold-out prediction.

use super::analyse::{Input, Order};
use super::answer::Gate;
use super::exceedances::Tail;
use super::gate::{condition, tested, tested_or_not};
use super::observed::times_above;
use super::special::poisson_at_least;
use super::tail::{total, Distribution, Rounding};
use super::{blocks, gpd, order};
use crate::numbers::{counted, four_digits};
use crate::time::Cpu;

/// Gates over all samples.
pub(super) fn order_gates(input: &Input, blocks: &blocks::Blocks) -> Vec<Gate> {
    let mut gates = Vec::new();
    let lost = input.unknown.saturating_add(input.bounded);
    gates.push(condition(
        "complete",
        lost == 0 && !input.uncounted,
        match lost {
            0 if input.uncounted => {
                "the number of missed activations is not in the imported file: measure with a tool that counts them".to_owned()
            }
            0 => "no sample lost, no activation missed, none taken on another CPU".to_owned(),
            n => format!(
                "the latencies of at least {} are not known: they may be among the largest; measure without losses",
                counted(n, "activation")
            ),
        },
    ));
    let (values, what) = match &input.order {
        Order::Unknown(why) => {
            let detail = format!("stationarity and independence cannot be tested: {why}");
            gates.push(condition("order", false, detail));
            return gates;
        }
        Order::Values(values) => (values, "values"),
        Order::Maxima { values, .. } => (values, "maxima"),
    };
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
    let trend = order::trend(values);
    gates.push(tested_or_not(
        "trend",
        trend.map(|(_, p)| p),
        trend.map_or(String::new(), |(r, _)| {
            format!("correlation {r:.3} of the {what} with the time, in 20 parts of it; where it refuses, measure after the change is over")
        }),
        "fewer than 20 of them, or all equal: measure longer",
    ));
    gates
}

/// Gates over the exceedances.
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

/// Fits the first half, predicts the level that the second half should exceed five times, and counts the exceedances.
pub(super) fn holdout_gate(order: &Order, threshold: f64) -> Gate {
    let (values, threshold) = match order {
        Order::Values(values) => (values, threshold),
        Order::Maxima { values, .. } => {
            let first = &values[..values.len() / 2];
            let Some(u) = Distribution::of_values(first, Rounding::Exact)
                .and_then(|all| all.threshold_for((first.len() as u64 / 4).max(10)))
            else {
                return condition("hold-out", false, "too few seconds: measure longer".to_owned());
            };
            (values, u)
        }
        Order::Unknown(_) => return condition("hold-out", false, "needs the order in time".to_owned()),
    };
    let (first, second) = values.split_at(values.len() / 2);
    let cells = Distribution::of_values(first, Rounding::Exact)
        .map(|all| all.excesses(threshold))
        .unwrap_or_default();
    let (n, Some(fit)) = (total(&cells), gpd::fit_or_shortest(&cells)) else {
        return condition("hold-out", false, "the first half has no tail to fit: measure longer".to_owned());
    };
    let zeta = n as f64 / first.len() as f64;
    let t = (zeta * second.len() as f64 / 5.0).ln();
    if t <= 0.0 || n < 15 {
        return condition(
            "hold-out",
            false,
            format!("{} in the first half: measure longer", counted(n, "exceedance")),
        );
    }
    let predicted = threshold + gpd::level(&fit, t);
    let seen = second.iter().filter(|v| **v > predicted).count() as u64;
    let detail = format!(
        "{seen} of the second half above {}, which the first half predicts 5 times",
        four_digits(predicted)
    );
    tested("hold-out", poisson_at_least(seen, 5.0), detail)
}

/// Whether exceedances have one rate: in each tenth of the time, and on each CPU.
pub(super) fn rate_gates(input: &Input, threshold: f64, theta: Option<f64>) -> Vec<Gate> {
    let mut gates = Vec::new();
    if let Some(counts) = by_tenths(&input.order, threshold, theta) {
        gates.push(rate(
            "rate",
            &counts,
            |at| format!("tenth {} of the time", at + 1),
            "explain the samples of that time, or measure it separately",
        ));
    }
    if input.cpus.len() > 1 {
        let one = |(_, all): &(Cpu, Distribution)| (total(&all.excesses(threshold)), all.samples as f64);
        let counts: Vec<(u64, f64)> = input.cpus.iter().map(one).collect();
        let name = |at: usize| format!("CPU {}", input.cpus[at].0);
        gates.push(rate("one kind of CPU", &counts, name, "analyse it separately with -c"));
    }
    gates
}

fn rate(name: &str, counts: &[(u64, f64)], part: impl Fn(usize) -> String, advice: &str) -> Gate {
    let found = order::homogeneous(counts);
    let detail = found.map_or(String::new(), |(chi2, _, worst)| {
        let (seen, of) = counts[worst];
        let (sum, samples) = counts.iter().fold((0, 0.0), |(n, all), one| (n + one.0, all + one.1));
        let expected = sum as f64 * of / samples;
        let part = part(worst);
        format!("chi-square {chi2:.1}; {part} differs most: {}, {expected:.1} expected; where it refuses, {advice}", counted(seen, "exceedance"))
    });
    tested_or_not(name, found.map(|(_, p, _)| p), detail, "too few exceedances of each part: measure longer")
}

/// Exceedances in each tenth of the time, a cluster counted once. For maxima of stretches: those above the level that a
/// fifth of them reach. `None` without time order, or with fewer than ten values.
fn by_tenths(order: &Order, threshold: f64, theta: Option<f64>) -> Option<Vec<(u64, f64)>> {
    let (times, all) = match order {
        Order::Unknown(_) => return None,
        Order::Values(values) => {
            let times = times_above(values, threshold);
            let starts = order::cluster_starts(&times, theta.unwrap_or(1.0));
            (starts.into_iter().map(|at| times[at]).collect::<Vec<f64>>(), values.len())
        }
        Order::Maxima { values, .. } => {
            let level =
                Distribution::of_values(values, Rounding::Exact)?.threshold_for(values.len() as u64 / 5)?;
            (times_above(values, level), values.len())
        }
    };
    let tenth = (all >= 10).then_some(all as f64 / 10.0)?;
    let mut counts = vec![(0, tenth); 10];
    for at in times {
        counts[((at / tenth) as usize).min(9)].0 += 1;
    }
    Some(counts)
}
