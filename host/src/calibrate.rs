//! A known disturbance and how it is observed: the proof that instrument, recorder and explanation work here.
//!
//! A measuring thread runs on the CPU at known activation times, so each pulse can start shortly before an activation
//! and end after it. The part of it after the programmed wake-up must be observed; its length is known from the
//! injector's own clock readings. Pulses are few and short; the CPU is free between them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use lathunt_core::time::{Cpu, Mono, Ns, Tid};
use lathunt_core::trace::event::Kind as What;
use lathunt_core::trace::window::Window;

use crate::clock;
use crate::error::{Error, Result};
use crate::inject::{self, inject, Pulse};
use crate::instrument::cyclic::{Cyclic, Hooks, OnPeak, Options, ThreadSpec};
use crate::instrument::peak_queue::{peak_queue, NewPeak, PeakReceiver, PeakSender};
use crate::recorder::{Freezer, Recorder};
use crate::symbols::Symbols;
use crate::threads;

/// Samples before the first pulse: the undisturbed level.
const QUIET_SAMPLES: u64 = 100;
/// Or as many as fit into this time, for long intervals.
const QUIET_LONGEST: Ns = Ns::from_ms(300);

/// What to inject, and into what.
#[derive(Clone, Copy, Debug)]
pub struct Disturbance {
    /// What holds the CPU.
    pub kind: inject::Kind,
    /// Where.
    pub cpu: Cpu,
    /// How long each pulse lasts.
    pub length: Ns,
    /// Time from its start to the programmed wake-up; shorter than `length`.
    pub lead: Ns,
    /// How many pulses.
    pub pulses: u32,
    /// FIFO priority of the measuring thread; below 98, the priority of the injecting threads.
    pub priority: i32,
    /// Period of the measuring thread; longer than `length`.
    pub interval: Ns,
    /// Lock the memory of the process.
    pub lock_memory: bool,
    /// Allowed on the machine's only CPU, see [`inject::Options::only_cpu`]: only tests set it.
    pub only_cpu: bool,
}

/// Observations of one pulse.
#[derive(Clone, Debug)]
pub struct PulseObservation {
    /// Its length after the programmed wake-up.
    pub due: Ns,
    /// The sample of the instrument.
    pub peak: NewPeak,
    /// Programmed wake-up → switched in, as measured by the recorder.
    pub recorder: Option<Ns>,
    /// The flight record around it.
    pub window: Option<Window>,
}

/// All observations of a disturbance.
#[derive(Debug)]
pub struct Seen {
    /// The measuring thread.
    pub victim: Tid,
    /// Its median latency before the first pulse.
    pub undisturbed: Option<Ns>,
    /// Pulses that happened.
    pub pulses: usize,
    /// One for each pulse that covered a sample.
    pub sights: Vec<PulseObservation>,
}

/// Disturbs, and collects the observations. Takes `pulses` × 20 ms plus the time of 100 samples, at most 300 ms.
///
/// # Errors
/// If the measuring thread cannot run, or nothing can be injected.
pub fn disturb(what: &Disturbance, recorder: Option<(&mut Recorder, &Symbols)>) -> Result<Seen> {
    let (sender, mut receiver) = peak_queue();
    let freezer = recorder.as_ref().map(|(recorder, _)| recorder.freezer(what.cpu));
    let schedule = Arc::new(Schedule::default());
    let hook = Report { freezer, schedule: Arc::clone(&schedule), sender };
    let cyclic = Cyclic::start(options(what), vec![Hooks { peak: Some(Box::new(hook)), sample: None }])?;
    let undisturbed = quiet(&cyclic);
    let victim = cyclic.tid(0);
    let mut peaks = drain(&mut receiver);
    let every = Ns(what.interval.0 * Ns::from_ms(20).0.div_ceil(what.interval.0).max(2));
    let first = next_activation(&peaks, what.interval)? + every;
    schedule.set(first, every);
    let mut windows = Vec::new();
    let pulses = std::thread::scope(|scope| {
        let injector = threads::scoped(scope, || pulses(what, first, every))?;
        let mut recorder = recorder;
        // Flight buffers are few: they are read between pulses, and once more after the last.
        loop {
            let over = injector.is_finished();
            std::thread::sleep(Duration::from_millis(if over { 20 } else { 5 }));
            peaks.extend(drain(&mut receiver));
            if let Some((recorder, symbols)) = &mut recorder {
                windows.extend(recorder.poll().into_iter().filter_map(|mut frozen| {
                    frozen.note_code(symbols);
                    frozen.decode(symbols).ok()
                }));
            }
            if over {
                break;
            }
        }
        injector
            .join()
            .unwrap_or_else(|_| Err(Error::refused("inject", "a disturbance", "its thread failed")))
    })?;
    drop(cyclic);
    let sights = pulses.iter().filter_map(|pulse| sight(pulse, &peaks, victim, &windows)).collect();
    Ok(Seen { victim, undisturbed, pulses: pulses.len(), sights })
}

/// Distance of `seen` from the range that `due` allows: from `due` to `due` plus the undisturbed level (a CPU that
/// the pulse kept busy has no idle state to leave, so less than all of it may be added).
#[must_use]
pub fn error(due: Ns, seen: Ns, undisturbed: Ns) -> Ns {
    due.saturating_sub(seen).max(seen.saturating_sub(due + undisturbed))
}

/// Whether that is within 10 % or 20 µs, whichever is more.
#[must_use]
pub fn agree(due: Ns, seen: Ns, undisturbed: Ns) -> bool {
    error(due, seen, undisturbed) <= Ns::from_us(20).max(Ns(due.0 / 10))
}

/// The activations that pulses target: `first` and every `every` ns after it. 0: none yet.
#[derive(Debug, Default)]
struct Schedule {
    first_ns: AtomicU64,
    every_ns: AtomicU64,
}

impl Schedule {
    fn set(&self, first: Mono, every: Ns) {
        self.every_ns.store(every.0, Ordering::Relaxed);
        self.first_ns.store(first.0, Ordering::Release);
    }

    fn holds(&self, expected: Mono) -> bool {
        let first = self.first_ns.load(Ordering::Acquire);
        let every = self.every_ns.load(Ordering::Relaxed);
        first != 0 && expected.0 >= first && (expected.0 - first).is_multiple_of(every)
    }
}

/// Runs in the measuring thread: reports each sample, and keeps the evidence of those that pulses target.
struct Report {
    freezer: Option<Freezer>,
    schedule: Arc<Schedule>,
    sender: PeakSender,
}

impl OnPeak for Report {
    fn peak(&mut self, expected: Mono, woken: Mono, latency: Ns) -> Option<u64> {
        let freezer = self.freezer.as_ref().filter(|_| self.schedule.holds(expected));
        let freeze = freezer.and_then(Freezer::freeze);
        self.sender.send(NewPeak { expected, woken, latency, freeze, cpu: crate::sched::current_cpu() });
        freeze
    }
}

fn options(what: &Disturbance) -> Options {
    Options {
        threads: vec![ThreadSpec { cpu: Some(what.cpu), priority: what.priority, interval: what.interval }],
        duration: Some(Ns(60_000_000_000)),
        peaks: 1 << 14, // more than the number of samples: each is reported
        lock_memory: what.lock_memory,
        ..Options::on([])
    }
}

/// The median latency before any disturbance.
fn quiet(cyclic: &Cyclic) -> Option<Ns> {
    let turn = Duration::from_millis(10);
    for _ in 0..QUIET_LONGEST.0 / turn.as_nanos() as u64 {
        if cyclic.live(0).count >= QUIET_SAMPLES {
            break;
        }
        std::thread::sleep(turn);
    }
    cyclic.quantile(0, 0.5)
}

/// A future activation, on the grid of those observed.
fn next_activation(seen: &[NewPeak], interval: Ns) -> Result<Mono> {
    let none = || {
        Error::refused(
            "disturb",
            "the measuring thread",
            "it took no sample: does another real-time thread hold its CPU?",
        )
    };
    let grid = seen.first().ok_or_else(none)?.expected;
    let periods = clock::mono().since(grid).0 / interval.0 + 2;
    Ok(grid + Ns(periods * interval.0))
}

fn pulses(what: &Disturbance, first: Mono, every: Ns) -> Result<Vec<Pulse>> {
    let request = inject::Options {
        every,
        count: what.pulses,
        first: Some(Mono(first.0 - what.lead.0)),
        only_cpu: what.only_cpu,
        watch: Ns(what.interval.0 / 2).min(Ns::from_ms(2)),
        ..inject::Options::once(what.cpu, what.length)
    };
    inject(what.kind, &request).map(|report| report.pulses)
}

fn drain(receiver: &mut PeakReceiver) -> Vec<NewPeak> {
    std::iter::from_fn(|| receiver.take()).collect()
}

/// Observations of `pulse`: the sample whose programmed wake-up it covered.
fn sight(pulse: &Pulse, peaks: &[NewPeak], victim: Tid, windows: &[Window]) -> Option<PulseObservation> {
    let peak = *peaks.iter().find(|peak| pulse.begin <= peak.expected && peak.expected < pulse.end)?;
    let recorded =
        windows.iter().find_map(|window| Some((switched_in(window, victim, peak.expected)?, window.clone())));
    let (recorder, window) = recorded.unzip();
    Some(PulseObservation { due: pulse.end.since(peak.expected), peak, recorder, window })
}

/// From the expiry `expected` to the switch-in of `victim` after the waking by its timer.
fn switched_in(window: &Window, victim: Tid, expected: Mono) -> Option<Ns> {
    let (mut firing, mut woken_for) = (None, None);
    for event in &window.events {
        match event.kind {
            What::TimerExpireEntry { expires, .. } => firing = expires,
            What::TimerExpireExit { .. } => firing = None,
            What::Waking { task, .. } if task.tid == victim => woken_for = firing,
            What::Switch { next, .. } if next.tid == victim && woken_for.take() == Some(expected) => {
                return Some(event.at.since(expected));
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pulse_is_held_against_the_sample_whose_wakeup_it_covered() {
        let peak = |expected, latency| NewPeak {
            expected: Mono(expected),
            woken: Mono(expected + latency),
            latency: Ns(latency),
            freeze: None,
            cpu: Cpu(0),
        };
        let pulse = Pulse { begin: Mono(1_000_000), end: Mono(1_600_000) };
        let sight = sight(&pulse, &[peak(900_000, 80_000), peak(1_200_000, 405_000)], Tid(1), &[]).unwrap();
        assert_eq!((sight.due, sight.peak.latency, sight.recorder), (Ns(400_000), Ns(405_000), None));
    }

    #[test]
    fn an_instrument_that_misjudges_by_more_than_a_tenth_does_not_agree() {
        let quiet = Ns(60_000);
        assert!(agree(Ns(400_000), Ns(361_000), quiet) && agree(Ns(400_000), Ns(499_000), quiet));
        assert!(!agree(Ns(400_000), Ns(359_000), quiet) && !agree(Ns(400_000), Ns(501_000), quiet));
        assert!(agree(Ns(50_000), Ns(31_000), Ns(0)) && !agree(Ns(50_000), Ns(29_000), Ns(0)));
    }
}
