//! The two text forms: Prometheus' 0.0.4 and OpenMetrics 1.0. They differ in the names of counters, in exemplars, and in
//! the end mark.

use std::fmt::Write;

use super::{classic, exemplars, Exemplar, Family, Kind, Label, Sample, Value, BOUNDS};

/// One of the two text forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// `text/plain; version=0.0.4`
    Prometheus,
    /// `application/openmetrics-text; version=1.0.0`
    OpenMetrics,
}

impl Flavour {
    /// The media type of the text.
    #[must_use]
    pub fn media_type(self) -> &'static str {
        match self {
            Flavour::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Flavour::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// The text of `families`.
#[must_use]
pub fn encode(families: &[Family], flavour: Flavour) -> String {
    let mut text = String::new();
    families.iter().for_each(|family| one(&mut text, family, flavour));
    if flavour == Flavour::OpenMetrics {
        text.push_str("# EOF\n");
    }
    text
}

fn one(text: &mut String, family: &Family, flavour: Flavour) {
    let kind = match family.kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram => "histogram",
    };
    let total = if family.kind == Kind::Counter { "_total" } else { "" };
    // OpenMetrics names the family without the suffix of its samples, the older format with it.
    let name = match flavour {
        Flavour::OpenMetrics => family.name.to_owned(),
        Flavour::Prometheus => format!("{}{total}", family.name),
    };
    let _ = writeln!(text, "# HELP {name} {}", escape(family.help, flavour == Flavour::OpenMetrics));
    let _ = writeln!(text, "# TYPE {name} {kind}");
    for sample in &family.samples {
        match &sample.value {
            Value::Number(value) => {
                let _ = writeln!(
                    text,
                    "{}{total}{} {}",
                    family.name,
                    labels(&sample.labels, None),
                    number(*value)
                );
            }
            Value::Latencies(_) => histogram(text, family.name, sample, flavour),
        }
    }
}

fn histogram(text: &mut String, name: &str, sample: &Sample, flavour: Flavour) {
    let Value::Latencies(latencies) = &sample.value else { return };
    let bounds = BOUNDS.into_iter().chain([f64::INFINITY]);
    for ((bound, count), exemplar) in bounds.zip(classic(&latencies.histogram)).zip(exemplars(latencies)) {
        let le = match flavour {
            Flavour::OpenMetrics => canonical(bound),
            Flavour::Prometheus => number(bound),
        };
        let exemplar = exemplar.filter(|_| flavour == Flavour::OpenMetrics).map(shown).unwrap_or_default();
        let _ = writeln!(text, "{name}_bucket{} {count}{exemplar}", labels(&sample.labels, Some(&le)));
    }
    let labels = labels(&sample.labels, None);
    let _ = writeln!(text, "{name}_sum{labels} {}", number(latencies.histogram.sum_ns() as f64 / 1e9));
    let _ = writeln!(text, "{name}_count{labels} {}", latencies.histogram.count());
}

fn shown(exemplar: &Exemplar) -> String {
    format!(" # {} {} {:.3}", labels(&exemplar.labels, None), number(exemplar.seconds), exemplar.at)
}

fn labels(labels: &[Label], le: Option<&str>) -> String {
    let all = labels.iter().map(|(name, value)| (*name, value.as_str())).chain(le.map(|le| ("le", le)));
    let all: Vec<String> = all.map(|(name, value)| format!("{name}=\"{}\"", escape(value, true))).collect();
    match all.is_empty() {
        true => String::new(),
        false => format!("{{{}}}", all.join(",")),
    }
}

fn escape(text: &str, quotes: bool) -> String {
    let text = text.replace('\\', "\\\\").replace('\n', "\\n");
    if quotes {
        text.replace('"', "\\\"")
    } else {
        text
    }
}

/// As Go's `strconv.FormatFloat(f, 'g', -1, 64)` writes it, so that `le` has the same text in every form.
#[must_use]
pub fn number(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..21).contains(&exponent) && value != 0.0 => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
        _ => format!("{value}"),
    }
}

/// OpenMetrics requires `1.0`, not `1`, for `le`.
fn canonical(value: f64) -> String {
    let text = number(value);
    if text.contains(['.', 'e', 'I']) {
        text
    } else {
        text + ".0"
    }
}
