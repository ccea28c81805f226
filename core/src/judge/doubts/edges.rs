//! Edges of a line that cannot be told apart: an edge carries no number, so which stimulus it answers is an assumption.

use super::{judged, void, Doubt, Rules};
use crate::latency_box::channel::Channel;
use crate::latency_box::Counts;
use crate::numbers::counted;
use crate::run::Run;

/// Edges beyond one per stimulus, and edges that the kernel dropped: a stray edge taken for an answer makes its latency
/// too short, and the answer may be among those dropped.
pub(super) fn edges_ambiguous(run: &Run, rules: &Rules) -> Vec<Doubt> {
    let mut doubts = Vec::new();
    for series in judged(run, rules) {
        let is_line = |name: &String| matches!(name.parse(), Ok(Channel::Gpio(..)));
        let (Some(counts), Some(name)) =
            (&series.counts, series.channel.as_ref().filter(|name| is_line(name)))
        else {
            continue;
        };
        let Counts { duplicated, foreign, damaged: dropped, .. } = *counts;
        let stray = duplicated.saturating_add(foreign);
        if dropped > 0 {
            let edges = counted(dropped, "edge");
            doubts
                .push(format!("{name}: the kernel dropped {edges} of the line; an answer may be among them"));
        }
        if stray > 0 {
            let edges = counted(stray, "stray edge");
            doubts.push(format!(
                "{name}: {edges}: an edge has no number, so one taken for an answer makes its latency too short; debounce the \
                 line in hardware"
            ));
        }
    }
    doubts.into_iter().map(void).collect()
}
