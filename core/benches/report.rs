//! How large the run file of 10^9 samples is, and how long its report takes, beside a run of 10^6 samples.
//!
//! The run is one of two CPUs at 1 kHz (5.8 days): what each CPU's bins hold then is the expectation of its
//! distribution, a body around 4 µs and a tail that falls with the square of the latency, so that far more bins are
//! occupied than on a healthy machine. All series of a hunt are in it: the instrument's with its replayed view, the
//! recorder's three, the maxima of each second, twelve explained peaks. Counting 10^9 times would give the same file.
//! `cargo bench -p lathunt-core --bench report [-- ROUNDS]`
#![allow(clippy::disallowed_methods)] // a bench reads the clock and its arguments

use std::time::Instant;

use lathunt_core::histogram::{Exact, Histogram, Layout};
use lathunt_core::report::html;
use lathunt_core::run::Run;
use lathunt_core::series::{Quantity, SecondMax, Series};
use lathunt_core::time::{Cpu, Ns};

#[path = "../tests/example/mod.rs"]
mod example;
mod figure;

const CPUS: u32 = 2;

/// One of 1000 samples lies in the tail, where P(latency > x µs) = (10 / x)^2; the others around 4 µs.
fn above(us: f64) -> f64 {
    let body = 1.0 / (1.0 + (us / 4.0).powi(12)); // log-logistic
    let tail = (10.0 / us.max(10.0)).powi(2);
    0.999 * body + 0.001 * tail
}

/// What the bins hold after `samples`: the cumulated expectation, rounded, so that it adds up and the tail is sparse.
fn histogram(samples: u64) -> Histogram {
    let layout = Layout::LATENCY;
    let below = |edge: u64| ((1.0 - above(edge as f64 / 1e3)) * samples as f64).floor() as u64;
    let counts: Vec<(usize, u64)> = (0..layout.bins() - 1)
        .map(|bin| (bin, below(layout.upper(bin).0 + 1) - below(layout.lower(bin).0)))
        .filter(|&(_, n)| n > 0)
        .collect();
    let (first, last) = (counts[0].0, counts[counts.len() - 1].0);
    let sum_ns = counts.iter().map(|&(bin, n)| layout.lower(bin).0 * n).sum();
    let exact = Exact { sum_ns, min: layout.lower(first), max: layout.upper(last) };
    let mut histogram = Histogram::new(layout);
    histogram.add_counts(&counts, exact).expect("the counts fit the layout");
    histogram
}

fn series(quantity: Quantity, cpu: u32, samples: u64) -> Series {
    let histogram = histogram(samples);
    let seconds = (0..(samples / 1_000) as u32).map(|second| SecondMax {
        second,
        max_ns: Ns(30_000 + u64::from(second.wrapping_mul(2_654_435_761) >> 14)),
    });
    let replayed = (quantity == Quantity::Cyclic).then(|| histogram.clone());
    let mut series = Series { replayed, ..Series::new(quantity, Some(Cpu(cpu)), histogram) };
    series.set_seconds(seconds.collect());
    series
}

/// A run in which the instrument took `samples` samples in all.
fn run(samples: u64) -> Run {
    let mut run = example::run(CPUS, 1_000);
    let each = samples / u64::from(CPUS);
    run.conditions.duration_s = Some(each as f64 / 1e3);
    run.verdict = None; // that of the example is about other samples
    let quantities = [Quantity::Cyclic, Quantity::Timer, Quantity::Wakeup, Quantity::TimerWakeup];
    run.series = quantities.iter().flat_map(|&q| (0..CPUS).map(move |cpu| series(q, cpu, each))).collect();
    run
}

/// From the text of the run file to the report, as `lathunt report` does, s.
fn build(text: &str) -> f64 {
    let begin = Instant::now();
    let run = Run::from_json(text).expect("our own run file");
    let report = html::report(&run).expect("a report");
    assert!(report.contains("</html>"));
    begin.elapsed().as_secs_f64()
}

fn main() {
    let rounds = figure::rounds(11);
    let texts = [1_000_000_000u64, 1_000_000].map(|samples| run(samples).to_json());
    let (mut large, mut small) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        large.push(build(&texts[0]));
        small.push(build(&texts[1]));
    }
    let size = texts[0].len() as f64;
    figure::below("run file of 10^9 samples", size / 1e6, "MB", 1.0);
    figure::plain("  beside one of 10^6 samples", size / texts[1].len() as f64, "x");
    figure::below("its report, from reading the file to the HTML", figure::median(&large), "s", 1.0);
    figure::plain("  beside one of 10^6 samples", figure::median_ratio(&large, &small), "x");
}
