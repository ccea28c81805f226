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
use super::packed::{self, Damaged};
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

/// One series in one window. Its figures are at hand; histogram and explanation are unpacked when asked for, because those
/// of thirty hours of a large machine would fill its memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Begin of the window.
    pub begin: UnixMs,
    /// Its end.
    pub end: UnixMs,
    /// How long it was measured.
    pub measured: Ns,
    /// Whether it runs from boundary to boundary without a clock step.
    pub whole: bool,
    /// Which series.
    pub key: SeriesKey,
    /// What a table says of its samples.
    pub figures: WindowFigures,
    /// Wake-ups known to be missing.
    pub lost: u64,
    /// When the maximum was, where that is known.
    pub max_at: Option<UnixMs>,
    /// Who suffered the maximum, where there is evidence.
    pub victim: Option<String>,
    /// Who did it.
    pub culprit: Option<String>,
    /// What its samples were held to, those of `response`.
    pub held: Option<Held>,
    /// The histogram as [`packed::pack`] made it.
    pub histogram: Vec<u8>,
    /// The maximum with its explanation as [`packed::pack_peak`] made it.
    pub peak: Option<Vec<u8>>,
}

/// Figures of one series in one window; `None`: no sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowFigures {
    /// Samples.
    pub count: u64,
    /// Their sum, exact.
    pub sum_ns: u64,
    /// Upper edges of the classes that hold the quantiles 0.5, 0.99, 0.999 and 0.9999 of these samples.
    pub quantiles: [Option<Ns>; 4],
    /// The largest, exact.
    pub max: Option<Ns>,
}

/// The quantiles of [`WindowFigures`].
pub const QUANTILES: [f64; 4] = [0.5, 0.99, 0.999, 0.9999];

impl WindowFigures {
    /// Of a histogram.
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
    /// When the record is damaged.
    pub fn histogram(&self) -> Result<Histogram, Damaged> {
        packed::unpack(&self.histogram)
    }

    /// The quantiles of all samples, the lost ones among them; `None` where they may lie among these.
    ///
    /// # Errors
    /// When some were lost and the record that then tells is damaged.
    pub fn quantiles(&self) -> Result<[Option<Ns>; 4], Damaged> {
        match self.lost {
            0 => Ok(self.figures.quantiles),
            lost => self.histogram().map(|histogram| QUANTILES.map(|q| quantile(&histogram, lost, q))),
        }
    }

    /// `damage`, said of this row's `record`.
    fn told(&self, record: &str, damage: &Damaged) -> String {
        format!("the {record} of {} in the window that ended at {}: {damage}", self.key, self.end)
    }

    /// The maximum with its explanation, where there is evidence.
    ///
    /// # Errors
    /// When the record is damaged.
    pub fn peak(&self) -> Result<Option<Peak>, Damaged> {
        self.peak.as_deref().map(packed::unpack_peak).transpose()
    }
}

/// The largest latency of a series since the database was begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Alltime {
    /// Which series.
    #[serde(flatten)]
    pub key: SeriesKey,
    /// How large.
    pub max_ns: Ns,
    /// When; the end of its window where the moment is not known.
    pub at: UnixMs,
    /// Who suffered it.
    pub victim: Option<String>,
    /// Who did it.
    pub culprit: Option<String>,
}

/// Everything of a stretch of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// From when on it was asked for.
    pub from: UnixMs,
    /// Until when; `None`: until now.
    pub until: Option<UnixMs>,
    /// What the monitor said at its last start before the end: version, host, kernel, tasks, CPUs.
    pub monitor: Option<String>,
    /// Begin and end of all windows, also of those without a sample.
    pub windows: Vec<(UnixMs, UnixMs)>,
    /// Their series, in the order of time.
    pub rows: Vec<Row>,
    /// What happened to the monitor.
    pub events: Vec<Event>,
    /// The largest latencies ever.
    pub alltime: Vec<Alltime>,
    /// What latencies are held to; `None`: jobs alone have a deadline.
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

    /// Only the series that `wanted` takes; windows and events stay.
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

    /// Each window with its series as one JSON object, events and the largest latencies beside them (docs/FORMAT.md).
    /// A damaged record is null; `damaged` gets a line about each.
    #[must_use]
    pub fn to_json(&self, damaged: &mut Vec<String>) -> String {
        let mut rows = Vec::new();
        for row in &self.rows {
            let mut note = |record: &str, damage| damaged.push(row.told(record, &damage));
            let histogram = row.histogram().map_err(|damage| note("histogram", damage)).ok();
            let peak = row.peak().map_err(|damage| note("maximum", damage)).ok().flatten();
            let value = serde_json::json!({
                "begin": row.begin, "end": row.end, "measured_ns": row.measured, "whole": row.whole,
                "quantity": row.key.quantity, "cpu": row.key.whose.cpu(), "task": row.key.whose.task(),
                "lost": row.lost, "histogram": histogram, "max_at": row.max_at, "peak": peak,
                "deadline_ns": row.held.map(|held| held.deadline), "misses": row.held.map(|held| held.misses),
            });
            rows.push(value.to_string());
        }
        let rest = serde_json::json!({
            "windows": self.windows, "events": self.events, "alltime": self.alltime,
            "confidence": exceedance::CONFIDENCE, "exceedance": self.exceedances(),
            "until": self.until, "monitor": self.monitor,
        });
        let rest = rest.to_string();
        format!(
            "{{\"format\":\"{FORMAT}\",\"version\":{VERSION},\"from\":{},\"rows\":[{}],{}",
            self.from.0,
            rows.join(","),
            rest.trim_start_matches('{')
        )
    }
}

/// The quantile of the samples of all `rows`, of one series; `None` where it may lie among lost ones, or where a record
/// is damaged.
fn quantile_of_all(rows: &[&Row], q: f64) -> Option<Ns> {
    let mut sum = rows.first()?.histogram().ok()?;
    rows[1..].iter().try_for_each(|row| packed::add(&mut sum, &row.histogram)).ok()?;
    quantile(&sum, rows.iter().fold(0, |lost, row| row.lost.saturating_add(lost)), q)
}

#[cfg(test)]
pub(crate) mod tests;
