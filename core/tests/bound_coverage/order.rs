//! Values in time order that depend on each other, change, or are recorded badly.

use std::f64::consts::TAU;

use lathunt_core::bound::random::Random;

use super::law::{normal, normal_above, Law};

/// Dependence of successive values.
#[derive(Clone, Copy, Debug)]
pub enum Dependence {
    None,
    /// Gaussian AR(1) of this coefficient, with the margin of the law.
    Ar(f64),
    /// ARMAX: each value decays by this factor until a larger one comes; the extremal index is 1 minus it. With the margin of
    /// the law.
    Decay(f64),
    /// Moving maximum over this many values: clusters of a fixed length.
    MovingMax(usize),
    /// Each value repeated, from 1 to this many times.
    Clusters(u64),
    /// Every k-th value is this factor larger.
    Every(usize, f64),
    /// The scale grows by this part.
    Drift(f64),
    /// Half of the stretches, of this mean length, have a scale this factor larger.
    Stretches(usize, f64),
    /// The scale swings this many times, by this part.
    Waves(u32, f64),
    /// Rounded down to multiples of this, and called exact.
    Ticks(f64),
    /// Rounded down to multiples of this, and declared as such.
    Classes(f64),
    /// Values with a smaller probability are recorded at its level.
    Cut(f64),
    /// Stalls of this many values, each value 10 larger; this many stalls in a record on average.
    Stalls(usize, f64),
    /// Every second value is of another CPU, with this law.
    TwoCpus(Law),
}

/// How the values are recorded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Recorded {
    Values,
    /// A run with a period of 1 ms in classes of 1 µs; one unit has this many ns.
    Run(f64),
}

#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub law: Law,
    pub order: Dependence,
    pub recorded: Recorded,
    pub n: usize,
}

impl Case {
    pub fn values(self, random: &mut Random, rare: &mut u64) -> Vec<f64> {
        let (law, n) = (self.law, self.n);
        let each = |random: &mut Random, rare: &mut u64, of: &dyn Fn(usize, f64) -> f64| -> Vec<f64> {
            (0..n).map(|at| of(at, law.draw(random, rare))).collect()
        };
        match self.order {
            Dependence::None => each(random, rare, &|_, v| v),
            Dependence::Ar(rho) => {
                let mut z = normal(random);
                let mut next = || {
                    z = rho * z + (1.0 - rho * rho).sqrt() * normal(random);
                    law.at(-normal_above(z).ln())
                };
                (0..n).map(|_| next()).collect()
            }
            Dependence::Decay(factor) => {
                let mut frechet = 1.0 / random.exponential();
                let mut next = || {
                    frechet = (factor * frechet).max((1.0 - factor) / random.exponential());
                    law.at(-(-f64::exp_m1(-1.0 / frechet)).ln())
                };
                (0..n).map(|_| next()).collect()
            }
            Dependence::MovingMax(k) => {
                let raw: Vec<f64> = (0..n + k - 1).map(|_| law.draw(random, rare)).collect();
                raw.windows(k).map(|all| all.iter().copied().fold(f64::MIN, f64::max)).collect()
            }
            Dependence::Clusters(most) => {
                let mut values = Vec::with_capacity(n + most as usize);
                while values.len() < n {
                    let length = 1 + random.bits() % most;
                    let value = law.draw(random, rare);
                    (0..length).for_each(|i| values.push(value * (1.0 - 1e-6 * i as f64)));
                }
                values.truncate(n);
                values
            }
            Dependence::Every(k, factor) => {
                each(random, rare, &|at, v| v * if at.is_multiple_of(k) { factor } else { 1.0 })
            }
            Dependence::TwoCpus(other) => {
                let of = |at: usize| if at.is_multiple_of(2) { law } else { other };
                (0..n).map(|at| of(at).draw(random, rare)).collect()
            }
            Dependence::Drift(part) => each(random, rare, &|at, v| v * (1.0 + part * at as f64 / n as f64)),
            Dependence::Stretches(mean, factor) => {
                let mut long = false;
                let mut next = || {
                    long ^= random.uniform() * (mean as f64) < 1.0;
                    law.draw(random, rare) * if long { factor } else { 1.0 }
                };
                (0..n).map(|_| next()).collect()
            }
            Dependence::Waves(waves, part) => each(random, rare, &|at, v| {
                v * (1.0 + part * (TAU * f64::from(waves) * at as f64 / n as f64).sin())
            }),
            Dependence::Ticks(width) | Dependence::Classes(width) => {
                each(random, rare, &|_, v| (v / width).floor() * width)
            }
            Dependence::Cut(share) => {
                let most = law.at(-share.ln());
                each(random, rare, &|_, v| v.min(most))
            }
            Dependence::Stalls(length, expected) => {
                let mut left = 0;
                let mut next = || {
                    if random.uniform() * (n as f64) < expected {
                        left = length;
                    }
                    let late = if left > 0 { 10.0 } else { 0.0 };
                    left = left.saturating_sub(1);
                    law.draw(random, rare) + late
                };
                (0..n).map(|_| next()).collect()
            }
        }
    }

    /// Probability that a later value exceeds `x`.
    pub fn above(self, x: f64) -> f64 {
        let law = self.law;
        match self.order {
            Dependence::MovingMax(k) => -f64::exp_m1(k as f64 * f64::ln_1p(-law.above(x))),
            Dependence::Every(k, factor) => {
                let share = 1.0 / k as f64;
                (1.0 - share) * law.above(x) + share * law.above(x / factor)
            }
            Dependence::TwoCpus(other) => 0.5 * (law.above(x) + other.above(x)),
            Dependence::Drift(part) => law.above(x / (1.0 + part)),
            Dependence::Stretches(_, factor) => 0.5 * (law.above(x) + law.above(x / factor)),
            Dependence::Waves(_, part) => {
                let at = |i: i32| law.above(x / (1.0 + part * (TAU * (f64::from(i) + 0.5) / 200.0).sin()));
                (0..200).map(at).sum::<f64>() / 200.0
            }
            Dependence::Ticks(width) | Dependence::Classes(width) => {
                law.above(((x / width + 1e-9).floor() + 1.0) * width)
            }
            Dependence::Stalls(length, expected) => {
                let share = 1.0 - (1.0 - expected / self.n as f64).powi(length as i32);
                (1.0 - share) * law.above(x) + share * law.above(x - 10.0)
            }
            Dependence::None
            | Dependence::Ar(_)
            | Dependence::Decay(_)
            | Dependence::Clusters(_)
            | Dependence::Cut(_) => law.above(x),
        }
    }
}
