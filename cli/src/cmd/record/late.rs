//! Late cases during a recording, and the one that ends it.

use lathunt_core::conditions::ENDED_BY_STOP_AT;
use lathunt_core::time::{Mono, Ns};
use lathunt_host::recording::LateAbove;

use super::session::{Plan, Session};
use crate::outdir::Output;

/// A trace covers at most this time before its case, as far as the CPUs' rings reach.
const TRACE_BEFORE: Ns = Ns(10_000_000_000);

impl Plan {
    /// The cases that are late, or end the recording.
    pub fn late(&self) -> LateAbove {
        let mut late = LateAbove { stop: self.stop_at, ..LateAbove::default() };
        match (self.on_late.is_given(), self.on_late.above, self.is_application()) {
            (false, ..) => {}
            (true, Some(above), true) => late.jobs = Some(above),
            (true, None, true) => late.deadlines = self.deadlines.clone(),
            (true, above, false) => late.wakeups = above.or(self.deadlines.plain()),
        }
        late
    }
}

impl Session<'_> {
    /// Acts on late cases, if requested.
    pub fn act(&mut self, output: &Output) {
        let Some(on_late) = &mut self.on_late else { return };
        let (cases, worst) = self.recording.take_late(on_late.is_ready());
        on_late.noticed(cases);
        let Some(peak) = worst.filter(|peak| !on_late.is_own(peak)) else { return };
        let from = Mono(peak.begin.0.saturating_sub(TRACE_BEFORE.0));
        let recorder = self.recording.recorder();
        on_late
            .act(&peak, |case| Ok(output.keep_late(&recorder.peek(from).bytes, case)?.display().to_string()));
    }

    /// The case that ended it, in one line, if `--stop-at` did.
    pub fn stopped_at(&mut self) -> Option<String> {
        let limit = self.plan.stop_at?;
        let peak = self.recording.stopped_by()?;
        let (latency, limit) = peak.total_ns.told_apart(limit);
        Some(format!("{ENDED_BY_STOP_AT}{latency} of {} on CPU {}, above {limit}", peak.victim, peak.cpu))
    }
}
