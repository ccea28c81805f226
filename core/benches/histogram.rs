//! What counting one latency costs: `Histogram::record` beside the bare `rows[us] += 1` of a clipping histogram.
//!
//! Rounds alternate, medians are compared; the latencies are those of a real-time thread (a body of some µs, a tail
//! up to ms). A round is some 80 µs, so that most rounds see no interruption even on a busy machine.
//! `cargo bench -p lathunt-core --bench histogram [-- ROUNDS]`
#![allow(clippy::disallowed_methods)] // a bench reads the clock and its arguments

use std::hint::black_box;
use std::time::Instant;

use lathunt_core::histogram::{Histogram, Layout};
use lathunt_core::time::Ns;

mod figure;

const VALUES: usize = 4_096;
const PASSES: usize = 10;

/// Around 5 µs; one of 64 up to 60 µs, one of 1024 up to 4 ms, one in all of 20 ms.
fn latencies() -> Vec<Ns> {
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        random >> 33
    };
    let mut values: Vec<Ns> = (0..VALUES)
        .map(|n| match n {
            n if n % 1_024 == 1 => Ns(next() % 4_000_000),
            n if n % 64 == 2 => Ns(next() % 60_000),
            _ => Ns(2_000 + next() % 3_000 + next() % 3_000),
        })
        .collect();
    values[VALUES / 2] = Ns(20_000_000);
    values
}

/// ns a call of `count` over all `values`.
fn per_call(values: &[Ns], mut count: impl FnMut(Ns)) -> f64 {
    let begin = Instant::now();
    for _ in 0..PASSES {
        black_box(values).iter().for_each(|&value| count(value));
    }
    begin.elapsed().as_nanos() as f64 / (PASSES * values.len()) as f64
}

fn main() {
    let rounds = figure::rounds(1_001);
    let values = latencies();
    // The layout comes from outside, as in a run: the compiler must not know the width.
    let mut histogram = Histogram::new(black_box(Layout::LATENCY));
    let mut rows = vec![0u64; 10_240];
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        ours.push(per_call(&values, |value| histogram.record(value)));
        bare.push(per_call(&values, |value| {
            let row = (value.0 / 1_000) as usize;
            if let Some(count) = rows.get_mut(row) {
                *count += 1;
            }
        }));
    }
    assert_eq!(histogram.count(), (rounds * PASSES * VALUES) as u64);
    black_box(rows);
    figure::at_most("Histogram::record", figure::median(&ours), "ns a call", 3.0);
    figure::plain("  beside a clipping array of 1 µs rows", figure::median_ratio(&ours, &bare), "x");
}
