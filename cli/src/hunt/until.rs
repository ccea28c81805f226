//! `--until`: measures as long as a claim takes, and not longer than it takes to refute it.

use anyhow::{bail, Result};
use lathunt_core::stats::claim::Claim;
use lathunt_core::time::Ns;
use lathunt_host::instrument::cyclic::Live;

use super::Plan;

/// When a measurement has shown what was asked for.
#[derive(Clone, Copy, Debug)]
pub struct Until {
    /// Samples of all CPUs.
    samples: u64,
    /// One above it refutes the claim.
    deadline: Option<Ns>,
    /// How long it takes without missed activations.
    pub expected: Ns,
}

/// A year and more is a slip of the pen.
const LONGEST: Ns = Ns(400 * 86_400 * 1_000_000_000);

impl Until {
    /// What `claim` needs when `cpus` CPUs are measured as `plan` says.
    ///
    /// # Errors
    /// When it takes longer than anybody measures.
    pub fn new(claim: Claim, plan: &Plan, cpus: u64) -> Result<Until> {
        let samples = claim.samples();
        let each = samples.div_ceil(cpus.max(1));
        let expected = each.checked_mul(plan.interval.0).map(Ns).filter(|time| *time <= LONGEST);
        let Some(expected) = expected else {
            bail!("--until: {samples} samples take more than 400 days at an interval of {}; claim less, or shorten it (-i)", plan.interval);
        };
        Ok(Until { samples, deadline: plan.deadline, expected })
    }

    /// A longer time than it takes, also where activations are missed now and then.
    pub fn at_most(&self) -> Ns {
        Ns(self.expected.0.saturating_add(self.expected.0 / 5).saturating_add(5_000_000_000))
    }

    /// Enough samples were taken, or one was above the deadline.
    pub fn is_settled(&self, live: impl Iterator<Item = Live>) -> bool {
        let (mut taken, mut late) = (0u64, false);
        for one in live {
            taken = taken.saturating_add(one.count);
            late |= self.deadline.is_some_and(|deadline| one.max > Some(deadline));
        }
        late || taken >= self.samples
    }

    /// For the conditions of the run.
    pub fn note(&self, taken: u64) -> String {
        format!(
            "--until: {taken} samples of the {} that the claim takes without an exceedance, if late ones come independently",
            self.samples
        )
    }
}
