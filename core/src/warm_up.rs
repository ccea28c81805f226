//! Samples from the start of a measurement that are kept separate: caches, clocks and idle governors were cold.
//!
//! They are not part of the judged series, so the verdict reports them: a worst case must not be hidden as warm-up.

use serde::{Deserialize, Serialize};

use crate::numbers::{grouped, plural};
use crate::peak::Peak;
use crate::series::Series;
use crate::time::Ns;

/// The warm-up of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WarmUp {
    /// Requested length.
    pub length_ns: Ns,
    /// One series per thread, as in the run.
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

    /// The warm-up in one line; `measured` is the largest sample of the measurement, `deadline` its deadline.
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
            "not judged: the warm-up of {}, {} {}, {missed} missed, largest {beyond}",
            self.length_ns,
            grouped(samples),
            plural(samples, "sample")
        )
    }
}
