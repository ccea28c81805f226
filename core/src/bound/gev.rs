//! The generalised extreme-value distribution of block maxima: maximum likelihood and profile intervals.
//!
//! `G(z) = exp(-(1 + xi (z - mu) / sigma)^(-1/xi))` (Coles 2001, chapter 3; the sign of scipy's shape is the opposite).

use super::gev_likelihood::{curved, nllh, Curved};
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
        (-(-y * log_ratio(self.xi * y).0).exp()).exp()
    }
}

/// `ln(-ln(1 - p))`, also for the smallest `p`.
fn reduced(p: f64) -> f64 {
    (-f64::ln_1p(-p)).ln()
}

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

/// Why no distribution is fitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoFit {
    /// Below five.
    #[error("fewer than 5 maxima")]
    TooFew,
    /// They have no density.
    #[error("half of the maxima are equal")]
    Ties,
    /// From a shape of -1 downwards, the likelihood grows without limit.
    #[error("the likelihood has no maximum at a shape above -1: the maxima are densest at their largest values, as if larger ones were cut off")]
    Short,
    /// The search did not converge.
    #[error("the likelihood has no maximum")]
    NoOptimum,
}

/// The maximum-likelihood fit.
///
/// # Errors
/// Why there is none.
pub fn fit(maxima: &[f64]) -> Result<Fit, NoFit> {
    if maxima.len() < 5 {
        return Err(NoFit::TooFew);
    }
    let (middle, scale) = position(maxima).ok_or(NoFit::Ties)?;
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
    let found = starts.iter().take(3).filter_map(|start| near(maxima, (middle, scale), *start).ok());
    let best = found.min_by(|a, b| a.value.total_cmp(&b.value));
    let best = best.or_else(|| searched(maxima, (middle, scale), starts[0])).ok_or(NoFit::NoOptimum)?;
    as_fit((middle, scale), &best).ok_or(if best.at[2] < 0.0 { NoFit::Short } else { NoFit::NoOptimum })
}

/// [`fit`] from a start near the optimum: for bootstrap samples.
#[must_use]
pub fn fit_near(maxima: &[f64], start: &Fit) -> Option<Fit> {
    let units = (start.mu, start.sigma);
    let from = [0.0, 0.0, start.xi];
    let found = near(maxima, units, from).ok();
    as_fit(units, &found.or_else(|| searched(maxima, units, from))?)
}

/// The minimum near `x`, in units of `(place, scale)`; a point at the border of the search counts as one. Else the last point.
fn near(maxima: &[f64], (place, scale): (f64, f64), x: [f64; 3]) -> Result<Minimum<[f64; 3]>, [f64; 3]> {
    let at = |x: &[f64; 3]| curved(maxima, (place + scale * x[0], scale * x[1].exp(), x[2]), scale);
    newton(at, x).or_else(|stuck| match is_at_the_wall(stuck.at[2]) {
        true => Ok(stuck),
        false => Err(stuck.at),
    })
}

/// The same without derivatives.
fn searched(maxima: &[f64], (place, scale): (f64, f64), x: [f64; 3]) -> Option<Minimum<[f64; 3]>> {
    let of = |x: &[f64]| nllh(maxima, place + scale * x[0], scale * x[1].exp(), x[2]);
    let found = many(of, &x, &[0.3, 0.2, 0.1])?;
    Some(Minimum { at: [found.at[0], found.at[1], found.at[2]], value: found.value })
}

/// Whether a shape is at a border of the search, where the likelihood has no maximum.
fn is_at_the_wall(xi: f64) -> bool {
    !(-0.985..=7.9).contains(&xi)
}

/// `None` at a border of the search, where the likelihood has no maximum.
fn as_fit((place, scale): (f64, f64), best: &Minimum<[f64; 3]>) -> Option<Fit> {
    (!is_at_the_wall(best.at[2])).then(|| Fit {
        mu: place + scale * best.at[0],
        sigma: scale * best.at[1].exp(),
        xi: best.at[2],
        nllh: best.value,
    })
}

/// Second derivatives of parameters that are linear in the variables.
const STRAIGHT: [[[f64; 2]; 2]; 3] = [[[0.0; 2]; 2]; 3];

/// The maximum-likelihood Gumbel distribution (`xi = 0`).
#[must_use]
pub fn fit_gumbel(maxima: &[f64]) -> Option<Fit> {
    let (middle, scale) = position(maxima)?;
    let at = |x: &[f64; 2]| {
        let all = curved(maxima, (middle + scale * x[0], scale * x[1].exp(), 0.0), scale);
        all.along(&[[1.0, 0.0], [0.0, 1.0], [0.0; 2]], &STRAIGHT)
    };
    let of = |x: &[f64]| nllh(maxima, middle + scale * x[0], scale * x[1].exp(), 0.0);
    let found = newton(at, [-0.2, -0.4]).ok().or_else(|| {
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

/// A distribution with a fixed quantity, as a function of two variables: the one that changes the least with the fixed one,
/// so that the search along a profile has round contours.
struct Point {
    /// Location, scale and shape.
    of: (f64, f64, f64),
    /// Derivatives of location / scale of the fit, `ln` scale, and shape.
    slopes: [[f64; 2]; 3],
    bends: [[[f64; 2]; 2]; 3],
}

impl Fixed {
    /// Variables: `ln sigma` and shape; location and shape; location and `ln sigma`, relative to `fit`, in units of its scale.
    fn point(self, fit: &Fit, value: f64, x: &[f64; 2]) -> Point {
        let scale = fit.sigma;
        let linear = |of, slopes| Point { of, slopes, bends: STRAIGHT };
        let (mu, sigma) = (fit.mu + scale * x[0], scale * x[1].exp());
        match self {
            Fixed::Mu => linear((value, scale * x[0].exp(), x[1]), [[0.0; 2], [1.0, 0.0], [0.0, 1.0]]),
            Fixed::Sigma => linear((mu, value.exp(), x[1]), [[1.0, 0.0], [0.0; 2], [0.0, 1.0]]),
            Fixed::Xi => linear((mu, sigma, value), [[1.0, 0.0], [0.0, 1.0], [0.0; 2]]),
            // sigma = (value - mu) / growth
            Fixed::Level(p) if -reduced(p) > 1.0 => {
                let t = -reduced(p);
                let relative = |xi: f64| growth_slope(t, xi) / growth(t, xi);
                let part = scale / (value - mu);
                let mut bends = STRAIGHT;
                bends[1] = [[-part * part, 0.0], [0.0, -difference(relative, x[1])]];
                let slopes = [[1.0, 0.0], [-part, -relative(x[1])], [0.0, 1.0]];
                Point { of: (mu, (value - mu) / growth(t, x[1]), x[1]), slopes, bends }
            }
            // mu = value - sigma growth
            Fixed::Level(p) => {
                let t = -reduced(p);
                let (sigma, part) = (scale * x[0].exp(), x[0].exp());
                let (whole, slope) = (part * growth(t, x[1]), part * growth_slope(t, x[1]));
                let bend = part * difference(|xi| growth_slope(t, xi), x[1]);
                let mut bends = STRAIGHT;
                bends[0] = [[-whole, -slope], [-slope, -bend]];
                let slopes = [[-whole, -slope], [1.0, 0.0], [0.0, 1.0]];
                Point { of: (value - scale * whole, sigma, x[1]), slopes, bends }
            }
            // xi = -sigma / (value - mu)
            Fixed::Endpoint => {
                let (xi, part) = (-sigma / (value - mu), scale / (value - mu));
                let mut bends = STRAIGHT;
                bends[2] = [[2.0 * xi * part * part, xi * part], [xi * part, xi]];
                let slopes = [[1.0, 0.0], [0.0, 1.0], [xi * part, xi]];
                let xi = if value > mu { xi } else { f64::NAN };
                Point { of: (mu, sigma, xi), slopes, bends }
            }
        }
    }

    /// Variables of the fit.
    fn start(self, fit: &Fit) -> [f64; 2] {
        match self {
            Fixed::Xi | Fixed::Endpoint => [0.0, 0.0],
            Fixed::Mu | Fixed::Sigma | Fixed::Level(_) => [0.0, fit.xi],
        }
    }
}

/// The derivative of `f`, accurate to six digits.
fn difference(f: impl Fn(f64) -> f64, x: f64) -> f64 {
    const STEP: f64 = 1e-5;
    (f(x + STEP) - f(x - STEP)) / (2.0 * STEP)
}

/// Profile interval of one quantity: where twice the loss of log-likelihood reaches `q`. Only valid for a shape above
/// [`super::gpd::SHORTEST`]. Cost: some hundred passes over the maxima.
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
    let profile = || {
        let mut near = fixed.start(fit);
        move |value: f64| {
            let found = lowest(maxima, fit, (fixed, value), near);
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

/// The likeliest distribution with a fixed quantity: from the neighbour on the profile, else from a grid, else without
/// derivatives, which takes a hundred times as long.
fn lowest(
    maxima: &[f64],
    fit: &Fit,
    (fixed, value): (Fixed, f64),
    near: [f64; 2],
) -> Option<Minimum<[f64; 2]>> {
    let at = |x: &[f64; 2]| {
        let Point { of, slopes, bends } = fixed.point(fit, value, x);
        match curved(maxima, of, fit.sigma) {
            all if all.value.is_finite() => all.along(&slopes, &bends),
            _ => Curved::OUTSIDE,
        }
    };
    let of = |x: &[f64]| {
        let (mu, sigma, xi) = fixed.point(fit, value, &[x[0], x[1]]).of;
        nllh(maxima, mu, sigma, xi)
    };
    let first = newton(at, near);
    if let Ok(found) = first {
        return Some(found);
    }
    // The neighbour itself is impossible if the quantity moved further than the nearest maximum is from an end.
    let middle = match fixed {
        Fixed::Xi | Fixed::Endpoint => 0.0,
        Fixed::Mu | Fixed::Sigma | Fixed::Level(_) => 0.1,
    };
    let far = (0..=40).map(|i| [near[0].max(0.0), middle + 0.05 * f64::from(i - 20)]);
    let shifts = || (-6..=6).map(|i: i32| f64::from(i.signum()) * 5e-4 * 4f64.powi(i.abs() - 1));
    let close = shifts().flat_map(|a| shifts().map(move |b| [near[0] + a, near[1] + b]));
    let possible = close.chain(far).map(|x| (x, of(&x))).filter(|(_, value)| value.is_finite());
    let mut starts: Vec<([f64; 2], f64)> = possible.collect();
    starts.sort_by(|a, b| a.1.total_cmp(&b.1));
    let found = starts.iter().take(3).filter_map(|(x, _)| newton(at, *x).ok());
    let best = found.min_by(|a, b| a.value.total_cmp(&b.value));
    let stuck = first.err().map(|stuck| stuck.at).filter(|x| of(x).is_finite());
    best.or_else(|| {
        let start = stuck.or(starts.first().map(|(x, _)| *x))?;
        let found = many(of, &start, &[0.05, 0.05])?;
        Some(Minimum { at: [found.at[0], found.at[1]], value: found.value })
    })
}

#[cfg(test)]
mod tests {
    use super::super::random::Random;
    use super::*;

    fn maxima(n: usize, xi: f64, seed: u64) -> Vec<f64> {
        let mut random = Random::new(seed);
        (0..n).map(|_| 3.0 + 2.0 * growth(-random.exponential().ln(), xi)).collect()
    }

    /// The deviation of a heavy tail says nothing about its scale: a search that starts from it ends in another optimum.
    #[test]
    fn no_distribution_near_the_fit_nor_the_true_one_is_likelier_whatever_the_shape_and_the_unit() {
        for xi in [-0.4, -0.15, 0.0, 0.15, 0.5, 1.5, 3.0] {
            for (n, seed) in [(20, 1), (65, 2), (300, 3), (300, 4), (300, 5)] {
                for unit in [1e-9, 1.0, 1e12] {
                    let all: Vec<f64> = maxima(n, xi, seed).iter().map(|z| z * unit).collect();
                    let Ok(fit) = fit(&all) else {
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
