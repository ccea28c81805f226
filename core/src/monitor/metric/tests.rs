use prost::Message;

use super::accept::Form;
use super::text::{number, Flavour};
use super::*;
use crate::histogram::Layout;
use crate::time::Ns;

fn latencies(us: &[u64]) -> Latencies {
    let mut histogram = Histogram::new(Layout::LATENCY);
    us.iter().for_each(|&us| histogram.record(Ns::from_us(us)));
    Latencies { histogram, exemplars: Vec::new() }
}

fn families() -> Vec<Family> {
    let mut with = latencies(&[3, 3, 15, 400, 2_500_000]);
    let exemplar =
        |culprit: &str, seconds, at| Exemplar::new(vec![("culprit", culprit.to_owned())], seconds, at);
    with.exemplars =
        vec![exemplar("a \"quoted\" one\\", 400e-6, 10.5), exemplar("long ".repeat(60).as_str(), 2.5, 11.0)];
    let labels = vec![("cpu", "0".to_owned())];
    vec![
        Family {
            name: "x_latency_seconds",
            help: "How late.",
            kind: Kind::Histogram,
            samples: vec![Sample { labels: labels.clone(), value: Value::Latencies(Box::new(with)) }],
        },
        Family {
            name: "x_lost_events",
            help: "Lost.",
            kind: Kind::Counter,
            samples: vec![Sample { labels, value: Value::Number(7.0) }],
        },
    ]
}

#[test]
fn no_latency_is_shown_smaller_than_it_was() {
    for us in (0..12_000).step_by(7).chain([20_000, 99_999, 1_500_000]) {
        let mut of = latencies(&[]);
        of.histogram.record(Ns(us * 1_000 + 999)); // the last of its class
        let seconds = us as f64 / 1e6 + 999e-9;
        let first = classic(&of.histogram).iter().position(|&count| count == 1).unwrap();
        let bound = BOUNDS.get(first).copied().unwrap_or(f64::INFINITY);
        assert!(bound >= seconds, "{us} us counted up to {bound}");
        let native = native::buckets(&of.histogram);
        let upper = 2f64.powf(f64::from(native.spans[0].0) / 8.0);
        assert!(
            upper >= seconds * (1.0 - 1e-9) && upper <= (seconds + 1e-9) * 1.13,
            "{us} us in a bucket up to {upper}"
        );
    }
}

#[test]
fn spans_and_deltas_hold_every_sample_in_its_bucket() {
    let of = latencies(&[1, 1, 1, 2, 50, 51, 52, 900, 900_000]);
    let native::Buckets { spans, deltas } = native::buckets(&of.histogram);
    assert_eq!(spans.iter().map(|(_, length)| *length as usize).sum::<usize>(), deltas.len());
    let (mut index, mut count, mut found) = (0, 0, Vec::new());
    let mut deltas = deltas.into_iter();
    for (offset, length) in spans {
        index += offset;
        for _ in 0..length {
            count += deltas.next().unwrap();
            if count > 0 {
                found.push((index, count));
            }
            index += 1;
        }
    }
    let mut expected = std::collections::BTreeMap::new();
    for us in [1, 1, 1, 2, 50, 51, 52, 900] {
        *expected.entry(native::index((us as f64 + 1.0) / 1e6)).or_insert(0) += 1;
    }
    let last = found.pop().unwrap();
    assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
    assert!(last.1 == 1 && (2f64.powf(f64::from(last.0) / 8.0) - 0.9).abs() < 0.1);
    assert_eq!(native::buckets(&latencies(&[]).histogram), native::Buckets::default());
}

#[test]
fn both_texts_are_what_their_readers_expect() {
    let text = text::encode(&families(), Flavour::Prometheus);
    for line in [
        "# TYPE x_latency_seconds histogram",
        "x_latency_seconds_bucket{cpu=\"0\",le=\"5e-06\"} 2",
        "x_latency_seconds_bucket{cpu=\"0\",le=\"0.0005\"} 4",
        "x_latency_seconds_bucket{cpu=\"0\",le=\"1\"} 4",
        "x_latency_seconds_bucket{cpu=\"0\",le=\"+Inf\"} 5",
        "x_latency_seconds_sum{cpu=\"0\"} 2.500421",
        "x_latency_seconds_count{cpu=\"0\"} 5",
        "# TYPE x_lost_events_total counter",
        "x_lost_events_total{cpu=\"0\"} 7",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    assert!(!text.contains(" # {"));
    let open = text::encode(&families(), Flavour::OpenMetrics);
    assert!(open.ends_with("\n# EOF\n") && open.contains("# TYPE x_lost_events counter\n"), "{open}");
    assert!(open.contains("le=\"1.0\"} 4\n") && open.contains("x_lost_events_total{cpu=\"0\"} 7\n"));
    assert!(
        open.contains("le=\"0.0005\"} 4 # {culprit=\"a \\\"quoted\\\" one\\\\\"} 0.0004 10.500\n"),
        "the exemplar of its bucket: {open}"
    );
    let long = open.lines().find(|line| line.contains("+Inf")).unwrap();
    assert!(long.contains("# {culprit=\"long ") && long.len() < 220, "{long}");
}

#[test]
fn protobuf_reads_back_with_both_kinds_of_buckets() {
    let bytes = protobuf::encode(&families());
    let mut rest = &bytes[..];
    let first = protobuf::MetricFamily::decode_length_delimited(&mut rest).unwrap();
    let second = protobuf::MetricFamily::decode_length_delimited(&mut rest).unwrap();
    assert!(rest.is_empty());
    assert_eq!((second.name.as_deref(), second.kind), (Some("x_lost_events_total"), Some(0)));
    let histogram = first.metric[0].histogram.clone().unwrap();
    assert_eq!((histogram.sample_count, histogram.bucket.len(), histogram.schema), (Some(5), 20, Some(3)));
    assert_eq!(histogram.bucket[19].upper_bound, Some(f64::INFINITY));
    let exemplar = histogram.bucket[10].exemplar.clone().unwrap();
    assert_eq!((exemplar.value, exemplar.timestamp.unwrap().nanos), (Some(400e-6), 500_000_000));
    let in_spans: u32 = histogram.positive_span.iter().filter_map(|span| span.length).sum();
    assert_eq!(in_spans as usize, histogram.positive_delta.len());
}

#[test]
fn what_prometheus_and_browsers_ask_for_is_what_they_get() {
    let open = Form::Text(Flavour::OpenMetrics);
    let plain = Form::Text(Flavour::Prometheus);
    for (accept, form) in [
        // Prometheus 2.42, without and with native histograms
        ("application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1", open),
        ("application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,application/openmetrics-text;version=1.0.0;q=0.8,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1", Form::Protobuf),
        ("text/html,application/xhtml+xml,*/*;q=0.8", plain),
        ("Application/OpenMetrics-Text;Version=1.0.0,TEXT/PLAIN;Q=0.5", open),
        ("", plain),
        ("application/openmetrics-text;version=7.0.0", plain),
        ("application/openmetrics-text;q=0,text/plain;q=0.1", plain),
        ("application/vnd.google.protobuf;proto=other;encoding=delimited", plain),
        (";;q=,,=", plain),
    ] {
        assert_eq!(Form::preferred(accept), form, "{accept}");
    }
}

#[test]
fn numbers_are_written_as_go_writes_them() {
    for (value, text) in [
        (5e-6, "5e-06"),
        (7.5e-5, "7.5e-05"),
        (1e-4, "0.0001"),
        (0.0, "0"),
        (1.0, "1"),
        (1e21, "1e+21"),
        (2.5, "2.5"),
    ] {
        assert_eq!(number(value), text);
    }
}

#[test]
fn of_the_exemplars_of_a_bucket_the_latest_is_shown() {
    let mut of = latencies(&[400, 450, 460]);
    let exemplar = |seconds, at| Exemplar::new(Vec::new(), seconds, at);
    of.exemplars = vec![exemplar(400e-6, 10.0), exemplar(450e-6, 12.0), exemplar(460e-6, 11.0)];
    let shown: Vec<_> = exemplars(&of).into_iter().flatten().map(|one| one.at).collect();
    assert_eq!(shown, [12.0]);
}
