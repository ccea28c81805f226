//! OSADL's four criteria of a latency measurement: long enough, frequent enough, under appropriate load, calibrated.
//!
//! They are informative. Only with `--strict osadl` does a PASS require all four.

use crate::run::Run;
use crate::series::{Quantity, Series};
use crate::time::Ns;
use crate::verdict::Criterion;

/// The four criteria for `quantity` of `runs`, with the samples of all runs together.
#[must_use]
pub fn criteria(runs: &[&Run], quantity: Quantity) -> Vec<Criterion> {
    let series: Vec<&Series> = runs.iter().flat_map(|run| all_of(run, quantity)).collect();
    let samples = series.iter().fold(0u64, |sum, one| sum.saturating_add(one.histogram.count()));
    let largest = series.iter().filter_map(|one| one.histogram.max()).max();
    let interval = series.iter().filter_map(|one| one.interval_ns).max();
    vec![long_enough(samples), frequent(interval, largest), loaded(runs), calibrated(runs)]
}

/// The criteria of a recording without its own period, load and calibration.
#[must_use]
pub fn criteria_of_samples(samples: u64) -> Vec<Criterion> {
    vec![long_enough(samples), frequent(None, None), loaded(&[]), calibrated(&[])]
}

/// Series of the machine, or of each task if there are none.
fn all_of(run: &Run, quantity: Quantity) -> Vec<&Series> {
    let of_machine: Vec<&Series> = run.of(quantity).collect();
    match of_machine.is_empty() {
        true => run.tasks.iter().filter_map(|task| task.of(quantity)).collect(),
        false => of_machine,
    }
}

fn one(name: &str, met: Option<bool>, have: String, want: String) -> Criterion {
    Criterion { name: name.to_owned(), met, have, want }
}

fn long_enough(samples: u64) -> Criterion {
    let [long, ..] = Criterion::NAMES;
    one(
        long,
        Some(samples >= Criterion::LONG_ENOUGH),
        format!("{:.1e} samples", samples as f64),
        "1e9 samples".to_owned(),
    )
}

fn frequent(interval: Option<Ns>, largest: Option<Ns>) -> Criterion {
    let twice = largest.map(|largest| Ns(largest.0.saturating_mul(2)));
    let [_, frequent, ..] = Criterion::NAMES;
    one(
        frequent,
        interval.zip(twice).map(|(interval, twice)| interval <= twice),
        interval.map_or("no fixed interval".to_owned(), |interval| format!("an interval of {interval}")),
        twice.map_or("twice the largest observed, or less".to_owned(), |twice| {
            format!("at most {twice}, twice the largest observed")
        }),
    )
}

fn loaded(runs: &[&Run]) -> Criterion {
    let mut loads: Vec<&str> = runs.iter().filter_map(|run| run.conditions.load.as_deref()).collect();
    let known = !runs.is_empty() && loads.len() == runs.len();
    let met = known.then(|| loads.iter().all(|load| *load != "none" && !load.is_empty()));
    loads.dedup();
    let [_, _, load, _] = Criterion::NAMES;
    one(
        load,
        met,
        if known { loads.join("; ") } else { "not recorded".to_owned() },
        "a load like that of production, or worse".to_owned(),
    )
}

fn calibrated(runs: &[&Run]) -> Criterion {
    let checks = || runs.iter().flat_map(|run| &run.calibration);
    let (seen, all) = (checks().filter(|one| one.passed).count(), checks().count());
    let every = !runs.is_empty() && runs.iter().all(|run| !run.calibration.is_empty());
    let [.., calibrated] = Criterion::NAMES;
    one(
        calibrated,
        Some(every && seen == all),
        if all == 0 {
            "no disturbance injected".to_owned()
        } else {
            format!("{seen} of {all} injected disturbances seen")
        },
        "each injected disturbance seen".to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions::Conditions;
    use crate::histogram::{Exact, Histogram, Layout};
    use crate::judge::{judge, Rules};
    use crate::run::Calibration;
    use crate::verdict::Outcome;

    fn add(histogram: &mut Histogram, samples: u64) {
        let us = Ns::from_us(30);
        let exact = Exact { min: us, max: us, sum_ns: us.0 * samples };
        histogram.add_counts(&[(Layout::LATENCY.index(us), samples)], exact).unwrap();
    }

    fn calibration() -> Calibration {
        Calibration {
            cpu: crate::time::Cpu(0),
            kind: "preemptoff".to_owned(),
            injected_ns: None,
            instrument_ns: None,
            recorder_ns: None,
            undisturbed_ns: None,
            passed: true,
            note: String::new(),
        }
    }

    fn run(samples: u64, interval: Option<Ns>) -> Run {
        let mut histogram = Histogram::new(Layout::LATENCY);
        add(&mut histogram, samples);
        let mut run = Run::new(Conditions { load: Some("make".to_owned()), ..Conditions::default() });
        let series = Series::new(Quantity::Cyclic, None, histogram);
        run.series.push(Series { interval_ns: interval, missed: Some(0), ..series });
        run
    }

    fn met(run: &Run) -> Vec<Option<bool>> {
        criteria(&[run], Quantity::Cyclic).iter().map(|one| one.met).collect()
    }

    #[test]
    fn each_criterion_is_met_from_its_limit_on() {
        let us = |n| Some(Ns::from_us(n));
        assert_eq!(met(&run(999_999_999, us(61))), [Some(false), Some(false), Some(true), Some(false)]);
        assert_eq!(met(&run(1_000_000_000, us(60))), [Some(true), Some(true), Some(true), Some(false)]);
        let mut unknown = run(1, None);
        unknown.conditions.load = None;
        assert_eq!(met(&unknown), [Some(false), None, None, Some(false)]);
        unknown.conditions.load = Some("none".to_owned());
        assert_eq!(met(&unknown)[2], Some(false));
    }

    #[test]
    fn strictly_a_pass_needs_all_of_them_and_a_failure_stays_one() {
        let mut run = run(40_000, Some(Ns::from_us(50)));
        let judged = |run: &Run, us| judge(run, Some(Ns::from_us(us)), &Rules::instrument(Quantity::Cyclic));
        assert_eq!(judged(&run, 100).outcome, Some(Outcome::Pass));
        let strict = judged(&run, 100).strictly();
        assert_eq!(strict.outcome, Some(Outcome::Inconclusive));
        assert!(strict.reasons[0].contains("'long enough' not met: 4.0e4 samples"), "{:?}", strict.reasons);
        assert!(strict.reasons[1].contains("'calibrated' not met"), "{:?}", strict.reasons);
        assert_eq!(judged(&run, 20).strictly().outcome, Some(Outcome::Fail));
        add(&mut run.series[0].histogram, 1_000_000_000);
        run.calibration.push(calibration());
        assert_eq!(judged(&run, 100).strictly().outcome, Some(Outcome::Pass));
    }
}
