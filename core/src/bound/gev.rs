//! The generalised extreme-value distribution of block maxima: maximum likelihood and profile intervals.
//!
//! `G(z) = exp(-(1 + xi (z - mu) / sigma)^(-1/xi))` (Coles 2001, chapter 3; the sign of scipy's shape is the opposite).

use super::gpd::{growth, Ends};
use super::minimise::{crossing, many};

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
    if !(sigma > 0.0 && sigma.is_finite() && mu.is_finite() && (-0.99..8.0).contains(&xi)) {
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

/// Location and scale of a Gumbel distribution with the mean and deviation of `maxima`.
fn moments(maxima: &[f64]) -> Option<(f64, f64)> {
    let n = maxima.len() as f64;
    let mean = maxima.iter().sum::<f64>() / n;
    let deviation = (maxima.iter().map(|z| (z - mean).powi(2)).sum::<f64>() / n).sqrt();
    let sigma = deviation * 6f64.sqrt() / std::f64::consts::PI;
    (sigma > 0.0 && sigma.is_finite()).then_some((mean - 0.577_215_664_9 * sigma, sigma))
}

/// The maximum-likelihood fit. `None` below five maxima, if all are equal, or without an optimum.
#[must_use]
pub fn fit(maxima: &[f64]) -> Option<Fit> {
    let (mu, sigma) = moments(maxima).filter(|_| maxima.len() >= 5)?;
    // In units of the scale, so that one tolerance suits every unit of measurement.
    let of = |x: &[f64]| nllh(maxima, mu + sigma * x[0], sigma * x[1].exp(), x[2]);
    let start = [[0.0, 0.0, 0.0], [0.0, 0.0, 0.1], [0.0, 0.2, -0.2]];
    let found = start.iter().filter_map(|start| many(of, start, &[0.3, 0.2, 0.1]));
    let best = found.min_by(|a, b| a.value.total_cmp(&b.value))?;
    let at_the_wall = best.at[2] < -0.985 || best.at[2] > 7.9;
    (!at_the_wall).then(|| Fit {
        mu: mu + sigma * best.at[0],
        sigma: sigma * best.at[1].exp(),
        xi: best.at[2],
        nllh: best.value,
    })
}

/// The maximum-likelihood Gumbel distribution (`xi = 0`).
#[must_use]
pub fn fit_gumbel(maxima: &[f64]) -> Option<Fit> {
    let (mu, sigma) = moments(maxima)?;
    let found = many(|x| nllh(maxima, mu + sigma * x[0], sigma * x[1].exp(), 0.0), &[0.0, 0.0], &[0.3, 0.2])?;
    Some(Fit { mu: mu + sigma * found.at[0], sigma: sigma * found.at[1].exp(), xi: 0.0, nllh: found.value })
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
    let of = |value: f64, x: &[f64]| match fixed {
        Fixed::Mu => nllh(maxima, value, scale * x[0].exp(), x[1]),
        Fixed::Sigma => nllh(maxima, fit.mu + scale * x[0], value.exp(), x[1]),
        Fixed::Xi => nllh(maxima, fit.mu + scale * x[0], scale * x[1].exp(), value),
        Fixed::Level(p) => {
            let sigma = scale * x[0].exp();
            nllh(maxima, value - sigma * growth(-reduced(p), x[1]), sigma, x[1])
        }
        Fixed::Endpoint if x[1] < 0.0 => {
            nllh(maxima, value + scale * x[0].exp() / x[1], scale * x[0].exp(), x[1])
        }
        Fixed::Endpoint => f64::INFINITY,
    };
    let start = match fixed {
        Fixed::Xi => [0.0, 0.0],
        Fixed::Mu | Fixed::Sigma | Fixed::Level(_) | Fixed::Endpoint => [0.0, fit.xi],
    };
    let profile = || {
        let mut near = start.to_vec();
        move |value: f64| {
            let mut found = many(|x| of(value, x), &near, &[0.05, 0.05]);
            if found.is_none() {
                let grid = (0..=40).map(|i| [near[0].max(0.0), -0.9 + 0.05 * f64::from(i)]);
                found = grid
                    .filter_map(|x| many(|x| of(value, x), &x, &[0.05, 0.05]))
                    .min_by(|a, b| a.value.total_cmp(&b.value));
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
