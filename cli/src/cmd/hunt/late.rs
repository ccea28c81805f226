//! Late samples of a hunt: acted on when their evidence has arrived, or will not come.

use lathunt_core::on_late;
use lathunt_core::time::{Cpu, Mono, Ns};
use lathunt_host::clock;
use lathunt_host::instrument::cyclic::Hooks;

use super::idle::Rounds;
use super::measure::Recording;
use super::peaks::{Known, Peaks};
use crate::on_late::{late_samples, LateReceiver, LateSample, OnLate};
use crate::outdir::Output;

/// How long to wait for evidence.
const PATIENCE: Ns = Ns::from_ms(200);
/// A trace covers at most this time before its case, as far as the CPUs' rings reach.
const BEFORE: Ns = Ns(10_000_000_000);
const SOON: &str = "its flight record has not arrived yet";
const LESSER: &str = "it is not one of the worst cases of its CPU; flight records of others are not kept";

/// Activities during the measurement: actions on late samples, rounds of idle states.
pub struct Actions<'a> {
    on_late: &'a mut Option<OnLate>,
    output: &'a Output,
    rounds: &'a mut Option<Rounds>,
    receivers: Vec<LateReceiver>,
    next: Option<(LateSample, Mono)>,
}

impl<'a> Actions<'a> {
    /// `on_late` decides; traces go into `output`.
    pub fn new(
        on_late: &'a mut Option<OnLate>,
        rounds: &'a mut Option<Rounds>,
        output: &'a Output,
    ) -> Actions<'a> {
        Actions { on_late, output, rounds, receivers: Vec::new(), next: None }
    }

    /// From now on each thread reports its late samples.
    pub fn watch(&mut self, hooks: &mut [Hooks]) {
        if let Some(above) = self.on_late.as_ref().and_then(OnLate::above) {
            for hooks in hooks.iter_mut() {
                let (hook, receiver) = late_samples(above);
                hooks.sample = Some(hook);
                self.receivers.push(receiver);
            }
        }
        self.rounds.iter_mut().for_each(|rounds| rounds.watch(hooks));
    }

    /// Counts late samples since the last call, and acts if allowed. Call it after [`Peaks`] are up to date.
    pub fn look(&mut self, cpus: &[Cpu], peaks: &Peaks, recording: &Recording) {
        self.rounds.iter_mut().for_each(Rounds::look);
        let Some(on_late) = self.on_late else { return };
        let worst = on_late.samples(&mut self.receivers);
        // The first to arrive; of simultaneous ones, the largest.
        self.next = self.next.or(worst.map(|worst| (worst, clock::mono())));
        let Some((late, since)) = self.next else { return };
        let (cpu, from) = (cpus[late.thread], Mono(late.sample.expected.0.saturating_sub(BEFORE.0)));
        let (peak, flight) = match peaks.find(cpu, late.sample.expected) {
            Known::Soon(_) if clock::mono().since(since) < PATIENCE => return,
            Known::Soon(victim) => (late.peak(victim.clone(), SOON), &[][..]),
            Known::Case(peak, flight) => (*peak, flight),
            Known::Nothing(victim) => {
                let Some(victim) = victim else { return };
                (late.peak(victim.clone(), LESSER), &[][..])
            }
        };
        self.next = None;
        let output = self.output;
        on_late.act(&peak, |case| {
            let Recording::On(recorder, _) = recording else {
                anyhow::bail!("the kernel recorder is not running")
            };
            let rings = recorder.peek(from).bytes;
            Ok(output.keep_late(&[flight, &rings].concat(), case)?.display().to_string())
        });
    }

    /// Actions so far.
    #[must_use]
    pub fn so_far(&self) -> Option<on_late::OnLate> {
        self.on_late.as_ref().map(OnLate::so_far)
    }
}
