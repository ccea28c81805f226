//! The generalised extreme-value distribution of block maxima: maximum likelihood and profile intervals.
//!
//! `G(z) = exp(-(1 + xi (z - mu) / sigma)^(-1/xi))` (Coles 2001, chapter 3; the sign of scipy's shape is the opposite).

use super::gpd::{growth, growth_slope, log_ratio, Ends};
use super::minimise::{crossing, many, newton, Minimum};

/// A fitted distribution of block maxima.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// Location.
    pub mu: f64,
    /// Scale.
    pub sigma: f64,
    /// Shape.
    pub xi: f64,
    /// Negative log-likelihood.
    pub nllh: f64,
}

impl Fit {
    /// The level that the maximum of a block exceeds with probability `p`.
    #[must_use]
    pub fn level(&self, p: f64) -> f64 {
        self.mu + self.sigma * growth(-reduced(p), self.xi)
    }

    /// Probability that a block's maximum is at most `z`.
    #[must_use]
    pub fn below(&self, z: f64) -> f64 {
        let y = (z - self.mu) / self.sigma;
        if self.xi * y <= -1.0 {
            return if self.xi > 0.0 { 0.0 } else { 1.0 };
        }
        (-(-log_part(y, self.xi)).exp()).exp()
    }
}

/// `ln(-ln(1 - p))`, also for the smallest `p`.
fn reduced(p: f64) -> f64 {
    (-f64::ln_1p(-p)).ln()
}

/// `ln(1 + xi y) / xi`.
fn log_part(y: f64, xi: f64) -> f64 {
    let z = xi * y;
    if z.abs() < 1e-6 {
        y * (1.0 - z * (0.5 - z / 3.0))
    } else {
        z.ln_1p() / xi
    }
}

/// Negative log-likelihood of `maxima`.
#[must_use]
pub fn nllh(maxima: &[f64], mu: f64, sigma: f64, xi: f64) -> f64 {
    if !(sigma > 0.0 && sigma.is_finite() && mu.is_finite() && XI.contains(&xi)) {
        return f64::INFINITY;
    }
    let mut sum = maxima.len() as f64 * sigma.ln();
    for z in maxima {
        let y = (z - mu) / sigma;
        if xi * y <= -1.0 {
            return f64::INFINITY;
        }
        let log = log_part(y, xi);
        sum += (1.0 + xi) * log + (-log).exp();
    }
    if sum.is_nan() {
        f64::INFINITY
    } else {
        sum
    }
}

/// Value and gradient of [`nllh`] by `mu / scale`, `ln sigma` and `xi`.
fn slopes(maxima: &[f64], mu: f64, sigma: f64, xi: f64, scale: f64) -> (f64, [f64; 3]) {
    const OUTSIDE: (f64, [f64; 3]) = (f64::INFINITY, [f64::NAN; 3]);
    if !(sigma > 0.0 && sigma.is_finite() && mu.is_finite() && XI.contains(&xi)) {
        return OUTSIDE;
    }
    let n = maxima.len() as f64;
    let (mut sum, mut gradient) = (n * sigma.ln(), [0.0, n, 0.0]);
    for z in maxima {
        let y = (z - mu) / sigma;
        if xi * y <= -1.0 {
            return OUTSIDE;
        }
        let (ratio, slope) = log_ratio(xi * y);
        let log = y * ratio;
        let rest = (-log).exp();
        let by_log = 1.0 + xi - rest;
        let by_y = by_log / (1.0 + xi * y);
        sum += (1.0 + xi) * log + rest;
        gradient[0] -= by_y / sigma * scale;
        gradient[1] -= y * by_y;
        gradient[2] += log + by_log * y * y * slope;
    }
    if sum.is_nan() {
        OUTSIDE
    } else {
        (sum, gradient)
    }
}

/// Range of the search for the shape. Below -1 the likelihood has no maximum.
const XI: std::ops::Range<f64> = -0.99..8.0;
/// Shapes from which the search starts.
const SHAPES: [f64; 7] = [-0.4, -0.15, 0.1, 0.4, 0.9, 1.6, 3.0];

/// Median and interquartile range. `None` if half of the maxima are equal: they have no density.
fn position(maxima: &[f64]) -> Option<(f64, f64)> {
    let mut sorted = maxima.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |share: f64| sorted[((sorted.len() - 1) as f64 * share).round() as usize];
    let (middle, range) = (at(0.5), at(0.75) - at(0.25));
    (range > 0.0 && range.is_finite()).then_some((middle, range))
}

/// The maximum-likelihood fit. `None` below five maxima, if half of them are equal, or without an optimum.
#[must_use]
pub fn fit(maxima: &[f64]) -> Option<Fit> {
    let (middle, scale) = position(maxima).filter(|_| maxima.len() >= 5)?;
    // Of each shape, the distribution with these quartiles, moved until its support has all maxima; the best three are starts.
    let quartile = |share: f64, xi: f64| growth(-(-f64::ln(share)).ln(), xi);
    let (least, most) =
        maxima.iter().fold((f64::MAX, f64::MIN), |(least, most), z| (z.min(least), z.max(most)));
    let start = |xi: f64| {
        let sigma = scale / (quartile(0.75, xi) - quartile(0.25, xi));
        let mu = middle - sigma * quartile(0.5, xi);
        let mu = match xi {
            xi if xi > 0.0 => mu.min(least + sigma / xi - 0.01 * (middle - least)),
            xi if xi < 0.0 => mu.max(most + sigma / xi + 0.01 * (most - middle)),
            _ => mu,
        };
        [(mu - middle) / scale, (sigma / scale).ln(), xi]
    };
    let of = |x: &[f64]| nllh(maxima, middle + scale * x[0], scale * x[1].exp(), x[2]);
    let mut starts: Vec<[f64; 3]> = SHAPES.into_iter().chain([0.0]).map(start).collect();
    starts.sort_by(|a, b| of(a).total_cmp(&of(b)));
    let found = starts.iter().take(3).filter_map(|start| best_near(maxima, (middle, scale), *start));
    let best = found.min_by(|a, b| a.value.total_cmp(&b.value))?;
    as_fit((middle, scale), &best)
}

/// [`fit`] from a start near the optimum: for bootstrap samples.
#[must_use]
pub fn fit_near(maxima: &[f64], start: &Fit) -> Option<Fit> {
    let found = best_near(maxima, (start.mu, start.sigma), [0.0, 0.0, start.xi])?;
    as_fit((start.mu, start.sigma), &found)
}

/// The minimum near `x`, in units of `(place, scale)`: by Newton's method, or without derivatives.
fn best_near(maxima: &[f64], (place, scale): (f64, f64), x: [f64; 3]) -> Option<Minimum<[f64; 3]>> {
    let with_slopes = |x: &[f64; 3]| slopes(maxima, place + scale * x[0], scale * x[1].exp(), x[2], scale);
    let flat = FLAT * maxima.len() as f64;
    newton(with_slopes, x, flat).or_else(|| {
        let of = |x: &[f64]| nllh(maxima, place + scale * x[0], scale * x[1].exp(), x[2]);
        let found = many(of, &x, &[0.3, 0.2, 0.1])?;
        Some(Minimum { at: [found.at[0], found.at[1], found.at[2]], value: found.value })
    })
}

/// Largest slope per maximum at an optimum.
const FLAT: f64 = 1e-7;

/// `None` at a border of the search, where the likelihood has no maximum.
fn as_fit((place, scale): (f64, f64), best: &Minimum<[f64; 3]>) -> Option<Fit> {
    let at_the_wall = best.at[2] < -0.985 || best.at[2] > 7.9;
    (!at_the_wall).then(|| Fit {
        mu: place + scale * best.at[0],
        sigma: scale * best.at[1].exp(),
        xi: best.at[2],
        nllh: best.value,
    })
}

/// The maximum-likelihood Gumbel distribution (`xi = 0`).
#[must_use]
pub fn fit_gumbel(maxima: &[f64]) -> Option<Fit> {
    let (middle, scale) = position(maxima)?;
    let with_slopes = |x: &[f64; 2]| {
        let (value, all) = slopes(maxima, middle + scale * x[0], scale * x[1].exp(), 0.0, scale);
        (value, [all[0], all[1]])
    };
    let of = |x: &[f64]| nllh(maxima, middle + scale * x[0], scale * x[1].exp(), 0.0);
    let found = newton(with_slopes, [-0.2, -0.4], FLAT * maxima.len() as f64).or_else(|| {
        let found = many(of, &[-0.2, -0.4], &[0.3, 0.2])?;
        Some(Minimum { at: [found.at[0], found.at[1]], value: found.value })
    })?;
    let (mu, sigma) = (middle + scale * found.at[0], scale * found.at[1].exp());
    Some(Fit { mu, sigma, xi: 0.0, nllh: found.value })
}

/// The quantity that a profile keeps fixed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fixed {
    /// The location.
    Mu,
    /// The scale.
    Sigma,
    /// The shape.
    Xi,
    /// The level that a block exceeds with this probability.
    Level(f64),
    /// The end of the tail, if it has one.
    Endpoint,
}

/// Profile interval of one quantity: where twice the loss of log-likelihood reaches `q`.
#[must_use]
pub fn interval(maxima: &[f64], fit: &Fit, fixed: Fixed, q: f64) -> Ends {
    let limit = fit.nllh + 0.5 * q;
    let scale = fit.sigma;
    let from = match fixed {
        Fixed::Mu => fit.mu,
        Fixed::Sigma => fit.sigma.ln(),
        Fixed::Xi => fit.xi,
        Fixed::Level(p) => fit.level(p),
        Fixed::Endpoint if fit.xi < 0.0 => fit.mu - fit.sigma / fit.xi,
        Fixed::Endpoint => return (None, None),
    };
    // The two other parameters, in units of the scale.
    let parameters = |value: f64, x: &[f64]| match fixed {
        Fixed::Mu => (value, scale * x[0].exp(), x[1]),
        Fixed::Sigma => (fit.mu + scale * x[0], value.exp(), x[1]),
        Fixed::Xi => (fit.mu + scale * x[0], scale * x[1].exp(), value),
        Fixed::Level(p) => {
            let sigma = scale * x[0].exp();
            (value - sigma * growth(-reduced(p), x[1]), sigma, x[1])
        }
        Fixed::Endpoint if x[1] < 0.0 => (value + scale * x[0].exp() / x[1], scale * x[0].exp(), x[1]),
        Fixed::Endpoint => (f64::NAN, f64::NAN, x[1]),
    };
    let of = |value: f64, x: &[f64]| {
        let (mu, sigma, xi) = parameters(value, x);
        nllh(maxima, mu, sigma, xi)
    };
    let with_slopes = |value: f64, x: &[f64; 2]| {
        let (mu, sigma, xi) = parameters(value, x);
        let (sum, [by_mu, by_sigma, by_xi]) = slopes(maxima, mu, sigma, xi, scale);
        let part = sigma / scale;
        let gradient = match fixed {
            Fixed::Mu => [by_sigma, by_xi],
            Fixed::Sigma => [by_mu, by_xi],
            Fixed::Xi => [by_mu, by_sigma],
            Fixed::Level(p) => [
                by_sigma - by_mu * part * growth(-reduced(p), xi),
                by_xi - by_mu * part * growth_slope(-reduced(p), xi),
            ],
            Fixed::Endpoint => [by_sigma + by_mu * part / xi, by_xi - by_mu * part / (xi * xi)],
        };
        (sum, gradient)
    };
    let start = match fixed {
        Fixed::Xi => [0.0, 0.0],
        Fixed::Mu | Fixed::Sigma | Fixed::Level(_) | Fixed::Endpoint => [0.0, fit.xi],
    };
    let profile = || {
        let mut near = start;
        move |value: f64| {
            let settled = |x: [f64; 2]| {
                newton(|x| with_slopes(value, x), x, FLAT * maxima.len() as f64).or_else(|| {
                    let found = many(|x| of(value, x), &x, &[0.05, 0.05])?;
                    Some(Minimum { at: [found.at[0], found.at[1]], value: found.value })
                })
            };
            let mut found = settled(near);
            if found.is_none() {
                let grid = (0..=40).map(|i| [near[0].max(0.0), -0.9 + 0.05 * f64::from(i)]);
                found = grid.filter_map(settled).min_by(|a, b| a.value.total_cmp(&b.value));
            }
            found.map_or(f64::INFINITY, |found| {
                near = found.at;
                found.value
            })
        }
    };
    let step = match fixed {
        Fixed::Sigma | Fixed::Xi => 0.02,
        Fixed::Mu => 0.05 * scale,
        Fixed::Level(_) | Fixed::Endpoint => 0.05 * (from - fit.mu).abs().max(scale),
    };
    let end = |step: f64| crossing(profile(), from, step, limit, 60);
    // If the likelihood allows a shape of 0 the tail may have no end: the search outwards would not terminate.
    let endless = fixed == Fixed::Endpoint && fit_gumbel(maxima).is_none_or(|gumbel| gumbel.nllh <= limit);
    let (low, high) = (end(-step), if endless { None } else { end(step) });
    match fixed {
        Fixed::Sigma => (low.map(f64::exp), high.map(f64::exp)),
        _ => (low, high),
    }
}

#[cfg(test)]
mod tests {
    use super::super::random::Random;
    use super::*;

    fn maxima(n: usize, xi: f64, seed: u64) -> Vec<f64> {
        let mut random = Random::new(seed);
        (0..n).map(|_| 3.0 + 2.0 * growth(-random.exponential().ln(), xi)).collect()
    }

    #[test]
    fn slopes_are_the_differences_of_the_likelihood() {
        let all = maxima(40, 0.2, 1);
        for (mu, sigma, xi) in [(3.0, 2.0, 0.2), (2.5, 3.0, 0.0), (3.0, 2.0, 1e-5), (2.0, 4.0, 0.9)] {
            let (value, gradient) = slopes(&all, mu, sigma, xi, 1.0);
            assert!((value - nllh(&all, mu, sigma, xi)).abs() < 1e-9 * value.abs());
            let h = 1e-6;
            let at = |a: f64, b: f64, c: f64| nllh(&all, mu + a * h, sigma * (b * h).exp(), xi + c * h);
            let by = [
                at(1.0, 0.0, 0.0) - at(-1.0, 0.0, 0.0),
                at(0.0, 1.0, 0.0) - at(0.0, -1.0, 0.0),
                at(0.0, 0.0, 1.0) - at(0.0, 0.0, -1.0),
            ];
            for (exact, difference) in gradient.iter().zip(by) {
                assert!(
                    (exact - difference / (2.0 * h)).abs() < 1e-4 * (1.0 + exact.abs()),
                    "{xi}: {gradient:?}"
                );
            }
        }
    }

    /// The deviation of a heavy tail says nothing about its scale: a search that starts from it ends in another optimum.
    #[test]
    fn no_distribution_near_the_fit_nor_the_true_one_is_likelier_whatever_the_shape_and_the_unit() {
        for xi in [-0.4, -0.15, 0.0, 0.15, 0.5, 1.5, 3.0] {
            for (n, seed) in [(20, 1), (65, 2), (300, 3), (300, 4), (300, 5)] {
                for unit in [1e-9, 1.0, 1e12] {
                    let all: Vec<f64> = maxima(n, xi, seed).iter().map(|z| z * unit).collect();
                    let Some(fit) = fit(&all) else {
                        assert!(n == 20, "{xi} {n}: no fit");
                        continue;
                    };
                    let likelier = fit.nllh - nllh(&all, 3.0 * unit, 2.0 * unit, xi);
                    assert!(likelier < 1e-6, "{xi} {n} {unit}: {fit:?} is worse by {likelier}");
                    for step in [-1e-3, 1e-3] {
                        for one in [
                            nllh(&all, fit.mu + step * fit.sigma, fit.sigma, fit.xi),
                            nllh(&all, fit.mu, fit.sigma * (1.0 + step), fit.xi),
                            nllh(&all, fit.mu, fit.sigma, fit.xi + step),
                        ] {
                            assert!(one > fit.nllh, "{xi} {n} {unit}: {fit:?}");
                        }
                    }
                }
            }
        }
    }
}
