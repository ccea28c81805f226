//! The answer of `lathunt bound`, as it is written with `--json`. Described in docs/FORMAT.md.

use serde::Serialize;

use crate::verdict::Criterion;

/// Value of `format`.
pub const FORMAT: &str = "lathunt-bound";
/// Version of the format.
pub const VERSION: u32 = 1;

/// What may still come: three answers that are never mixed, and the reasons to believe each.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Answer {
    /// Always `lathunt-bound`.
    pub format: String,
    /// Version of the format.
    pub version: u32,
    /// What was analysed.
    pub about: String,
    /// `ns`, or `as given` for plain numbers: then the fields named `_ns` are in the unit of the numbers.
    pub unit: String,
    /// What was seen, and how far that evidence reaches.
    pub observed: Observed,
    /// Path analysis over measured terms.
    pub bound: PathBound,
    /// A fitted tail, only when every gate passes.
    pub extrapolated: Extrapolated,
    /// The tests that an extrapolation must pass.
    pub gates: Vec<Gate>,
    /// OSADL's four criteria of a latency measurement.
    pub criteria: Vec<Criterion>,
    /// The generalised Pareto tail; `null` where none could be fitted. Reported also where a gate refuses it.
    pub gpd: Option<Gpd>,
    /// The distribution of block maxima; `null` where none could be fitted.
    pub gev: Option<Gev>,
    /// What limits the answer, one line each.
    pub notes: Vec<String>,
}

/// What holds without any model of the tail.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Observed {
    /// Activations that were observed.
    pub samples: u64,
    /// `theta * samples`: as many independent ones say as much. `null`: `theta` is not known.
    pub effective_samples: Option<u64>,
    /// Extremal index: 1 for independent samples, 1/k for clusters of k.
    pub theta: Option<f64>,
    /// The largest.
    pub max_ns: f64,
    /// The level of the statement: the deadline, or the largest observed.
    pub level_ns: f64,
    /// Samples above the level, and those of which that is not known.
    pub above: u64,
    /// Upper limit of the probability that an activation exceeds the level; `null` where the order in time is unknown
    /// and nothing else allows a statement.
    pub probability_upper: Option<f64>,
    /// One-sided confidence.
    pub confidence: f64,
    /// What the statement rests on.
    pub reason: String,
}

/// The bound of a path analysis.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PathBound {
    /// The bound; `null` with a reason.
    pub value_ns: Option<f64>,
    /// What it rests on, or why there is none.
    pub reason: String,
    /// The measured terms.
    pub terms: Vec<Term>,
}

impl PathBound {
    /// No bound, with the reason.
    #[must_use]
    pub fn none(reason: &str) -> PathBound {
        PathBound { value_ns: None, reason: reason.to_owned(), terms: Vec::new() }
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
}

/// What the fitted tail says.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Extrapolated {
    /// The level of largest likelihood; `null` when a gate refuses.
    pub value_ns: Option<f64>,
    /// The upper limit at the confidence asked for: the number to use.
    pub upper_ns: Option<f64>,
    /// Probability with which one activation (or one block) exceeds it.
    pub level: f64,
    /// What it rests on, or which gate refused, and what to do next.
    pub reason: String,
    /// What must be true of the machine, which no gate can test; `null` when a gate refuses.
    pub assumes: Option<String>,
}

impl Extrapolated {
    /// No number for `level` yet. Its reason is empty until a gate refuses.
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
    /// Whether it passed. A test that could not be made did not pass.
    pub passed: bool,
    /// p-value, before Holm's correction; `null` for what is no test of a hypothesis.
    pub p: Option<f64>,
    /// Its figures, and what to do where it did not pass.
    pub detail: String,
}

/// A profile interval; an end that the likelihood does not close is `null`.
pub type Interval = (Option<f64>, Option<f64>);

/// A generalised Pareto tail, of largest likelihood, with two-sided profile intervals.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Gpd {
    /// Excesses are over this.
    pub threshold: f64,
    /// Scale.
    pub sigma: f64,
    /// Shape.
    pub xi: f64,
    /// Negative logarithm of the likelihood.
    pub nllh: f64,
    /// Samples above the threshold.
    pub exceedances: u64,
    /// Share of all samples above it.
    pub zeta: f64,
    /// Whether the fit is on the maxima of clusters instead of all samples above.
    pub declustered: bool,
    /// Width of the classes that entered the likelihood; `null`: exact values.
    pub class_width: Option<f64>,
    /// Of the scale, at the confidence asked for, two-sided.
    pub sigma_interval: Interval,
    /// Of the shape.
    pub xi_interval: Interval,
}

/// A generalised extreme-value distribution of block maxima, of largest likelihood, with two-sided profile intervals.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Gev {
    /// Location.
    pub mu: f64,
    /// Scale.
    pub sigma: f64,
    /// Shape.
    pub xi: f64,
    /// Negative logarithm of the likelihood.
    pub nllh: f64,
    /// Blocks.
    pub blocks: u64,
    /// Of the location, at the confidence asked for, two-sided.
    pub mu_interval: Interval,
    /// Of the scale.
    pub sigma_interval: Interval,
    /// Of the shape.
    pub xi_interval: Interval,
    /// End of the tail where the shape is negative: of the model, not of the machine.
    pub endpoint: Option<f64>,
    /// Its profile interval.
    pub endpoint_interval: Interval,
}
