//! The input of an analysis from runs: which samples may be combined, and the other facts of a run.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::analyse::{Input, Order, Request};
use super::answer::{Answer, Extrapolated, Observed, Term, FORMAT, VERSION};
use super::mechanisms;
use super::of_path::path_bound;
use super::tail::{not_below, Distribution};
use crate::histogram::Histogram;
use crate::judge::criteria;
use crate::numbers::{counted, plural};
use crate::report::facts::{is_circumstance_knob, load_as_condition};
use crate::run::Run;
use crate::series::{longest_stretch, maxima_in_time, Quantity, Series};
use crate::stats::activations::is_from_due;
use crate::time::{Cpu, Ns};

/// Paths of the conditions in which two runs differ (`kernel.release`). Runs with different conditions do not have one
/// distribution. The load average and the duration of a load differ between any two runs, and are no conditions.
#[must_use]
pub fn differences(a: &Run, b: &Run, quantity: Quantity) -> Vec<String> {
    let [a_facts, b_facts] = [a, b].map(|run| {
        let c = &run.conditions;
        let mut knobs = c.knobs.clone();
        knobs.other.retain(|path, _| !is_circumstance_knob(path));
        let load = c.load.as_deref().map(load_as_condition);
        serde_json::json!({ "machine": c.machine, "kernel": c.kernel, "knobs": knobs, "load": load })
    });
    let mut found = Vec::new();
    compare("", Some(&a_facts), Some(&b_facts), &mut found);
    if intervals(a, quantity) != intervals(b, quantity) {
        found.push("interval".to_owned());
    }
    found
}

/// The periods of the series; `None` for a thread without a fixed one.
#[must_use]
pub fn intervals(run: &Run, quantity: Quantity) -> BTreeSet<Option<Ns>> {
    run.of(quantity).map(|series| series.interval_ns).collect()
}

/// Number of series with samples: each has activations of its own.
#[must_use]
pub fn threads(run: &Run, quantity: Quantity) -> usize {
    run.of(quantity).filter(|series| series.histogram.count() > 0).count()
}

/// `run` with the series of `quantity` reduced to `cpus`.
#[must_use]
pub fn selected(run: &Run, quantity: Quantity, cpus: &[Cpu]) -> Run {
    let wanted =
        |series: &Series| series.quantity != quantity || series.cpu.is_some_and(|cpu| cpus.contains(&cpu));
    let mut selected = run.clone();
    selected.series.retain(wanted);
    selected
}

fn compare(path: &str, a: Option<&Value>, b: Option<&Value>, found: &mut Vec<String>) {
    match (a, b) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for key in keys {
                let inner = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                compare(&inner, a.get(key), b.get(key), found);
            }
        }
        (a, b) if a != b => found.push(path.to_owned()),
        _ => {}
    }
}

/// The main quantity of a run: the judged one, else cyclic latency, else the first with samples.
#[must_use]
pub fn main_quantity(run: &Run) -> Option<Quantity> {
    let judged =
        run.verdict.as_ref().and_then(|verdict| verdict.quantity).filter(|q| run.of(*q).next().is_some());
    let cyclic = run.of(Quantity::Cyclic).next().map(|_| Quantity::Cyclic);
    judged.or(cyclic).or_else(|| run.series.iter().find(|s| s.histogram.count() > 0).map(|s| s.quantity))
}

/// Why runs have no input for an analysis.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoInput {
    /// No samples.
    #[error("no sample of {0}; name another one with --quantity or other CPUs with -c")]
    NoSample(&'static str),
    /// No samples of a CPU.
    #[error("no sample of CPU {0}; leave it out of -c")]
    NoCpu(Cpu),
    /// Classes of different widths.
    #[error("{0}")]
    Layout(#[from] crate::histogram::NoSum),
    /// More than 2^64 samples.
    #[error("more samples than can be counted")]
    TooMany,
}

/// The samples of `quantity` on `cpus` (all if `None`) of runs of one configuration, in the order of the runs.
///
/// # Errors
/// Without samples, or if the histograms cannot be added.
pub fn input(runs: &[&Run], quantity: Quantity, cpus: Option<&[Cpu]>) -> Result<Input, NoInput> {
    let wanted = |series: &&Series| cpus.is_none_or(|cpus| series.cpu.is_some_and(|cpu| cpus.contains(&cpu)));
    let mut all: Option<Histogram> = None;
    let mut by_cpu: BTreeMap<Cpu, Histogram> = BTreeMap::new();
    let (mut unknown, mut maxima, mut why) = (0u64, Vec::new(), None);
    let (mut uncounted, mut from_due) = (false, false);
    let mut lost: Vec<(u64, Option<Ns>)> = Vec::new();
    let stretch = longest_stretch(runs.iter().flat_map(|run| run.of(quantity).filter(wanted)));
    for run in runs {
        let series: Vec<&Series> = run.of(quantity).filter(wanted).collect();
        unknown = unknown.saturating_add(taken_elsewhere(run, cpus));
        for one in &series {
            let replayed = one.activations();
            let histogram = replayed.unwrap_or(&one.histogram);
            // Missed activations with unknown latency, and lost samples.
            let missed = if replayed.is_some() { Some(0) } else { one.missed };
            unknown = unknown.saturating_add(missed.unwrap_or(0));
            uncounted |= missed.is_none() && has_releases(one);
            from_due |= is_from_due(one);
            lost.push((one.lost, one.lost_at_most()));
            if let Some(cpu) = one.cpu {
                match by_cpu.get_mut(&cpu) {
                    Some(sum) => sum.merge(histogram)?,
                    None => drop(by_cpu.insert(cpu, histogram.clone())),
                }
            }
            match &mut all {
                Some(sum) if sum.count().checked_add(histogram.count()).is_none() => {
                    return Err(NoInput::TooMany)
                }
                Some(sum) => sum.merge(histogram)?,
                None => all = Some(histogram.clone()),
            }
        }
        match maxima_in_time(&series, stretch) {
            Ok(values) => maxima.extend(values),
            Err(reason) => why = Some(reason),
        }
    }
    let mut distribution =
        all.as_ref().and_then(Distribution::of_histogram).ok_or(NoInput::NoSample(quantity.name()))?;
    let most =
        runs.iter().flat_map(|run| run.of(quantity).filter(wanted)).filter_map(Series::max_at_most).max();
    distribution.most = distribution.max.max(most.map_or(0.0, |most| not_below(i128::from(most.0))));
    let is_bounded = |most: Option<Ns>| most.is_some_and(|most| most.0 as f64 <= distribution.most);
    let sum = |bounded: bool| {
        let those = lost.iter().filter(|(_, most)| is_bounded(*most) == bounded);
        those.fold(0u64, |sum, (lost, _)| sum.saturating_add(*lost))
    };
    let (bounded, unknown) = (sum(true), unknown.saturating_add(sum(false)));
    let silent = |cpu: &&Cpu| by_cpu.get(cpu).is_none_or(|histogram| histogram.count() == 0);
    if let Some(cpu) = cpus.unwrap_or_default().iter().find(silent) {
        return Err(NoInput::NoCpu(*cpu));
    }
    let per_block = distribution.samples as f64 / maxima.len().max(1) as f64;
    let order = match why {
        Some(reason) => Order::Unknown(reason.to_owned()),
        None => Order::Maxima { values: maxima, per_block },
    };
    let whose = cpus.map_or("all CPUs".to_owned(), |cpus| {
        format!(
            "{} {}",
            plural(cpus.len() as u64, "CPU"),
            cpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
        )
    });
    let from = if from_due { ", counted from when each was due" } else { "" };
    let about = format!("{} of {whose}, {}{from}", quantity.name(), counted(runs.len() as u64, "run"));
    let each =
        by_cpu.iter().filter_map(|(cpu, all)| Some((*cpu, Distribution::of_histogram(all)?))).collect();
    let peaks = runs.iter().flat_map(|run| &run.peaks);
    let mechanisms = mechanisms::of_peaks(
        peaks.filter(|peak| peak.quantity == quantity && cpus.is_none_or(|cpus| cpus.contains(&peak.cpu))),
    );
    Ok(Input {
        about,
        unit: "ns".to_owned(),
        distribution,
        order,
        unknown,
        bounded,
        uncounted,
        cpus: each,
        mechanisms,
    })
}

/// Whether a measured activation can be missed: it is due at a time. A busy loop has none, and each waking is recorded.
fn has_releases(series: &Series) -> bool {
    !matches!(series.quantity, Quantity::Npt | Quantity::Hardware | Quantity::Wakeup | Quantity::SharedPrio)
        && !series.quantity.is_potential()
}

/// Samples of threads that left their CPU: the latencies on that CPU are not known.
fn taken_elsewhere(run: &Run, cpus: Option<&[Cpu]>) -> u64 {
    let left = run.conditions.during.left_cpu.iter();
    let left = left.filter(|left| cpus.is_none_or(|cpus| cpus.contains(&left.cpu)));
    left.fold(0, |sum: u64, left| sum.saturating_add(left.samples.unwrap_or(1).max(1)))
}

/// Adds the facts that only a run has: the bound of a path analysis of `cpus` (all if `None`), or else the observed blocking
/// terms, and the four criteria.
pub fn complete(answer: &mut Answer, runs: &[&Run], quantity: Quantity, cpus: Option<&[Cpu]>) {
    answer.criteria = criteria(runs, quantity);
    if let Some(bound) = path_bound(runs, cpus) {
        let is_scheduling =
            matches!(quantity, Quantity::Cyclic | Quantity::Timer | Quantity::Wakeup | Quantity::TimerWakeup);
        if is_scheduling && bound.value_ns.is_some_and(|bound| answer.observed.max_ns > bound) {
            answer.notes.push(BEYOND_THE_BOUND.to_owned());
        }
        answer.bound = bound;
        return;
    }
    let largest = |q: Quantity| runs.iter().filter_map(|run| run.max_of(q)).max();
    let observed = [Quantity::Irqsoff, Quantity::Preemptoff, Quantity::Preemptirqsoff, Quantity::Blocking];
    let term = |q: Quantity| {
        Some(Term { name: format!("observed {} maximum", q.name()), value_ns: largest(q)?.0, detail: None })
    };
    answer.bound.terms = observed.into_iter().filter_map(term).collect();
    answer.bound.reason = match answer.bound.terms.is_empty() {
        true if runs.iter().any(|run| !run.merged.is_empty()) => {
            "no path analysis: a merged run has none; give the runs themselves".to_owned()
        }
        true => "no path analysis: `lathunt record --path-analysis` records its terms, on a PREEMPT_RT kernel with the preemptirq tracepoints (CONFIG_IRQSOFF_TRACER and CONFIG_PREEMPT_TRACER; distributions' kernels lack them)".to_owned(),
        false => "no bound: the terms below are an observed-blocking estimate, without the scheduler's own terms and interference".to_owned(),
    };
}

/// The answer of runs without a sample of `quantity`, but with a path analysis; `None`: they have none.
#[must_use]
pub fn bound_alone(
    about: &str,
    runs: &[&Run],
    quantity: Quantity,
    (cpus, request): (Option<&[Cpu]>, &Request),
) -> Option<Answer> {
    let bound = path_bound(runs, cpus)?;
    let reason = format!("no sample of {}", quantity.name());
    Some(Answer {
        format: FORMAT.to_owned(),
        version: VERSION,
        about: format!("{about}, no sample"),
        unit: "ns".to_owned(),
        observed: Observed {
            samples: 0,
            effective_samples: None,
            theta: None,
            theta_lower: None,
            max_ns: 0.0,
            level_ns: request.deadline.unwrap_or(0.0),
            above: 0,
            probability_upper: None,
            confidence: request.confidence,
            reason: reason.clone(),
        },
        bound,
        extrapolated: Extrapolated { reason, ..Extrapolated::none(request.exceedance.unwrap_or(1e-9)) },
        gates: Vec::new(),
        criteria: criteria(runs, quantity),
        gpd: None,
        gev: None,
        notes: Vec::new(),
    })
}

/// Caveat if a sample exceeds the bound.
const BEYOND_THE_BOUND: &str =
    "the largest sample is above the bound: it includes delays that the bound does not (threads of the same or a higher \
     priority, a wake-up from another CPU, the exit from idle, the return to user space), or it is from another run";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions::{Conditions, LeftCpu};
    use crate::histogram::Layout;
    use crate::time::Ns;

    /// `seconds` seconds of 1,000 samples; each fifth has one late sample on average, independently.
    fn steady(seconds: u32, seed: u64) -> Run {
        let mut random = crate::random::Random::new(seed);
        let mut histogram = Histogram::new(Layout::LATENCY);
        let mut maxima = Vec::new();
        for second in 0..seconds {
            (0..999).for_each(|n| histogram.record(Ns(5_000 + 10 * n)));
            let late = if random.below(5) == 0 { 100_000 + random.below(400_000) } else { 15_000 };
            histogram.record(Ns(late));
            maxima.push(crate::series::SecondMax { second, max_ns: Ns(late) });
        }
        let mut series = Series::new(Quantity::Cyclic, Some(Cpu(0)), histogram);
        series.set_seconds(maxima);
        let mut run = Run::new(Conditions::default());
        run.series.push(series);
        run
    }

    #[test]
    fn runs_of_different_durations_have_blocks_of_one_length() {
        let (short, long) = (steady(400, 1), steady(20_000, 2));
        assert_eq!((short.series[0].seconds_stretch, long.series[0].seconds_stretch), (1, 8));
        let of = |runs: &[&Run]| match input(runs, Quantity::Cyclic, None).unwrap().order {
            Order::Maxima { values, per_block } => (values.len(), per_block),
            other => panic!("{other:?}"),
        };
        assert_eq!(of(&[&short]), (400, 1_000.0));
        assert_eq!(of(&[&long, &short]), (2_500 + 50, 8_000.0));
        let theta = |runs: &[&Run]| {
            let input = input(runs, Quantity::Cyclic, None).unwrap();
            crate::bound::observed::index(&input, None).unwrap()
        };
        for runs in [&[&short][..], &[&long], &[&long, &short], &[&short, &long, &short]] {
            assert!(theta(runs) > 0.8, "independent: {}", theta(runs));
        }
    }

    #[test]
    fn two_runs_of_one_configuration_differ_in_no_condition() {
        let with = |average: &str, load: &str, swappiness: &str| {
            let mut run = steady(60, 1);
            let other = &mut run.conditions.knobs.other;
            other.insert("/proc/loadavg".to_owned(), average.to_owned());
            other.insert("/proc/sys/vm/swappiness".to_owned(), swappiness.to_owned());
            run.conditions.load = Some(load.to_owned());
            run
        };
        let first = with("0.1 0.2 0.3 1/90 17", "stress-ng --vm 1 --timeout 60s --temp-path /tmp/a", "60");
        let of = |other: &Run| differences(&first, other, Quantity::Cyclic);
        let again = with("2.1 0.2 0.3 2/95 99", "stress-ng --vm 1 --timeout 90s --temp-path /tmp/b", "60");
        assert_eq!(of(&again), Vec::<String>::new());
        let mut changed =
            with("0.1 0.2 0.3 1/90 17", "stress-ng --vm 2 --timeout 60s --temp-path /tmp/a", "10");
        changed.conditions.kernel.release = Some("6.1".to_owned());
        assert_eq!(of(&changed), ["kernel.release", "knobs.other./proc/sys/vm/swappiness", "load"]);
    }

    #[test]
    fn an_unknown_number_of_missed_activations_is_not_one_of_unknown_latency() {
        let text = "# Histogram\n000000 000000\n000001 000099\n000002 000001\n# Total: 000000100\n\
                    # Min Latencies: 00001\n# Avg Latencies: 00001\n# Max Latencies: 00002\n# Histogram Overflows: 00000\n";
        let run = crate::import::read(text, crate::import::Unit::Us).unwrap();
        let of = |run: &Run, deadline: Option<f64>| {
            let input = input(&[run], run.series[0].quantity, None).unwrap();
            let request = Request { deadline, ..Default::default() };
            crate::bound::analyse::analyse(&input, &request)
        };
        let answer = of(&run, None);
        let told = &answer.observed;
        assert_eq!((told.samples, told.above), (100, 0), "{told:?}");
        assert!(
            told.probability_upper.is_some_and(|p| p < 0.03),
            "none waited longer than a sample: {told:?}"
        );
        assert!(told.reason.contains("missed activations are not counted"), "{told:?}");
        assert!(!answer.gates.iter().find(|gate| gate.name == "complete").unwrap().passed);
        let told = of(&run, Some(1_999.0)).observed;
        assert_eq!((told.above, told.probability_upper), (1, None), "{told:?}");
        // The samples between the extremes of a status line are not known either.
        let line = "T: 0 ( 6014) P:99 I:3500 C:   1000 Min:      1 Act:    6 Avg:    5 Max:   62329\n";
        let status = crate::import::read(line, crate::import::Unit::Us).unwrap();
        let told = of(&status, Some(50e6)).observed;
        assert_eq!((told.samples, told.above), (1_000, 999), "{told:?}");
        assert!(
            told.reason.contains("998 of those above were lost or missed; their latencies are unknown"),
            "{told:?}"
        );
        let mut loops = run;
        loops.series[0].quantity = Quantity::Npt;
        let told = of(&loops, Some(1_999.0)).observed;
        assert!(told.probability_upper.is_some() && !told.reason.contains("missed"), "{told:?}");
    }

    #[test]
    fn samples_that_were_taken_on_another_cpu_are_unknown_of_their_own() {
        let mut run = Run::new(Conditions::default());
        let mut histogram = Histogram::new(Layout::LATENCY);
        (0..10).for_each(|us| histogram.record(Ns::from_us(us)));
        for cpu in [Cpu(0), Cpu(1)] {
            let series = Series::new(Quantity::Cyclic, Some(cpu), histogram.clone());
            run.series.push(Series { missed: Some(0), ..series });
        }
        let left = LeftCpu { cpu: Cpu(1), samples: Some(7), on: Some(Cpu(0)), why: String::new() };
        run.conditions.during.left_cpu.push(left);
        let unknown = |cpus: Option<&[Cpu]>| input(&[&run], Quantity::Cyclic, cpus).unwrap().unknown;
        assert_eq!((unknown(None), unknown(Some(&[Cpu(1)])), unknown(Some(&[Cpu(0)]))), (7, 7, 0));
    }

    #[test]
    fn lost_samples_below_the_largest_one_may_be_above_a_lower_deadline() {
        // As in a histogram of another tool with an overflow class: 100 samples beyond it, of which only the largest is known.
        let mut histogram = Histogram::new(Layout::LATENCY);
        (0..900).for_each(|n| histogram.record(Ns(5_000 + n)));
        histogram.record(Ns::from_ms(5));
        let mut run = Run::new(Conditions::default());
        let series = Series::new(Quantity::Cyclic, Some(Cpu(0)), histogram);
        run.series.push(Series { missed: Some(0), lost: 99, lost_below_max: true, ..series });
        let said = |deadline: Option<Ns>| {
            let input = input(&[&run], Quantity::Cyclic, None).unwrap();
            let deadline = deadline.map(|ns| ns.0 as f64);
            let request = Request { deadline, ..Default::default() };
            let answer = crate::bound::analyse::analyse(&input, &request);
            let complete = answer.gates.iter().find(|gate| gate.name == "complete").unwrap();
            assert!(!complete.passed, "{}", complete.detail);
            (answer.observed.samples, answer.observed.above)
        };
        assert_eq!(said(None), (1_000, 0));
        assert_eq!(said(Some(Ns::from_ms(5))), (1_000, 0));
        assert_eq!(said(Some(Ns::from_us(100))), (1_000, 100));
        run.series[0].lost_below_max = false;
        run.series[0].lost_within_ns = Some(Ns::from_ms(6));
        let unknown = input(&[&run], Quantity::Cyclic, None).unwrap();
        assert_eq!((unknown.unknown, unknown.bounded), (99, 0));
    }
}
