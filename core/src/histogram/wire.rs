//! The form of a histogram in run files.

use serde::{Deserialize, Serialize};

use super::{Exact, Histogram, Layout, Spread};
use crate::time::Ns;

/// The form in run files: occupied bins only, `[index, count]` ascending.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Histogram"))]
struct Wire {
    width_ns: u32,
    linear_bins: u32,
    count: u64,
    sum_ns: u64,
    min_ns: Option<Ns>,
    max_ns: Option<Ns>,
    /// Computed from the other fields, for other programs; ignored on reading.
    #[serde(default, skip_deserializing, skip_serializing_if = "Option::is_none")]
    spread: Option<Spread>,
    bins: Vec<(usize, u64)>,
}

impl Serialize for Histogram {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let bins = self.bins.occupied().collect();
        let (min_ns, max_ns) = (self.min(), self.max());
        let Layout { width_ns, linear_bins, .. } = self.layout;
        let (count, sum_ns, spread) = (self.count, self.sum_ns, Spread::of(self));
        Wire { width_ns, linear_bins, count, sum_ns, min_ns, max_ns, spread, bins }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let wire = Wire::deserialize(deserializer)?;
        let layout = Layout::new(wire.width_ns, wire.linear_bins).map_err(D::Error::custom)?;
        let mut histogram = Histogram::of_few(layout);
        let exact = Exact {
            sum_ns: wire.sum_ns,
            min: wire.min_ns.unwrap_or_default(),
            max: wire.max_ns.unwrap_or_default(),
        };
        histogram.add_counts(&wire.bins, exact).map_err(D::Error::custom)?;
        if histogram.count != wire.count {
            return Err(D::Error::custom(format!(
                "histogram bins add up to {}, but count says {}",
                histogram.count, wire.count
            )));
        }
        Ok(histogram)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Histogram {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Histogram".into()
    }
    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        Wire::json_schema(generator)
    }
}
