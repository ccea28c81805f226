//! The state of a running measurement, as the display needs it. Computes, never draws.

use lathunt_core::time::Ns;

/// One line of the table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// `CPU 0`.
    pub label: String,
    /// Samples so far.
    pub count: u64,
    /// Smallest latency; `None` before the first sample, as all below.
    pub min: Option<Ns>,
    /// The most recent.
    pub now: Option<Ns>,
    /// Mean, ns.
    pub mean_ns: Option<f64>,
    /// 99.9th percentile.
    pub p999: Option<Ns>,
    /// Largest.
    pub max: Option<Ns>,
    /// Activations that passed during a stall.
    pub missed: u64,
    /// Cause of the latest explained peak, or the remark.
    pub culprit: String,
}

/// Progress of a measurement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// Present phase: `measuring under load`.
    pub phase: String,
    /// Time since the measurement began.
    pub elapsed: Ns,
    /// Planned length; `None`: until stopped.
    pub planned: Option<Ns>,
    /// Heading of the last column, if that is not the last culprit.
    pub remark: Option<&'static str>,
    /// One row per CPU.
    pub rows: Vec<Row>,
}

impl Progress {
    /// Share done, 0 to 1.
    #[must_use]
    pub fn share(&self) -> Option<f64> {
        let planned = self.planned.filter(|&planned| planned > Ns::ZERO)?;
        Some((self.elapsed.0 as f64 / planned.0 as f64).min(1.0))
    }

    /// The row with the largest latency.
    #[must_use]
    pub fn worst(&self) -> Option<&Row> {
        self.rows.iter().max_by_key(|row| row.max)
    }
}
