//! Computes the answer from samples: the observed statement, the fit over a threshold, and the gates.
//!
//! Two sources: plain values in time order, and runs, which keep a histogram and the maxima of each second. For runs,
//! the extremal index within a second follows from the number of seconds with an exceedance, that across seconds from
//! their gaps; if it is below 0.9, the maxima of the seconds are fitted instead of all samples.

use super::answer::{Answer, Extrapolated, Gate, Gpd, OfClusters, PathBound, FORMAT, VERSION};
use super::exceedances::{cluster_maxima, clustered, Tail};
use super::gate::{condition, holm};
use super::gpd::{self, Ends};
use super::limit::{limit, FEWEST};
use super::mechanisms::{self, Mechanism};
use super::observed::{index, observed};
use super::order_gates::{holdout_gate, order_gates, rate_gates, sequence_gates};
use super::random::Random;
use super::special::chi2_quantile_1;
use super::tail::{total, Cell, Distribution, Rounding};
use super::tail_gates::{fit_gate, resolution_gate, shape_gate, size_gate, LARGEST_SHARE};
use super::{blocks, largest, threshold};
use crate::numbers::{counted, more, plain, scientific_rounded_up, tenths_rounded_up};
use crate::stats::clusters::INDEPENDENT;
use crate::stats::model_free::percent;
use crate::time::{Cpu, Ns};

/// Parameters of the analysis.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// One-sided confidence of limits.
    pub confidence: f64,
    /// Probability per sample at which to extrapolate; `None`: 1e-9, or two decades beyond the data if that is larger.
    pub exceedance: Option<f64>,
    /// The deadline, in the unit of the samples.
    pub deadline: Option<f64>,
    /// Threshold of the tail; `None`: automatic.
    pub threshold: Option<f64>,
    /// Extrapolate further than two decades beyond the data.
    pub beyond: bool,
    /// The user asserts that no mechanism exists that is not in the record.
    pub assume_no_new: bool,
    /// Number of bootstrap samples.
    pub bootstrap: u32,
    /// Also the intervals of the parameters: four fifths of the computing time.
    pub parameters: bool,
}

impl Default for Request {
    fn default() -> Request {
        Request {
            confidence: 0.95,
            exceedance: None,
            deadline: None,
            threshold: None,
            beyond: false,
            assume_no_new: false,
            bootstrap: 999,
            parameters: true,
        }
    }
}

impl Request {
    /// The chi-square quantile of an upper limit that is printed only if every gate passes.
    ///
    /// The confidence holds for the printed limits, not for all samples: a gate may refuse just those with the largest
    /// limits. P(too small | printed) is at most P(too small) / P(printed), and sound samples are printed in at least half
    /// of the cases; so the limit is computed for half the probability of an error.
    pub(super) fn printed(&self) -> f64 {
        chi2_quantile_1(1.0 - self.confidence)
    }

    /// The chi-square quantile of a two-sided interval.
    pub(super) fn two_sided(&self) -> f64 {
        chi2_quantile_1(1.0 - self.confidence)
    }
}

/// Time order of the samples.
#[derive(Clone, Debug, PartialEq)]
pub enum Order {
    /// Not known, with the reason.
    Unknown(String),
    /// All samples, in time order.
    Values(Vec<f64>),
    /// Maxima of stretches of `per_block` samples.
    Maxima {
        /// In time order.
        values: Vec<f64>,
        /// Samples per stretch.
        per_block: f64,
    },
}

/// Samples of one configuration.
#[derive(Clone, Debug)]
pub struct Input {
    /// Description of the samples.
    pub about: String,
    /// `ns` or `as given`.
    pub unit: String,
    /// All samples.
    pub distribution: Distribution,
    /// Their time order.
    pub order: Order,
    /// Number of lost samples and missed activations with unknown latency.
    pub unknown: u64,
    /// Number of lost samples that are known not to be above the largest sample.
    pub bounded: u64,
    /// Activations may have been missed that are in no count: the number is not known.
    pub uncounted: bool,
    /// The samples of each CPU, if there are several.
    pub cpus: Vec<(Cpu, Distribution)>,
    /// Causes of the explained peaks.
    pub mechanisms: Vec<Mechanism>,
}

impl Input {
    /// Complete samples, of which no more is known. `unit`: `ns` or `as given`.
    #[must_use]
    pub fn new(unit: &str, distribution: Distribution, order: Order) -> Input {
        Input {
            about: String::new(),
            unit: unit.to_owned(),
            distribution,
            order,
            unknown: 0,
            bounded: 0,
            uncounted: false,
            cpus: Vec::new(),
            mechanisms: Vec::new(),
        }
    }

    /// A level with its unit.
    fn level(&self, level: f64) -> String {
        match self.unit.as_str() {
            "ns" => Ns(level.max(0.0) as u64).to_string(),
            _ => plain(level),
        }
    }
}

/// The answer, without criteria and bound, which need more than samples.
#[must_use]
pub fn analyse(input: &Input, request: &Request) -> Answer {
    let mut random = Random::new(0x6c61_7468_756e_7400);
    let threshold = threshold::choose(input, request, &mut random);
    let theta = index(input, threshold);
    let (level, note) = level_asked(request, input.distribution.samples, "samples");
    let blocks = blocks::of(&input.order);
    let mut answer = Answer {
        format: FORMAT.to_owned(),
        version: VERSION,
        about: input.about.clone(),
        unit: input.unit.clone(),
        observed: observed(input, &blocks, threshold, theta, request),
        bound: PathBound::none("no path analysis: samples of a latency alone do not hold its terms"),
        extrapolated: Extrapolated::none(level),
        gates: Vec::new(),
        criteria: Vec::new(),
        gpd: None,
        gev: None,
        notes: note.into_iter().collect(),
    };
    answer.gates = order_gates(input, &blocks);
    let tail = threshold.and_then(|u| Tail::of(input, u, theta));
    match &tail {
        Some(tail) if is_bulk(tail) => {
            answer.gates.push(size_gate(tail, input.distribution.samples));
            answer
                .notes
                .push("the threshold is not in the tail: nothing above it was fitted or tested".to_owned());
        }
        Some(tail) => fitted(&mut answer, input, tail, &blocks, request, &mut random),
        None => {
            answer.gates.push(condition("fit", false, no_tail(input, threshold, theta)));
        }
    }
    let of_tail = threshold.filter(|_| !tail.as_ref().is_some_and(is_bulk));
    answer.gpd = of_tail.and_then(|u| described(input, u, tail.as_ref(), request));
    answer.gates.extend(mechanisms::gates(input, request.assume_no_new));
    conclude(&mut answer);
    answer
}

/// Whether a threshold is so low (`--threshold`) that the size gate refuses the tail anyway; the other gates would take minutes.
fn is_bulk(tail: &Tail) -> bool {
    total(&tail.cells) > MANY && tail.zeta > LARGEST_SHARE
}

/// Number of exceedances that are tested in some seconds.
const MANY: u64 = 20_000;

/// Why no tail is fitted over `threshold`.
fn no_tail(input: &Input, threshold: Option<f64>, theta: Option<f64>) -> String {
    let Some(u) = threshold else {
        return "no tail can be fitted: too few different samples; measure longer".to_owned();
    };
    let above = total(&input.distribution.excesses(u));
    let (of, above) = match (&input.order, theta) {
        (Order::Maxima { values, .. }, Some(theta)) if theta < INDEPENDENT => (
            "of the maxima of the seconds, which stand for the clusters of late samples,",
            values.iter().filter(|v| **v > u).count() as u64,
        ),
        (Order::Values(values), Some(theta)) if clustered(Some(theta), above) => {
            ("maxima of clusters of samples", cluster_maxima(values, u, theta).len() as u64)
        }
        _ => ("samples", above),
    };
    format!(
        "no tail can be fitted: {above} {of} above {} give none (all equal, or a likelihood without a maximum); measure longer, or choose a lower threshold",
        input.level(u)
    )
}

/// Decides the gates, and withdraws the extrapolation if one refuses.
pub(super) fn conclude(answer: &mut Answer) {
    holm(&mut answer.gates);
    answer.notes.extend(changed(&answer.gates));
    let refused: Vec<String> = answer.gates.iter().filter(|gate| !gate.passed).map(said).collect();
    if let Some(first) = refused.first() {
        answer.extrapolated.value_ns = None;
        answer.extrapolated.upper_ns = None;
        answer.extrapolated.assumes = None;
        let others = match refused.len() {
            1 => String::new(),
            n => format!(" (and {} refused)", more(n as u64 - 1, "gate")),
        };
        answer.extrapolated.reason = format!("no extrapolation: {first}{others}");
    }
}

/// Caveat of the observed statement if the latencies changed during the record.
fn changed(gates: &[Gate]) -> Option<String> {
    const ABOUT_CHANGE: [&str; 4] = ["stationarity", "trend", "halves", "rate"];
    let shows = |gate: &&Gate| !gate.passed && gate.p.is_some() && ABOUT_CHANGE.contains(&gate.name.as_str());
    let names: Vec<&str> = gates.iter().filter(shows).map(|gate| gate.name.as_str()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "the samples changed during the record ({} refused): the observed line is about its average, not about the time after it",
            names.join(", ")
        )
    })
}

fn said(gate: &Gate) -> String {
    match gate.p {
        Some(p) => format!("{} refused (p = {p:.2e}): {}", gate.name, gate.detail),
        None => format!("{} refused: {}", gate.name, gate.detail),
    }
}

/// The level, and a note if it is not the default.
pub(super) fn level_asked(request: &Request, count: u64, of: &str) -> (f64, Option<String>) {
    let reach = 1.0 / (100.0 * count as f64);
    match request.exceedance {
        Some(level) => (level, None),
        None if reach > 1e-9 => (
            reach,
            Some(format!(
                "level {}: two decades beyond {count} {of}; more of them reach further",
                scientific_rounded_up(reach)
            )),
        ),
        None => (1e-9, None),
    }
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
    answer.gates.extend(sequence_gates(tail));
    answer.gates.extend(rate_gates(input, tail.threshold, tail.theta));
    answer.gates.push(size_gate(tail, answer.observed.samples));
    answer.gates.push(resolution_gate(&input.distribution, tail));
    answer.gates.push(fit_gate(tail, request.bootstrap, random));
    answer.gates.push(threshold::stability(tail, random));
    answer.gates.push(largest::homogeneity(tail, random));
    answer.gates.push(shape_gate(tail, xi));
    answer.gates.push(holdout_gate(&input.order, tail.threshold));
    reach(answer, input, request);
    extrapolated(answer, input, tail, blocks, request);
}

/// Whether the level is within two decades of the data.
fn reach(answer: &mut Answer, input: &Input, request: &Request) {
    let (level, samples) = (answer.extrapolated.level, input.distribution.samples);
    let reach = 1.0 / (100.0 * samples as f64);
    let inside = level >= reach * 0.999_999;
    if !inside && request.beyond {
        answer.notes.push(format!("warning: {level:.2e} is beyond two decades of the data ({reach:.2e})"));
    }
    answer.gates.push(condition(
        "reach",
        inside || request.beyond,
        match inside {
            true => format!("{} is within two decades of the data", scientific_rounded_up(level)),
            false => format!(
                "{level:.2e} is more than two decades beyond {samples} samples: take {}, {}or give --beyond",
                scientific_rounded_up(reach),
                longer(reach / level)
            ),
        },
    ));
}

/// What to do about too few samples; nothing if no one can measure that long.
fn longer(times: f64) -> String {
    match times < 1e6 {
        true => format!("measure {} times as long, ", tenths_rounded_up(times)),
        false => String::new(),
    }
}

/// The level with its upper limit, and the gates on it.
fn extrapolated(answer: &mut Answer, input: &Input, tail: &Tail, blocks: &blocks::Blocks, request: &Request) {
    let level = answer.extrapolated.level;
    let t = (tail.zeta / level).ln();
    if t <= 0.0 || level * input.distribution.samples as f64 >= FEWEST {
        let detail = format!("{level:.2e} is inside the data: the observed share answers it (--deadline)");
        answer.gates.push(condition("level", false, detail));
    }
    let limit = limit(tail, level, request);
    let of = counted(limit.decided_by.1, "exceedance");
    let from = input.level(limit.decided_by.0);
    let low = gpd::level_interval(&tail.cells, &tail.fit, t.max(1e-9), request.two_sided()).0;
    let theta = tail.theta.unwrap_or(1.0);
    if !tail.short {
        let (gate, gev) =
            blocks.agree(tail.threshold + low.unwrap_or(0.0), limit.upper, level, theta, request);
        answer.gates.extend(gate);
        answer.gev = gev;
    }
    answer.gates.push(condition(
        "upper limit",
        limit.upper.is_some(),
        match limit.upper {
            Some(_) => format!("the largest of all thresholds is over {from} ({of})"),
            None => format!("the profile likelihood over {from} ({of}) has no upper end: measure longer"),
        },
    ));
    answer.extrapolated.value_ns = Some(limit.value);
    answer.extrapolated.upper_ns = limit.upper;
    answer.extrapolated.assumes = Some(mechanisms::ASSUMES.to_owned());
    if tail.short {
        answer.extrapolated.reason = format!(
            "the tail ends at its largest samples: upper limit of an exponential tail, which is longer, at {} % over {from}, the largest of all thresholds",
            percent(request.confidence)
        );
        return;
    }
    answer.extrapolated.reason = format!(
        "generalised Pareto tail over {} ({}, xi {:.3}), upper limit of the profile likelihood at {} % over {from}, the largest of all thresholds",
        input.level(tail.threshold), counted(total(&tail.cells), "exceedance"), tail.fit.xi, percent(request.confidence)
    );
}

/// The fit of all samples above `threshold`; `None` if there is none.
fn described(input: &Input, threshold: f64, tail: Option<&Tail>, request: &Request) -> Option<Gpd> {
    let all = &input.distribution;
    let cells = all.excesses(threshold);
    let fit = gpd::fit(&cells)?;
    let exceedances = total(&cells);
    let of_clusters = |tail: &Tail| OfClusters {
        sigma: tail.fit.sigma,
        xi: tail.fit.xi,
        nllh: tail.fit.nllh,
        clusters: total(&tail.cells),
    };
    let interval = |of: fn(&[Cell], &gpd::Fit, f64) -> Ends| match request.parameters {
        true => of(&cells, &fit, request.two_sided()),
        false => (None, None),
    };
    Some(Gpd {
        threshold,
        sigma: fit.sigma,
        xi: fit.xi,
        nllh: fit.nllh,
        exceedances,
        zeta: exceedances as f64 / all.samples as f64,
        class_width: match all.grid {
            Rounding::Exact => None,
            Rounding::Width(width) => Some(width),
            Rounding::Classes(layout) => Some(layout.width().0 as f64),
        },
        sigma_interval: interval(gpd::sigma_interval),
        xi_interval: interval(gpd::xi_interval),
        clusters: tail.filter(|tail| tail.declustered && !tail.short).map(of_clusters),
    })
}
