//! The run: all results of one measurement, in one versioned file (`*.lathunt.json`, docs/FORMAT.md).

use serde::{Deserialize, Serialize};

use crate::application::Task;
use crate::conditions::Conditions;
use crate::idle::IdleComparison;
use crate::on_late::OnLate;
use crate::path_analysis::PathAnalysis;
use crate::peak::Peak;
use crate::printable;
use crate::series::{Quantity, Series, Thread};
use crate::set_run::SetRun;
use crate::time::{Cpu, Ns};
use crate::verdict::{Outcome, Verdict};
use crate::warm_up::WarmUp;

/// Value of `format` in every run file.
pub const FORMAT: &str = "lathunt-run";
/// The version this code writes. Readers accept it and all older ones.
pub const VERSION: u32 = 1;

/// One measurement: conditions, calibration, results and losses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Run {
    /// Always `lathunt-run`.
    pub format: String,
    /// Version of the format.
    pub version: u32,
    /// False in a file saved during the measurement, and if the measurement was stopped early
    /// (`conditions.during.ended_early` has the reason).
    pub complete: bool,
    /// Conditions of the measurement.
    pub conditions: Conditions,
    /// Known disturbances and what the instruments measured.
    pub calibration: Vec<Calibration>,
    /// What was measured.
    pub series: Vec<Series>,
    /// The peaks, worst first.
    pub peaks: Vec<Peak>,
    /// Threads of the recorded system, the one with the largest latency first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<Task>,
    /// Scheduling policy of the task set (`tasks run`): `fifo`, `rr`, `deadline`, `other`, or `file` where its threads
    /// differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<String>,
    /// Jobs of all threads of the task set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs: Option<u64>,
    /// Jobs of those that missed their deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub misses: Option<u64>,
    /// The figures of the task set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_set: Option<SetRun>,
    /// Time taken by interrupts, per CPU and source, the largest total first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interference: Vec<Interference>,
    /// The terms of a path analysis, per CPU (`record --path-analysis`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path_analysis: Vec<PathAnalysis>,
    /// Cost of the recorder, if it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub penalty: Option<AssumedPenalty>,
    /// Loss counters above zero.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub losses: Vec<Loss>,
    /// Actions on late cases (`--on-late`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_late: Option<OnLate>,
    /// Comparison with limited idle states, if both were measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<IdleComparison>,
    /// Samples of the warm-up, which do not count (`--warm-up`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_up: Option<WarmUp>,
    /// The verdict.
    pub verdict: Option<Verdict>,
    /// The runs merged into this one; empty in a run that is not a merge.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub merged: Vec<MergedRun>,
}

/// One of the merged runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MergedRun {
    /// Prefix of its reasons, peaks and sources of interference.
    pub name: String,
    /// Its conditions.
    pub conditions: Conditions,
    /// Its calibration.
    pub calibration: Vec<Calibration>,
    /// Its verdict.
    pub outcome: Option<Outcome>,
    /// The deadline it was judged against.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ns: Option<Ns>,
    /// The quantity that its verdict is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judged: Option<Quantity>,
    /// Its contribution to each quantity.
    pub series: Vec<MergedSeries>,
}

/// Contribution of one run to a quantity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MergedSeries {
    /// What was measured.
    pub quantity: Quantity,
    /// Samples.
    pub samples: u64,
    /// The largest.
    pub max_ns: Option<Ns>,
    /// Maximum over all of its series, per stretch of `maxima_stretch` seconds, in time order. Empty: not known, or not
    /// the judged quantity.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub maxima_ns: Vec<Ns>,
    /// Length of the stretches, seconds; 0 without maxima.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub maxima_stretch: u32,
}

fn is_zero(stretch: &u32) -> bool {
    *stretch == 0
}

/// A known disturbance and its measured size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Calibration {
    /// On which CPU.
    pub cpu: Cpu,
    /// Kind of disturbance (`preemptoff`, …).
    pub kind: String,
    /// Part of the disturbance after a programmed wake-up: the value that an instrument must measure, within a
    /// tolerance.
    pub injected_ns: Option<Ns>,
    /// Measured by the instrument.
    pub instrument_ns: Option<Ns>,
    /// Measured by the recorder; `None` without a recorder.
    pub recorder_ns: Option<Ns>,
    /// Median latency without the disturbance.
    pub undisturbed_ns: Option<Ns>,
    /// Whether the values agree.
    pub passed: bool,
    /// Reason if they do not.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// Time that one source of interrupts took on one CPU, excluding nested interrupts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interference {
    /// Where.
    pub cpu: Cpu,
    /// Source: `hard IRQ 25 (virtio0)`, `vector local_timer`, `softirq NET_RX`, `NMI`.
    pub source: String,
    /// Number of occurrences.
    pub count: u64,
    /// Total time.
    pub total_ns: Ns,
    /// Longest single occurrence.
    pub max_ns: Ns,
}

/// Round trips of two SCHED_OTHER threads through a pipe, without and with the recorder in alternation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AssumedPenalty {
    /// Where.
    pub cpu: Cpu,
    /// Median CPU time of one round trip (two wake-ups, two switches) without the recorder.
    pub bare_ns: Ns,
    /// Median CPU time of one round trip with the recorder.
    pub recorded_ns: Ns,
    /// Recorded / bare: median over the alternations.
    pub ratio: f64,
    /// Number of alternations.
    pub turns: u32,
    /// Round trips per alternation.
    pub round_trips: u32,
}

/// A loss counter above zero.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Loss {
    /// Name of the counter.
    pub counter: String,
    /// Its value.
    pub count: u64,
    /// Consequence for the result.
    pub meaning: String,
    /// Only explanations are affected: no sample was lost.
    #[serde(default)]
    pub evidence_only: bool,
}

/// Two parts of a run file contradict each other.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the file contradicts itself: {0}")]
pub struct Contradiction(pub String);

/// Maximum number of classes of the histograms of a run, beyond [`USUAL_CLASSES`] of each: 256 MiB.
pub const MOST_CLASSES: usize = 1 << 25;
/// Maximum number of values in a run file, 512 MiB in memory: a run of 3,000 CPUs has that many.
pub const MOST_ELEMENTS: usize = 1 << 25;
/// Maximum number of texts among them, 256 MiB in memory.
pub const MOST_TEXTS: usize = 1 << 22;
/// Classes that a histogram has without counting: those of latencies in rows of 1 µs.
pub const USUAL_CLASSES: usize = 12_000;

/// Why a run file cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotARun {
    /// Not JSON.
    #[error("not a run file: {0}")]
    Json(#[from] serde_json::Error),
    /// JSON of another format.
    #[error("not a run file: its \"format\" is {0}, expected \"{FORMAT}\"")]
    Format(String),
    /// Written by a newer version, or version 0.
    #[error("run file of version {0}; this lathunt reads 1 to {VERSION}{hint}", hint = newer(*.0))]
    Version(u64),
    /// Its histograms are larger than those of any instrument: a file of some kilobytes may ask for gigabytes.
    #[error("its histograms have more than {MOST_CLASSES} classes; no instrument writes such a run")]
    Classes,
    /// It has more values than any instrument writes: each takes more memory than its text.
    #[error(
        "it has more than {MOST_ELEMENTS} values or {MOST_TEXTS} texts; no instrument writes such a run"
    )]
    Elements,
    /// Two parts of it contradict each other.
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
    /// The figures of `thread`: a thread has several if its names had different deadlines, or its main wait changed.
    pub(crate) fn task_of(&self, thread: &Thread) -> Option<&Task> {
        let of_id = || self.tasks.iter().filter(|task| task.thread.tid == thread.tid);
        of_id().find(|task| task.thread.comm == thread.comm).or_else(|| of_id().next())
    }

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
            path_analysis: Vec::new(),
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
        let text = serde_json::to_string(self);
        printable::json(text.unwrap_or_else(|error| unreachable!("a run has only string keys: {error}")))
    }

    /// Marks the run as stopped early; `why` is one line with the requested and the actual duration.
    pub fn stopped(&mut self, why: String) {
        self.complete = false;
        self.conditions.during.ended_early.push(why);
    }

    /// Whether the file was saved by a measurement that is still running or was killed. A run that was stopped early is
    /// finished.
    #[must_use]
    pub fn is_unfinished(&self) -> bool {
        !self.complete && self.conditions.during.ended_early.is_empty()
    }

    /// Whether something was measured: a sample was taken, also if it was lost or only missed, or a thread was seen.
    #[must_use]
    pub fn has_samples(&self) -> bool {
        let silent = |series: &Series| {
            series.histogram.count() == 0 && series.lost == 0 && series.missed.unwrap_or(0) == 0
        };
        let others = self.penalty.is_some() || !self.path_analysis.is_empty() || !self.tasks.is_empty();
        others || !self.series.iter().all(silent)
    }

    /// The series of `quantity`, in order.
    pub fn of(&self, quantity: Quantity) -> impl Iterator<Item = &Series> {
        self.series.iter().filter(move |series| series.quantity == quantity)
    }

    /// The largest sample of all series of `quantity`; `None` without samples.
    #[must_use]
    pub fn max_of(&self, quantity: Quantity) -> Option<Ns> {
        self.of(quantity).filter_map(|series| series.histogram.max()).max()
    }
}
