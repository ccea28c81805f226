//! The verdict of a run, PASS, FAIL or INCONCLUSIVE, with its reasons, as it is stored. [`crate::judge`] computes it.

use serde::{Deserialize, Serialize};

use crate::numbers::theta_rounded_down;
use crate::series::Quantity;
use crate::time::Ns;

/// Whether the deadline is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum Outcome {
    /// No sample above the deadline, and no doubt.
    Pass,
    /// At least one sample above the deadline.
    Fail,
    /// No claim is possible; the reasons say why.
    Inconclusive,
}

impl Outcome {
    /// The name that is printed and stored.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Pass => "PASS",
            Outcome::Fail => "FAIL",
            Outcome::Inconclusive => "INCONCLUSIVE",
        }
    }
}

/// Order of outcomes: the larger is the worse.
pub(crate) fn badness(outcome: Option<Outcome>) -> u8 {
    match outcome {
        Some(Outcome::Pass) => 0,
        None => 1, // no claim
        Some(Outcome::Inconclusive) => 2,
        Some(Outcome::Fail) => 3,
    }
}

/// The rules that gave a verdict, so that it can be recomputed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum JudgedBy {
    /// Rules of `hunt`: calibrated, under load.
    Hunt,
    /// Rules for a single instrument.
    Instrument,
    /// Rules for the wake-up latencies of all real-time tasks of a system.
    Tasks,
    /// Rules for the response times of selected threads.
    Application,
    /// Worst verdict of the merged runs.
    Merged,
}

/// A verdict with its reasons.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Verdict {
    /// The outcome; `None` if no deadline was given.
    pub outcome: Option<Outcome>,
    /// The deadline.
    pub deadline_ns: Option<Ns>,
    /// The judged quantity; of several, the one that exceeds the deadline most. `None` in files of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantity: Option<Quantity>,
    /// The rules applied. `None` in files of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judged_by: Option<JudgedBy>,
    /// Reasons, one line each, the most important first; in a FAIL, the first `failures` name the misses, the others
    /// are caveats.
    pub reasons: Vec<String>,
    /// Number of `reasons` that name a miss.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failures: usize,
    /// Statement without a model of the tail.
    pub model_free: Option<ModelFree>,
    /// A rule of thumb, for orientation only.
    pub rule_of_thumb: Option<RuleOfThumb>,
    /// The four criteria of a latency measurement. Informative only, unless `strict`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub criteria: Vec<Criterion>,
    /// Whether a PASS requires all criteria (`--strict osadl`).
    #[serde(default, skip_serializing_if = "is_false")]
    pub strict: bool,
}

impl Verdict {
    /// The reasons that name a miss, and the rest: caveats of a FAIL, or the reasons of another outcome.
    #[must_use]
    pub fn split(&self) -> (&[String], &[String]) {
        self.reasons.split_at(self.failures.min(self.reasons.len()))
    }

    /// The verdict of `--require-verdict`: INCONCLUSIVE if no deadline was given.
    #[must_use]
    pub fn required(mut self) -> Verdict {
        if self.outcome.is_none() {
            self.outcome = Some(Outcome::Inconclusive);
            let reason = "no deadline was given, so there is nothing to judge: add --deadline TIME (--require-verdict)";
            self.reasons.insert(0, reason.to_owned());
        }
        self
    }

    /// The verdict of `--strict osadl`: a PASS requires all four criteria. An unknown one counts as not met.
    #[must_use]
    pub fn strictly(mut self) -> Verdict {
        self.strict = true;
        let unmet = self.criteria.iter().filter(|one| one.met != Some(true));
        let reasons: Vec<String> =
            unmet.map(|one| format!("criterion '{}' {}", one.name, one.told())).collect();
        if reasons.is_empty() || !matches!(self.outcome, Some(Outcome::Pass | Outcome::Inconclusive)) {
            return self;
        }
        if self.outcome == Some(Outcome::Pass) {
            self.outcome = Some(Outcome::Inconclusive);
            self.reasons.splice(0..0, reasons);
        } else {
            self.reasons.extend(reasons);
        }
        self
    }

    /// Turns the verdict into a FAIL, with `reason` before all others.
    pub(crate) fn fails(&mut self, reason: String) {
        self.reasons.insert(0, reason);
        self.failures += 1;
        self.outcome = Some(Outcome::Fail);
    }
}

// serde passes a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_false(is_set: &bool) -> bool {
    !*is_set
}

/// "N samples, k above X: with confidence c fewer than 1 in M". Late activations come in clusters: a cluster counts
/// once if `theta` is known. If it is not, the statement is optimistic unless late activations are independent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ModelFree {
    /// Activations: samples, missed and lost ones.
    pub samples: u64,
    /// Extremal index: 1 for independent activations, 1/k for clusters of k. Absent: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub theta: Option<f64>,
    /// Equivalent number of independent activations, `theta` × `samples`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective_samples: Option<u64>,
    /// The level.
    pub level_ns: Ns,
    /// Activations above the level, including those not known to be below.
    pub above: u64,
    /// One-sided confidence, e.g. 0.95.
    pub confidence: f64,
    /// Upper limit of the probability that an activation exceeds the level.
    pub probability_below: f64,
    /// The statement as a sentence.
    pub sentence: String,
}

impl ModelFree {
    /// The assumption about independence.
    #[must_use]
    pub fn rests_on(&self) -> &'static str {
        match self.theta {
            Some(_) => "clustered late activations counted once",
            None => "assuming independent late activations",
        }
    }

    /// The assumption in brackets, for a terminal.
    #[must_use]
    pub fn caveat(&self) -> String {
        match self.theta {
            Some(theta) => format!("({}: theta {})", self.rests_on(), theta_rounded_down(theta)),
            None => format!("({}; optimistic if they come in bursts)", self.rests_on()),
        }
    }
}

/// A named rule with its source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RuleOfThumb {
    /// Name of the rule.
    pub name: String,
    /// Its value on this machine.
    pub bound_ns: Ns,
    /// Source of the rule.
    pub source: String,
    /// Whether the observed maximum is below it.
    pub met: bool,
}

/// One of the four criteria of a latency measurement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Criterion {
    /// Name.
    pub name: String,
    /// Whether it is met; `null`: not known.
    pub met: Option<bool>,
    /// The measured value.
    pub have: String,
    /// The required value.
    pub want: String,
}

impl Criterion {
    /// "At least 10^9 measurements, or continuously" (OSADL, how latency is to be measured).
    pub const LONG_ENOUGH: u64 = 1_000_000_000;

    /// The names of the four.
    pub const NAMES: [&str; 4] = ["long enough", "frequent enough", "under appropriate load", "calibrated"];

    /// `not met: 1.2e5 samples (wanted: 1e9 samples)`.
    #[must_use]
    pub fn told(&self) -> String {
        let met = self.met.map_or("unknown", |met| if met { "met" } else { "not met" });
        format!("{met}: {} (wanted: {})", self.have, self.want)
    }
}
