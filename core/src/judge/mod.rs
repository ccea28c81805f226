//! Computes the verdict of a run.
//!
//! One sample above the deadline is a FAIL, despite any doubt: it was observed. Without one, each doubt of `doubts.rs`
//! makes the outcome INCONCLUSIVE. Without a deadline there is no outcome, unless the measurement is invalid (no
//! samples, lost samples, an instrument that failed its calibration). Not here: extrapolation beyond the samples.

mod again;
mod application;
mod claimed;
mod criteria;
mod doubts;
mod hwlat;

pub use application::{judge_recording, Asked, Ending, Pools};
pub use claimed::{claimed, claimed_of_recording};
pub use criteria::{criteria, criteria_of_samples};
use doubts::Doubt;

use crate::numbers::counted;
use crate::peak::Peak;
use crate::run::Run;
use crate::series::{Quantity, Series};
use crate::stats::activations::possibly_above;
use crate::stats::rule_of_thumb;
use crate::time::Ns;
use crate::verdict::{JudgedBy, ModelFree, Outcome, Verdict};

/// Requirements of a verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// Their name in a verdict.
    pub name: JudgedBy,
    /// The judged quantity.
    pub quantity: Quantity,
    /// Other quantities that must not exceed the deadline, and whose losses are doubts. All other claims are on
    /// `quantity`.
    pub also: Vec<Quantity>,
    /// One-sided confidence of the model-free statement.
    pub confidence: f64,
    /// A PASS must prove that the probability of an exceedance is below this.
    pub claim_probability: f64,
    /// Minimum share of the due activations for which each CPU must have samples.
    pub least_share: f64,
    /// Whether a run without a load is a doubt.
    pub require_load: bool,
    /// Whether a run without calibration is a doubt.
    pub require_calibration: bool,
    /// Loss counters that do not affect the judged samples (for example losses of an explanation).
    pub tolerated_losses: Vec<String>,
}

impl Rules {
    /// For the full hunt: calibrated, under load, 1 in 10 000 at 95 %.
    #[must_use]
    pub fn hunt() -> Rules {
        Rules {
            name: JudgedBy::Hunt,
            quantity: Quantity::Cyclic,
            also: Vec::new(),
            confidence: 0.95,
            claim_probability: 1e-4,
            least_share: 0.5,
            require_load: true,
            require_calibration: true,
            tolerated_losses: Vec::new(),
        }
    }

    /// For a single instrument; load and calibration are up to the user.
    #[must_use]
    pub fn instrument(quantity: Quantity) -> Rules {
        let name = if quantity == Quantity::Response { JudgedBy::Application } else { JudgedBy::Instrument };
        Rules { name, quantity, require_load: false, require_calibration: false, ..Rules::hunt() }
    }

    /// For the real-time tasks of a system: latency counts from the expiry for wake-ups by a timer, else from the
    /// waking, including waits behind a task of the same priority. `run` has the available quantities.
    #[must_use]
    pub fn tasks(run: &Run) -> Rules {
        let timed = run.max_of(Quantity::TimerWakeup).is_some();
        let quantity = if timed { Quantity::TimerWakeup } else { Quantity::Wakeup };
        let also = vec![Quantity::Wakeup, Quantity::SharedPrio];
        Rules { name: JudgedBy::Tasks, also, ..Rules::instrument(quantity) }
    }

    /// All series that must not exceed the deadline.
    pub(super) fn limited<'r>(&self, run: &'r Run) -> impl Iterator<Item = &'r Series> + use<'r> {
        let quantity = self.quantity;
        let also: Vec<Quantity> = self.also.iter().copied().filter(|&one| one != quantity).collect();
        run.of(quantity).chain(also.into_iter().flat_map(|one| run.of(one)))
    }
}

/// Judges `run` against `deadline` (a latency may equal it).
#[must_use]
pub fn judge(run: &Run, deadline: Option<Ns>, rules: &Rules) -> Verdict {
    let worst = run.max_of(rules.quantity);
    let late = deadline.map(|deadline| above(run, deadline, rules)).unwrap_or_default();
    let quantity = late.first().map_or(rules.quantity, |(_, series)| series.quantity);
    let failures: Vec<String> = deadline
        .map(|deadline| {
            let late = late.iter().map(|&(max, series)| exceedance(run, deadline, rules, series, max));
            late.chain(doubts::violated(run, rules)).collect()
        })
        .unwrap_or_default();
    let mut doubts = doubts::all(run, deadline, rules);
    let model_free = model_free(run, deadline, rules);
    let outcome = conclude(deadline, !failures.is_empty(), &doubts);
    let (failures, mut reasons) = (failures.len(), failures);
    if outcome == Some(Outcome::Fail) {
        doubts.retain(|doubt| !doubt.asks_for_more);
    }
    if outcome == Some(Outcome::Pass) {
        // with -q it is read alone, so it must include its assumption
        reasons.extend(model_free.iter().map(|said| format!("{}, {}", said.sentence, said.rests_on())));
    }
    reasons.extend(ordered(doubts));
    reasons.extend(run.warm_up.as_ref().map(|warm_up| warm_up.line(worst, deadline)));
    let rule_of_thumb = worst
        .zip(run.conditions.machine.cpu_max_hz)
        .and_then(|(worst, max_hz)| rule_of_thumb::clock_periods(max_hz, worst));
    let judged_by = Some(rules.name);
    let quantity = Some(quantity);
    Verdict {
        outcome,
        deadline_ns: deadline,
        quantity,
        judged_by,
        reasons,
        failures,
        model_free,
        rule_of_thumb,
        criteria: criteria(&[run], rules.quantity),
        strict: false,
    }
}

/// The only source of a PASS.
fn conclude(deadline: Option<Ns>, exceeded: bool, doubts: &[Doubt]) -> Option<Outcome> {
    match deadline {
        Some(_) if exceeded => Some(Outcome::Fail),
        Some(_) if doubts.is_empty() => Some(Outcome::Pass),
        Some(_) => Some(Outcome::Inconclusive),
        None => doubts.iter().any(|doubt| doubt.voids).then_some(Outcome::Inconclusive),
    }
}

/// Exit code of a command that ends with `verdict`: 0 within the deadline or none given, 2 exceeded, 3 inconclusive.
#[must_use]
pub fn exit_code(verdict: &Verdict) -> u8 {
    match verdict.outcome {
        None | Some(Outcome::Pass) => 0,
        Some(Outcome::Fail) => 2,
        Some(Outcome::Inconclusive) => 3,
    }
}

fn ordered(mut doubts: Vec<Doubt>) -> impl Iterator<Item = String> {
    doubts.sort_by_key(|doubt| !doubt.voids); // stable: invalidating doubts first
    doubts.into_iter().map(|doubt| doubt.reason)
}

/// Each series with a sample above the deadline, the worst first.
fn above<'r>(run: &'r Run, deadline: Ns, rules: &Rules) -> Vec<(Ns, &'r Series)> {
    let mut late: Vec<(Ns, &Series)> = rules
        .limited(run)
        .filter_map(|series| Some((series.histogram.max()?, series)))
        .filter(|&(max, _)| max > deadline)
        .collect();
    late.sort_by_key(|&(max, _)| std::cmp::Reverse(max));
    late
}

fn exceedance(run: &Run, deadline: Ns, rules: &Rules, series: &Series, max: Ns) -> String {
    let which = match series.quantity {
        quantity if quantity == rules.quantity => series.label(),
        quantity => format!("{}, {}", series.label(), quantity.name()),
    };
    // Of the values in the bin of the deadline, only the maximum is known to be above it.
    let surely = series.histogram.count_from(deadline + Ns(1)).max(1);
    let possibly = possibly_above(&series.histogram, deadline);
    let count = match (surely, possibly) {
        (surely, possibly) if surely == possibly => counted(surely, "sample"),
        (surely, possibly) => format!("{surely} to {possibly} samples"),
    };
    let of = series.histogram.count();
    let cause = peak_of(run, series, max).and_then(blamed).map(|cause| format!(": {cause}"));
    let (max, deadline) = max.told_apart(deadline);
    let cause = cause.or_else(|| {
        let shared = series.quantity == Quantity::SharedPrio;
        shared.then(|| ": a task of the same priority had the CPU meanwhile".to_owned())
    });
    format!(
        "{which}: {count} of {of} above the deadline of {deadline}, worst {max}{}",
        cause.unwrap_or_default()
    )
}

fn peak_of<'r>(run: &'r Run, series: &Series, max: Ns) -> Option<&'r Peak> {
    run.peaks.iter().find(|peak| {
        peak.quantity == series.quantity
            && peak.total_ns == max
            && (peak.quantity != Quantity::Response || is_of(series, peak))
            && series.cpu.is_none_or(|cpu| cpu == peak.cpu)
    })
}

fn is_of(series: &Series, peak: &Peak) -> bool {
    series.thread.as_ref().is_some_and(|thread| thread.tid == peak.victim.tid)
}

fn blamed(peak: &Peak) -> Option<&str> {
    peak.explanation.as_ref().map(|why| why.sentence.as_str()).or(peak.culprit.as_deref())
}

/// The statement on the rules' quantity at their confidence.
pub(super) fn model_free(run: &Run, deadline: Option<Ns>, rules: &Rules) -> Option<ModelFree> {
    let series: Vec<&Series> = run.of(rules.quantity).collect();
    claimed(&series, deadline, rules.confidence)
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
