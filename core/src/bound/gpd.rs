//! The generalised Pareto distribution over a threshold: maximum likelihood, from exact excesses or from classes.
//!
//! `S(y) = (1 + xi y / sigma)^(-1/xi)`, and `exp(-y / sigma)` for `xi = 0`. A class contributes `ln(S(lo) - S(hi))`, an
//! exact excess its density, a right-censored one `ln S(lo)` (Coles, An Introduction to Statistical Modeling of Extreme
//! Values, 2001, chapter 4). Intervals are from the profile likelihood: those from the covariance have too little
//! coverage, because the likelihood of a level is skewed.
//!
//! The optimum is found by Newton's method with an exact gradient in `(ln sigma, xi)`; if that does not converge, by a
//! search over `xi` with the best `sigma` for each.

use super::minimise::{crossing, one};
use super::tail::{total, Cell};

/// A fitted tail.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// Scale.
    pub sigma: f64,
    /// Shape: below 0 the tail has an end, above 0 it decays as a power.
    pub xi: f64,
    /// Negative log-likelihood at the optimum.
    pub nllh: f64,
}

impl Fit {
    /// Probability that an excess is above `y`.
    #[must_use]
    pub fn survival(&self, y: f64) -> f64 {
        ln_survival(y / self.sigma, self.xi).exp()
    }

    /// The excess that is exceeded with probability `s`.
    #[must_use]
    pub fn quantile(&self, s: f64) -> f64 {
        self.sigma * growth(-s.ln(), self.xi)
    }
}

/// `(e^(xi t) - 1) / xi`: the excess, in units of sigma, `t` e-foldings out.
#[must_use]
pub fn growth(t: f64, xi: f64) -> f64 {
    let z = xi * t;
    if z.abs() < 1e-9 {
        t * (1.0 + 0.5 * z)
    } else {
        z.exp_m1() / xi
    }
}

/// The derivative of [`growth`] by `xi`.
pub(super) fn growth_slope(t: f64, xi: f64) -> f64 {
    let z = xi * t;
    if z.abs() < 1e-4 {
        t * t * (0.5 + z * (1.0 / 3.0 + z * (0.125 + z / 30.0)))
    } else {
        (t * z.exp() - growth(t, xi)) / xi
    }
}

/// `ln(1 + z) / z`, and its derivative.
pub(super) fn log_ratio(z: f64) -> (f64, f64) {
    if z.abs() < 1e-4 {
        let value = 1.0 - z * (0.5 - z * (1.0 / 3.0 - z * (0.25 - z * 0.2)));
        return (value, -0.5 + z * (2.0 / 3.0 - z * (0.75 - z * 0.8)));
    }
    let value = z.ln_1p() / z;
    (value, (1.0 / (1.0 + z) - value) / z)
}

/// `ln S` at `w = y / sigma`; minus infinity at and beyond the end of the tail.
fn ln_survival(w: f64, xi: f64) -> f64 {
    let z = xi * w;
    if z <= -1.0 || w == f64::INFINITY {
        return f64::NEG_INFINITY;
    }
    -w * log_ratio(z).0
}

/// `ln S` with its derivatives by `ln sigma` and by `xi`.
fn ln_survival_slopes(w: f64, xi: f64) -> (f64, [f64; 2]) {
    let z = xi * w;
    if z <= -1.0 || w == f64::INFINITY {
        return (f64::NEG_INFINITY, [0.0; 2]);
    }
    let (value, slope) = log_ratio(z);
    (-w * value, [w / (1.0 + z), -w * w * slope])
}

/// Negative log-likelihood of `cells` (excesses); infinite if one of them is impossible.
#[must_use]
pub fn nllh(cells: &[Cell], sigma: f64, xi: f64) -> f64 {
    if !(sigma > 0.0 && sigma.is_finite() && xi.is_finite()) {
        return f64::INFINITY;
    }
    let (mut sum, mut edge) = (0.0, (f64::NAN, 0.0));
    for cell in cells {
        let at_lo = if cell.lo == edge.0 { edge.1 } else { ln_survival(cell.lo / sigma, xi) };
        if at_lo == f64::NEG_INFINITY {
            return f64::INFINITY;
        }
        let one = if cell.is_exact() {
            (1.0 + xi) * at_lo - sigma.ln()
        } else {
            let at_hi = ln_survival(cell.hi / sigma, xi);
            edge = (cell.hi, at_hi);
            at_lo + (-f64::exp_m1(at_hi - at_lo)).ln()
        };
        sum -= cell.count as f64 * one;
    }
    if sum.is_nan() {
        f64::INFINITY
    } else {
        sum
    }
}

/// Value and gradient of [`nllh`] by `(ln sigma, xi)`.
fn slopes(cells: &[Cell], tau: f64, xi: f64) -> (f64, [f64; 2]) {
    let scale = (-tau).exp();
    let (mut sum, mut gradient) = (0.0, [0.0; 2]);
    let mut edge = (f64::NAN, 0.0, [0.0; 2]);
    for cell in cells {
        let (at_lo, by_lo) =
            if cell.lo == edge.0 { (edge.1, edge.2) } else { ln_survival_slopes(cell.lo * scale, xi) };
        if at_lo == f64::NEG_INFINITY {
            return (f64::INFINITY, [f64::NAN; 2]);
        }
        let n = cell.count as f64;
        if cell.is_exact() {
            sum -= n * ((1.0 + xi) * at_lo - tau);
            gradient[0] -= n * ((1.0 + xi) * by_lo[0] - 1.0);
            gradient[1] -= n * ((1.0 + xi) * by_lo[1] + at_lo);
        } else {
            let (at_hi, by_hi) = ln_survival_slopes(cell.hi * scale, xi);
            edge = (cell.hi, at_hi, by_hi);
            let below = -f64::exp_m1(at_hi - at_lo); // 1 - S(hi)/S(lo)
            let ratio = (at_hi - at_lo).exp() / below;
            sum -= n * (at_lo + below.ln());
            for i in 0..2 {
                gradient[i] -= n * (by_lo[i] + ratio * (by_lo[i] - by_hi[i]));
            }
        }
    }
    (sum, gradient)
}

/// Range of the search for the shape. Below -1 the likelihood of exact values has no maximum.
const XI: std::ops::Range<f64> = -0.99..8.0;

/// The maximum-likelihood fit. `None` without two different excesses, or without an optimum.
#[must_use]
pub fn fit(cells: &[Cell]) -> Option<Fit> {
    if cells.len() < 2 {
        return None; // all samples equal: any narrow tail fits
    }
    let (sigma, xi) = moments(cells)?;
    newton(cells, sigma.ln(), xi).or_else(|| search(cells, sigma))
}

/// [`fit`] from a start near the optimum, or from the moments, without the slow search: for bootstrap samples.
#[must_use]
pub fn fit_near(cells: &[Cell], start: &Fit) -> Option<Fit> {
    if cells.len() < 2 {
        return None;
    }
    let by_moments = || moments(cells).and_then(|(sigma, xi)| newton(cells, sigma.ln(), xi));
    newton(cells, start.sigma.ln(), start.xi).or_else(by_moments)
}

fn moments(cells: &[Cell]) -> Option<(f64, f64)> {
    let n = total(cells) as f64;
    let mean = cells.iter().map(|c| c.middle() * c.count as f64).sum::<f64>() / n;
    let variance = cells.iter().map(|c| (c.middle() - mean).powi(2) * c.count as f64).sum::<f64>() / n;
    if !(mean > 0.0 && variance.is_finite()) {
        return None;
    }
    let xi = if variance > 0.0 { (0.5 * (1.0 - mean * mean / variance)).clamp(-0.4, 0.4) } else { 0.0 };
    let largest = cells.last().map_or(mean, |c| c.lo);
    let sigma = (mean * (1.0 - xi)).max(-xi * largest * 1.05);
    Some((sigma, xi))
}

fn newton(cells: &[Cell], mut tau: f64, mut xi: f64) -> Option<Fit> {
    const STEP: f64 = 1e-5;
    let (mut value, mut gradient) = slopes(cells, tau, xi);
    if !value.is_finite() {
        return None;
    }
    let n = total(cells) as f64;
    for _ in 0..60 {
        let norm = (gradient[0].abs() + gradient[1].abs()) / n;
        if norm < 1e-9 {
            break;
        }
        let (_, by_tau) = slopes(cells, tau + STEP, xi);
        let (_, by_xi) = slopes(cells, tau, xi + STEP);
        let a = (by_tau[0] - gradient[0]) / STEP;
        let b = 0.5 * ((by_tau[1] - gradient[1]) + (by_xi[0] - gradient[0])) / STEP;
        let d = (by_xi[1] - gradient[1]) / STEP;
        let determinant = a * d - b * b;
        let step = if a > 0.0 && determinant > 0.0 {
            [
                -(d * gradient[0] - b * gradient[1]) / determinant,
                -(a * gradient[1] - b * gradient[0]) / determinant,
            ]
        } else {
            [-gradient[0] / n, -gradient[1] / n]
        };
        let mut shrink = 1.0 / (step[0].abs().max(step[1].abs())).max(1.0);
        let mut moved = false;
        for _ in 0..40 {
            let (t, x) = (tau + shrink * step[0], xi + shrink * step[1]);
            let (next, next_gradient) =
                if XI.contains(&x) { slopes(cells, t, x) } else { (f64::INFINITY, [0.0; 2]) };
            if next.is_finite() && next <= value + 1e-12 * value.abs() {
                moved = (t, x) != (tau, xi);
                (tau, xi, value, gradient) = (t, x, next, next_gradient);
                break;
            }
            shrink *= 0.5;
        }
        if !moved {
            break;
        }
    }
    let settled = (gradient[0].abs() + gradient[1].abs()) / n < 1e-6;
    settled.then(|| Fit { sigma: tau.exp(), xi, nllh: value })
}

/// The best scale for each shape of a grid, then golden sections: slow but robust.
fn search(cells: &[Cell], scale: f64) -> Option<Fit> {
    let best_scale = |xi: f64| best_tau(cells, xi, scale.ln());
    let grid =
        (0..=60).map(|i| -0.98 + 0.05 * f64::from(i)).filter_map(|xi| Some((xi, best_scale(xi)?.value)));
    let (start, _) = grid.min_by(|a, b| a.1.total_cmp(&b.1))?;
    let profile = |xi: f64| match XI.contains(&xi) {
        true => best_scale(xi).map_or(f64::INFINITY, |found| found.value),
        false => f64::INFINITY,
    };
    let found = one(profile, start, 0.02, 1e-9)?;
    let at_the_wall = found.at < XI.start + 1e-3 || found.at > XI.end - 1e-3;
    let tau = best_scale(found.at).filter(|_| !at_the_wall)?;
    Some(Fit { sigma: tau.at.exp(), xi: found.at, nllh: found.value })
}

/// The best `ln sigma` for a shape.
fn best_tau(cells: &[Cell], xi: f64, near: f64) -> Option<super::minimise::Minimum<f64>> {
    let largest = cells.last()?.lo;
    let feasible =
        if xi < 0.0 { (-xi * largest * 1.001).max(f64::MIN_POSITIVE).ln() } else { f64::NEG_INFINITY };
    one(|tau| nllh(cells, tau.exp(), xi), near.max(feasible), 0.2, 1e-9)
}

/// Shape at and below which the likelihood has no regular profile (R. L. Smith, Biometrika 72, 1985).
pub const SHORTEST: f64 = -0.5;

/// [`fit`], with a shape of at least [`SHORTEST`]: also for tails that end at the largest samples, whose likelihood has no
/// maximum.
#[must_use]
pub fn fit_or_shortest(cells: &[Cell]) -> Option<Fit> {
    if let Some(fit) = fit(cells).filter(|fit| fit.xi > SHORTEST) {
        return Some(fit);
    }
    let (sigma, _) = moments(cells).filter(|_| cells.len() >= 2)?;
    let found = best_tau(cells, SHORTEST, sigma.ln())?;
    let exponential = fit_exponential(cells)?; // nearly equal samples are not a short tail
    (found.value < exponential.nllh).then(|| Fit { sigma: found.at.exp(), xi: SHORTEST, nllh: found.value })
}

/// The maximum-likelihood exponential tail (`xi = 0`).
#[must_use]
pub fn fit_exponential(cells: &[Cell]) -> Option<Fit> {
    if cells.iter().all(|cell| cell.is_exact() || cell.hi == f64::INFINITY) {
        // The total time on test by the number of exact values (Epstein and Sobel, 1953).
        let exact = cells.iter().filter(|cell| cell.is_exact()).map(|cell| cell.count).sum::<u64>() as f64;
        let sigma = cells.iter().map(|cell| cell.lo * cell.count as f64).sum::<f64>() / exact;
        let nllh = nllh(cells, sigma, 0.0);
        return nllh.is_finite().then_some(Fit { sigma, xi: 0.0, nllh });
    }
    let (sigma, _) = moments(cells)?;
    let found = best_tau(cells, 0.0, sigma.ln())?;
    Some(Fit { sigma: found.at.exp(), xi: 0.0, nllh: found.value })
}

/// An interval; an end that the likelihood does not close is `None`.
pub type Ends = (Option<f64>, Option<f64>);

/// Profile interval of the shape: where twice the loss of log-likelihood reaches `q`.
#[must_use]
pub fn xi_interval(cells: &[Cell], fit: &Fit, q: f64) -> Ends {
    let level = fit.nllh + 0.5 * q;
    let profile = |from: f64| {
        let mut near = from;
        move |xi: f64| match best_tau(cells, xi, near) {
            Some(found) if XI.contains(&xi) => {
                near = found.at;
                found.value
            }
            _ => f64::INFINITY,
        }
    };
    let end = |step: f64| crossing(profile(fit.sigma.ln()), fit.xi, step, level, 40);
    (end(-0.02), end(0.02))
}

/// Profile interval of the scale.
#[must_use]
pub fn sigma_interval(cells: &[Cell], fit: &Fit, q: f64) -> Ends {
    let level = fit.nllh + 0.5 * q;
    let profile = |mut near: f64| {
        move |tau: f64| {
            let largest = cells.last().map_or(0.0, |c| c.lo);
            let feasible = near.max(-0.999 * tau.exp() / largest.max(f64::MIN_POSITIVE));
            let within = |xi: f64| if XI.contains(&xi) { nllh(cells, tau.exp(), xi) } else { f64::INFINITY };
            let found = one(within, feasible, 0.02, 1e-8);
            found.map_or(f64::INFINITY, |found| {
                near = found.at;
                found.value
            })
        }
    };
    let end = |step: f64| crossing(profile(fit.xi), fit.sigma.ln(), step, level, 40).map(f64::exp);
    (end(-0.02), end(0.02))
}

/// The excess that one in `e^t` excesses exceeds.
#[must_use]
pub fn level(fit: &Fit, t: f64) -> f64 {
    fit.sigma * growth(t, fit.xi)
}

/// Profile interval of [`level`]: for each level the best shape, with the scale that gives the level.
#[must_use]
pub fn level_interval(cells: &[Cell], fit: &Fit, t: f64, q: f64) -> Ends {
    let limit = fit.nllh + 0.5 * q;
    let at = level(fit, t);
    let profile = |mut near: f64| {
        move |x: f64| {
            if x <= 0.0 {
                return f64::INFINITY;
            }
            let of = |xi: f64| match XI.contains(&xi) {
                true => nllh(cells, x / growth(t, xi), xi),
                false => f64::INFINITY,
            };
            let start = if of(near).is_finite() { Some(near) } else { best_of_grid(of) };
            start.and_then(|start| one(of, start, 0.02, 1e-8)).map_or(f64::INFINITY, |found| {
                near = found.at;
                found.value
            })
        }
    };
    let end = |step: f64| crossing(profile(fit.xi), at, step, limit, 60);
    (end(-0.02 * at), end(0.02 * at))
}

fn best_of_grid(of: impl Fn(f64) -> f64) -> Option<f64> {
    let all = (0..=80).map(|i| -0.98 + 0.05 * f64::from(i)).map(|xi| (xi, of(xi)));
    all.filter(|(_, value)| value.is_finite()).min_by(|a, b| a.1.total_cmp(&b.1)).map(|(xi, _)| xi)
}

/// Profile interval of the level of an exponential tail.
#[must_use]
pub fn exponential_interval(cells: &[Cell], fit: &Fit, t: f64, q: f64) -> Ends {
    let limit = fit.nllh + 0.5 * q;
    let end = |step: f64| {
        crossing(|tau| nllh(cells, tau.exp(), 0.0), fit.sigma.ln(), step, limit, 40).map(|tau| tau.exp() * t)
    };
    (end(-0.02), end(0.02))
}
