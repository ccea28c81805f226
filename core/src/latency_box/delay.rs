//! A known delay in the responder, to verify the box.

use std::str::FromStr;

use crate::random::Random;
use crate::time::{parse_duration, Ns};

/// How delays are distributed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// Always this.
    Fixed(Ns),
    /// Uniformly from the first to the second.
    Uniform(Ns, Ns),
    /// Normally distributed: mean and standard deviation; negative values are 0.
    Normal(Ns, Ns),
    /// Exponentially distributed with this mean.
    Exponential(Ns),
}

/// Longest delay: an hour.
const LONGEST: Ns = Ns(3_600 * 1_000_000_000);

impl Distribution {
    /// One delay, at most an hour.
    pub fn draw(self, random: &mut Random) -> Ns {
        let drawn = match self {
            Distribution::Fixed(delay) => delay,
            Distribution::Uniform(low, high) => Ns(random.between(low.0, high.0)),
            Distribution::Normal(mean, deviation) => {
                // Box and Muller 1958
                let (u, v) = (random.unit(), random.unit());
                let normal = (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos();
                Ns((mean.0 as f64 + deviation.0 as f64 * normal).max(0.0) as u64)
            }
            Distribution::Exponential(mean) => Ns((-(random.unit().ln()) * mean.0 as f64) as u64),
        };
        drawn.min(LONGEST)
    }
}

/// Text that is not a distribution of delays.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a delay: write 200us, uniform:0us,500us, normal:200us,20us or exponential:100us")]
pub struct NotADelay(String);

impl FromStr for Distribution {
    type Err = NotADelay;

    /// A bare number counts in µs.
    fn from_str(text: &str) -> Result<Distribution, NotADelay> {
        let bad = || NotADelay(text.to_owned());
        let (name, list) = text.split_once(':').unwrap_or(("fixed", text));
        let times: Vec<Ns> = list
            .split(',')
            .map(|time| parse_duration(time.trim(), Ns::from_us(1)).ok().filter(|&time| time <= LONGEST))
            .collect::<Option<_>>()
            .ok_or_else(bad)?;
        match (name, times.as_slice()) {
            ("fixed", &[delay]) => Ok(Distribution::Fixed(delay)),
            ("uniform", &[low, high]) if low <= high => Ok(Distribution::Uniform(low, high)),
            ("normal", &[mean, deviation]) => Ok(Distribution::Normal(mean, deviation)),
            ("exponential", &[mean]) => Ok(Distribution::Exponential(mean)),
            _ => Err(bad()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(text: &str) -> f64 {
        let (distribution, mut random) = (text.parse::<Distribution>().unwrap(), Random::new(1));
        let sum: u64 = (0..100_000).map(|_| distribution.draw(&mut random).0).sum();
        sum as f64 / 100_000.0
    }

    #[test]
    fn delays_have_the_mean_that_was_asked_for() {
        for (text, wanted) in [
            ("200", 200_000.0),
            ("0", 0.0),
            ("uniform:0us,500us", 250_000.0),
            ("normal:200us,20us", 200_000.0),
            ("exponential:100us", 100_000.0),
        ] {
            let found = mean(text);
            assert!((found - wanted).abs() <= wanted * 0.01, "{text}: {found}");
        }
    }

    #[test]
    fn nonsense_is_refused_with_examples() {
        for bad in
            ["", "x", "uniform:5us", "uniform:9us,5us", "normal:1us", "2h", "pareto:1us", "fixed:1us,2us"]
        {
            let error = bad.parse::<Distribution>().unwrap_err().to_string();
            assert!(error.contains("uniform:0us,500us"), "{bad}: {error}");
        }
    }
}
