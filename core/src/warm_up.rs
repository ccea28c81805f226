//! Samples from the beginning of a measurement that are kept apart: caches, clocks and idle governors were cold.
//!
//! They are no part of the series that a verdict is about, so a verdict says what they were: a worst case is not hidden by
//! being called a warm-up.

use serde::{Deserialize, Serialize};

use crate::peak::Peak;
use crate::series::Series;
use crate::time::Ns;

/// The warm-up of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WarmUp {
    /// How long it was to take.
    pub length_ns: Ns,
    /// One series a thread, as in the run.
    pub series: Vec<Series>,
    /// Its worst samples, worst first.
    pub peaks: Vec<Peak>,
}

impl WarmUp {
    /// The largest latency in it.
    #[must_use]
    pub fn max(&self) -> Option<Ns> {
        self.series.iter().filter_map(|series| series.histogram.max()).max()
    }

    /// What was kept apart, in one line; `measured` is the largest of the measurement, and `deadline` what it is held to.
    #[must_use]
    pub fn line(&self, measured: Option<Ns>, deadline: Option<Ns>) -> String {
        let samples: u64 = self.series.iter().map(|series| series.histogram.count()).sum();
        let missed: u64 = self.series.iter().filter_map(|series| series.missed).sum();
        let Some(max) = self.max() else {
            return format!("no sample was taken in the warm-up of {}", self.length_ns);
        };
        let beyond = match deadline {
            Some(deadline) if max > deadline => {
                let (max, deadline) = max.told_apart(deadline);
                format!("{max}, ABOVE the deadline of {deadline}")
            }
            _ if Some(max) > measured => format!("{max}, more than any after it"),
            _ => max.to_string(),
        };
        format!(
            "not judged: the warm-up of {}, {} samples, {missed} missed, largest {beyond}",
            self.length_ns,
            crate::numbers::grouped(samples)
        )
    }
}
