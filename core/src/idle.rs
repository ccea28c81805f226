//! Cost of idle states in latency: the same threads, measured alternately with and without a limit on idle states.

use serde::{Deserialize, Serialize};

use crate::histogram::Histogram;
use crate::series::Series;
use crate::time::Ns;

/// Latencies without and with a limit on idle states, from alternating rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IdleComparison {
    /// The limit in /dev/cpu_dma_latency, µs.
    pub limit_us: i32,
    /// Number of rounds of each kind.
    pub rounds: u32,
    /// Length of a round.
    pub round_ns: Ns,
    /// One series per CPU: idle states not limited.
    pub free: Vec<Series>,
    /// One series per CPU: idle states limited.
    pub limited: Vec<Series>,
    /// Why this machine cannot show a difference; absent: it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubt: Option<String>,
}

impl IdleComparison {
    /// One line for each, and the conclusion.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let figures = |all: &[Series]| {
            let sum = added(all);
            match sum.as_ref().and_then(Histogram::max) {
                None => "no sample".to_owned(),
                Some(max) => {
                    let shown = |q: f64| sum.as_ref().and_then(|sum| sum.quantile(q)).unwrap_or_default();
                    let count = sum.as_ref().map_or(0, Histogram::count);
                    format!(
                        "median {}, p99 {}, max {max} of {} samples",
                        shown(0.5),
                        shown(0.99),
                        crate::numbers::grouped(count)
                    )
                }
            }
        };
        let IdleComparison { limit_us, rounds, round_ns, free, limited, .. } = self;
        let mut lines = vec![
            format!("Idle states as they are: {}", figures(free)),
            format!(
                "limited to {limit_us} µs: {} (rounds of {round_ns} in turn, {rounds} of each)",
                figures(limited)
            ),
        ];
        lines.extend(self.doubt.clone());
        lines
    }
}

fn added(all: &[Series]) -> Option<Histogram> {
    let (first, rest) = all.split_first()?;
    let mut sum = first.clone();
    rest.iter().try_for_each(|series| sum.add_samples(series).map_err(drop)).ok()?;
    Some(sum.histogram)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::Layout;
    use crate::series::Quantity;
    use crate::time::Cpu;

    fn series(values: &[u64]) -> Series {
        let mut histogram = Histogram::new(Layout::LATENCY);
        values.iter().for_each(|&ns| histogram.record(Ns(ns)));
        Series::new(Quantity::Cyclic, Some(Cpu(0)), histogram)
    }

    #[test]
    fn both_kinds_of_rounds_are_told_apart() {
        let both = IdleComparison {
            limit_us: 0,
            rounds: 3,
            round_ns: Ns::from_ms(500),
            free: vec![series(&[90_000, 91_000]), series(&[95_500])],
            limited: vec![series(&[4_000]), series(&[])],
            doubt: None,
        };
        let lines = both.lines().join("\n");
        assert!(
            lines.contains("as they are: median ") && lines.contains("max 95.5 µs of 3 samples"),
            "{lines}"
        );
        assert!(lines.contains("limited to 0 µs: ") && lines.contains("max 4.0 µs of 1 samples"), "{lines}");
    }
}
