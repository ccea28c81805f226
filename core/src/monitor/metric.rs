//! Metrics as values, and their encoding in the three formats that Prometheus and compatible servers accept.
//!
//! A histogram is kept as ours, with exact extremes; its encoding depends on the format: at most 20 classic buckets in
//! text, in protobuf also native (exponential) buckets. A class of ours goes as a whole into the bucket of its upper
//! edge: a latency is never shown smaller than it was, and larger by less than the width of a class.
//!
//! Own code: the crate prometheus-client supports neither text 0.0.4, nor the delimited protobuf that Prometheus
//! scrapes, nor native histograms (docs/decisions/0009-exporters.md).

pub mod accept;
pub mod native;
pub mod protobuf;
pub mod text;

use crate::histogram::Histogram;

/// Metrics of one name.
#[derive(Clone, Debug)]
pub struct Family {
    /// The name with its unit, without `_total`.
    pub name: &'static str,
    /// Help text, one line.
    pub help: &'static str,
    /// Kind of metric.
    pub kind: Kind,
    /// One for each set of labels.
    pub samples: Vec<Sample>,
}

/// Kinds of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Monotonically increasing.
    Counter,
    /// Any value.
    Gauge,
    /// A distribution whose counts only increase.
    Histogram,
}

/// Name and value.
pub type Label = (&'static str, String);

/// One metric.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Bounded sets only: CPUs, kinds, classes, names of tasks up to a limit. Never a thread's id.
    pub labels: Vec<Label>,
    /// Its value.
    pub value: Value,
}

/// Value of a metric.
#[derive(Clone, Debug)]
pub enum Value {
    /// Value of a counter or gauge.
    Number(f64),
    /// Value of a histogram: latencies in ns.
    Latencies(Box<Latencies>),
}

/// A histogram with exemplars for some of its buckets.
#[derive(Clone, Debug)]
pub struct Latencies {
    /// All samples.
    pub histogram: Histogram,
    /// Exemplars of some samples; only the last of each bucket is shown.
    pub exemplars: Vec<Exemplar>,
}

/// An exemplar: one sample of a histogram with its labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Exemplar {
    /// Victim and culprit; [`Exemplar::new`] keeps them within what OpenMetrics allows.
    pub labels: Vec<Label>,
    /// The latency, seconds.
    pub seconds: f64,
    /// Time, seconds since 1970.
    pub at: f64,
}

/// Maximum total characters of the names and values of an exemplar's labels (OpenMetrics 1.0).
const EXEMPLAR_RUNES: usize = 128;

impl Exemplar {
    /// Truncates the values evenly to the limit.
    #[must_use]
    pub fn new(labels: Vec<Label>, seconds: f64, at: f64) -> Exemplar {
        let names: usize = labels.iter().map(|(name, _)| name.len()).sum();
        let each = (EXEMPLAR_RUNES - names) / labels.len().max(1);
        let cut = |(name, value): Label| (name, crate::printable::line(&value).chars().take(each).collect());
        Exemplar { labels: labels.into_iter().map(cut).collect(), seconds, at }
    }
}

/// Upper bounds of the classic buckets, seconds; with `+Inf` these are 20.
pub const BOUNDS: [f64; 19] = [
    5e-6, 10e-6, 20e-6, 30e-6, 50e-6, 75e-6, 100e-6, 150e-6, 200e-6, 300e-6, 500e-6, 1e-3, 2e-3, 5e-3, 10e-3,
    20e-3, 50e-3, 100e-3, 1.0,
];

/// Upper edge of a class, seconds: the first value that is not in it.
fn edge_seconds(upper: crate::time::Ns) -> f64 {
    (upper.0 as f64 + 1.0) / 1e9
}

/// Samples up to each of [`BOUNDS`], and all.
#[must_use]
pub fn classic(histogram: &Histogram) -> [u64; BOUNDS.len() + 1] {
    let mut buckets = [0; BOUNDS.len() + 1];
    for (_, upper, count) in histogram.occupied() {
        buckets[bucket_of(edge_seconds(upper))] += count;
    }
    let mut sum = 0;
    buckets.map(|count| {
        sum += count;
        sum
    })
}

/// The classic bucket of `seconds`. Edges are whole µs, which are not exact in binary: tolerates an error of 10^-9.
fn bucket_of(seconds: f64) -> usize {
    BOUNDS.partition_point(|bound| *bound * (1.0 + 1e-9) < seconds)
}

/// The last exemplar of each classic bucket. Its bucket is that of its class, so that it is consistent with the counts.
fn exemplars(latencies: &Latencies) -> [Option<&Exemplar>; BOUNDS.len() + 1] {
    let layout = latencies.histogram.layout();
    let mut chosen: [Option<&Exemplar>; BOUNDS.len() + 1] = [None; BOUNDS.len() + 1];
    for exemplar in &latencies.exemplars {
        let class = layout.index(crate::time::Ns((exemplar.seconds * 1e9).round() as u64));
        let place = &mut chosen[bucket_of(edge_seconds(layout.upper(class)))];
        if place.is_none_or(|earlier| earlier.at <= exemplar.at) {
            *place = Some(exemplar);
        }
    }
    chosen
}

#[cfg(test)]
mod tests;
