//! Data of the plots of a tail: exceedance of each level, and diagnostics of the fit.
//!
//! Coles, An Introduction to Statistical Modeling of Extreme Values (2001), chapter 4: mean residual life, parameter
//! stability, quantile plot and return levels. All values are in the unit of the samples.

use super::analyse::{Input, Order, Request};
use super::answer::Answer;
use super::exceedances::Tail;
use super::gpd::{self, Fit};
use super::limit::limit;
use super::observed::index;
use super::random::Random;
use super::tail::{total, Cell, Distribution};

/// Points of the fitted tail.
const LEVELS: u32 = 40;
/// Thresholds of the mean residual life and of the parameter stability.
const THRESHOLDS: u32 = 20;
/// Minimum number of exceedances of a threshold.
const FEWEST: u64 = 20;
/// Points of the quantile plot.
const QUANTILES: usize = 60;
/// Number of the largest samples that each are a point.
const LARGEST: usize = 15;
/// Simulated samples of its envelope: the second smallest and second largest of 79 enclose 95 %.
const SIMULATED: usize = 79;

/// Data of all plots of one answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curves {
    /// Level, and share of the samples above it, descending.
    pub observed: Vec<(f64, f64)>,
    /// The fitted tail; beyond the samples only if every gate passed.
    pub fitted: Vec<Level>,
    /// Threshold, mean of the excesses over it, and the two-sided 95 % interval of that mean.
    pub mean_excess: Vec<Estimate>,
    /// Threshold, shape of the tail over it, and its profile interval at the requested confidence.
    pub shape: Vec<Estimate>,
    /// Quantiles of the fitted tail and of the samples, with the simulated envelope of the fit.
    pub quantiles: Vec<Estimate>,
    /// Maximum of each stretch, in time order; empty if the order is not known.
    pub in_time: Vec<f64>,
    /// Threshold of the fitted tail.
    pub threshold: Option<f64>,
}

/// One level of the fitted tail.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// Probability that one sample exceeds it.
    pub probability: f64,
    /// The maximum-likelihood estimate.
    pub value: f64,
    /// Lower end of its profile interval.
    pub lower: Option<f64>,
    /// The upper limit, as in the answer: the largest over a range of thresholds.
    pub upper: Option<f64>,
}

/// A value at one position of the horizontal axis, with an interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Position on the horizontal axis.
    pub at: f64,
    /// The estimate.
    pub value: f64,
    /// Lower end of its interval.
    pub lower: Option<f64>,
    /// Upper end.
    pub upper: Option<f64>,
}

impl Curves {
    /// The plots of `answer`, which [`super::analyse::analyse`] computed from `input`. Takes as long as the analysis.
    #[must_use]
    pub fn of(input: &Input, request: &Request, answer: &Answer) -> Curves {
        let all = &input.distribution;
        let in_time = match &input.order {
            Order::Values(values) | Order::Maxima { values, .. } => values.clone(),
            Order::Unknown(_) => Vec::new(),
        };
        let mut curves = Curves {
            observed: observed(all),
            mean_excess: thresholds(all).into_iter().filter_map(|u| mean_excess(all, u)).collect(),
            shape: thresholds(all).into_iter().filter_map(|u| shape(all, u, request)).collect(),
            in_time,
            ..Curves::default()
        };
        let threshold = answer.gpd.as_ref().map(|gpd| gpd.threshold);
        let tail = threshold.and_then(|u| Tail::of(input, u, index(input, threshold)));
        if let Some(tail) = tail.filter(|tail| !tail.short) {
            let last = match answer.extrapolated.value_ns {
                Some(_) => answer.extrapolated.level,
                None => 1.0 / all.samples as f64,
            };
            curves.fitted = fitted(&tail, last, request);
            curves.quantiles = quantiles(&tail);
            curves.threshold = Some(tail.threshold);
        }
        curves
    }
}

/// Share of the samples at or above the lower edge of each class.
fn observed(all: &Distribution) -> Vec<(f64, f64)> {
    let mut above = all.samples;
    let mut shares = Vec::with_capacity(all.cells.len());
    for cell in &all.cells {
        shares.push((cell.lo, above as f64 / all.samples as f64));
        above -= cell.count;
    }
    shares
}

fn thresholds(all: &Distribution) -> Vec<f64> {
    let most = (all.samples / 10).max(FEWEST);
    let step = (FEWEST as f64 / most as f64).powf(1.0 / f64::from(THRESHOLDS - 1));
    let wanted = (0..THRESHOLDS).map(|i| (most as f64 * step.powi(i as i32)).round() as u64);
    let mut found: Vec<f64> = wanted.filter_map(|n| all.threshold_for(n)).collect();
    found.dedup();
    found
}

fn mean_excess(all: &Distribution, threshold: f64) -> Option<Estimate> {
    let cells = all.excesses(threshold);
    let n = total(&cells);
    if n < FEWEST {
        return None;
    }
    let sum = |f: &dyn Fn(f64) -> f64| cells.iter().map(|c| f(c.middle()) * c.count as f64).sum::<f64>();
    let mean = sum(&|y| y) / n as f64;
    let deviation = (sum(&|y| (y - mean).powi(2)) / (n - 1) as f64).sqrt();
    let half = 1.96 * deviation / (n as f64).sqrt();
    Some(Estimate { at: threshold, value: mean, lower: Some(mean - half), upper: Some(mean + half) })
}

fn shape(all: &Distribution, threshold: f64, request: &Request) -> Option<Estimate> {
    let cells = all.excesses(threshold);
    let fit = gpd::fit(&cells).filter(|_| total(&cells) >= FEWEST)?;
    let (lower, upper) = gpd::xi_interval(&cells, &fit, request.two_sided());
    Some(Estimate { at: threshold, value: fit.xi, lower, upper })
}

/// From the threshold to `last`, equally spaced in the logarithm of the probability.
fn fitted(tail: &Tail, last: f64, request: &Request) -> Vec<Level> {
    let step = (last / tail.zeta).powf(1.0 / f64::from(LEVELS));
    (1..=LEVELS)
        .map(|i| tail.zeta * step.powi(i as i32))
        .map(|probability| level(tail, probability, request))
        .collect()
}

fn level(tail: &Tail, probability: f64, request: &Request) -> Level {
    let t = (tail.zeta / probability).ln();
    let found = limit(tail, probability, request);
    let (lower, _) = gpd::level_interval(&tail.cells, &tail.fit, t, request.printed());
    Level { probability, value: found.value, lower: lower.map(|y| tail.threshold + y), upper: found.upper }
}

/// At equally spaced ranks, and at each of the largest, which matter most.
fn quantiles(tail: &Tail) -> Vec<Estimate> {
    let sorted = ascending(&tail.cells);
    let n = sorted.len();
    if n < 2 {
        return Vec::new();
    }
    let picked = QUANTILES.min(n);
    let mut ranks: Vec<usize> = (1..=picked).map(|i| i * n / picked - 1).collect();
    ranks.extend(n.saturating_sub(LARGEST)..n);
    ranks.sort_unstable();
    ranks.dedup();
    let envelope = envelope(&tail.fit, n, &ranks);
    let place = |rank: usize| 1.0 - (rank as f64 + 0.5) / n as f64;
    ranks
        .iter()
        .zip(envelope)
        .map(|(&rank, (low, high))| Estimate {
            at: tail.threshold + tail.fit.quantile(place(rank)),
            value: tail.threshold + sorted[rank],
            lower: Some(tail.threshold + low),
            upper: Some(tail.threshold + high),
        })
        .collect()
}

/// At most 2000 values at equally spaced ranks, each the middle of its class.
fn ascending(cells: &[Cell]) -> Vec<f64> {
    const MOST: u64 = 2_000;
    let n = total(cells);
    let kept = n.min(MOST);
    let (mut passed, mut at) = (0, 0);
    let mut sorted = Vec::with_capacity(kept as usize);
    for i in 1..=kept {
        let rank = u64::try_from(u128::from(i) * u128::from(n) / u128::from(kept)).unwrap_or(n);
        while passed + cells[at].count < rank {
            passed += cells[at].count;
            at += 1;
        }
        sorted.push(cells[at].middle());
    }
    sorted
}

/// Simulated interval of `n` excesses of `fit` at each of `ranks`.
fn envelope(fit: &Fit, n: usize, ranks: &[usize]) -> Vec<(f64, f64)> {
    let mut random = Random::new(0x5151_656e_7665_6c6f);
    let mut drawn: Vec<Vec<f64>> = vec![Vec::with_capacity(SIMULATED); ranks.len()];
    for _ in 0..SIMULATED {
        let mut sample: Vec<f64> = (0..n).map(|_| fit.quantile(random.uniform())).collect();
        sample.sort_by(f64::total_cmp);
        ranks.iter().zip(&mut drawn).for_each(|(&rank, at)| at.push(sample[rank]));
    }
    let ends = |mut at: Vec<f64>| {
        at.sort_by(f64::total_cmp);
        (at[1], at[at.len() - 2])
    };
    drawn.into_iter().map(ends).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bound::analyse::analyse;
    use crate::bound::tail::Rounding;

    /// Exponential samples of mean 10, whose tail is known everywhere.
    fn exponential(samples: usize) -> Input {
        let mut random = Random::new(7);
        let values: Vec<f64> = (0..samples).map(|_| 10.0 * random.exponential()).collect();
        Input::new(
            "as given",
            Distribution::of_values(&values, Rounding::Exact).unwrap(),
            Order::Values(values),
        )
    }

    #[test]
    fn the_curves_show_what_is_known_of_an_exponential_tail_and_what_the_answer_says() {
        let input = exponential(6_000);
        let request = Request { bootstrap: 99, assume_no_new: true, ..Request::default() };
        let answer = analyse(&input, &request);
        let curves = Curves::of(&input, &request, &answer);
        assert_eq!(curves.observed.first().map(|one| one.1), Some(1.0));
        assert_eq!(curves.observed.last().copied(), Some((input.distribution.max, 1.0 / 6_000.0)));
        assert!(curves.observed.windows(2).all(|pair| pair[0].1 > pair[1].1));
        let inside = |one: &&Estimate, truth: f64| {
            one.lower.is_none_or(|low| low <= truth) && one.upper.is_none_or(|high| high >= truth)
        };
        let covered = |all: &[Estimate], truth: f64| all.iter().filter(|one| inside(one, truth)).count();
        // Memory-less: the mean excess is 10 and the shape 0 over every threshold.
        assert!(covered(&curves.mean_excess, 10.0) * 10 >= curves.mean_excess.len() * 8, "{curves:?}");
        assert!(covered(&curves.shape, 0.0) * 10 >= curves.shape.len() * 8, "{:?}", curves.shape);
        let fits = curves.quantiles.iter().filter(|one| inside(one, one.value)).count();
        assert!(fits * 10 >= curves.quantiles.len() * 8, "{:?}", curves.quantiles);
        let last = curves.fitted.last().unwrap();
        if let Some(value) = answer.extrapolated.value_ns {
            let same = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-9;
            assert!(same(last.value, value), "the curve ends at the number printed");
            let upper = last.upper.zip(answer.extrapolated.upper_ns);
            assert!(upper.is_some_and(|(drawn, printed)| same(drawn, printed)), "{upper:?}");
        }
        assert!(curves.fitted.windows(2).all(|pair| pair[0].value < pair[1].value));
    }

    #[test]
    fn where_a_gate_refuses_the_curve_ends_with_the_samples() {
        let mut input = exponential(4_000);
        input.unknown = 1; // a lost sample: nothing may be extrapolated
        let request = Request { bootstrap: 99, assume_no_new: true, ..Request::default() };
        let answer = analyse(&input, &request);
        assert_eq!(answer.extrapolated.value_ns, None);
        let last = *Curves::of(&input, &request, &answer).fitted.last().unwrap();
        assert!((last.probability * 4_000.0 - 1.0).abs() < 0.2, "{last:?}");
    }

    #[test]
    fn few_or_equal_samples_give_no_picture_and_no_panic() {
        for values in [vec![1.0], vec![3.0; 500], vec![0.0, 1.0]] {
            let input = Input {
                distribution: Distribution::of_values(&values, Rounding::Exact).unwrap(),
                order: Order::Values(values),
                ..exponential(2)
            };
            let answer = analyse(&input, &Request::default());
            let curves = Curves::of(&input, &Request::default(), &answer);
            assert!(curves.fitted.iter().all(|level| level.value.is_finite()));
            assert!(!curves.observed.is_empty());
        }
    }
}
