//! Activations that a run does not account for.

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions::Conditions;
    use crate::histogram::{Histogram, Layout};
    use crate::time::Cpu;

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
}
