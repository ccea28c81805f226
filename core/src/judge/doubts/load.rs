//! Doubts about the load: an idle machine rarely shows its worst latencies.

use super::{weak, Doubt};
use crate::judge::Rules;
use crate::run::Run;
use crate::time::Ns;

/// What a measurement without load is worth.
const WHY: &str = "an idle machine rarely shows its worst latencies";

/// Minimum share of one CPU for a load.
const LEAST_LOAD: f64 = 0.01;

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
