//! Whether gaps were watched for long enough: as many samples as every other instrument needs.

use super::Rules;
use crate::hwlat::Hwlat;
use crate::series::Quantity;
use crate::stats::model_free::{percent, samples_needed};
use crate::time::Ns;

/// Time watched that counts as one sample: the default period of the other instruments.
const SAMPLE: Ns = Ns::from_ms(1);

impl Hwlat {
    /// Why the time watched is too short for a PASS; `None`: it is not. The CPUs do not add up, because an SMI or the host
    /// may stop all of them at once.
    #[must_use]
    pub fn watched_too_short(&self) -> Option<String> {
        let Rules { claim_probability, confidence, .. } = Rules::instrument(Quantity::Hardware);
        let needed = samples_needed(claim_probability, confidence)?.saturating_mul(SAMPLE.0);
        let watched = self.found.iter().map(|found| found.watched_ns).max().unwrap_or_default();
        let one_in = (1.0 / claim_probability).round();
        (watched.0 < needed).then(|| {
            let cycles = (needed as f64 / self.width_ns.0.max(1) as f64).ceil();
            format!(
                "watched for {:.1} s only: at least {:.1} s without a gap above the limit are needed to show, with {} % \
                 confidence, fewer than 1 such gap in {one_in} ms: measure longer (-D {:.0}s)",
                watched.as_secs(),
                Ns(needed).as_secs(),
                percent(confidence),
                (cycles * self.window_ns.as_secs()).ceil()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hwlat::{Found, FORMAT, VERSION};

    #[test]
    fn a_short_time_without_a_gap_is_no_evidence() {
        let watched = |ms| {
            let found = Found {
                detector: "spin",
                watched_ns: Ns::from_ms(ms),
                gaps: 0,
                max_ns: None,
                histograms: Default::default(),
                worst: Vec::new(),
                samples: Vec::new(),
                notes: Vec::new(),
                left: Vec::new(),
            };
            let report = Hwlat {
                format: FORMAT,
                version: VERSION,
                cpus: "0".to_owned(),
                threshold_ns: Ns::from_us(10),
                window_ns: Ns::from_ms(1_000),
                width_ns: Ns::from_ms(500),
                hypervisor: None,
                smi: None,
                found: vec![found],
            };
            report.watched_too_short()
        };
        // The number of samples that each other instrument needs, at 1 ms.
        assert_eq!(watched(29_956), None);
        let said = "watched for 1.0 s only: at least 30.0 s without a gap above the limit are needed to show, with 95 % \
                    confidence, fewer than 1 such gap in 10000 ms: measure longer (-D 60s)";
        assert_eq!(watched(1_000).as_deref(), Some(said));
        assert!(watched(29_955).is_some());
    }
}
