//! A claim to test: `1e-7@95%` is fewer than 1 in 10^7 at 95 % confidence.

use std::fmt;

use super::model_free::{percent, samples_needed};
use crate::verdict::ModelFree;

/// An upper limit of a probability, with its confidence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Claim {
    /// Upper limit of the probability of an exceedance, in (0, 1).
    pub probability: f64,
    /// One-sided confidence, in [0.5, 1).
    pub confidence: f64,
}

/// The text is not a claim.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("write a probability and a confidence from 50 % to below 100 %, for example 1e-7@95%")]
pub struct BadClaim;

impl std::str::FromStr for Claim {
    type Err = BadClaim;

    fn from_str(text: &str) -> Result<Claim, BadClaim> {
        let (probability, confidence) = text.split_once('@').ok_or(BadClaim)?;
        let percent = confidence.strip_suffix('%').ok_or(BadClaim)?;
        let number = |text: &str| text.trim().parse::<f64>().map_err(|_| BadClaim);
        let claim = Claim { probability: number(probability)?, confidence: number(percent)? / 100.0 };
        let possible = claim.probability > 0.0 && claim.probability < 1.0;
        match possible && (0.5..1.0).contains(&claim.confidence) {
            true => Ok(claim),
            false => Err(BadClaim),
        }
    }
}

impl Claim {
    /// Number of samples without an exceedance that prove the claim.
    #[must_use]
    pub fn samples(&self) -> u64 {
        samples_needed(self.probability, self.confidence).unwrap_or(u64::MAX)
    }

    /// Factor by which the measurement must be longer to prove this claim, if late cases stay as rare as they are: at
    /// most 1 if it is proved. `said` are statements at the confidence of the claim; the weakest decides; infinite
    /// without any.
    #[must_use]
    pub fn times_as_long(&self, said: &[ModelFree]) -> f64 {
        let weakest = said.iter().map(|said| said.probability_below).reduce(f64::max);
        weakest.map_or(f64::INFINITY, |weakest| weakest / self.probability)
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:e}@{}%", self.probability, percent(self.confidence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_a_probability_at_a_confidence() {
        let claim: Claim = "1e-7@95%".parse().unwrap();
        assert_eq!(claim.samples(), 29_957_322);
        for text in ["1e-7@95%", "2.5e-3@99.9%", "1e-4@57%"] {
            assert_eq!(text.parse::<Claim>().unwrap().to_string(), text);
        }
        for bad in
            ["1e-7", "1e-7@95", "0@95%", "1@95%", "1e-7@100%", "1e-7@20%", "NaN@95%", "1e-7@NaN%", "@%", ""]
        {
            assert_eq!(bad.parse::<Claim>(), Err(BadClaim), "{bad}");
        }
    }
}
