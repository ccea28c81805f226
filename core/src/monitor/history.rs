//! The history of a monitor: the maxima of consecutive windows, as table, CSV and JSON. The plot is
//! [`crate::report::history`].

mod cases;
mod csv;
mod exceeded;
mod jobs;
mod text;

use std::collections::BTreeMap;

use serde::Serialize;

use super::event::Event;
use super::exceedance;
use super::packed::{self, Allowance, Damaged};
use super::window::{Held, SeriesKey, UnixMs};
use crate::histogram::Histogram;
use crate::numbers::quantile;
use crate::peak::Peak;
use crate::time::Ns;

pub use cases::WorstCase;

/// Value of `format` in the JSON form.
pub const FORMAT: &str = "lathunt-history";
/// Version of the JSON form.
pub const VERSION: u32 = 1;

/// One series in one window. Histogram and explanation are unpacked on demand, because those of thirty hours of a large
/// machine would fill its memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Start of the window.
    pub begin: UnixMs,
    /// Its end.
    pub end: UnixMs,
    /// Measured time.
    pub measured: Ns,
    /// Whether it is complete, from boundary to boundary, without a clock step.
    pub whole: bool,
    /// The series.
    pub key: SeriesKey,
    /// Figures of its samples.
    pub figures: WindowFigures,
    /// Known number of lost wake-ups.
    pub lost: u64,
    /// Time of the maximum, if known.
    pub max_at: Option<UnixMs>,
    /// Victim of the maximum, if there is evidence.
    pub victim: Option<String>,
    /// Its culprit.
    pub culprit: Option<String>,
    /// Deadline and misses, for `response`.
    pub held: Option<Held>,
    /// The histogram, packed by [`packed::pack`].
    pub histogram: Vec<u8>,
    /// The maximum with its explanation, packed by [`packed::pack_peak`].
    pub peak: Option<Vec<u8>>,
}

/// Figures of one series in one window; `None`: no samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowFigures {
    /// Number of samples.
    pub count: u64,
    /// Their sum, exact.
    pub sum_ns: u64,
    /// Upper edges of the classes with the quantiles 0.5, 0.99, 0.999 and 0.9999 of these samples.
    pub quantiles: [Option<Ns>; 4],
    /// The largest, exact.
    pub max: Option<Ns>,
}

/// The quantiles of [`WindowFigures`].
pub const QUANTILES: [f64; 4] = [0.5, 0.99, 0.999, 0.9999];

impl WindowFigures {
    /// Figures of a histogram.
    #[must_use]
    pub fn of(histogram: &Histogram) -> WindowFigures {
        WindowFigures {
            count: histogram.count(),
            sum_ns: histogram.sum_ns(),
            quantiles: QUANTILES.map(|q| histogram.quantile(q)),
            max: histogram.max(),
        }
    }

    /// Arithmetic mean.
    #[must_use]
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64)
    }
}

impl Row {
    /// All samples.
    ///
    /// # Errors
    /// If the record is damaged.
    pub fn histogram(&self) -> Result<Histogram, Damaged> {
        packed::unpack(&self.histogram)
    }

    /// The quantiles of all samples, including lost ones; `None` if a quantile may be among these.
    ///
    /// # Errors
    /// If samples were lost and the record, which is needed then, is damaged.
    pub fn quantiles(&self) -> Result<[Option<Ns>; 4], Damaged> {
        match self.lost {
            0 => Ok(self.figures.quantiles),
            lost => self.histogram().map(|histogram| QUANTILES.map(|q| quantile(&histogram, lost, q))),
        }
    }

    /// Message on the `damage` of this row's `record`.
    fn told(&self, record: &str, damage: &Damaged) -> String {
        format!("the {record} of {} in the window that ended at {}: {damage}", self.key, self.end)
    }

    /// The maximum with its explanation, if there is evidence; its size is taken from the `allowance` of the database.
    ///
    /// # Errors
    /// If the record is damaged, or the allowance is used up.
    pub fn peak(&self, allowance: &mut Allowance) -> Result<Option<Peak>, Damaged> {
        self.peak.as_deref().map(|bytes| packed::unpack_peak(bytes, allowance)).transpose()
    }
}

/// The largest latency of a series since the database was created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Alltime {
    /// The series.
    #[serde(flatten)]
    pub key: SeriesKey,
    /// The latency.
    pub max_ns: Ns,
    /// Its time; the end of its window if it is not known.
    pub at: UnixMs,
    /// Its victim.
    pub victim: Option<String>,
    /// Its culprit.
    pub culprit: Option<String>,
}

/// The history of a time span.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// Requested start.
    pub from: UnixMs,
    /// Requested end; `None`: now.
    pub until: Option<UnixMs>,
    /// Message of the monitor at its last start before the end: version, host, kernel, tasks, CPUs.
    pub monitor: Option<String>,
    /// Start and end of all windows, including those without samples.
    pub windows: Vec<(UnixMs, UnixMs)>,
    /// Their series, in time order.
    pub rows: Vec<Row>,
    /// Events of the monitor.
    pub events: Vec<Event>,
    /// The largest latency of each series ever.
    pub alltime: Vec<Alltime>,
    /// Deadline of latencies; `None`: only jobs have a deadline.
    pub latency_deadline: Option<Ns>,
}

impl History {
    /// The rows of each series.
    #[must_use]
    pub fn by_series(&self) -> BTreeMap<SeriesKey, Vec<&Row>> {
        let mut all: BTreeMap<SeriesKey, Vec<&Row>> = BTreeMap::new();
        self.rows.iter().for_each(|row| all.entry(row.key).or_default().push(row));
        all
    }

    /// Keeps only the series that `wanted` selects; windows and events stay.
    #[must_use]
    pub fn only(mut self, wanted: impl Fn(SeriesKey) -> bool) -> History {
        self.rows.retain(|row| wanted(row.key));
        self.alltime.retain(|alltime| wanted(alltime.key));
        self
    }

    /// `since 2026-11-26T07:00:00Z`, or `from … to …`.
    #[must_use]
    pub fn asked(&self) -> String {
        match self.until {
            Some(until) => format!("from {} to {until}", self.from),
            None => format!("since {}", self.from),
        }
    }

    /// For the peaks of all rows.
    fn allowance(&self) -> Allowance {
        Allowance::of(self.rows.iter().filter_map(|row| row.peak.as_ref()).map(Vec::len).sum())
    }

    /// JSON: windows with their series, events and the largest latencies (docs/FORMAT.md). A damaged record is null; a
    /// line about each is added to `damaged`.
    #[must_use]
    pub fn to_json(&self, damaged: &mut Vec<String>) -> String {
        let mut text =
            format!("{{\"format\":\"{FORMAT}\",\"version\":{VERSION},\"from\":{},\"rows\":[", self.from.0);
        let mut allowance = self.allowance();
        for (index, row) in self.rows.iter().enumerate() {
            let mut note = |record: &str, damage| damaged.push(row.told(record, &damage));
            let histogram = row.histogram().map_err(|damage| note("histogram", damage)).ok();
            let peak = row.peak(&mut allowance).map_err(|damage| note("maximum", damage)).ok().flatten();
            let value = serde_json::json!({
                "begin": row.begin, "end": row.end, "measured_ns": row.measured, "whole": row.whole,
                "quantity": row.key.quantity, "cpu": row.key.whose.cpu(), "task": row.key.whose.task(),
                "lost": row.lost, "histogram": histogram, "max_at": row.max_at, "peak": peak,
                "deadline_ns": row.held.map(|held| held.deadline), "misses": row.held.map(|held| held.misses),
            });
            text.push_str(if index > 0 { "," } else { "" });
            text.push_str(&value.to_string());
        }
        let rest = serde_json::json!({
            "windows": self.windows, "events": self.events, "alltime": self.alltime,
            "confidence": exceedance::CONFIDENCE, "exceedance": self.exceedances(),
            "until": self.until, "monitor": self.monitor,
        });
        text + "]," + rest.to_string().trim_start_matches('{')
    }
}

/// The quantile of the samples of all `rows` of one series; `None` if it may be among lost ones, or if a record is
/// damaged.
fn quantile_of_all(rows: &[&Row], q: f64) -> Option<Ns> {
    let mut sum = rows.first()?.histogram().ok()?;
    rows[1..].iter().try_for_each(|row| packed::add(&mut sum, &row.histogram)).ok()?;
    quantile(&sum, rows.iter().fold(0, |lost, row| row.lost.saturating_add(lost)), q)
}

#[cfg(test)]
pub(crate) mod tests;
