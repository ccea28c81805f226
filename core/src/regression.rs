//! Compares a run with a reference: whether it is worse by more than allowed, and significantly.
//!
//! Figures of two runs of one machine always differ, maxima most of all. So a figure above the limit is worse only if a
//! test shows that it is significant: the quantile test (Johnson, Verrill, Moore, Biometrics 43, 1987). Take all units
//! (seconds, or samples) above the reference's figure (in the other run: above the limit). If the two runs were alike,
//! each would be from the other run with its share of all units; the p-value is the probability of at least the
//! observed number.
//!
//! A figure within the limit proves nothing if the run is so short that it would seldom have shown even a clear excess: then
//! the result is undecided.
//!
//! Units are seconds if exceedances are rare, because they come in bursts; else samples, assumed to be independent.

use std::borrow::Cow;

use serde::Serialize;

use crate::histogram::{Histogram, NoSum};
use crate::numbers::counted;
use crate::run::Run;
use crate::series::labels::Labels;
use crate::series::{Quantity, SecondMax, Series};
use crate::stats::holm;
use crate::stats::model_free::at_least;
use crate::time::{parse_duration, Ns};

/// A figure to compare.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Figure {
    /// The largest sample.
    Max,
    /// A quantile, in 0..1.
    Quantile(f64),
}

/// Allowed excess over the reference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Allowed {
    /// Percent of the reference.
    Percent(f64),
    /// An absolute time.
    Time(Ns),
}

/// `max +20%`, `p99.9 +10us`, `median +5%`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// The figure.
    pub figure: Figure,
    /// The allowed excess.
    pub allowed: Allowed,
}

/// Result for one figure, in ascending order of badness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Within the limit.
    Within,
    /// Above the limit, but not significant.
    NotSignificant,
    /// Undecidable; `detail` says why.
    Undecided,
    /// Above the limit, and significant.
    Worse,
}

/// The series of one label in two runs; if several have it (threads that share a CPU), their sum.
#[derive(Debug)]
pub struct Pair<'r> {
    /// `CPU 1`, `comm`.
    pub label: String,
    /// In the reference; `None` if it was not measured.
    pub reference: Option<Cow<'r, Series>>,
    /// In the run.
    pub run: Option<Cow<'r, Series>>,
}

/// Result of one limit for one pair.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// `CPU 1`, `comm`.
    pub label: String,
    /// `max`, `median`, `p99.99`.
    pub figure: String,
    /// Figure of the reference, ns.
    pub reference_ns: Option<Ns>,
    /// The limit, ns.
    pub limit_ns: Option<Ns>,
    /// Figure of the run, ns.
    pub value_ns: Option<Ns>,
    /// p-value; only if the figure is above the limit.
    pub p: Option<f64>,
    /// The result.
    pub outcome: Outcome,
    /// The counts behind it, or why it is undecided.
    pub detail: String,
}

/// The text is not a limit.
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
                // Rounded once: 99.9 / 100.0 is above 0.999, and so is its rank.
                Figure::Quantile(format!("{percent}e-2").parse().map_err(|_| wrong())?)
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
    /// The limit for `reference`.
    fn of(self, reference: Ns) -> Ns {
        match self {
            Allowed::Percent(percent) => Ns((reference.0 as f64 * (1.0 + percent / 100.0)).floor() as u64),
            Allowed::Time(more) => Ns(reference.0.saturating_add(more.0)),
        }
    }
}

/// Number of units of a series, and of those above a level.
#[derive(Clone, Copy, Debug)]
struct Beyond {
    units: u64,
    beyond: u64,
}

/// The series of `quantity` of two runs, paired by label.
///
/// # Errors
/// If series of one label have histograms of different widths, so that they cannot be added.
pub fn pairs<'r>(reference: &'r Run, run: &'r Run, quantity: Quantity) -> Result<Vec<Pair<'r>>, NoSum> {
    let [reference, run] = [reference, run].map(|run| run.of(quantity).collect::<Vec<&Series>>());
    let labels = Labels::of(&[reference.clone(), run.clone()]);
    let pair = |label: &String| {
        let sum_of = |series: &[&'r Series]| sum(&labels.of_label(label, series));
        Ok(Pair { label: label.clone(), reference: sum_of(&reference)?, run: sum_of(&run)? })
    };
    labels.all().iter().map(pair).collect()
}

/// All samples of several series; the maximum of each second over all.
fn sum<'r>(series: &[&'r Series]) -> Result<Option<Cow<'r, Series>>, NoSum> {
    let Some((first, rest)) = series.split_first() else { return Ok(None) };
    let mut all = Cow::Borrowed(*first);
    for more in rest {
        let all = all.to_mut();
        all.add_samples(more)?;
        // Maxima of the same stretch are combined when they are counted.
        all.seconds.extend(&more.seconds);
        all.seconds.sort_by_key(|second| second.second);
        all.seconds_stretch = all.seconds_stretch.max(more.seconds_stretch);
    }
    Ok(Some(all))
}

/// Checks each pair against each limit. The family-wise error rate is at most 1 - `confidence` (Holm).
#[must_use]
pub fn check(pairs: &[Pair], limits: &[Limit], confidence: f64) -> Vec<Finding> {
    let alpha = 1.0 - confidence;
    let of_pair = |pair| limits.iter().map(move |limit| one(pair, *limit, alpha));
    let mut findings: Vec<Finding> = pairs.iter().flat_map(of_pair).collect();
    let mut tested: Vec<&mut Finding> =
        findings.iter_mut().filter(|finding| finding.outcome != Outcome::Undecided).collect();
    // Figures within their limits were tested too, and cannot be worse.
    let p_values: Vec<f64> = tested.iter().map(|finding| finding.p.unwrap_or(1.0)).collect();
    for (finding, worse) in tested.iter_mut().zip(holm::rejected(&p_values, alpha)) {
        if worse {
            finding.outcome = Outcome::Worse;
        }
    }
    findings
}

/// The worst of all results.
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
        let hidden = hidden_beyond(run, allowed, limit.figure);
        let why = hidden.or_else(|| too_short(reference, run, (level, allowed), (limit.figure, alpha)));
        (finding.outcome, finding.detail) = match why {
            Some(why) => (Outcome::Undecided, why),
            None => (Outcome::Within, String::new()),
        };
        return finding;
    }
    if reference.lost > 0 && reference.lost_at_most().is_none_or(|most| most > level) {
        finding.detail = format!("the reference lost {} of unknown size", counted(reference.lost, "sample"));
        return finding;
    }
    if let Some(missed) = reference.missed.filter(|&missed| missed > 0 && reference.activations().is_none()) {
        finding.detail =
            format!("the reference missed {}, with unknown latencies", counted(missed, "activation"));
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
    // Even if all units of the run were above, and none of the reference.
    finding.outcome = if share.powf(of_run.units as f64) > alpha {
        finding.detail.push_str(": too few to tell, measure longer");
        Outcome::Undecided
    } else {
        Outcome::NotSignificant
    };
    finding
}

/// With the missed activations, if their latencies are known.
fn all_of(series: &Series) -> &Histogram {
    series.activations().unwrap_or(&series.histogram)
}

fn figure(series: &Series, figure: Figure) -> Option<Ns> {
    let all = all_of(series);
    match figure {
        Figure::Max => all.max(),
        // Too few samples to have one above the quantile: it would be the maximum.
        Figure::Quantile(q) if (all.count() as f64 * q).ceil() >= all.count() as f64 => None,
        Figure::Quantile(q) => all.quantile(q),
    }
}

fn too_few(reference: &Series, run: &Series, figure: Figure) -> String {
    let (first, second) = (all_of(reference).count(), all_of(run).count());
    format!("too few samples for {figure}: {second}, of the reference {first}")
}

/// Why a figure within the limit may actually be above it.
fn hidden_beyond(run: &Series, allowed: Ns, figure: Figure) -> Option<String> {
    let lost = run.lost > 0 && run.lost_at_most().is_none_or(|most| most > allowed);
    // In an imported run it may not be known: the table shows that.
    let missed = run.missed.is_some_and(|missed| missed > 0) && run.activations().is_none();
    let hides = match figure {
        Figure::Max => lost || missed,
        Figure::Quantile(q) => {
            let hidden = (if lost { run.lost } else { 0 }).saturating_add(if missed {
                run.missed.unwrap_or(0)
            } else {
                0
            });
            let beyond = hidden as f64 + all_of(run).count_from(Ns(allowed.0.saturating_add(1))) as f64;
            beyond > (1.0 - q) * (all_of(run).count() as f64 + hidden as f64) && hidden > 0
        }
    };
    hides.then(|| match lost {
        true => format!("lost {}, with unknown values", counted(run.lost, "sample")),
        false => {
            format!("missed {}, with unknown latencies", counted(run.missed.unwrap_or(0), "activation"))
        }
    })
}

/// A larger figure in this many times as many units as in the reference is a clear excess.
const CLEAR: f64 = 30.0;

/// Why a figure within the limit shows nothing: a run of so few units would seldom have shown even a clear excess.
fn too_short(
    reference: &Series,
    run: &Series,
    (level, allowed): (Ns, Ns),
    (figure, alpha): (Figure, f64),
) -> Option<String> {
    let (of_reference, of_run, unit) = beyond(reference, run, level, allowed);
    let (units, units_of_reference) = (of_run.units as f64, of_reference.units as f64);
    // Even if all units of the run were above, and none of the reference.
    let never = (units / (units + units_of_reference)).powf(units) > alpha;
    // At 95 %, a tenth of the reference's units suffices. Quantiles have a minimum number of samples.
    let rate = CLEAR * (of_reference.beyond + 1) as f64 / (units_of_reference + 1.0);
    let unseen = figure == Figure::Max && (1.0 - rate.min(1.0)).powf(units) > alpha;
    (never || unseen).then(|| {
        format!(
            "{} {unit}, of the reference {}: too few to show even a clear excess, measure longer",
            of_run.units, of_reference.units
        )
    })
}

/// In seconds if at most half of the reference's are above; else in samples.
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
    // A maximum without a second (imported) would be missed.
    let has_all_maxima =
        |series: &Series| series.seconds.iter().map(|second| second.max_ns).max() == all_of(series).max();
    if first.units > 0
        && second.units > 0
        && first.beyond * 2 <= first.units
        && has_all_maxima(reference)
        && has_all_maxima(run)
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
