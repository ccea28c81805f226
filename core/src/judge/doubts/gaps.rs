//! Activations that a run does not account for, and values that are known rounded only.

use super::{judged, weak, Doubt};
use crate::judge::Rules;
use crate::numbers::{counted, plural};
use crate::run::Run;
use crate::series::{Quantity, Series};
use crate::time::Ns;

/// Time without an activation that the start and the end of a measurement explain.
const NOT_DUE: Ns = Ns::from_ms(1_000);

/// A CPU with far fewer samples than due was stalled or started late, and one with activations that are neither samples nor
/// counted as missed or lost has a gap: its worst case is not known.
pub(super) fn activations_missing(run: &Run, rules: &Rules) -> Vec<Doubt> {
    let Some(seconds) = run.conditions.duration_s else { return Vec::new() };
    let counted_of = |series: &Series| {
        let missed = series.missed.unwrap_or(u64::MAX);
        series.histogram.count().saturating_add(missed).saturating_add(series.lost)
    };
    // Threads of different periods that each end after the same number of activations (-l).
    let longest = judged(run, rules).filter_map(|series| series.interval_ns).max();
    let are_equal = |count: &dyn Fn(&Series) -> u64| {
        let mut all = judged(run, rules).map(count);
        let first = all.next();
        all.all(|one| Some(one) == first)
    };
    let is_equal = are_equal(&counted_of) || are_equal(&|series| series.histogram.count());
    judged(run, rules)
        .filter_map(|series| {
            let interval = series.interval_ns.filter(|interval| interval.0 > 0)?;
            let due = (seconds * 1e9 / interval.0 as f64).floor();
            let taken = series.samples_bounded();
            // Other instruments have activations of their own duration, and merged runs one each.
            let is_gapless = rules.quantity == Quantity::Cyclic && run.merged.is_empty();
            let apart = longest.filter(|_| is_equal).unwrap_or(interval).0 as f64;
            let gap = seconds * 1e9 - counted_of(series) as f64 * apart;
            let short = (taken as f64) < due * rules.least_share || (is_gapless && gap > NOT_DUE.0 as f64);
            (taken > 0 && short).then(|| {
                weak(format!(
                    "{}: {} of {due} expected {} ({} counted as missed)",
                    series.label(),
                    counted(taken, "sample"),
                    plural(due as u64, "activation"),
                    series.missed.map_or("an unknown number".to_owned(), |missed| missed.to_string())
                ))
            })
        })
        .collect()
}

/// The largest value of another program, rounded down to the deadline or just below it, may be above it.
pub(super) fn rounded_down(run: &Run, deadline: Option<Ns>, rules: &Rules) -> Vec<Doubt> {
    let doubt = |series: &Series| {
        let (deadline, step) = deadline.zip(series.rounded_down_ns)?;
        let (max, most) = series.histogram.max().zip(series.max_at_most())?;
        (max <= deadline && most > deadline).then(|| {
            weak(format!(
                "{}: the largest value, {max}, is rounded down to a multiple of {step}, and may be above the deadline",
                series.label()
            ))
        })
    };
    rules.limited(run).filter_map(doubt).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bound::{analyse, of_run};
    use crate::conditions::Conditions;
    use crate::histogram::{Histogram, Layout};
    use crate::import::{read, Unit};
    use crate::judge::judge;
    use crate::time::Cpu;
    use crate::verdict::Outcome;

    /// A run of `seconds` with one series for each (period in ms, samples, missed activations).
    fn run(seconds: f64, all: &[(u64, u64, u64)]) -> Run {
        let mut run = Run::new(Conditions { duration_s: Some(seconds), ..Conditions::default() });
        for (cpu, (period, samples, missed)) in (0..).zip(all) {
            let mut histogram = Histogram::new(Layout::LATENCY);
            (0..*samples).for_each(|_| histogram.record(Ns(9_000)));
            let mut replayed = histogram.clone();
            (0..*missed).for_each(|_| replayed.record(Ns(9_000)));
            let mut series = Series::new(Quantity::Cyclic, Some(Cpu(cpu)), histogram);
            series.interval_ns = Some(Ns::from_ms(*period));
            (series.missed, series.replayed) = (Some(*missed), Some(replayed));
            run.series.push(series);
        }
        run
    }

    #[test]
    fn activations_that_are_neither_samples_nor_counted_are_a_gap() {
        let of = |seconds, all: &[(u64, u64, u64)]| {
            activations_missing(&run(seconds, all), &Rules::instrument(Quantity::Cyclic)).len()
        };
        assert_eq!(of(60.0, &[(1, 31_000, 0)]), 1, "29 s without an activation");
        assert_eq!(of(60.0, &[(1, 31_000, 28_900)]), 0, "counted as missed");
        assert_eq!(of(60.0, &[(1, 60_000, 0), (1, 58_000, 0)]), 1);
        assert_eq!(of(60.0, &[(1, 59_990, 0), (2, 29_900, 20)]), 0, "each has its period");
        assert_eq!(of(60.0, &[(1, 40_000, 3), (2, 30_000, 0)]), 1);
        assert_eq!(of(60.0, &[(1, 30_000, 5), (2, 30_000, 0)]), 0, "each ends after 30,000 samples");
        assert_eq!(of(0.9, &[(1, 100, 0)]), 1, "fewer than half, however short the run is");
        let mut merged = run(60.0, &[(1, 31_000, 0)]);
        merged.merged = vec![crate::run::MergedRun {
            name: "a".to_owned(),
            conditions: Conditions::default(),
            calibration: Vec::new(),
            outcome: None,
            deadline_ns: None,
            judged: None,
            series: Vec::new(),
        }];
        assert!(activations_missing(&merged, &Rules::instrument(Quantity::Cyclic)).is_empty());
    }

    #[test]
    fn a_largest_value_that_was_rounded_down_to_the_deadline_may_be_above_it() {
        let text =
            "T: 0 ( 1000) P:80 I:1000 C:  40000 Min:      2 Act:    5 Avg:    5 Max:      85\n# Histogram\n\
                    000002 000999\n000005 039000\n000085 000001\n# Total: 000040000\n# Min Latencies: 00002\n\
                    # Avg Latencies: 00005\n# Max Latencies: 00085\n# Histogram Overflows: 00000\n";
        let us = read(text, Unit::Us).unwrap();
        let series = &us.series[0];
        assert_eq!((series.histogram.max(), series.max_at_most()), (Some(Ns(85_000)), Some(Ns(85_999))));
        let judged = |run: &Run, ns| judge(run, Some(Ns(ns)), &Rules::instrument(Quantity::Cyclic));
        let at = judged(&us, 85_000);
        assert_eq!(at.outcome, Some(Outcome::Inconclusive), "{:?}", at.reasons);
        assert!(at.reasons[0].contains("is rounded down to a multiple of 1.0 µs"), "{:?}", at.reasons);
        assert_eq!(judged(&us, 85_998).outcome, Some(Outcome::Inconclusive));
        let above = judged(&us, 85_999);
        assert_eq!(above.outcome, Some(Outcome::Pass), "{:?}", above.reasons);
        assert!(above.reasons[0].contains("none above 86.0 µs"), "{:?}", above.reasons);
        assert_eq!(judged(&us, 84_999).outcome, Some(Outcome::Fail));
        let observed = |deadline: Option<f64>| {
            let input = of_run::input(&[&us], Quantity::Cyclic, None).unwrap();
            let request = analyse::Request { deadline, bootstrap: 9, ..analyse::Request::default() };
            let observed = analyse::analyse(&input, &request).observed;
            (observed.max_ns, observed.level_ns, observed.above)
        };
        assert_eq!(observed(Some(85_000.0)), (85_000.0, 85_000.0, 1), "it may be above");
        assert_eq!(observed(None), (85_000.0, 85_999.0, 0));
        assert_eq!(observed(Some(85_999.0)).2, 0);
        let exact = read(text, Unit::Ns).unwrap();
        assert_eq!(exact.series[0].max_at_most(), Some(Ns(85)), "whole ns are exact");
        assert_eq!(judged(&exact, 85).outcome, Some(Outcome::Pass));
    }
}
