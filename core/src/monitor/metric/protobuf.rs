//! Delimited protobuf: `io.prometheus.client.MetricFamily`, each with its length before it. The form in which
//! Prometheus scrapes native histograms (prometheus/client_model, metrics.proto; field numbers are from there).
//!
//! The messages are handwritten with prost's derive: there are only seven, and generating them would need protoc.

use prost::Message;

use super::{classic, exemplars, native, Exemplar, Family, Kind, Label, Latencies, Sample, Value, BOUNDS};

/// The media type of these bytes.
pub const MEDIA_TYPE: &str =
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";

#[derive(Clone, PartialEq, Message)]
pub(super) struct MetricFamily {
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub help: Option<String>,
    /// 0 counter, 1 gauge, 4 histogram.
    #[prost(int32, optional, tag = "3")]
    pub kind: Option<i32>,
    #[prost(message, repeated, tag = "4")]
    pub metric: Vec<Metric>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Metric {
    #[prost(message, repeated, tag = "1")]
    pub label: Vec<LabelPair>,
    #[prost(message, optional, tag = "2")]
    pub gauge: Option<Number>,
    #[prost(message, optional, tag = "3")]
    pub counter: Option<Number>,
    #[prost(message, optional, tag = "7")]
    pub histogram: Option<Histogram>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LabelPair {
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub value: Option<String>,
}

/// Gauge and Counter have the same shape.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Number {
    #[prost(double, optional, tag = "1")]
    pub value: Option<f64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Histogram {
    #[prost(uint64, optional, tag = "1")]
    pub sample_count: Option<u64>,
    #[prost(double, optional, tag = "2")]
    pub sample_sum: Option<f64>,
    #[prost(message, repeated, tag = "3")]
    pub bucket: Vec<Bucket>,
    #[prost(sint32, optional, tag = "5")]
    pub schema: Option<i32>,
    #[prost(double, optional, tag = "6")]
    pub zero_threshold: Option<f64>,
    #[prost(uint64, optional, tag = "7")]
    pub zero_count: Option<u64>,
    #[prost(message, repeated, tag = "12")]
    pub positive_span: Vec<Span>,
    #[prost(sint64, repeated, tag = "13")]
    pub positive_delta: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Bucket {
    #[prost(uint64, optional, tag = "1")]
    pub cumulative_count: Option<u64>,
    #[prost(double, optional, tag = "2")]
    pub upper_bound: Option<f64>,
    #[prost(message, optional, tag = "3")]
    pub exemplar: Option<WireExemplar>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Span {
    #[prost(sint32, optional, tag = "1")]
    pub offset: Option<i32>,
    #[prost(uint32, optional, tag = "2")]
    pub length: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WireExemplar {
    #[prost(message, repeated, tag = "1")]
    pub label: Vec<LabelPair>,
    #[prost(double, optional, tag = "2")]
    pub value: Option<f64>,
    #[prost(message, optional, tag = "3")]
    pub timestamp: Option<Timestamp>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Timestamp {
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

/// The bytes of `families`.
#[must_use]
pub fn encode(families: &[Family]) -> Vec<u8> {
    families.iter().flat_map(|family| wire(family).encode_length_delimited_to_vec()).collect()
}

fn wire(family: &Family) -> MetricFamily {
    let (kind, suffix) = match family.kind {
        Kind::Counter => (0, "_total"),
        Kind::Gauge => (1, ""),
        Kind::Histogram => (4, ""),
    };
    MetricFamily {
        name: Some(format!("{}{suffix}", family.name)),
        help: Some(family.help.to_owned()),
        kind: Some(kind),
        metric: family.samples.iter().map(|sample| metric(family.kind, sample)).collect(),
    }
}

fn metric(kind: Kind, sample: &Sample) -> Metric {
    let mut metric = Metric { label: pairs(&sample.labels), ..Metric::default() };
    match (&sample.value, kind) {
        (Value::Number(value), Kind::Counter) => metric.counter = Some(Number { value: Some(*value) }),
        (Value::Number(value), _) => metric.gauge = Some(Number { value: Some(*value) }),
        (Value::Latencies(latencies), _) => metric.histogram = Some(histogram(latencies)),
    }
    metric
}

fn pairs(labels: &[Label]) -> Vec<LabelPair> {
    let pair =
        |(name, value): &Label| LabelPair { name: Some((*name).to_owned()), value: Some(value.clone()) };
    labels.iter().map(pair).collect()
}

fn histogram(latencies: &Latencies) -> Histogram {
    let counts = classic(&latencies.histogram);
    let exemplars = exemplars(latencies);
    let native = native::buckets(&latencies.histogram);
    let bounds = BOUNDS.into_iter().chain([f64::INFINITY]);
    let bucket = |((bound, count), exemplar): ((f64, u64), Option<&Exemplar>)| Bucket {
        cumulative_count: Some(count),
        upper_bound: Some(bound),
        exemplar: exemplar.map(wire_exemplar),
    };
    Histogram {
        sample_count: Some(latencies.histogram.count()),
        sample_sum: Some(latencies.histogram.sum_ns() as f64 / 1e9),
        bucket: bounds.zip(counts).zip(exemplars).map(bucket).collect(),
        schema: Some(native::SCHEMA),
        zero_threshold: Some(native::ZERO_THRESHOLD),
        zero_count: Some(0),
        positive_span: native
            .spans
            .into_iter()
            .map(|(offset, length)| Span { offset: Some(offset), length: Some(length) })
            .collect(),
        positive_delta: native.deltas,
    }
}

fn wire_exemplar(exemplar: &Exemplar) -> WireExemplar {
    let seconds = exemplar.at.floor();
    WireExemplar {
        label: pairs(&exemplar.labels),
        value: Some(exemplar.seconds),
        timestamp: Some(Timestamp { seconds: seconds as i64, nanos: ((exemplar.at - seconds) * 1e9) as i32 }),
    }
}
