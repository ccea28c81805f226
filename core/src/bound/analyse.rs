//! From samples to the answer: the observed statement, the fit over a threshold, and the gates.
//!
//! Two sources: plain values in time order, and runs, which keep a histogram and the maxima of each second. Of runs the
//! extremal index inside a second comes from how many seconds have an exceedance, that across seconds from their gaps;
//! where it is below 0.9 the maxima of the seconds are fitted instead of all samples.

use super::answer::{Answer, Extrapolated, Gate, Gpd, Observed, PathBound, FORMAT, VERSION};
use super::gate::{condition, holm, tested, tested_or_not};
use super::goodness::{bootstrap, Goodness};
use super::gpd::{self, Ends, Fit};
use super::order;
use super::random::Random;
use super::special::{chi2_quantile_1, poisson_at_least};
use super::tail::{total, Cell, Distribution, Grid};
use super::{blocks, threshold};
use crate::stats::model_free;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// One-sided confidence of limits.
    pub confidence: f64,
    /// Probability per sample at which to extrapolate; `None`: 1e-9, or as far as the data reach.
    pub exceedance: Option<f64>,
    /// The deadline, in the unit of the samples.
    pub deadline: Option<f64>,
    /// Threshold of the tail; `None`: chosen.
    pub threshold: Option<f64>,
    /// Extrapolate further than two decades beyond the data.
    pub beyond: bool,
    /// Samples of each bootstrap.
    pub bootstrap: u32,
}

impl Default for Request {
    fn default() -> Request {
        Request {
            confidence: 0.95,
            exceedance: None,
            deadline: None,
            threshold: None,
            beyond: false,
            bootstrap: 999,
        }
    }
}

impl Request {
    /// The chi-square quantile of a one-sided limit.
    pub(super) fn one_sided(&self) -> f64 {
        chi2_quantile_1(2.0 * (1.0 - self.confidence))
    }

    /// That of a two-sided interval.
    pub(super) fn two_sided(&self) -> f64 {
        chi2_quantile_1(1.0 - self.confidence)
    }
}

/// Order in time.
#[derive(Clone, Debug, PartialEq)]
pub enum Order {
    /// Not known, with the reason.
    Unknown(String),
    /// All samples, as taken.
    Values(Vec<f64>),
    /// Maxima of stretches of `per_block` samples.
    Maxima {
        /// In time order.
        values: Vec<f64>,
        /// Samples of a stretch.
        per_block: f64,
    },
}

/// Samples of one configuration.
#[derive(Clone, Debug)]
pub struct Input {
    /// What they are.
    pub about: String,
    /// `ns` or `as given`.
    pub unit: String,
    /// All of them.
    pub distribution: Distribution,
    /// Their order.
    pub order: Order,
    /// Lost samples and missed activations of which no latency is known.
    pub unknown: u64,
}

/// The answer without the criteria and the bound, which need more than samples.
#[must_use]
pub fn analyse(input: &Input, request: &Request) -> Answer {
    let mut random = Random::new(0x6c61_7468_756e_7400);
    let threshold = threshold::choose(input, request, &mut random);
    let theta = index(input, threshold);
    let (level, note) = level_asked(request, input.distribution.samples, "samples");
    let mut answer = Answer {
        format: FORMAT.to_owned(),
        version: VERSION,
        about: input.about.clone(),
        unit: input.unit.clone(),
        observed: observed(input, theta, request),
        bound: PathBound {
            value_ns: None,
            reason: "no path analysis: samples of a latency alone do not hold its terms".to_owned(),
            terms: Vec::new(),
        },
        extrapolated: Extrapolated { value_ns: None, upper_ns: None, level, reason: String::new() },
        gates: Vec::new(),
        criteria: Vec::new(),
        gpd: None,
        gev: None,
        notes: note.into_iter().collect(),
    };
    let blocks = blocks::of(&input.order);
    answer.gates = order_gates(input, &blocks);
    match threshold.and_then(|u| Tail::of(input, u, theta)) {
        Some(tail) => fitted(&mut answer, input, &tail, &blocks, request, &mut random),
        None => {
            let detail =
                "no tail can be fitted: fewer than two different samples above any threshold; measure longer";
            answer.gates.push(condition("fit", false, detail.to_owned()));
        }
    }
    if input.unit == "ns" {
        answer.gates.push(one_mechanism());
    }
    conclude(&mut answer);
    answer
}

/// Refuses for every run: in simulations of a second, rare mechanism inside the range of the data, the other gates let
/// an extrapolation pass whose limit was too small in 34 of 38 cases.
fn one_mechanism() -> Gate {
    let detail = "latencies of a machine may have a rare second mechanism that no gate can see inside the range of the \
                  data; the fit is shown, a level is not claimed. Explain the worst peaks, or measure longer";
    condition("one mechanism", false, detail.to_owned())
}

/// Decides the gates, and withdraws the extrapolation where one refuses.
pub(super) fn conclude(answer: &mut Answer) {
    holm(&mut answer.gates);
    let refused: Vec<String> = answer.gates.iter().filter(|gate| !gate.passed).map(said).collect();
    if let Some(first) = refused.first() {
        answer.extrapolated.value_ns = None;
        answer.extrapolated.upper_ns = None;
        let more = match refused.len() {
            1 => String::new(),
            n => format!(" (and {} more gates refused)", n - 1),
        };
        answer.extrapolated.reason = format!("no extrapolation: {first}{more}");
    }
}

fn said(gate: &Gate) -> String {
    match gate.p {
        Some(p) => format!("{} refused (p = {p:.2e}): {}", gate.name, gate.detail),
        None => format!("{} refused: {}", gate.name, gate.detail),
    }
}

/// The level, and a note where it is not the usual one.
pub(super) fn level_asked(request: &Request, count: u64, of: &str) -> (f64, Option<String>) {
    let reach = 1.0 / (100.0 * count as f64);
    match request.exceedance {
        Some(level) => (level, None),
        None if reach > 1e-9 => (
            reach,
            Some(format!("level {reach:.2e}: two decades beyond {count} {of}; more of them reach further")),
        ),
        None => (1e-9, None),
    }
}

/// The extremal index at a threshold; `None` where nothing tells it.
fn index(input: &Input, threshold: Option<f64>) -> Option<f64> {
    match &input.order {
        Order::Unknown(_) => None,
        Order::Values(values) => order::extremal_index(&times_above(values, threshold?)),
        Order::Maxima { values, per_block } => {
            blocks::extremal_index(&input.distribution, values, *per_block)
        }
    }
}

fn times_above(values: &[f64], threshold: f64) -> Vec<f64> {
    values.iter().enumerate().filter(|(_, v)| **v > threshold).map(|(at, _)| at as f64).collect()
}

fn observed(input: &Input, theta: Option<f64>, request: &Request) -> Observed {
    let all = &input.distribution;
    let level = request.deadline.unwrap_or(all.max);
    let may_exceed = |cell: &&Cell| if cell.is_exact() { cell.lo > level } else { cell.hi - 1e-9 > level };
    let classes = matches!(all.grid, Grid::Classes(_));
    let may = |cell: &&Cell| if classes { cell.hi - 1.0 > level } else { may_exceed(cell) };
    let seen = if all.max <= level { 0 } else { all.cells.iter().filter(may).map(|c| c.count).sum::<u64>() };
    let (samples, above) = (all.samples.saturating_add(input.unknown), seen.saturating_add(input.unknown));
    let effective = theta.map(|theta| ((theta * all.samples as f64).floor() as u64).max(1));
    // Clusters count once each, on both sides.
    let (n, k) = match (theta, effective) {
        (Some(theta), Some(n)) => {
            (n.saturating_add(input.unknown), (theta * seen as f64).ceil() as u64 + input.unknown)
        }
        _ => (samples, above),
    };
    let reason = match &input.order {
        Order::Unknown(why) => format!("if late samples come independently, which cannot be tested: {why}"),
        _ if theta.is_none() => {
            "if late samples come independently: too few exceedances to test it".to_owned()
        }
        _ => {
            "for this workload and this configuration; clusters of late samples counted once each".to_owned()
        }
    };
    Observed {
        samples,
        effective_samples: effective,
        theta,
        max_ns: all.max,
        level_ns: level,
        above,
        probability_upper: model_free::upper_limit(n, k.min(n), request.confidence),
        confidence: request.confidence,
        reason,
    }
}

/// The excesses that are fitted.
pub(super) struct Tail {
    threshold: f64,
    cells: Vec<Cell>,
    grid: Grid,
    /// Clusters per sample.
    zeta: f64,
    /// In time order, where that is known.
    in_order: Vec<f64>,
    declustered: bool,
    fit: Fit,
}

impl Tail {
    fn of(input: &Input, threshold: f64, theta: Option<f64>) -> Option<Tail> {
        let all = &input.distribution;
        let samples = all.samples as f64;
        let clustered = theta.is_some_and(|theta| theta < 0.9);
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
                let cells = Distribution::of_values(values, Grid::Exact)?.excesses(threshold);
                (
                    cells,
                    Grid::Exact,
                    values.iter().filter(|v| **v > threshold).map(|v| v - threshold).collect(),
                )
            }
            Order::Maxima { values, .. } => {
                let in_order = values.iter().filter(|v| **v > threshold).map(|v| v - threshold).collect();
                (all.excesses(threshold), all.grid, in_order)
            }
            Order::Unknown(_) => (all.excesses(threshold), all.grid, Vec::new()),
        };
        let fit = gpd::fit(&cells)?;
        let zeta = total(&cells) as f64 / samples;
        Some(Tail { threshold, cells, grid, zeta, in_order, declustered: clustered, fit })
    }
}

fn cluster_maxima(values: &[f64], threshold: f64, theta: f64) -> Vec<f64> {
    let above: Vec<f64> = values.iter().copied().filter(|v| *v > threshold).collect();
    let starts = order::cluster_starts(&times_above(values, threshold), theta);
    let ends = starts.iter().skip(1).copied().chain([above.len()]);
    let largest = |(from, to): (&usize, usize)| above[*from..to].iter().copied().fold(f64::MIN, f64::max);
    starts.iter().zip(ends).map(largest).collect()
}

fn order_gates(input: &Input, blocks: &blocks::Blocks) -> Vec<Gate> {
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

fn fitted(
    answer: &mut Answer,
    input: &Input,
    tail: &Tail,
    blocks: &blocks::Blocks,
    request: &Request,
    random: &mut Random,
) {
    let (cells, fit) = (&tail.cells, &tail.fit);
    let xi = gpd::xi_interval(cells, fit, request.two_sided());
    let n = total(cells);
    let goodness = bootstrap(cells, fit, tail.threshold, tail.grid, request.bootstrap, random);
    answer.gates.extend(sequence_gates(tail));
    answer.gates.push(size_gate(tail, answer.observed.samples));
    answer.gates.push(resolution_gate(&input.distribution, tail));
    answer.gates.push(fit_gate(&goodness, request.bootstrap));
    answer.gates.push(threshold::stability(cells, fit));
    answer.gates.extend(threshold::homogeneity(cells, fit, xi));
    answer.gates.push(shape_gate(fit, xi));
    answer.gates.push(holdout_gate(&input.order, tail.threshold));
    let level = answer.extrapolated.level;
    let reach = 1.0 / (100.0 * input.distribution.samples as f64);
    let inside = level >= reach * 0.999_999;
    if !inside && request.beyond {
        answer.notes.push(format!("warning: {level:.2e} is beyond two decades of the data ({reach:.2e})"));
    }
    answer.gates.push(condition("reach", inside || request.beyond, match inside {
        true => format!("{level:.2e} is within two decades of the data"),
        false => format!("{level:.2e} is more than two decades beyond {} samples: take {reach:.2e}, measure {:.1} times as long, or give --beyond", input.distribution.samples, reach / level),
    }));
    let t = (tail.zeta / level).ln();
    let (value, upper) = levels(tail, t, xi, request);
    if t <= 0.0 {
        answer.gates.push(condition(
            "level",
            false,
            format!("{level:.2e} is inside the data: the observed share answers it"),
        ));
    }
    let (gate, gev) = blocks.agree(
        tail.threshold + gpd::level_interval(cells, fit, t.max(1e-9), request.two_sided()).0.unwrap_or(0.0),
        upper,
        level,
        answer.observed.theta,
        request,
    );
    answer.gates.extend(gate);
    answer.gev = gev;
    answer.gates.push(condition(
        "upper limit",
        upper.is_some(),
        match upper {
            Some(_) => "the profile likelihood closes".to_owned(),
            None => "the profile likelihood has no upper end: measure longer".to_owned(),
        },
    ));
    answer.extrapolated.value_ns = Some(value);
    answer.extrapolated.upper_ns = upper;
    answer.extrapolated.reason = format!(
        "generalised Pareto tail over {} ({n} exceedances, xi {:.3}), upper limit of the profile likelihood at {} %; a mechanism that never occurred in this record is not in it",
        tail.threshold, fit.xi, request.confidence * 100.0
    );
    answer.gpd = Some(Gpd {
        threshold: tail.threshold,
        sigma: fit.sigma,
        xi: fit.xi,
        nllh: fit.nllh,
        exceedances: n,
        zeta: tail.zeta,
        declustered: tail.declustered,
        class_width: match tail.grid {
            Grid::Exact => None,
            Grid::Width(width) => Some(width),
            Grid::Classes(layout) => Some(layout.width().0 as f64),
        },
        sigma_interval: gpd::sigma_interval(cells, fit, request.two_sided()),
        xi_interval: xi,
    });
}

/// Point and upper limit. Where the shape may be 0, the larger of both tails' limits: to force one is not conservative.
fn levels(tail: &Tail, t: f64, xi: Ends, request: &Request) -> (f64, Option<f64>) {
    let (cells, fit) = (&tail.cells, &tail.fit);
    if t <= 0.0 {
        return (tail.threshold, None);
    }
    let mut upper = gpd::level_interval(cells, fit, t, request.one_sided()).1;
    let zero_inside = xi.0.is_none_or(|low| low <= 0.0) && xi.1.is_none_or(|high| high >= 0.0);
    if let Some(exponential) = gpd::fit_exponential(cells).filter(|_| zero_inside) {
        let other = gpd::exponential_interval(cells, &exponential, t, request.one_sided()).1;
        upper = upper.zip(other).map(|(a, b)| a.max(b));
    }
    (tail.threshold + gpd::level(fit, t), upper.map(|y| tail.threshold + y))
}

fn sequence_gates(tail: &Tail) -> Vec<Gate> {
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

fn size_gate(tail: &Tail, samples: u64) -> Gate {
    let n = total(&tail.cells);
    let distinct = tail.cells.len();
    let enough = n >= 100 && tail.zeta <= 0.0500001 && distinct >= 30;
    let advice = match enough {
        true => String::new(),
        false if n < 100 => format!("; measure {:.1} times as long", 200.0 / n.max(1) as f64),
        false if distinct < 30 => "; record finer classes".to_owned(),
        false => "; choose a higher threshold".to_owned(),
    };
    let detail = format!(
        "{n} exceedances (100), {distinct} different (30), {:.4} of {samples} samples (0.05){advice}",
        tail.zeta
    );
    condition("size", enough, detail)
}

/// Exact values that were in truth rounded: the spacing of ties against the scale of the tail.
fn resolution_gate(all: &Distribution, tail: &Tail) -> Gate {
    let step = match all.grid {
        Grid::Exact => spacing(&all.excesses(tail.threshold)),
        _ => None,
    };
    match step.filter(|step| tail.fit.sigma < 5.0 * step) {
        Some(step) => condition("resolution", false, format!("values are rounded to about {step}, too coarse for a tail of scale {:.3}: give --class-width {step}", tail.fit.sigma)),
        None => condition("resolution", true, "values are fine enough, or enter as classes".to_owned()),
    }
}

/// The smallest distance of two different values, where ties show that values were rounded.
fn spacing(cells: &[Cell]) -> Option<f64> {
    let tied = total(cells) - cells.len() as u64;
    let closest = cells.windows(2).map(|pair| pair[1].lo - pair[0].lo).fold(f64::INFINITY, f64::min);
    let step = (closest * 1e9).round() / 1e9;
    (tied as f64 > 0.02 * total(cells) as f64 && step.is_finite() && step > 0.0).then_some(step)
}

fn fit_gate(goodness: &Goodness, asked: u32) -> Gate {
    let Goodness { statistics, p_a2, p_w2, drawn } = goodness;
    let detail = format!(
        "Anderson-Darling {:.3}, Cramér-von Mises {:.4} (p {p_w2:.3}), {drawn} bootstrap samples",
        statistics.a2, statistics.w2
    );
    match drawn {
        n if *n < asked - asked / 10 => {
            // Those left over are not a sample of the fit.
            condition(
                "fit",
                false,
                format!("only {n} of {asked} bootstrap samples could be fitted: {detail}"),
            )
        }
        _ if *p_a2 < 0.05 => condition(
            "fit",
            false,
            format!(
                "p {p_a2:.3} below 0.05: {detail}; choose a higher threshold or run explain on the peaks"
            ),
        ),
        _ => tested("fit", *p_a2, detail),
    }
}

fn shape_gate(fit: &Fit, xi: Ends) -> Gate {
    let heavy = xi.0.is_some_and(|low| low > 0.0) && xi.1.is_none_or(|high| high > 0.5);
    let fine = fit.xi > -0.5 && fit.xi < 0.5 && !heavy;
    let shown = |end: Option<f64>| end.map_or("open".to_owned(), |end| format!("{end:.3}"));
    let detail = format!("xi {:.3} [{}, {}]", fit.xi, shown(xi.0), shown(xi.1));
    condition("shape", fine, match fine {
        true => detail,
        false => format!("{detail}: a tail without finite variance, or with an end on the data; explain the largest samples"),
    })
}

/// Fits the first half, predicts the level that the second half should exceed five times, and counts.
fn holdout_gate(order: &Order, threshold: f64) -> Gate {
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
