//! Of the limits that `bound` prints, how many cover the truth? Known distributions and known dependence.
//!
//! Counted among the printed ones only: a gate that lets the samples with short tails pass would make the printed
//! limits too small, however good the limit is before any gate.

mod law;
mod order;

use std::collections::BTreeMap;

use lathunt_core::bound::analyse::{analyse, Input, Order, Request};
use lathunt_core::bound::random::Random;
use lathunt_core::bound::tail::{Distribution, Rounding};
use lathunt_core::histogram::{Histogram, Layout};
use lathunt_core::stats::model_free::upper_limit;
use lathunt_core::time::{Cpu, Ns};

use law::Law;
use order::{Case, Dependence, Recorded};

/// Of the runs of one case.
#[derive(Clone, Debug, Default)]
struct Count {
    runs: u64,
    /// A limit was printed.
    printed: u64,
    /// The truth is above it.
    too_small: u64,
    /// The upper limit of the probability to exceed the largest value is below the truth.
    observed_wrong: u64,
    /// Printed, and too small, by the number of values of the rare mechanism.
    by_rare: BTreeMap<u64, (u64, u64)>,
    /// Runs that each gate refused.
    refused: BTreeMap<String, u64>,
}

impl Count {
    /// Whether fewer limits than claimed cover the truth, with 99 % confidence.
    fn covers_too_few(&self) -> bool {
        let covered = self.printed - self.too_small;
        upper_limit(self.printed, covered, 0.99).is_some_and(|most| most < 0.95)
    }
}

/// Samples of a second.
const A_SECOND: usize = 1_000;

fn recorded(case: Case, values: Vec<f64>) -> Input {
    let (distribution, order) = match case.recorded {
        Recorded::Values => {
            let grid = match case.order {
                Dependence::Classes(width) => Rounding::Width(width),
                _ => Rounding::Exact,
            };
            (Distribution::of_values(&values, grid).unwrap(), Order::Values(values))
        }
        Recorded::Run(unit) => {
            let ns: Vec<u64> = values.iter().map(|value| (value * unit) as u64).collect();
            let maxima = ns.chunks(A_SECOND).filter_map(|all| all.iter().max()).map(|ns| *ns as f64);
            let order = Order::Maxima { values: maxima.collect(), per_block: A_SECOND as f64 };
            let of = |from: usize, step: usize| {
                let mut histogram = Histogram::new(Layout::LATENCY);
                ns.iter().skip(from).step_by(step).for_each(|ns| histogram.record(Ns(*ns)));
                Distribution::of_histogram(&histogram).unwrap()
            };
            let mut input = Input::new("ns", of(0, 1), order);
            if matches!(case.order, Dependence::TwoCpus(_)) {
                input.cpus = vec![(Cpu(0), of(0, 2)), (Cpu(1), of(1, 2))];
            }
            return input;
        }
    };
    Input::new("as given", distribution, order)
}

fn measure(case: Case, runs: u64) -> Count {
    let request = Request {
        bootstrap: 39,
        assume_no_new: true,
        parameters: false,
        exceedance: std::env::var("LATHUNT_LEVEL").ok().and_then(|p| p.parse().ok()),
        ..Request::default()
    };
    let mut count = Count { runs, ..Count::default() };
    let unit = if let Recorded::Run(unit) = case.recorded { unit } else { 1.0 };
    for seed in 0..runs {
        let (mut random, mut rare) = (Random::new(4_242 + seed), 0);
        let input = recorded(case, case.values(&mut random, &mut rare));
        let answer = analyse(&input, &request);
        let seen = &answer.observed;
        // A run holds whole ns, rounded down.
        let level = seen.level_ns + if unit > 1.0 { 1.0 } else { 0.0 };
        count.observed_wrong +=
            u64::from(seen.probability_upper.is_some_and(|p| case.above(level / unit) > p));
        for gate in answer.gates.iter().filter(|gate| !gate.passed) {
            *count.refused.entry(gate.name.clone()).or_default() += 1;
        }
        let Some(upper) = answer.extrapolated.upper_ns else { continue };
        let too_small = u64::from(case.above(upper / unit) > answer.extrapolated.level);
        count.printed += 1;
        count.too_small += too_small;
        let by = count.by_rare.entry(rare / 5 * 5).or_default();
        *by = (by.0 + 1, by.1 + too_small);
    }
    eprintln!("{:?} {:?} {:?} n {}: {count:?}", case.law, case.order, case.recorded, case.n);
    count
}

/// The same share of values above 5.7 as of an exponential law of scale 1, and a heavier tail.
const CROSSING: Law = Law::Scaled(0.3, 0.377);

fn cases() -> Vec<Case> {
    let laws = [
        Law::Gpd(-0.3),
        Law::Gpd(0.0),
        Law::Gpd(0.1),
        Law::Gpd(0.3),
        Law::Gpd(0.5),
        Law::Uniform,
        Law::Gumbel,
        Law::Normal,
        Law::Lognormal(1.0),
        Law::Lognormal(0.5),
        Law::Weibull(0.5),
        Law::Weibull(1.5),
        Law::Rare(1e-3),
        Law::Rare(4e-3),
        Law::Rare(1e-4),
        Law::Shifted(1e-3, 10.0),
        Law::Shifted(1e-4, 10.0),
    ];
    let e = Law::Gpd(0.0);
    let dependent = [
        (e, Dependence::Ar(0.5)),
        (e, Dependence::Ar(0.9)),
        (e, Dependence::MovingMax(5)),
        (e, Dependence::Clusters(9)),
        (e, Dependence::Clusters(40)),
        (Law::Gpd(0.3), Dependence::MovingMax(5)),
        (Law::Gpd(0.2), Dependence::Clusters(4)),
        (e, Dependence::Every(7, 3.0)),
        (e, Dependence::Every(10, 10.0)),
        (e, Dependence::Every(100, 3.0)),
        (e, Dependence::Every(1000, 3.0)),
        (e, Dependence::Drift(0.5)),
        (e, Dependence::Drift(1.0)),
        (e, Dependence::Drift(0.2)),
        (e, Dependence::Decay(0.5)),
        (e, Dependence::Decay(0.9)),
        (Law::Gpd(0.2), Dependence::Decay(0.8)),
        (Law::Gpd(0.2), Dependence::Ar(0.8)),
        (e, Dependence::Stretches(20, 3.0)),
        (e, Dependence::Stretches(500, 2.0)),
        (e, Dependence::Waves(3, 0.5)),
        (e, Dependence::Waves(40, 0.5)),
        (e, Dependence::Ticks(0.1)),
        (e, Dependence::Ticks(0.25)),
        (e, Dependence::Ticks(1.0)),
        (Law::Lognormal(0.5), Dependence::Ticks(0.1)),
        (e, Dependence::Classes(0.1)),
        (e, Dependence::Classes(0.5)),
        (e, Dependence::Cut(1e-3)),
        (e, Dependence::Cut(3e-3)),
        (e, Dependence::Stalls(50, 1.0)),
        (e, Dependence::Stalls(50, 5.0)),
    ];
    let mut all = Vec::new();
    for n in [2_000, 20_000] {
        all.extend(laws.map(|law| Case { law, order: Dependence::None, recorded: Recorded::Values, n }));
        all.extend(dependent.map(|(law, order)| Case { law, order, recorded: Recorded::Values, n }));
    }
    let rare = [Law::Rare(1e-5), Law::Shifted(1e-5, 10.0)];
    let in_runs = dependent.into_iter().filter(|(_, order)| !matches!(order, Dependence::Classes(_)));
    let independent = laws.into_iter().chain(rare).map(|law| (law, Dependence::None));
    let cpus = [
        (e, Dependence::TwoCpus(e)),
        (e, Dependence::TwoCpus(Law::Scaled(0.0, 2.0))),
        (e, Dependence::TwoCpus(CROSSING)),
    ];
    for unit in [10_000.0, 1_000.0] {
        let run = |(law, order)| Case { law, order, recorded: Recorded::Run(unit), n: 600_000 };
        all.extend(independent.clone().map(run));
        if unit > 1_000.0 {
            all.extend(in_runs.clone().chain(cpus).map(run));
        }
    }
    all
}

/// Few runs of few cases; with `LATHUNT_RUNS=500` all cases, in hours. `LATHUNT_ONLY`: cases whose text contains one of
/// these, separated by semicolons. `LATHUNT_LEVEL`: the level, else two decades beyond the data.
#[test]
fn limits_cover() {
    let get = |name: &str| std::env::var(name).ok();
    if let Some(runs) = get("LATHUNT_RUNS").and_then(|n| n.parse().ok()) {
        let only = get("LATHUNT_ONLY").unwrap_or_default();
        let wanted = |case: &Case| only.split(';').any(|part| format!("{case:?}").contains(part));
        let failed: Vec<Case> =
            cases().into_iter().filter(wanted).filter(|case| measure(*case, runs).covers_too_few()).collect();
        // Of mixtures whose rare values are few, no limit can be right: the figures are in the how-to.
        assert!(failed.iter().all(|case| matches!(case.law, Law::Rare(_))), "{failed:?}");
        return;
    }
    let of = |law, order, runs| measure(Case { law, order, recorded: Recorded::Values, n: 2_000 }, runs);
    let heavy = of(Law::Gpd(0.3), Dependence::None, 14);
    assert!(5 * heavy.printed >= 2 * heavy.runs, "a gate selects: {heavy:?}");
    assert!(!heavy.covers_too_few(), "{heavy:?}");
    let clusters = of(Law::Gpd(0.0), Dependence::Clusters(9), 6);
    assert!(!clusters.covers_too_few(), "{clusters:?}");
    let long = of(Law::Gpd(0.0), Dependence::Clusters(40), 12);
    assert!(long.observed_wrong <= 2, "{long:?}");
    let of_run = |order, runs| {
        let case = Case { law: Law::Gpd(0.0), order, recorded: Recorded::Run(10_000.0), n: 600_000 };
        measure(case, runs)
    };
    let sound = of_run(Dependence::None, 4);
    assert!(sound.printed >= 2 && !sound.covers_too_few(), "{sound:?}");
    let cpus = of_run(Dependence::TwoCpus(Law::Scaled(0.0, 2.0)), 2);
    assert_eq!(cpus.printed, 0, "one kind of CPU: {cpus:?}");
    let drift = of(Law::Gpd(0.0), Dependence::Drift(2.0), 6);
    assert_eq!(drift.printed, 0, "{drift:?}");
}
