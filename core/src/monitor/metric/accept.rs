//! The format requested by a client, from its `Accept` header (RFC 9110, 12.5.1).

use super::text::Flavour;
use super::{protobuf, text, Family};

/// The supported formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One of the text forms.
    Text(Flavour),
    /// Delimited protobuf.
    Protobuf,
}

impl Form {
    /// The format that `accept` prefers; text 0.0.4 if it names none of ours.
    #[must_use]
    pub fn preferred(accept: &str) -> Form {
        let mut best = (0.0, Form::Text(Flavour::Prometheus));
        for range in accept.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default().to_ascii_lowercase();
            let parameters: Vec<(&str, &str)> = parts.filter_map(|part| part.split_once('=')).collect();
            let parameter = |name: &str| {
                parameters.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
            };
            let quality: f64 = parameter("q").map_or(Some(1.0), |q| q.parse().ok()).unwrap_or(0.0);
            let form = match media.as_str() {
                "application/vnd.google.protobuf"
                    if parameter("proto") == Some("io.prometheus.client.MetricFamily")
                        && parameter("encoding") == Some("delimited") =>
                {
                    Form::Protobuf
                }
                "application/openmetrics-text" if matches!(parameter("version"), None | Some("1.0.0")) => {
                    Form::Text(Flavour::OpenMetrics)
                }
                "text/plain" | "text/*" | "*/*" => Form::Text(Flavour::Prometheus),
                _ => continue,
            };
            if quality > best.0 {
                best = (quality, form);
            }
        }
        best.1
    }

    /// The media type of the answer.
    #[must_use]
    pub fn media_type(self) -> &'static str {
        match self {
            Form::Text(flavour) => flavour.media_type(),
            Form::Protobuf => protobuf::MEDIA_TYPE,
        }
    }

    /// The encoded metrics.
    #[must_use]
    pub fn encode(self, families: &[Family]) -> Vec<u8> {
        match self {
            Form::Text(flavour) => text::encode(families, flavour).into_bytes(),
            Form::Protobuf => protobuf::encode(families),
        }
    }
}
