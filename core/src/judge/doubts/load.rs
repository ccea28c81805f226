//! Doubts about the load: an idle machine rarely shows its worst latencies.

use super::{weak, Doubt};
use crate::conditions::LoadOverTime;
use crate::judge::Rules;
use crate::run::Run;
use crate::time::Ns;

/// What a measurement without load is worth.
const WHY: &str = "an idle machine rarely shows its worst latencies";

/// Minimum share of one CPU for a load.
const LEAST_LOAD: f64 = 0.01;

/// Maximum share of the measurement for which a load of this tool may be absent: it never pauses by itself.
const MOST_ABSENT: f64 = 0.1;

/// Maximum share of the measurement for which a command of the user may pause at a stretch. It may run in bursts, but a
/// measurement of fewer than three of them covers no regular load.
const LONGEST_PAUSE: f64 = 1.0 / 3.0;

pub(super) fn absent(run: &Run, rules: &Rules) -> Vec<Doubt> {
    let reason = match run.conditions.load.as_deref() {
        _ if !rules.require_load => None,
        None => Some("it is unknown whether the machine was under load".to_owned()),
        Some("none" | "") => Some(format!("measured without load: {WHY}")),
        Some(_) => None,
    };
    reason.map(weak).into_iter().collect()
}

pub(super) fn died(run: &Run, rules: &Rules) -> Vec<Doubt> {
    let ended = run.conditions.during.load_ended_early.as_ref().filter(|_| rules.require_load);
    ended.map(|how| weak(format!("the load ended early: {how}"))).into_iter().collect()
}

fn is_asked(run: &Run, rules: &Rules) -> bool {
    rules.require_load && !matches!(run.conditions.load.as_deref(), None | Some("none" | ""))
}

/// A load that only sleeps is not a load.
pub(super) fn idle(run: &Run, rules: &Rules) -> Vec<Doubt> {
    let Some((used, seconds)) = too_little(run, rules) else { return Vec::new() };
    let said = format!("the load used {used} of CPU time in {seconds:.1} s: measured without load: {WHY}");
    vec![weak(said)]
}

/// CPU time of the load and length of the measurement, s, if the load hardly ran in all of it.
fn too_little(run: &Run, rules: &Rules) -> Option<(Ns, f64)> {
    let used = run.conditions.during.load_cpu_ns.zip(run.conditions.duration_s);
    used.filter(|(used, seconds)| is_asked(run, rules) && used.as_secs() < seconds * LEAST_LOAD)
}

/// A load that did not run for a considerable part of the measurement: stopped, throttled, or waiting for something. `died`
/// and `idle` report a load that ended or hardly ran at all.
pub(super) fn paused(run: &Run, rules: &Rules) -> Vec<Doubt> {
    let during = &run.conditions.during;
    let over_time = during.load_over_time.filter(|_| is_asked(run, rules)).zip(run.conditions.duration_s);
    let told = during.load_ended_early.is_some() || too_little(run, rules).is_some();
    let Some((LoadOverTime { ran_ns, longest_pause_ns, may_pause }, seconds)) = over_time.filter(|_| !told)
    else {
        return Vec::new();
    };
    let (ran, pause) = (ran_ns.as_secs(), longest_pause_ns.as_secs());
    let said = match may_pause {
        false if ran < seconds * (1.0 - MOST_ABSENT) => {
            format!("the load ran during {ran:.1} of {seconds:.1} s only: {WHY}")
        }
        true if pause > seconds * LONGEST_PAUSE => {
            format!("the load paused for {pause:.1} of {seconds:.1} s at a stretch: {WHY}")
        }
        _ => return Vec::new(),
    };
    vec![weak(said)]
}
