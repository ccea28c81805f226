//! Doubts about a run, one function each; a doubt says what would remove it.
//!
//! A rule uses facts in the run. A fact that could not be read is not a doubt by itself: the conditions name it.

mod edges;
mod gaps;
mod load;

use super::Rules;
use crate::cpuset::CpuSet;
use crate::numbers::{counted, theta_rounded_down};
use crate::run::Run;
use crate::series::{Quantity, Series};
use crate::stats::activations::is_from_due;
use crate::stats::model_free::{percent, samples_needed};
use crate::time::Ns;

/// A reason why a run cannot be a PASS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Doubt {
    /// One line.
    pub reason: String,
    /// Whether the measurement is invalid, and thus inconclusive even without a deadline.
    pub voids: bool,
    /// Whether it requests more samples for a PASS; omitted for a FAIL.
    pub asks_for_more: bool,
}

/// Every doubt about `run`.
pub(super) fn all(run: &Run, deadline: Option<Ns>, rules: &Rules) -> Vec<Doubt> {
    type Rule = fn(&Run, &Rules) -> Vec<Doubt>;
    const ABOUT_SAMPLES: [Rule; 7] = [
        cut_off,
        left_its_cpu,
        calibration_absent,
        calibration_failed,
        cpu_unsampled,
        records_lost,
        edges::edges_ambiguous,
    ];
    const ABOUT_CIRCUMSTANCES: [Rule; 11] = [
        disturbed_by_another,
        gaps::activations_missing,
        ended_early,
        load::absent,
        load::died,
        load::idle,
        load::paused,
        steal,
        fibers_away,
        overheated,
        kernel_trouble,
    ];
    let of = |these: &[Rule]| these.iter().flat_map(|rule| rule(run, rules)).collect::<Vec<Doubt>>();
    // First, because a wrong scheduling class is the most important reason.
    let mut doubts = not_realtime(run, rules);
    if deadline.is_none() {
        doubts.extend(violated(run, rules).map(void)); // with one it is a failure
    }
    doubts.extend(of(&ABOUT_SAMPLES));
    doubts.extend(samples_lost(run, deadline, rules));
    doubts.extend(claim_too_weak(run, deadline, rules));
    doubts.extend(releases_missed(run, deadline, rules));
    doubts.extend(gaps::rounded_down(run, deadline, rules));
    doubts.extend(of(&ABOUT_CIRCUMSTANCES));
    doubts
}

fn void(reason: impl Into<String>) -> Doubt {
    Doubt { reason: reason.into(), voids: true, asks_for_more: false }
}

fn weak(reason: impl Into<String>) -> Doubt {
    Doubt { reason: reason.into(), voids: false, asks_for_more: false }
}

fn too_few(reason: String) -> Doubt {
    Doubt { asks_for_more: true, ..weak(reason) }
}

fn judged<'r>(run: &'r Run, rules: &Rules) -> impl Iterator<Item = &'r Series> + use<'r> {
    run.of(rules.quantity)
}

/// Threads that did not preempt the lower-priority thread that released them: the priorities were violated, whatever
/// the latencies.
pub(super) fn violated<'r>(run: &'r Run, rules: &Rules) -> impl Iterator<Item = String> + use<'r> {
    let preemptions = judged(run, rules).filter(|series| series.quantity == Quantity::Preemption);
    preemptions.filter_map(|series| {
        let counts = series.counts.as_ref().filter(|counts| counts.out_of_order > 0)?;
        let times = match counts.out_of_order {
            1 => "once".to_owned(),
            more => format!("{more} times"),
        };
        let whom = series.thread.as_ref().map_or("the released thread".to_owned(), ToString::to_string);
        Some(format!(
            "{}: order violated {times} in {}: the lower-priority thread continued before {whom} had finished",
            series.label(),
            counted(counts.sent, "release")
        ))
    })
}

fn cut_off(run: &Run, _: &Rules) -> Vec<Doubt> {
    run.is_unfinished().then(|| void("the measurement was cut off before its end")).into_iter().collect()
}

fn calibration_absent(run: &Run, rules: &Rules) -> Vec<Doubt> {
    let absent = rules.require_calibration && run.calibration.is_empty();
    absent
        .then(|| weak("not calibrated: no known disturbance was injected to check the instrument (needs root or CAP_BPF)"))
        .into_iter()
        .collect()
}

fn calibration_failed(run: &Run, _: &Rules) -> Vec<Doubt> {
    let failed = run.calibration.iter().filter(|calibration| !calibration.passed);
    failed
        .map(|c| {
            let note = if c.note.is_empty() {
                "the injected disturbance was not measured at its size"
            } else {
                &c.note
            };
            void(format!("calibration with {} failed on CPU {}: {note}", c.kind, c.cpu))
        })
        .collect()
}

/// Measured CPUs without a sample.
fn cpu_unsampled(run: &Run, rules: &Rules) -> Vec<Doubt> {
    let sampled = |series: &&Series| series.histogram.count() > 0;
    if judged(run, rules).all(|series| series.histogram.count() == 0) {
        return vec![void(format!("no {} sample was taken", rules.quantity.name()))];
    }
    let mut silent: Vec<String> =
        judged(run, rules).filter(|series| !sampled(series)).map(Series::label).collect();
    let list = run.conditions.machine.cpus_measured.as_deref().unwrap_or_default();
    if let Ok(wanted) = list.parse::<CpuSet>() {
        // Without wake-ups there is nothing to sample; an instrument samples each CPU.
        let of_tasks =
            matches!(rules.quantity, Quantity::Wakeup | Quantity::TimerWakeup | Quantity::Response);
        let by_cpu = !of_tasks && judged(run, rules).any(|series| series.cpu.is_some());
        let without = wanted.iter().filter(|&cpu| !judged(run, rules).any(|series| series.cpu == Some(cpu)));
        silent.extend(without.filter(|_| by_cpu).map(|cpu| format!("CPU {cpu}")));
    }
    silent.into_iter().map(|label| void(format!("{label} was requested but has no sample"))).collect()
}

/// Lost samples, except those that met the deadline according to the events around them.
fn samples_lost(run: &Run, deadline: Option<Ns>, rules: &Rules) -> Vec<Doubt> {
    let mut told = std::collections::BTreeSet::new();
    let in_time = |most: Ns| deadline.is_some_and(|deadline| most <= deadline);
    rules
        .limited(run)
        .filter(|series| series.lost > 0 && !series.lost_below_max)
        .filter(|series| !series.lost_at_most().is_some_and(in_time))
        .map(|series| {
            let were = if series.lost == 1 { "was" } else { "were" };
            let most =
                series.lost_within_ns.map(|most| format!(", within at most {most}")).unwrap_or_default();
            let lost = counted(series.lost, "sample");
            format!("{}: {lost} {were} lost{most}; the worst may be among them", series.label())
        })
        .filter(|doubt| told.insert(doubt.clone())) // one wake-up is part of several quantities
        .map(void)
        .collect()
}

fn records_lost(run: &Run, rules: &Rules) -> Vec<Doubt> {
    run.losses
        .iter()
        .filter(|loss| {
            loss.count > 0 && !loss.evidence_only && !rules.tolerated_losses.contains(&loss.counter)
        })
        .map(|loss| void(format!("lost {} {}: {}", loss.count, loss.counter, loss.meaning)))
        .collect()
}

/// A PASS must prove the claimed probability by its model-free statement.
fn claim_too_weak(run: &Run, deadline: Option<Ns>, rules: &Rules) -> Vec<Doubt> {
    let kept = deadline.filter(|&deadline| run.max_of(rules.quantity).is_some_and(|worst| worst <= deadline));
    let Some(said) = super::model_free(run, kept, rules) else {
        return Vec::new(); // another rule reports that there are no samples
    };
    if said.probability_below <= rules.claim_probability {
        return Vec::new();
    }
    let one_in = (1.0 / rules.claim_probability).round();
    if let Some(claim) = shown_until(run).filter(|_| said.above == 0) {
        return vec![weak(format!(
            "--until {claim} was shown, but a PASS claims fewer than 1 late activation in {one_in} with {} % confidence: ask for \
             --until {:e}@{}%",
            percent(rules.confidence),
            rules.claim_probability,
            percent(rules.confidence)
        ))];
    }
    let needed = samples_needed(rules.claim_probability, rules.confidence).unwrap_or(u64::MAX);
    if said.above > 0 {
        return vec![too_few(format!("{}: a PASS claims fewer than 1 in {one_in}", said.sentence))];
    }
    let (taken, percent) = (said.effective_samples.unwrap_or(said.samples), percent(rules.confidence));
    let clustered = match said.theta.filter(|_| taken < said.samples) {
        Some(theta) => format!(
            " (equivalent to {taken} independent ones, because late ones come in clusters: theta {})",
            theta_rounded_down(theta)
        ),
        None => String::new(),
    };
    vec![too_few(format!(
        "too few samples: {}{clustered}; at least {needed} without an exceedance are needed to show, with {percent} % confidence, \
         fewer than 1 late activation in {one_in}: measure longer{}",
        said.samples,
        longer(run, taken, needed)
    ))]
}

/// The claim of `--until` that the run has shown.
fn shown_until(run: &Run) -> Option<&str> {
    let shown = run.conditions.notes.iter().find_map(|note| note.strip_prefix("--until "));
    shown?.split_once(": ").filter(|(_, how)| !how.starts_with("ended after")).map(|(claim, _)| claim)
}

/// A release without a sample may have been late by any amount, or up to a known limit.
fn releases_missed(run: &Run, deadline: Option<Ns>, rules: &Rules) -> Vec<Doubt> {
    let doubt = |series: &Series| {
        let label = series.label();
        let (missed, their) = match series.missed {
            None => return Some(weak(format!("{label}: the number of missed releases is not known"))),
            Some(1) => ("1 release was missed".to_owned(), "its latency is"),
            Some(missed) => (format!("{missed} releases were missed"), "their latencies are"),
        };
        let Some(all) = series.activations() else {
            return Some(weak(format!("{label}: {missed}; {their} not known")));
        };
        let (most, sampled) = (all.max()?, series.histogram.max()?);
        let late = deadline.is_some_and(|deadline| sampled <= deadline && most > deadline);
        if late && is_from_due(series) {
            let since_sent = "the samples are counted from the sending";
            return Some(weak(format!(
                "{label}: up to {most}, counted from when each was due; {since_sent}"
            )));
        }
        late.then(|| weak(format!("{label}: {missed}; those jobs may have been up to {most} late")))
    };
    rules.limited(run).filter_map(doubt).collect()
}

/// Two measurements at once: one may cause a latency of the other.
fn disturbed_by_another(run: &Run, _: &Rules) -> Vec<Doubt> {
    let all = run.conditions.during.neighbours.iter();
    all.map(|one| {
        weak(format!(
            "{one}: the two disturb each other; measure one after the other, or on different CPUs (-c)"
        ))
    })
    .collect()
}

/// The measurement ended early: it was stopped, a thread ended, a program failed. A stopped one is invalid even without
/// a deadline.
fn ended_early(run: &Run, _: &Rules) -> Vec<Doubt> {
    let doubt = if run.complete { weak } else { void };
    run.conditions.during.ended_early.iter().map(doubt).collect()
}

/// Samples of a thread that left its CPU are from another CPU.
fn left_its_cpu(run: &Run, _: &Rules) -> Vec<Doubt> {
    run.conditions.during.left_cpu.iter().map(|left| void(left.to_string())).collect()
}

/// The sufficient duration at the same rate.
fn longer(run: &Run, taken: u64, needed: u64) -> String {
    match run.conditions.duration_s {
        Some(seconds) if seconds > 0.0 => {
            format!(" ({:.0} s at this pace)", (seconds * needed as f64 / taken as f64).ceil())
        }
        _ => String::new(),
    }
}

/// Latencies of a SCHED_OTHER thread are no evidence for real-time threads. Series of one priority share a reason.
fn not_realtime(run: &Run, rules: &Rules) -> Vec<Doubt> {
    let mut of: Vec<(String, Vec<String>)> = Vec::new();
    for series in judged(run, rules) {
        let Some(prio) = series.thread.as_ref().and_then(|thread| thread.prio) else { continue };
        if prio.is_realtime() {
            continue;
        }
        let said = match rules.quantity {
            // Chosen by the application.
            Quantity::Response => {
                format!("runs at {prio}, not a real-time priority: any other program may delay it")
            }
            _ => format!(
                "measured as an ordinary task at {prio}: not valid for real-time tasks ({})",
                needs_for_realtime(run, rules)
            ),
        };
        match of.iter_mut().find(|(known, _)| *known == said && rules.quantity != Quantity::Response) {
            Some((_, labels)) => labels.push(series.label()),
            None => of.push((said, vec![series.label()])),
        }
    }
    of.into_iter().map(|(said, labels)| weak(format!("{}: {said}", labels.join(", ")))).collect()
}

/// The missing conditions of a real-time priority, as far as the facts of the run show.
fn needs_for_realtime(run: &Run, rules: &Rules) -> String {
    let machine = &run.conditions.machine;
    let cpus = |list: &Option<String>| list.as_deref().and_then(|list| list.parse::<CpuSet>().ok());
    let all_taken = cpus(&machine.cpus_online)
        .zip(cpus(&machine.cpus_measured))
        .is_some_and(|(online, measured)| online.minus(&measured).is_empty());
    let may = run.conditions.capabilities.iter().any(|one| one.name == "sched_fifo" && one.present);
    // The loop of npt never sleeps.
    let first = match rules.quantity == Quantity::Npt && all_taken {
        true => "needs a CPU that is not measured, for everything else: choose the measured ones with -c",
        false => "needs a priority above 0",
    };
    match may {
        true => first.to_owned(),
        false => {
            format!("{first} and CAP_SYS_NICE: `sudo lathunt …`, or docs/howto/without-root.md")
        }
    }
}

/// Steal time at least as long as the worst latency: it may be its cause, and longer ones may occur.
fn steal(run: &Run, rules: &Rules) -> Vec<Doubt> {
    let stolen = run.conditions.during.steal.iter().flatten();
    stolen
        .filter_map(|on| {
            let worst = judged(run, rules)
                .filter(|series| series.cpu.is_none_or(|cpu| cpu == on.cpu))
                .filter_map(|series| series.histogram.max())
                .max()?;
            (on.steal_ns > Ns::ZERO && on.steal_ns >= worst).then(|| {
                weak(format!(
                    "the host stole {} from CPU {} during the run, and nothing bounds steal time: measure on bare metal, or \
                     dedicate a host CPU to this CPU",
                    on.steal_ns, on.cpu
                ))
            })
        })
        .collect()
}

/// No fiber runs while the kernel runs something else. If that took longer than the smallest slack, a deadline was only
/// met by chance.
fn fibers_away(run: &Run, _: &Rules) -> Vec<Doubt> {
    let Some(set) = &run.task_set else { return Vec::new() };
    let Some(fibers) = &set.fibers else { return Vec::new() };
    let slack = set.threads.iter().filter_map(|thread| thread.slack_min_ns).min();
    let Some(slack) = slack.and_then(|slack| u64::try_from(slack).ok()).map(Ns) else { return Vec::new() };
    let longest = fibers.away_longest_ns.max(fibers.late_longest_ns);
    let doubt = (longest > slack).then(|| {
        let (longest, slack) = longest.told_apart(slack);
        weak(format!(
            "the kernel delayed the thread that carries the fibers by up to {longest}, more than the slack of {slack} that a \
             job had: at another moment that job would have been late"
        ))
    });
    doubt.into_iter().collect()
}

/// Latencies of a thermally throttled CPU differ from those of a cool one.
fn overheated(run: &Run, _: &Rules) -> Vec<Doubt> {
    let throttled = run.conditions.during.thermal_throttle.iter().flatten().filter(|on| on.count > 0);
    throttled
        .map(|on| weak(format!("CPU {} was throttled {} by overheating", on.cpu, counted(on.count, "time"))))
        .collect()
}

fn kernel_trouble(run: &Run, _: &Rules) -> Vec<Doubt> {
    let messages = run.conditions.during.kernel_messages.iter().flatten();
    messages.map(|message| weak(format!("kernel message during the run: {message}"))).collect()
}
