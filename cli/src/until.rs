//! `--until 1e-7@95%`: measures until a claim is shown or refuted.
//!
//! The claim is shown when the verdict's model-free statement (clustered late samples counted once, missed and lost ones as
//! late) is as strong as the claim; one sample above the deadline refutes it.

use anyhow::{bail, Result};
use clap::Args;
use lathunt_core::judge::claimed;
use lathunt_core::run::Run;
use lathunt_core::series::{Quantity, Series};
use lathunt_core::stats::claim::Claim;
use lathunt_core::time::Ns;
use lathunt_core::verdict::ModelFree;
use lathunt_host::instrument::cyclic::Cyclic;
use lathunt_host::signals;

/// The option.
#[derive(Args, Clone, Copy, Debug)]
pub struct UntilArg {
    /// Measure until the probability of a sample above the deadline (without one: above the largest sample) is shown to be
    /// below P: 1e-7@95%
    ///
    /// A cluster of late samples counts once, as in the verdict, in runs of at least 20 s. A sample above the deadline refutes
    /// the claim and ends the measurement. -D limits the length: if the claim is not shown by then, the result is INCONCLUSIVE.
    /// A PASS takes at least 1e-4@95%.
    #[arg(long, value_name = "P@CONFIDENCE%")]
    pub until: Option<Claim>,
}

/// A longer time is considered a typing error.
pub const LONGEST: Ns = Ns(400 * 86_400 * 1_000_000_000);

/// Next evaluation of the statement: after the measured time has grown by this factor, minimum and maximum.
const NEXT: (f64, f64) = (1.002, 1.25);

/// Progress towards a claim.
#[derive(Clone, Copy, Debug)]
pub struct Until {
    claim: Claim,
    /// Estimate of the whole length.
    estimate: Option<Ns>,
    /// Number of samples that makes the next evaluation worthwhile.
    next: u64,
}

impl Until {
    /// For a measurement of unknown rate.
    #[must_use]
    pub fn new(claim: Claim) -> Until {
        Until { claim, estimate: None, next: 1 }
    }

    /// For `threads` threads that take a sample each `interval`.
    ///
    /// # Errors
    /// If it takes too long to be practical.
    pub fn at(claim: Claim, interval: Ns, threads: usize) -> Result<Until> {
        let samples = claim.samples();
        let each = samples.div_ceil(threads.max(1) as u64);
        let estimate = each.checked_mul(interval.0).map(Ns).filter(|time| *time <= LONGEST);
        if estimate.is_none() {
            bail!("--until: {samples} samples take more than 400 days at an interval of {interval}; claim less, or shorten it (-i)");
        }
        Ok(Until { estimate, ..Until::new(claim) })
    }

    /// Estimate of the whole length, from rate and clusters so far.
    #[must_use]
    pub fn estimate(&self) -> Option<Ns> {
        self.estimate
    }

    /// `measuring until 1e-7@95%`.
    #[must_use]
    pub fn phase(&self, doing: &str) -> String {
        format!("{doing} until {}", self.claim)
    }

    /// One-sided confidence of the statements for [`Until::is_shown`].
    #[must_use]
    pub fn confidence(&self) -> f64 {
        self.claim.confidence
    }

    /// Whether `said` shows the claim; the estimate uses `elapsed`.
    pub fn is_shown(&mut self, said: &[ModelFree], elapsed: Ns) -> bool {
        let times = self.claim.times_as_long(said);
        let samples: u64 = said.iter().map(|said| said.samples).sum();
        self.next = ((samples as f64 * times.clamp(NEXT.0, NEXT.1)) as u64).max(samples.saturating_add(1));
        let whole = elapsed.0 as f64 * times;
        self.estimate = whole.is_finite().then_some(Ns(whole as u64)).or(self.estimate);
        times <= 1.0
    }

    /// Whether `cyclic` has shown or refuted it. Cheap, except for an occasional evaluation of the histograms.
    pub fn is_settled(&mut self, cyclic: &Cyclic, deadline: Option<Ns>, elapsed: Ns) -> bool {
        let (mut taken, mut late) = (0u64, false);
        for live in (0..cyclic.options().threads.len()).map(|at| cyclic.live(at)) {
            taken = taken.saturating_add(live.count);
            late |= deadline.is_some_and(|deadline| live.max > Some(deadline));
        }
        if late || taken < self.next {
            return late;
        }
        let series: Vec<Series> = cyclic.snapshot().into_iter().map(|result| result.series).collect();
        let said = claimed(&series.iter().collect::<Vec<_>>(), deadline, self.claim.confidence);
        self.is_shown(said.as_slice(), elapsed)
    }

    /// Stores in `run`, whose measurement is over, what it shows, or that it ended early. `is_refuted`: a sample is above its
    /// deadline.
    pub fn conclude(mut self, run: &mut Run, said: &[ModelFree], is_refuted: bool, took: Ns) {
        let claim = self.claim;
        let is_shown = self.is_shown(said, took);
        let weakest = said.iter().max_by(|a, b| a.probability_below.total_cmp(&b.probability_below));
        let shown = weakest.map(|said| format!(": {}, {}", said.sentence, said.rests_on()));
        let shown = shown.unwrap_or_default();
        if is_refuted {
            run.conditions.notes.push(format!(
                "--until {claim}: ended after {:.1} s, by a latency above the deadline",
                took.as_secs()
            ));
        } else if is_shown {
            run.conditions.notes.push(format!("--until {claim}{shown}"));
        } else {
            let by = signals::stop_requested().map(|signal| format!(" ({})", signals::name(signal)));
            let took = took.as_secs();
            run.stopped(format!(
                "ended after {took:.1} s{}, before --until {claim} was shown{shown}",
                by.unwrap_or_default()
            ));
        }
    }

    /// [`Until::conclude`], for the series of one instrument.
    pub fn conclude_instrument(self, run: &mut Run, quantity: Quantity, deadline: Option<Ns>, took: Ns) {
        let series: Vec<&Series> = run.of(quantity).collect();
        let said = claimed(&series, deadline, self.claim.confidence);
        let is_refuted = deadline.is_some_and(|deadline| run.max_of(quantity) > Some(deadline));
        self.conclude(run, said.as_slice(), is_refuted, took);
    }
}
