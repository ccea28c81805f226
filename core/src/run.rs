//! The run: everything one measurement found, in one versioned file (`*.lathunt.json`, docs/FORMAT.md).

use serde::{Deserialize, Serialize};

use crate::application::Task;
use crate::conditions::Conditions;
use crate::idle::IdleComparison;
use crate::on_late::OnLate;
use crate::peak::Peak;
use crate::series::{Quantity, Series};
use crate::set_run::SetRun;
use crate::time::{Cpu, Ns};
use crate::verdict::{Outcome, Verdict};
use crate::warm_up::WarmUp;

/// Value of `format` in every run file.
pub const FORMAT: &str = "lathunt-run";
/// The version this code writes. Readers accept it and all older ones.
pub const VERSION: u32 = 1;

/// One measurement with all it rests on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Run {
    /// Always `lathunt-run`.
    pub format: String,
    /// Version of the format.
    pub version: u32,
    /// False while the measurement is still going on (a file that was saved on the way), and of one that was stopped before
    /// its time (`conditions.during.ended_early` has the reason then).
    pub complete: bool,
    /// Under which conditions.
    pub conditions: Conditions,
    /// Whether the instruments were proved to see what they should.
    pub calibration: Vec<Calibration>,
    /// What was measured.
    pub series: Vec<Series>,
    /// The worst cases, worst first.
    pub peaks: Vec<Peak>,
    /// Threads of the recorded system, the one with the largest latency first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<Task>,
    /// Who scheduled the task set (`tasks run`): `fifo`, `rr`, `deadline`, `other`, or `file` where its threads differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<String>,
    /// Jobs of all threads of the task set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs: Option<u64>,
    /// Of those, jobs that were later than their deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub misses: Option<u64>,
    /// The figures of the task set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_set: Option<SetRun>,
    /// Who took time from threads, per CPU and source, the largest total first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interference: Vec<Interference>,
    /// What recording cost, where it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub penalty: Option<Penalty>,
    /// Records that were lost, by counter (only those above zero).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub losses: Vec<Loss>,
    /// What was done on late cases, where `--on-late` asked for something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_late: Option<OnLate>,
    /// Idle states as they are against limited ones, where both were measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<IdleComparison>,
    /// What was measured before it counted (`--warm-up`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_up: Option<WarmUp>,
    /// What may be claimed.
    pub verdict: Option<Verdict>,
    /// The runs that were merged into this one; empty: it is a measurement of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub merged: Vec<MergedRun>,
}

/// One of the runs that were merged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MergedRun {
    /// Its name in reasons, peaks and sources of interference.
    pub name: String,
    /// Under which conditions it was measured.
    pub conditions: Conditions,
    /// Whether its instruments were proved.
    pub calibration: Vec<Calibration>,
    /// Its verdict.
    pub outcome: Option<Outcome>,
    /// The deadline that it was held against.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ns: Option<Ns>,
    /// The quantity that its verdict is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judged: Option<Quantity>,
    /// What it contributed.
    pub series: Vec<MergedSeries>,
}

/// What one run contributed to a quantity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MergedSeries {
    /// What was measured.
    pub quantity: Quantity,
    /// Samples.
    pub samples: u64,
    /// The largest.
    pub max_ns: Option<Ns>,
    /// The largest of each second over all of its series, in time order; of stretches of `maxima_stretch` seconds. Empty: not
    /// known, or not of the quantity that the verdict is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub maxima_ns: Vec<Ns>,
    /// Length of the stretches, seconds; 0 without maxima.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub maxima_stretch: u32,
}

fn is_zero(stretch: &u32) -> bool {
    *stretch == 0
}

/// A known disturbance and what was seen of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Calibration {
    /// On which CPU.
    pub cpu: Cpu,
    /// Kind of disturbance (`preemptoff`, …).
    pub kind: String,
    /// How much of it lay after a programmed wake-up: what an instrument must see, give or take.
    pub injected_ns: Option<Ns>,
    /// What the instrument measured.
    pub instrument_ns: Option<Ns>,
    /// What the recorder measured; `None` where there is no recorder.
    pub recorder_ns: Option<Ns>,
    /// Median latency without the disturbance.
    pub undisturbed_ns: Option<Ns>,
    /// Whether they agree.
    pub passed: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// Time that one source of interrupts took on one CPU, net of what interrupted it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interference {
    /// Where.
    pub cpu: Cpu,
    /// Who: `hard IRQ 25 (virtio0)`, `vector local_timer`, `softirq NET_RX`, `NMI`.
    pub source: String,
    /// How often.
    pub count: u64,
    /// In all.
    pub total_ns: Ns,
    /// The longest.
    pub max_ns: Ns,
}

/// Round trips of two ordinary threads through a pipe, bare and recorded, in turns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Penalty {
    /// Where.
    pub cpu: Cpu,
    /// Median CPU time of one round trip (two wake-ups, two switches) without the recorder.
    pub bare_ns: Ns,
    /// With it.
    pub recorded_ns: Ns,
    /// Recorded : bare, the median of the turns.
    pub ratio: f64,
    /// Turns of each.
    pub turns: u32,
    /// Round trips a turn.
    pub round_trips: u32,
}

/// A loss counter above zero.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Loss {
    /// Name of the counter.
    pub counter: String,
    /// How many.
    pub count: u64,
    /// What it means for the result.
    pub meaning: String,
    /// It touches explanations alone: no sample of an instrument was lost by it.
    #[serde(default)]
    pub evidence_only: bool,
}

/// Two parts of a run file that exclude one another.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the file contradicts itself: {0}")]
pub struct Contradiction(pub String);

/// Why a run file cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotARun {
    /// No JSON.
    #[error("not a run file: {0}")]
    Json(#[from] serde_json::Error),
    /// JSON of something else.
    #[error("not a run file: its \"format\" is {0}, expected \"{FORMAT}\"")]
    Format(String),
    /// Written by a newer version, or by none.
    #[error("run file of version {0}; this lathunt reads 1 to {VERSION}{hint}", hint = newer(*.0))]
    Version(u64),
    /// Two parts of it exclude one another.
    #[error(transparent)]
    Contradiction(#[from] Contradiction),
}

fn newer(version: u64) -> &'static str {
    if version > u64::from(VERSION) {
        ": use a newer lathunt"
    } else {
        ""
    }
}

impl Run {
    /// An empty run under `conditions`.
    #[must_use]
    pub fn new(conditions: Conditions) -> Run {
        Run {
            format: FORMAT.to_owned(),
            version: VERSION,
            complete: true,
            conditions,
            calibration: Vec::new(),
            series: Vec::new(),
            peaks: Vec::new(),
            tasks: Vec::new(),
            scheduler: None,
            jobs: None,
            misses: None,
            task_set: None,
            interference: Vec::new(),
            penalty: None,
            losses: Vec::new(),
            on_late: None,
            idle: None,
            warm_up: None,
            verdict: None,
            merged: Vec::new(),
        }
    }

    /// The text of a run file.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self)
            .unwrap_or_else(|error| unreachable!("a run has only string keys: {error}"))
    }

    /// It was stopped before the time that was asked for: `why` is one line with both times.
    pub fn stopped(&mut self, why: String) {
        self.complete = false;
        self.conditions.during.ended_early.push(why);
    }

    /// Saved on the way by a measurement that still goes on, or that was killed. One that was stopped has ended.
    #[must_use]
    pub fn is_unfinished(&self) -> bool {
        !self.complete && self.conditions.during.ended_early.is_empty()
    }

    /// The series that were measured by `quantity`, in order.
    pub fn of(&self, quantity: Quantity) -> impl Iterator<Item = &Series> {
        self.series.iter().filter(move |series| series.quantity == quantity)
    }

    /// The largest latency of any series of `quantity`; `None` when there is no sample.
    #[must_use]
    pub fn max_of(&self, quantity: Quantity) -> Option<Ns> {
        self.of(quantity).filter_map(|series| series.histogram.max()).max()
    }
}
