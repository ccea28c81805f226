//! A claim to be tested: `1e-7@95%`, fewer than 1 in 10^7 at 95 % confidence.

use super::model_free::samples_needed;

/// An upper limit of a probability, and how sure it shall be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Claim {
    /// Fewer than this share.
    pub probability: f64,
    /// One-sided confidence.
    pub confidence: f64,
}

/// What is wrong with the text of a claim.
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
    /// Samples without an exceedance that it takes.
    #[must_use]
    pub fn samples(&self) -> u64 {
        samples_needed(self.probability, self.confidence).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_a_probability_at_a_confidence() {
        let claim: Claim = "1e-7@95%".parse().unwrap();
        assert_eq!(claim.samples(), 29_957_322);
        for bad in
            ["1e-7", "1e-7@95", "0@95%", "1@95%", "1e-7@100%", "1e-7@20%", "NaN@95%", "1e-7@NaN%", "@%", ""]
        {
            assert_eq!(bad.parse::<Claim>(), Err(BadClaim), "{bad}");
        }
    }
}
