//! Native histograms: exponential buckets, schema 3, as Prometheus defines them.
//!
//! Bucket `i` holds (2^((i−1)/8), 2^(i/8)] seconds, 9 % wide. Encoded as spans of consecutive buckets and differences
//! of their counts (prometheus/client_model, metrics.proto).

use std::collections::BTreeMap;

use crate::histogram::Histogram;

/// 2^3 buckets per octave.
pub const SCHEMA: i32 = 3;
/// Values up to this count as zero; ours are larger, because a class has an upper edge above zero.
pub const ZERO_THRESHOLD: f64 = 2.938_735_877_055_719e-39; // 2^-128, the default of client_golang

/// Spans and deltas of the positive buckets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Buckets {
    /// (Offset from the end of the previous span, the first from 0; number of buckets).
    pub spans: Vec<(i32, u32)>,
    /// Count of the first bucket, then differences.
    pub deltas: Vec<i64>,
}

/// Gaps up to this long are filled with empty buckets: a span costs more.
const SHORT_GAP: i32 = 2;

/// The buckets of `histogram`.
#[must_use]
pub fn buckets(histogram: &Histogram) -> Buckets {
    let mut counts: BTreeMap<i32, i64> = BTreeMap::new();
    for (_, upper, count) in histogram.occupied() {
        *counts.entry(index(super::edge_seconds(upper))).or_default() += count as i64;
    }
    let mut buckets = Buckets::default();
    let (mut next, mut last) = (0, 0);
    for (index, count) in counts {
        let gap = index - next;
        match buckets.spans.last_mut() {
            Some((_, length)) if gap <= SHORT_GAP => {
                *length += gap as u32 + 1;
                for _ in 0..gap {
                    buckets.deltas.push(-last);
                    last = 0;
                }
            }
            _ => buckets.spans.push((gap, 1)),
        }
        buckets.deltas.push(count - last);
        (next, last) = (index + 1, count);
    }
    buckets
}

/// The bucket of `seconds`, which must be positive.
#[must_use]
pub fn index(seconds: f64) -> i32 {
    (seconds.log2() * f64::from(1 << SCHEMA)).ceil() as i32
}
