//! Block maxima: an analysis of their own, and the cross-check of a tail over a threshold.

use super::analyse::{conclude, level_asked, Order, Request};
use super::answer::{Answer, Extrapolated, Gate, Gev, Observed, PathBound, FORMAT, VERSION};
use super::gate::{condition, tested_or_not};
use super::gev::{self, Fit, Fixed};
use super::gpd::SHORTEST;
use super::observed::{around, times_above};
use super::tail::{Distribution, Rounding};
use super::{mechanisms, order};
use crate::numbers::{counted, four_digits, scientific_rounded_up};
use crate::stats::activations::Activations;
use crate::stats::{clusters, model_free};

/// Minimum number of blocks of the cross-check, if there are as many values.
const BLOCKS: usize = 100;

/// Maxima in time order: fewer than 200.
pub(super) struct Blocks {
    pub(super) maxima: Vec<f64>,
    samples_each: f64,
}

/// Block maxima of samples, or of the maxima of shorter blocks. No value is left out: the lengths of the blocks differ by at
/// most one value.
pub(super) fn of(order: &Order) -> Blocks {
    let (values, each) = match order {
        Order::Unknown(_) => return Blocks { maxima: Vec::new(), samples_each: 1.0 },
        Order::Values(values) => (values, 1.0),
        Order::Maxima { values, per_block } => (values, *per_block),
    };
    let blocks = values.len() / (values.len() / BLOCKS).max(1);
    let maxima = parts(values, blocks).map(|block| block.iter().copied().fold(f64::MIN, f64::max));
    Blocks { maxima: maxima.collect(), samples_each: each * values.len() as f64 / blocks.max(1) as f64 }
}

/// `values` in `n` parts, whose lengths differ by at most one.
fn parts(values: &[f64], n: usize) -> impl Iterator<Item = &[f64]> {
    (0..n).map(move |at| &values[at * values.len() / n..(at + 1) * values.len() / n])
}

impl Blocks {
    /// Text on the tenth of the time that differs most.
    pub(super) fn drift(&self) -> String {
        if self.maxima.len() < 10 {
            return String::new();
        }
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let whole = mean(&self.maxima);
        let parts: Vec<f64> = parts(&self.maxima, 10).map(mean).collect();
        let worst =
            (0..parts.len()).max_by(|a, b| (parts[*a] - whole).abs().total_cmp(&(parts[*b] - whole).abs()));
        worst.map_or(String::new(), |at| {
            format!(
                "; tenth {} of the time differs most: mean of maxima {} against {}",
                at + 1,
                four_digits(parts[at]),
                four_digits(whole)
            )
        })
    }

    /// Whether the level by block maxima agrees with the interval `low..high` of the level over a threshold. `level`
    /// counts samples, of which `1 / theta` form a cluster. Not agreed if the profile has no end on either side.
    pub(super) fn agree(
        &self,
        low: f64,
        high: Option<f64>,
        level: f64,
        theta: f64,
        request: &Request,
    ) -> (Option<Gate>, Option<Gev>) {
        if self.maxima.is_empty() {
            return (None, None);
        }
        if self.maxima.len() < 50 {
            let blocks = counted(self.maxima.len() as u64, "block");
            let detail = format!("{blocks}, 50 are needed: measure longer");
            return (Some(condition("block maxima", false, detail)), None);
        }
        let fit = match gev::fit(&self.maxima) {
            Ok(fit) => fit,
            Err(why) => {
                let detail = format!("no distribution fits the block maxima: {why}");
                return (Some(condition("block maxima", false, detail)), None);
            }
        };
        let p = -f64::exp_m1(self.samples_each * theta * f64::ln_1p(-level));
        let q = request.two_sided();
        let other = gev::interval(&self.maxima, &fit, Fixed::Level(p), q);
        let tested = other.0.is_some() || other.1.is_some();
        let overlap = tested
            && other.0.is_none_or(|from| high.is_none_or(|high| from <= high))
            && other.1.is_none_or(|to| to >= low);
        let shown = |end: Option<f64>| end.map_or("open".to_owned(), four_digits);
        let detail =
            format!("level by {} block maxima [{}, {}]", self.maxima.len(), shown(other.0), shown(other.1));
        (Some(condition("block maxima", overlap, detail)), Some(described(&self.maxima, &fit, request)))
    }
}

fn described(maxima: &[f64], fit: &Fit, request: &Request) -> Gev {
    let interval = |fixed| match request.parameters && fit.xi > SHORTEST {
        true => gev::interval(maxima, fit, fixed, request.two_sided()),
        false => (None, None),
    };
    Gev {
        mu: fit.mu,
        sigma: fit.sigma,
        xi: fit.xi,
        nllh: fit.nllh,
        blocks: maxima.len() as u64,
        mu_interval: interval(Fixed::Mu),
        sigma_interval: interval(Fixed::Sigma),
        xi_interval: interval(Fixed::Xi),
        endpoint: (fit.xi < 0.0).then(|| fit.mu - fit.sigma / fit.xi),
        endpoint_interval: interval(Fixed::Endpoint),
    }
}

/// Extremal index of a run from the number of blocks that reach a level: within blocks from the number with an
/// exceedance, across blocks from their gaps. `None` if it is not identifiable.
pub(super) fn extremal_index(all: &Distribution, maxima: &[f64], per_block: f64) -> Option<f64> {
    let share = |edge: f64| super::tail::total(&all.excesses(edge)) as f64 / all.samples as f64;
    clusters::of_maxima(maxima, per_block, |level| all.grid.edge_from(level), share)
}

/// Extremal index of block maxima with its lower limit, and the assumption of their observed statement. `None`: too few to test
/// it.
fn independence(maxima: &[f64], box_test: Option<(f64, f64)>) -> (Option<(f64, f64)>, &'static str) {
    let Some((_, p)) = box_test else {
        return (None, "per block, assuming independent blocks: too few to test it");
    };
    if p >= 0.01 {
        return (Some((1.0, 1.0)), "per block, for this workload and this configuration");
    }
    let level = Distribution::of_values(maxima, Rounding::Exact)
        .and_then(|all| all.threshold_for(all.samples / 5))
        .unwrap_or(f64::MAX);
    let times = times_above(maxima, level);
    let theta = order::extremal_index(&times).unwrap_or(0.0);
    let least = theta.min(around(&times, maxima.len()).unwrap_or(theta));
    (
        Some((theta, clusters::of_few(least * times.len() as f64, least))),
        "per block, for this workload and this configuration; clusters of high blocks counted once each",
    )
}

/// The answer from block maxima alone: `level` and `samples` then count blocks. `None` without maxima.
#[must_use]
pub fn analyse_maxima(about: &str, maxima: &[f64], request: &Request) -> Option<Answer> {
    let max = maxima.iter().copied().reduce(f64::max)?;
    let (level, note) = level_asked(request, maxima.len() as u64, "blocks");
    let n = maxima.len() as u64;
    let at = request.deadline.unwrap_or(max);
    let above = maxima.iter().filter(|v| **v > at).count() as u64;
    let kpss = order::kpss(maxima);
    let box_test = order::ljung_box(maxima, 10);
    let (theta, reason) = independence(maxima, box_test);
    let blocks = Activations { all: n, above, ..Activations::default() };
    let (all, late) = theta.map_or((n, above), |(_, lower)| model_free::for_limit(blocks, lower));
    let mut answer = Answer {
        format: FORMAT.to_owned(),
        version: VERSION,
        about: about.to_owned(),
        unit: "as given".to_owned(),
        observed: Observed {
            samples: n,
            effective_samples: theta.map(|(theta, _)| model_free::effective_samples(blocks, theta)),
            theta: theta.map(|(theta, _)| theta),
            theta_lower: theta.map(|(_, lower)| lower),
            max_ns: max,
            level_ns: at,
            above,
            probability_upper: model_free::upper_limit(all, late.min(all), request.confidence),
            confidence: request.confidence,
            reason: reason.to_owned(),
        },
        bound: PathBound::none("no path analysis: block maxima do not hold its terms"),
        extrapolated: Extrapolated::none(level),
        gates: vec![
            tested_or_not(
                "stationarity",
                kpss.map(|(_, p)| p),
                kpss.map_or(String::new(), |(k, _)| format!("KPSS {k:.3}")),
                "fewer than 10 block maxima, or all equal",
            ),
            tested_or_not(
                "independence",
                box_test.map(|(_, p)| p),
                box_test.map_or(String::new(), |(q, _)| format!("Ljung-Box(10) {q:.2}")),
                "fewer than 30 block maxima, or all equal",
            ),
            condition("size", n >= 50, format!("{} (50)", counted(n, "block"))),
        ],
        criteria: Vec::new(),
        gpd: None,
        gev: None,
        notes: note.into_iter().collect(),
    };
    match gev::fit(maxima) {
        Ok(fit) => with_fit(&mut answer, maxima, &fit, request),
        Err(why) => answer.gates.push(condition("fit", false, format!("no distribution fits: {why}"))),
    }
    conclude(&mut answer);
    Some(answer)
}

fn with_fit(answer: &mut Answer, maxima: &[f64], fit: &Fit, request: &Request) {
    let level = answer.extrapolated.level;
    let reach = 1.0 / (100.0 * maxima.len() as f64);
    let inside = level >= reach * 0.999_999 || request.beyond;
    answer.gates.push(condition(
        "reach",
        inside,
        format!("{level:.2e} per block; two decades beyond the data is {}", scientific_rounded_up(reach)),
    ));
    let is_regular = fit.xi > SHORTEST;
    let advice = if is_regular { "" } else { ": at -0.5 and below, the likelihood gives no limit" };
    answer.gates.push(condition("shape", is_regular, format!("xi {:.3}{advice}", fit.xi)));
    let (p, drawn) = super::goodness::bootstrap_maxima(maxima, fit, request.bootstrap.min(199));
    answer.gates.push(tested_or_not(
        "fit",
        (drawn > 0).then_some(p),
        format!("Anderson-Darling against {drawn} bootstrap samples"),
        "no bootstrap sample could be fitted",
    ));
    let upper = match is_regular {
        true => gev::interval(maxima, fit, Fixed::Level(level), request.printed()).1,
        false => None,
    };
    answer.gates.push(condition("upper limit", upper.is_some(), "of the profile likelihood".to_owned()));
    answer.extrapolated.value_ns = Some(fit.level(level));
    answer.extrapolated.upper_ns = upper;
    answer.gates.push(mechanisms::assumption(request.assume_no_new));
    answer.extrapolated.assumes = Some(mechanisms::ASSUMES.to_owned());
    answer.extrapolated.reason = format!("generalised extreme-value distribution of {} block maxima; upper limit of the profile likelihood at {} %", maxima.len(), model_free::percent(request.confidence));
    answer.gev = Some(described(maxima, fit, request));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_in_a_block_also_the_last_worst_one() {
        for n in (1..700).chain([9_999, 10_001]) {
            let mut values: Vec<f64> = (0..n).map(|at| f64::from(at % 7)).collect();
            values[n as usize - 1] = 1e6;
            let blocks = of(&Order::Values(values));
            assert_eq!(blocks.maxima.last(), Some(&1e6), "{n}");
            assert!(blocks.maxima.len() < 200 && blocks.maxima.len() >= (n as usize).min(100), "{n}");
            let all = blocks.samples_each * blocks.maxima.len() as f64;
            assert!((all - f64::from(n)).abs() < 1e-6, "{n}: {all}");
            assert!(n < 10 || blocks.drift().starts_with("; tenth 10 of"), "{n}: {}", blocks.drift());
        }
        assert!(of(&Order::Values(Vec::new())).maxima.is_empty());
    }

    #[test]
    fn block_maxima_without_a_profile_do_not_agree() {
        // Equal or nearly equal maxima have no density.
        let request = Request::default();
        for maxima in [vec![3.0; 80], (0..80).map(|at| if at == 40 { 9.0 } else { 3.0 }).collect()] {
            let blocks = Blocks { maxima, samples_each: 1_000.0 };
            let (gate, _) = blocks.agree(1.0, None, 1e-9, 1.0, &request);
            assert!(gate.is_some_and(|gate| !gate.passed));
        }
    }
}
