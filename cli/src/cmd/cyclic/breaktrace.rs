//! Breaktrace: explains the latency that ends a measurement.
//!
//! The recorder runs alongside the measuring threads; the thread that hits the break limit freezes the flight ring of
//! its CPU, and the record is explained after the end. Without a recorder the measurement is unaffected, and the
//! explanation says what is missing.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use lathunt_core::cpuset::CpuSet;
use lathunt_core::explain::{self, text, Interval};
use lathunt_core::time::{Cpu, Mono, Ns};
use lathunt_host::instrument::cyclic::{OnPeak, ThreadResult, ThreadSpec};
use lathunt_host::recorder::{self, Freezer, Frozen, Recorder};
use lathunt_host::sched;
use lathunt_host::symbols::Symbols;

use super::BreakWatch;

const TURN: Duration = Duration::from_millis(10);
const TURNS: usize = 50;

/// The latency that ended the measurement, as recorded by its thread.
#[derive(Clone, Copy, Debug)]
struct Broke {
    index: usize,
    cpu: Cpu,
    expected: Mono,
    woken: Mono,
    freeze: Option<u64>,
}

/// The recorder of a measurement with a break limit.
struct Watch {
    recorder: Result<Recorder, String>,
    cpus: Vec<Cpu>,
    broke: Arc<OnceLock<Broke>>,
}

/// A recorder on all CPUs that this process may use or that are `measured`, ready before the first real-time thread
/// starts.
#[must_use]
pub fn watch(measured: &[ThreadSpec]) -> Box<dyn BreakWatch> {
    let allowed = sched::affinity().unwrap_or_default();
    let cpus: CpuSet = allowed.iter().chain(measured.iter().filter_map(|thread| thread.cpu)).collect();
    let recorder = Recorder::start(&recorder::Options::on(cpus.clone())).map_err(|error| error.to_string());
    Box::new(Watch { recorder, cpus: cpus.iter().collect(), broke: Arc::default() })
}

/// Runs in a measuring thread.
struct Freeze {
    index: usize,
    freezers: Vec<(Cpu, Freezer)>,
    last: (Mono, Mono),
    broke: Arc<OnceLock<Broke>>,
}

impl OnPeak for Freeze {
    fn peak(&mut self, expected: Mono, woken: Mono, _: Ns) -> Option<u64> {
        self.last = (expected, woken);
        None
    }

    fn broke(&mut self, _: Ns) {
        let here = sched::current_cpu();
        let freeze =
            self.freezers.iter().find(|(cpu, _)| *cpu == here).and_then(|(_, freezer)| freezer.freeze());
        let (expected, woken) = self.last;
        // Only the first thread that hits the limit calls this; a second value would be dropped.
        let _ = self.broke.set(Broke { index: self.index, cpu: here, expected, woken, freeze });
    }
}

impl BreakWatch for Watch {
    fn on_peak(&mut self, index: usize) -> Option<Box<dyn OnPeak>> {
        let recorder = self.recorder.as_ref().ok()?;
        let freezers = self.cpus.iter().map(|&cpu| (cpu, recorder.freezer(cpu))).collect();
        Some(Box::new(Freeze { index, freezers, last: (Mono(0), Mono(0)), broke: Arc::clone(&self.broke) }))
    }

    fn explain(mut self: Box<Self>, results: &[ThreadResult]) -> Vec<String> {
        match self.evidence() {
            Ok((broke, frozen)) => explained(&broke, &frozen, results),
            Err(reason) => vec![format!("not explained: {reason}")],
        }
    }
}

impl Watch {
    /// The break and the flight record frozen for it; the freeze happens some events after the request.
    fn evidence(&mut self) -> Result<(Broke, Frozen), String> {
        let recorder = self.recorder.as_mut().map_err(|error| format!("no kernel recorder: {error}"))?;
        let broke = *self.broke.get().ok_or("no thread reported the break")?;
        let id = broke.freeze.ok_or("its CPU was not recorded")?;
        for _ in 0..TURNS {
            if let Some(frozen) =
                recorder.poll().into_iter().find(|frozen| (frozen.cpu, frozen.id) == (broke.cpu, id))
            {
                return Ok((broke, frozen));
            }
            std::thread::sleep(TURN);
        }
        Err("its flight record did not arrive".to_owned())
    }
}

fn explained(broke: &Broke, frozen: &Frozen, results: &[ThreadResult]) -> Vec<String> {
    let symbols = Symbols::read().unwrap_or_else(|_| Symbols::none()).with_code();
    let mut frozen = frozen.clone();
    frozen.note_code(&symbols);
    let window = match frozen.decode(&symbols) {
        Ok(window) => window,
        Err(damage) => return vec![format!("not explained: the flight record is damaged: {damage}")],
    };
    let victim = results.get(broke.index).and_then(|result| result.series.thread.as_ref());
    let Some(tid) = victim.map(|thread| thread.tid) else {
        return vec!["not explained: the thread is unknown".to_owned()];
    };
    let interval = Interval { tid, cpu: broke.cpu, begin: broke.expected, end: broke.woken };
    let explanation = explain::explain_peak(&window, &interval);
    text::render(&explanation, text::Options { evidence: false, stacks: true })
        .lines()
        .map(str::to_owned)
        .collect()
}
