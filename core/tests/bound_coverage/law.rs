//! Distributions of independent values.

use lathunt_core::bound::gpd::{growth, Fit};
use lathunt_core::bound::random::Random;

/// Distribution of one value.
#[derive(Clone, Copy, Debug)]
pub enum Law {
    Gpd(f64),
    /// Generalised Pareto of this shape and scale.
    Scaled(f64, f64),
    /// Bounded: uniform from 0 to 1.
    Uniform,
    Gumbel,
    Normal,
    Lognormal(f64),
    Weibull(f64),
    /// Exponential; ten times the value with this probability.
    Rare(f64),
    /// Exponential from 0, and from this with this probability.
    Shifted(f64, f64),
}

/// Survival function of the standard normal distribution, by its series and its continued fraction.
pub fn normal_above(z: f64) -> f64 {
    if z < 0.0 {
        return 1.0 - normal_above(-z);
    }
    if z < 5.0 {
        // Series of the distribution function.
        let (mut term, mut sum, mut k) = (z, z, 0.0);
        while term > sum * 1e-17 {
            k += 1.0;
            term *= z * z / (2.0 * k + 1.0);
            sum += term;
        }
        return (0.5 - sum * (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt()).max(1e-9);
    }
    let mut fraction = z;
    for i in (1..60).rev() {
        fraction = z + f64::from(i) / fraction;
    }
    (-0.5 * z * z).exp() / (std::f64::consts::TAU.sqrt() * fraction)
}

pub fn normal(random: &mut Random) -> f64 {
    (2.0 * random.exponential()).sqrt() * (std::f64::consts::TAU * random.uniform()).cos()
}

impl Law {
    /// Value with survival probability `exp(-e)`; of laws that are not mixtures.
    pub fn at(self, e: f64) -> f64 {
        match self {
            Law::Gpd(xi) => growth(e, xi),
            Law::Scaled(xi, scale) => scale * growth(e, xi),
            Law::Uniform => -f64::exp_m1(-e),
            Law::Gumbel => -(-f64::ln_1p(-(-e).exp())).ln(),
            Law::Weibull(shape) => e.powf(1.0 / shape),
            _ => f64::NAN,
        }
    }

    /// `rare` counts the values of the rare mechanism of a mixture.
    pub fn draw(self, random: &mut Random, rare: &mut u64) -> f64 {
        let mut happens = |p: f64, random: &mut Random| {
            let is_rare = random.uniform() < p;
            *rare += u64::from(is_rare);
            is_rare
        };
        match self {
            Law::Normal => normal(random),
            Law::Lognormal(sigma) => (sigma * normal(random)).exp(),
            Law::Rare(p) => random.exponential() * if happens(p, random) { 10.0 } else { 1.0 },
            Law::Shifted(p, from) => random.exponential() + if happens(p, random) { from } else { 0.0 },
            _ => self.at(random.exponential()),
        }
    }

    pub fn above(self, x: f64) -> f64 {
        match self {
            Law::Gpd(xi) => Fit { sigma: 1.0, xi, nllh: 0.0 }.survival(x.max(0.0)),
            Law::Scaled(xi, sigma) => Fit { sigma, xi, nllh: 0.0 }.survival(x.max(0.0)),
            Law::Uniform => (1.0 - x).clamp(0.0, 1.0),
            Law::Gumbel => -f64::exp_m1(-(-x).exp()),
            Law::Normal => normal_above(x),
            Law::Lognormal(sigma) => normal_above(x.ln() / sigma),
            Law::Weibull(shape) => (-x.powf(shape)).exp(),
            Law::Rare(p) => (1.0 - p) * (-x).exp() + p * (-x / 10.0).exp(),
            Law::Shifted(p, from) => (1.0 - p) * (-x).exp() + p * (-(x - from).max(0.0)).exp(),
        }
    }
}
