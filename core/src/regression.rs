//! Is a run worse than a reference by more than is allowed, and by more than chance?
//!
//! A figure of two runs of one machine is never twice the same, a maximum least of all. So a figure beyond what is
//! allowed is held to be worse only where a test says that chance would hardly do it: the quantile test (Johnson,
//! Verrill, Moore, Biometrics 43, 1987). Of all units (seconds, or samples) of both runs that are beyond the reference's
//! figure (in the other run: beyond what is allowed), each would come from the other run with its share of all units if
//! the two were alike; the p-value is the probability that so many or more do.
//!
//! Units are seconds where beyond is rare, because late ones come in bursts; else samples, as if they came independently.

use std::borrow::Cow;

use serde::Serialize;

use crate::histogram::{Histogram, NoSum};
use crate::run::Run;
use crate::series::labels::Labels;
use crate::series::{Quantity, SecondMax, Series};
use crate::stats::holm;
use crate::stats::model_free::at_least;
use crate::time::{parse_duration, Ns};

/// A figure that a run is held to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Figure {
    /// The largest sample.
    Max,
    /// A quantile, in 0..1.
    Quantile(f64),
}

/// By how much the figure may be above the reference's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Allowed {
    /// So many percent of it.
    Percent(f64),
    /// So long.
    Time(Ns),
}

/// `max +20%`, `p99.9 +10us`, `median +5%`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// Of what.
    pub figure: Figure,
    /// How much more.
    pub allowed: Allowed,
}

/// What the comparison of one figure says, the worse the later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// No more than allowed.
    Within,
    /// More than allowed, but chance may do that: not significant.
    NotSignificant,
    /// It cannot be told; the detail says why.
    Undecided,
    /// More than allowed, and not by chance.
    Worse,
}

/// The series of one label in two runs; of several (threads that share a CPU) their sum.
#[derive(Debug)]
pub struct Pair<'r> {
    /// `CPU 1`, `comm`.
    pub label: String,
    /// In the reference; `None` where it was not measured.
    pub reference: Option<Cow<'r, Series>>,
    /// In the run.
    pub run: Option<Cow<'r, Series>>,
}

/// What one limit says of one pair.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// `CPU 1`, `comm`.
    pub label: String,
    /// `max`, `median`, `p99.99`.
    pub figure: String,
    /// Of the reference, ns.
    pub reference_ns: Option<Ns>,
    /// The most that is allowed, ns.
    pub limit_ns: Option<Ns>,
    /// Of the run, ns.
    pub value_ns: Option<Ns>,
    /// Probability that chance alone puts so many units beyond; only of a value beyond what is allowed.
    pub p: Option<f64>,
    /// What it says.
    pub outcome: Outcome,
    /// The counts behind it, or why it is undecided.
    pub detail: String,
}

/// A text that is no limit.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("'{0}' is no limit; write for example 'max +20%', 'p99.99 +10%' or 'median +5us'")]
pub struct NotALimit(String);

impl std::str::FromStr for Limit {
    type Err = NotALimit;

    fn from_str(text: &str) -> Result<Limit, NotALimit> {
        let wrong = || NotALimit(text.trim().to_owned());
        let (figure, allowed) = text.trim().split_once('+').ok_or_else(wrong)?;
        let figure = match figure.trim() {
            "max" => Figure::Max,
            "median" => Figure::Quantile(0.5),
            other => {
                let percent = other.strip_prefix('p').ok_or_else(wrong)?;
                let digits = percent.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
                let percent: f64 = percent.parse().ok().filter(|_| digits).ok_or_else(wrong)?;
                if !(percent > 0.0 && percent < 100.0) {
                    return Err(wrong());
                }
                Figure::Quantile(percent / 100.0)
            }
        };
        let allowed = match allowed.trim().strip_suffix('%') {
            Some(percent) => {
                let percent: f64 = percent.trim().parse().map_err(|_| wrong())?;
                if !(0.0..=1e6).contains(&percent) {
                    return Err(wrong());
                }
                Allowed::Percent(percent)
            }
            None => Allowed::Time(parse_duration(allowed, Ns(1_000)).map_err(|_| wrong())?),
        };
        Ok(Limit { figure, allowed })
    }
}

impl std::fmt::Display for Figure {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Figure::Max => write!(f, "max"),
            Figure::Quantile(0.5) => write!(f, "median"),
            // Rounded, because 0.9999 * 100 is 99.99000000000001.
            Figure::Quantile(q) => write!(f, "p{}", (q * 1e8).round() / 1e6),
        }
    }
}

impl Allowed {
    /// The most that is allowed beside `reference`.
    fn of(self, reference: Ns) -> Ns {
        match self {
            Allowed::Percent(percent) => Ns((reference.0 as f64 * (1.0 + percent / 100.0)).floor() as u64),
            Allowed::Time(more) => Ns(reference.0.saturating_add(more.0)),
        }
    }
}

/// Units of a series, and how many of them are beyond a level.
#[derive(Clone, Copy, Debug)]
struct Beyond {
    units: u64,
    beyond: u64,
}

/// The series of `quantity` of two runs, side by side by their labels.
///
/// # Errors
/// When series of one label have histograms of different widths, so that they have no sum.
pub fn pairs<'r>(reference: &'r Run, run: &'r Run, quantity: Quantity) -> Result<Vec<Pair<'r>>, NoSum> {
    let [reference, run] = [reference, run].map(|run| run.of(quantity).collect::<Vec<&Series>>());
    let labels = Labels::of(&[reference.clone(), run.clone()]);
    let pair = |label: &String| {
        let sum_of = |series: &[&'r Series]| sum(&labels.of_label(label, series));
        Ok(Pair { label: label.clone(), reference: sum_of(&reference)?, run: sum_of(&run)? })
    };
    labels.all().iter().map(pair).collect()
}

/// All samples of several series; of a second the largest of all.
fn sum<'r>(series: &[&'r Series]) -> Result<Option<Cow<'r, Series>>, NoSum> {
    let Some((first, rest)) = series.split_first() else { return Ok(None) };
    let mut all = Cow::Borrowed(*first);
    for more in rest {
        let all = all.to_mut();
        all.add_samples(more)?;
        // What is of one stretch is put together where it is counted.
        all.seconds.extend(&more.seconds);
        all.seconds.sort_by_key(|second| second.second);
        all.seconds_stretch = all.seconds_stretch.max(more.seconds_stretch);
    }
    Ok(Some(all))
}

/// Checks each pair against each of the limits. All tests together call a run worse that is not with a probability of at
/// most 1 - `confidence` (Holm).
#[must_use]
pub fn check(pairs: &[Pair], limits: &[Limit], confidence: f64) -> Vec<Finding> {
    let alpha = 1.0 - confidence;
    let of_pair = |pair| limits.iter().map(move |limit| one(pair, *limit, alpha));
    let mut findings: Vec<Finding> = pairs.iter().flat_map(of_pair).collect();
    let mut tested: Vec<&mut Finding> =
        findings.iter_mut().filter(|finding| finding.outcome != Outcome::Undecided).collect();
    // What is within its limit was held against it, too, and cannot be worse.
    let p_values: Vec<f64> = tested.iter().map(|finding| finding.p.unwrap_or(1.0)).collect();
    for (finding, worse) in tested.iter_mut().zip(holm::rejected(&p_values, alpha)) {
        if worse {
            finding.outcome = Outcome::Worse;
        }
    }
    findings
}

/// What all of them say together: the worst.
#[must_use]
pub fn overall(findings: &[Finding]) -> Outcome {
    findings.iter().map(|finding| finding.outcome).max().unwrap_or(Outcome::Undecided)
}

fn one(pair: &Pair, limit: Limit, alpha: f64) -> Finding {
    let mut finding = Finding {
        label: pair.label.clone(),
        figure: limit.figure.to_string(),
        reference_ns: None,
        limit_ns: None,
        value_ns: None,
        p: None,
        outcome: Outcome::Undecided,
        detail: String::new(),
    };
    let (Some(reference), Some(run)) = (pair.reference.as_deref(), pair.run.as_deref()) else {
        let whose = if pair.run.is_none() { "this run" } else { "the reference" };
        finding.detail = format!("not measured in {whose}");
        return finding;
    };
    finding.reference_ns = figure(reference, limit.figure);
    finding.value_ns = figure(run, limit.figure);
    finding.limit_ns = finding.reference_ns.map(|reference| limit.allowed.of(reference));
    let (Some(level), Some(allowed), Some(value)) =
        (finding.reference_ns, finding.limit_ns, finding.value_ns)
    else {
        finding.detail = too_few(reference, run, limit.figure);
        return finding;
    };
    if value <= allowed {
        (finding.outcome, finding.detail) = match hidden_beyond(run, allowed, limit.figure) {
            Some(why) => (Outcome::Undecided, why),
            None => (Outcome::Within, String::new()),
        };
        return finding;
    }
    if reference.lost > 0 && reference.lost_at_most().is_none_or(|most| most > level) {
        finding.detail = format!("the reference lost {} samples of unknown size", reference.lost);
        return finding;
    }
    let (of_reference, of_run, unit) = beyond(reference, run, level, allowed);
    finding.detail = format!(
        "{} of {} {unit} above {allowed}, of the reference {} of {} above {level}",
        of_run.beyond, of_run.units, of_reference.beyond, of_reference.units
    );
    let share = of_run.units as f64 / (of_run.units + of_reference.units) as f64;
    let (found, all) = (of_run.beyond, of_run.beyond + of_reference.beyond);
    finding.p = Some(at_least(found, all, share));
    // Even if each unit of the run were beyond, and none of the reference.
    finding.outcome = if share.powf(of_run.units as f64) > alpha {
        finding.detail.push_str(": too few to tell, measure longer");
        Outcome::Undecided
    } else {
        Outcome::NotSignificant
    };
    finding
}

/// With the missed activations, where the instrument knows what they were.
fn all_of(series: &Series) -> &Histogram {
    series.activations().unwrap_or(&series.histogram)
}

fn figure(series: &Series, figure: Figure) -> Option<Ns> {
    let all = all_of(series);
    match figure {
        Figure::Max => all.max(),
        // Fewer samples than it takes to have one beyond it: that would be the maximum under another name.
        Figure::Quantile(q) if (all.count() as f64) * (1.0 - q) < 1.0 => None,
        Figure::Quantile(q) => all.quantile(q),
    }
}

fn too_few(reference: &Series, run: &Series, figure: Figure) -> String {
    let (first, second) = (all_of(reference).count(), all_of(run).count());
    format!("too few samples for {figure}: {second}, of the reference {first}")
}

/// Why a value that is not beyond what is allowed may be so nevertheless.
fn hidden_beyond(run: &Series, allowed: Ns, figure: Figure) -> Option<String> {
    let lost = run.lost > 0 && run.lost_at_most().is_none_or(|most| most > allowed);
    // Of an imported run it may not be known: said in the table.
    let missed = run.missed.is_some_and(|missed| missed > 0) && run.activations().is_none();
    let hides = match figure {
        Figure::Max => lost || missed,
        Figure::Quantile(q) => {
            let hidden = if lost { run.lost } else { 0 } + if missed { run.missed.unwrap_or(0) } else { 0 };
            let beyond = hidden as f64 + all_of(run).count_from(Ns(allowed.0 + 1)) as f64;
            beyond > (1.0 - q) * (all_of(run).count() as f64 + hidden as f64) && hidden > 0
        }
    };
    hides.then(|| match lost {
        true => format!("{} samples were lost, their values are not known", run.lost),
        false => {
            format!("{} activations were missed, their latencies are not known", run.missed.unwrap_or(0))
        }
    })
}

/// In seconds where at most half of the reference's are beyond; else in samples.
fn beyond(reference: &Series, run: &Series, level: Ns, allowed: Ns) -> (Beyond, Beyond, &'static str) {
    let stretch = reference.seconds_stretch.max(run.seconds_stretch).max(1);
    let seconds = |series: &Series, level: Ns| {
        let mut kept: Vec<SecondMax> = series.seconds.clone();
        kept.dedup_by(|later, kept| {
            let same = later.second / stretch == kept.second / stretch;
            kept.max_ns = if same { kept.max_ns.max(later.max_ns) } else { kept.max_ns };
            same
        });
        let beyond = kept.iter().filter(|second| second.max_ns > level).count() as u64;
        Beyond { units: kept.len() as u64, beyond }
    };
    let (first, second) = (seconds(reference, level), seconds(run, allowed));
    // A maximum that is in no second (imported) would be forgotten.
    let told =
        |series: &Series| series.seconds.iter().map(|second| second.max_ns).max() == series.histogram.max();
    if first.units > 0 && second.units > 0 && first.beyond * 2 <= first.units && told(reference) && told(run)
    {
        return (first, second, if stretch == 1 { "seconds" } else { "stretches of seconds" });
    }
    let samples = |series: &Series, level: Ns| {
        let all = all_of(series);
        let classes = all.count_from(Ns(level.0.saturating_add(1)));
        let beyond = classes.max(u64::from(all.max() > Some(level)));
        Beyond { units: all.count(), beyond }
    };
    (samples(reference, level), samples(run, allowed), "samples")
}

#[cfg(test)]
#[path = "regression/tests.rs"]
mod tests;
