//! The answer of a run, PASS, FAIL or INCONCLUSIVE, with what it rests on, as it is stored. [`crate::judge`] gives it.

use serde::{Deserialize, Serialize};

use crate::series::Quantity;
use crate::time::Ns;

/// The answer to "does it meet its deadline?".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum Outcome {
    /// Nothing observed above the deadline, and nothing that makes the observation doubtful.
    Pass,
    /// At least one sample above the deadline.
    Fail,
    /// Nothing may be claimed; the reasons say why.
    Inconclusive,
}

impl Outcome {
    /// As it is printed and stored.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Pass => "PASS",
            Outcome::Fail => "FAIL",
            Outcome::Inconclusive => "INCONCLUSIVE",
        }
    }
}

/// The rules that a verdict was judged by, so that a reader can judge again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum JudgedBy {
    /// Calibrated, under load.
    Hunt,
    /// One instrument alone.
    Instrument,
    /// The wake-ups of the real-time tasks of a system.
    Tasks,
    /// The response times of chosen threads.
    Application,
    /// The worst of the runs that were merged.
    Merged,
}

/// A verdict with what it rests on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Verdict {
    /// The answer; `None` when no deadline was given.
    pub outcome: Option<Outcome>,
    /// The deadline.
    pub deadline_ns: Option<Ns>,
    /// What was judged; of several the one that is worst beyond the deadline. `None`: written before this was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantity: Option<Quantity>,
    /// By which rules. `None`: written before this was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judged_by: Option<JudgedBy>,
    /// Why, one line each, the weightiest first; of a FAIL the first `failures` say what was too late, and the others limit
    /// the result.
    pub reasons: Vec<String>,
    /// How many of `reasons` say what was too late.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failures: usize,
    /// What holds without any model of the tail.
    pub model_free: Option<ModelFree>,
    /// A rule of thumb, for orientation only.
    pub rule_of_thumb: Option<RuleOfThumb>,
    /// How far the four criteria of a latency measurement are met. They inform, unless `strict`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub criteria: Vec<Criterion>,
    /// Whether a PASS needs all of them (`--strict osadl`).
    #[serde(default, skip_serializing_if = "is_false")]
    pub strict: bool,
}

impl Verdict {
    /// What was too late, and what limits the result; of another answer than FAIL the latter is why.
    #[must_use]
    pub fn split(&self) -> (&[String], &[String]) {
        self.reasons.split_at(self.failures.min(self.reasons.len()))
    }

    /// The verdict of `--require-verdict`: where no deadline was given, nothing was judged, and that is INCONCLUSIVE.
    #[must_use]
    pub fn required(mut self) -> Verdict {
        if self.outcome.is_none() {
            self.outcome = Some(Outcome::Inconclusive);
            let reason = "no deadline was given, so there is nothing to judge: add --deadline TIME (--require-verdict)";
            self.reasons.insert(0, reason.to_owned());
        }
        self
    }

    /// The verdict of `--strict osadl`: a PASS needs all four criteria. One that is not known is not met.
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

    /// One more reason of a FAIL, before all others.
    pub(crate) fn fails(&mut self, reason: String) {
        self.reasons.insert(0, reason);
        self.failures += 1;
        self.outcome = Some(Outcome::Fail);
    }
}

// serde hands over a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_false(is_set: &bool) -> bool {
    !*is_set
}

/// "N samples, k above X: with confidence c fewer than 1 in M". Late activations come in clusters: these count once where
/// `theta` is known. Where it is not, the statement is optimistic unless they come independently of each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ModelFree {
    /// Activations: samples, and those that were missed or lost.
    pub samples: u64,
    /// Extremal index: 1 for independent activations, 1/k for clusters of k. Absent: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub theta: Option<f64>,
    /// Equivalent number of independent activations, `theta` × `samples`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective_samples: Option<u64>,
    /// The level.
    pub level_ns: Ns,
    /// Those above it, and those of which that is not known.
    pub above: u64,
    /// One-sided confidence, e.g. 0.95.
    pub confidence: f64,
    /// Upper limit of the probability that an activation exceeds the level.
    pub probability_below: f64,
    /// The same as a sentence.
    pub sentence: String,
}

impl ModelFree {
    /// What the sentence rests on besides.
    #[must_use]
    pub fn rests_on(&self) -> &'static str {
        match self.theta {
            Some(_) => "clustered late activations counted once",
            None => "assuming independent late activations",
        }
    }

    /// The same in brackets, for a screen.
    #[must_use]
    pub fn caveat(&self) -> String {
        match self.theta {
            Some(theta) => format!("({}: theta {theta:.3})", self.rests_on()),
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
    /// The bound it gives on this machine.
    pub bound_ns: Ns,
    /// Where it comes from.
    pub source: String,
    /// Whether the observed maximum is below it.
    pub met: bool,
}

/// One of the four criteria.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Criterion {
    /// Name.
    pub name: String,
    /// Whether it is met; `null`: not known.
    pub met: Option<bool>,
    /// What there is.
    pub have: String,
    /// What is asked for.
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
