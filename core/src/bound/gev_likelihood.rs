//! The likelihood of the generalised extreme-value distribution with its exact first and second derivatives.
//!
//! Differences of gradients do not replace the second ones: near a shape of -1 the largest of many maxima is closer to the end
//! of the distribution than any step, and a level far beyond heavy-tailed maxima makes the gradients differ by ten decades.

use super::gpd::log_ratio;

/// Range of the search for the shape. From -1 downwards the likelihood has no maximum.
pub(super) const XI: std::ops::Range<f64> = -0.99..8.0;

/// A value with its derivatives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Curved<const N: usize> {
    /// The value.
    pub value: f64,
    /// First derivatives.
    pub gradient: [f64; N],
    /// Second derivatives.
    pub curvature: [[f64; N]; N],
}

impl<const N: usize> Curved<N> {
    /// Outside the domain of the function.
    pub const OUTSIDE: Curved<N> =
        Curved { value: f64::INFINITY, gradient: [f64::NAN; N], curvature: [[f64::NAN; N]; N] };
}

impl Curved<3> {
    /// The same as a function of two variables, on which the three depend: first and second derivatives of each of the three.
    pub(super) fn along(&self, slopes: &[[f64; 2]; 3], bends: &[[[f64; 2]; 2]; 3]) -> Curved<2> {
        let mut along = Curved { value: self.value, gradient: [0.0; 2], curvature: [[0.0; 2]; 2] };
        for k in 0..3 {
            for i in 0..2 {
                along.gradient[i] += self.gradient[k] * slopes[k][i];
                for j in 0..2 {
                    along.curvature[i][j] += self.gradient[k] * bends[k][i][j];
                    along.curvature[i][j] +=
                        (0..3).map(|l| slopes[k][i] * self.curvature[k][l] * slopes[l][j]).sum::<f64>();
                }
            }
        }
        along
    }
}

fn is_outside(mu: f64, sigma: f64, xi: f64) -> bool {
    !(sigma > 0.0 && sigma.is_finite() && mu.is_finite() && XI.contains(&xi))
}

/// Negative log-likelihood of `maxima`.
#[must_use]
pub fn nllh(maxima: &[f64], mu: f64, sigma: f64, xi: f64) -> f64 {
    if is_outside(mu, sigma, xi) {
        return f64::INFINITY;
    }
    let mut sum = maxima.len() as f64 * sigma.ln();
    for z in maxima {
        let y = (z - mu) / sigma;
        if xi * y <= -1.0 {
            return f64::INFINITY;
        }
        let log = y * log_ratio(xi * y).0;
        sum += (1.0 + xi) * log + (-log).exp();
    }
    if sum.is_nan() {
        f64::INFINITY
    } else {
        sum
    }
}

/// [`nllh`] with its derivatives by `mu / scale`, `ln sigma` and `xi`. Cost: about that of two values.
#[must_use]
pub fn curved(maxima: &[f64], (mu, sigma, xi): (f64, f64, f64), scale: f64) -> Curved<3> {
    if is_outside(mu, sigma, xi) {
        return Curved::OUTSIDE;
    }
    let n = maxima.len() as f64;
    let part = scale / sigma; // y falls by this per unit of the location
    let (mut value, mut gradient, mut curvature) = (n * sigma.ln(), [0.0, n, 0.0], [[0.0; 3]; 3]);
    for z in maxima {
        let y = (z - mu) / sigma;
        let inside = 1.0 + xi * y;
        if inside <= 0.0 {
            return Curved::OUTSIDE;
        }
        // log = ln(1 + xi y) / xi, of which each term is (1 + xi) log + exp(-log), with its derivatives by y and xi
        let (ratio, slope) = log_ratio(xi * y);
        let log = y * ratio;
        let rest = (-log).exp();
        let (by_log, bend) = (1.0 + xi - rest, rest);
        let (log_y, log_xi) = (1.0 / inside, y * y * slope);
        let (log_yy, log_y_xi, log_xi_xi) =
            (-xi * log_y * log_y, -y * log_y * log_y, y * y * y * ratio_bend(xi * y, slope));
        let by_y = by_log * log_y;
        let by_xi = log + by_log * log_xi;
        let by_yy = bend * log_y * log_y + by_log * log_yy;
        let by_y_xi = (1.0 + bend * log_xi) * log_y + by_log * log_y_xi;
        let by_xi_xi = (2.0 + bend * log_xi) * log_xi + by_log * log_xi_xi;
        value += (1.0 + xi) * log + rest;
        gradient[0] -= by_y * part;
        gradient[1] -= y * by_y;
        gradient[2] += by_xi;
        curvature[0][0] += by_yy * part * part;
        curvature[1][0] += part * (by_yy * y + by_y);
        curvature[1][1] += y * (by_yy * y + by_y);
        curvature[2][0] -= by_y_xi * part;
        curvature[2][1] -= by_y_xi * y;
        curvature[2][2] += by_xi_xi;
    }
    if value.is_nan() {
        return Curved::OUTSIDE;
    }
    let [[aa, ..], [ba, bb, _], [ca, cb, cc]] = curvature;
    let curvature = [[aa, ba, ca], [ba, bb, cb], [ca, cb, cc]];
    Curved { value, gradient, curvature }
}

/// Second derivative of `ln(1 + z) / z`, of which `slope` is the first.
fn ratio_bend(z: f64, slope: f64) -> f64 {
    if z.abs() < 1e-3 {
        return 2.0 / 3.0 - z * (1.5 - z * (2.4 - z * (10.0 / 3.0)));
    }
    (-1.0 / ((1.0 + z) * (1.0 + z)) - 2.0 * slope) / z
}

#[cfg(test)]
mod tests {
    use super::super::gpd::growth;
    use super::super::random::Random;
    use super::*;

    #[test]
    fn derivatives_are_the_differences_of_the_likelihood_and_of_its_slopes() {
        let mut random = Random::new(1);
        let all: Vec<f64> = (0..40).map(|_| 3.0 + 2.0 * growth(-random.exponential().ln(), 0.2)).collect();
        for (mu, sigma, xi) in
            [(3.0, 2.0, 0.2), (2.5, 3.0, 0.0), (3.0, 2.0, 1e-5), (2.0, 4.0, 0.9), (3.0, 30.0, -0.8)]
        {
            let scale = 1.5;
            let exact = curved(&all, (mu, sigma, xi), scale);
            assert!((exact.value - nllh(&all, mu, sigma, xi)).abs() < 1e-9 * exact.value.abs());
            let h = 1e-6;
            let at = |which: usize, by: f64| {
                let moved = |k: usize| if k == which { by * h } else { 0.0 };
                let (mu, sigma, xi) = (mu + scale * moved(0), sigma * moved(1).exp(), xi + moved(2));
                (nllh(&all, mu, sigma, xi), curved(&all, (mu, sigma, xi), scale))
            };
            for k in 0..3 {
                let (after, before) = (at(k, 1.0), at(k, -1.0));
                let slope = (after.0 - before.0) / (2.0 * h);
                assert!(
                    (exact.gradient[k] - slope).abs() < 1e-4 * (1.0 + slope.abs()),
                    "{xi} {k}: {exact:?}"
                );
                for l in 0..3 {
                    let bend = (after.1.gradient[l] - before.1.gradient[l]) / (2.0 * h);
                    assert!(
                        (exact.curvature[k][l] - bend).abs() < 1e-4 * (1.0 + bend.abs()),
                        "{xi} {k} {l}: {bend} {exact:?}"
                    );
                }
            }
        }
    }
}
