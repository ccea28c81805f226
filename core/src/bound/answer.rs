//! The answer of `lathunt bound`, as `--json` writes it; see docs/FORMAT.md.

use serde::Serialize;

use crate::time::Cpu;
use crate::verdict::Criterion;

/// Value of `format`.
pub const FORMAT: &str = "lathunt-bound";
/// Version of the format.
pub const VERSION: u32 = 1;

/// The worst case to expect: three statements that never mix, each with its reasons.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Answer {
    /// Always `lathunt-bound`.
    pub format: String,
    /// Version of the format.
    pub version: u32,
    /// What was analysed.
    pub about: String,
    /// `ns`, or `as given` for plain numbers: the fields named `_ns` are then in the unit of the numbers.
    pub unit: String,
    /// The observed statement.
    pub observed: Observed,
    /// The path-analysis bound over measured terms.
    pub bound: PathBound,
    /// The fitted tail, only if every gate passes.
    pub extrapolated: Extrapolated,
    /// The tests that an extrapolation must pass.
    pub gates: Vec<Gate>,
    /// OSADL's four criteria of a latency measurement.
    pub criteria: Vec<Criterion>,
    /// The generalised Pareto tail; `null` if none could be fitted. Reported even if a gate refuses it.
    pub gpd: Option<Gpd>,
    /// The distribution of block maxima; `null` if none could be fitted.
    pub gev: Option<Gev>,
    /// Caveats, one line each.
    pub notes: Vec<String>,
}

/// Statement without a model of the tail.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Observed {
    /// Number of activations.
    pub samples: u64,
    /// `theta * samples`, the equivalent number of independent activations. `null`: `theta` is not known.
    pub effective_samples: Option<u64>,
    /// Extremal index: 1 for independent samples, 1/k for clusters of k. Of plain numbers by the intervals estimator; of runs in
    /// clusters, its lower 95 % limit.
    pub theta: Option<f64>,
    /// The extremal index that `probability_upper` counts with: of samples in clusters, the lower 95 % limit of `theta`.
    pub theta_lower: Option<f64>,
    /// The largest sample.
    pub max_ns: f64,
    /// The level of the statement: the deadline, or the largest sample.
    pub level_ns: f64,
    /// Samples above the level, including those not known to be below.
    pub above: u64,
    /// Upper limit of the probability that an activation exceeds the level; `null` if no statement is possible.
    pub probability_upper: Option<f64>,
    /// One-sided confidence.
    pub confidence: f64,
    /// Assumptions of the statement.
    pub reason: String,
}

/// The bound of a path analysis.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PathBound {
    /// The bound; `null` with a reason.
    pub value_ns: Option<f64>,
    /// Its basis, or why there is none.
    pub reason: String,
    /// Terms of the CPU with the largest bound, or of one without a bound.
    pub terms: Vec<Term>,
    /// The bound of each CPU; empty without a path analysis.
    pub cpus: Vec<OfCpu>,
}

/// The bound of one CPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OfCpu {
    /// CPU.
    pub cpu: Cpu,
    /// The bound; `null` with a reason.
    pub value_ns: Option<u64>,
    /// Reason for a `null`; else empty.
    pub reason: String,
    /// max(POID, DST) + PAIE + PSD + the interrupts is the bound.
    pub terms: Vec<Term>,
    /// The bound for each way to characterise interrupts.
    pub characterisations: Vec<Characterisation>,
}

/// The bound with interrupts that come in one way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Characterisation {
    /// Which: `no interrupts`, `worst single interrupt`, `worst of each interrupt`, `sliding window`, `sliding window of longest
    /// executions`, `sporadic`.
    pub name: String,
    /// The bound; `null` with a reason.
    pub value_ns: Option<u64>,
    /// Reason for a `null`; else empty.
    pub reason: String,
}

impl PathBound {
    /// No bound, with the reason.
    #[must_use]
    pub fn none(reason: &str) -> PathBound {
        PathBound { value_ns: None, reason: reason.to_owned(), terms: Vec::new(), cpus: Vec::new() }
    }
}

/// One measured term.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Term {
    /// Name.
    pub name: String,
    /// Value.
    pub value_ns: u64,
    /// Thread and place of it, or number of executions; `null`: not known.
    pub detail: Option<String>,
}

/// The extrapolation from the fitted tail.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Extrapolated {
    /// The maximum-likelihood estimate; `null` if a gate refuses.
    pub value_ns: Option<f64>,
    /// The upper limit at the requested confidence: the number to use.
    pub upper_ns: Option<f64>,
    /// Probability that one activation (or one block) exceeds it.
    pub level: f64,
    /// Its basis, or the gate that refused, and what to do next.
    pub reason: String,
    /// Assumption about the machine that no gate can test; `null` if a gate refuses.
    pub assumes: Option<String>,
}

impl Extrapolated {
    /// No value for `level` yet; the reason is empty until a gate refuses.
    #[must_use]
    pub fn none(level: f64) -> Extrapolated {
        Extrapolated { value_ns: None, upper_ns: None, level, reason: String::new(), assumes: None }
    }
}

/// One test.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Gate {
    /// Name.
    pub name: String,
    /// Whether it passed. A test that was not possible did not pass.
    pub passed: bool,
    /// p-value, before Holm's correction; `null` for a gate that is not a hypothesis test.
    pub p: Option<f64>,
    /// Its figures, and what to do if it did not pass.
    pub detail: String,
}

/// A profile interval; an end that the likelihood does not close is `null`.
pub type Interval = (Option<f64>, Option<f64>);

/// A generalised Pareto tail of all samples above the threshold, fitted by maximum likelihood as other tools do, with two-sided
/// profile intervals.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Gpd {
    /// Threshold of the excesses.
    pub threshold: f64,
    /// Scale.
    pub sigma: f64,
    /// Shape.
    pub xi: f64,
    /// Negative log-likelihood.
    pub nllh: f64,
    /// Samples above the threshold.
    pub exceedances: u64,
    /// Share of all samples above the threshold.
    pub zeta: f64,
    /// Width of the classes in the likelihood; `null`: exact values.
    pub class_width: Option<f64>,
    /// Interval of the scale at the requested confidence, two-sided.
    pub sigma_interval: Interval,
    /// Of the shape.
    pub xi_interval: Interval,
    /// If the samples come in clusters, the fit of the largest of each, which the extrapolation uses instead; else `null`.
    pub clusters: Option<OfClusters>,
}

/// A generalised Pareto tail of the largest samples of clusters.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OfClusters {
    /// Scale.
    pub sigma: f64,
    /// Shape.
    pub xi: f64,
    /// Negative log-likelihood.
    pub nllh: f64,
    /// Number of clusters above the threshold.
    pub clusters: u64,
}

/// A generalised extreme-value distribution of block maxima, fitted by maximum likelihood, with two-sided profile
/// intervals.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Gev {
    /// Location.
    pub mu: f64,
    /// Scale.
    pub sigma: f64,
    /// Shape.
    pub xi: f64,
    /// Negative log-likelihood.
    pub nllh: f64,
    /// Number of blocks.
    pub blocks: u64,
    /// Interval of the location at the requested confidence, two-sided; like the others open for a shape of -0.5 or below.
    pub mu_interval: Interval,
    /// Interval of the scale.
    pub sigma_interval: Interval,
    /// Of the shape.
    pub xi_interval: Interval,
    /// End of the tail if the shape is negative: of the model, not of the machine.
    pub endpoint: Option<f64>,
    /// Its profile interval.
    pub endpoint_interval: Interval,
}
