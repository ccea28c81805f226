//! Before anything is believed: a known disturbance on each measured CPU must be seen, at its size, by the instrument
//! and by the recorder.
//!
//! A measuring thread runs on the CPU; its grid of activations is known, so each pulse begins shortly before an
//! activation and ends after it. What must be seen is the part after the programmed wake-up (known from the clock
//! readings of the injector), and at most the undisturbed level on top of it: a CPU that a pulse kept busy has no idle
//! state to leave. Several pulses, and the median error counts: a stall of the host may spoil one.

use std::collections::BTreeMap;
use std::time::Duration;

use lathunt_core::run::Calibration;
use lathunt_core::time::{Cpu, Mono, Ns, Tid};
use lathunt_core::trace::event::{Kind as What, Window};
use lathunt_host::inject::{self, inject, Pulse};
use lathunt_host::instrument::cyclic::{clock, Cyclic};
use lathunt_host::instrument::peak_queue::{NewPeak, PeakReceiver};
use lathunt_host::signals;

use super::measure::{hooks, options, Recording, Setting};
use crate::live::Display;

const PULSES: u32 = 7;
/// How long each pulse lasts, and how long before the programmed wake-up it begins.
const LENGTH: Ns = Ns::from_us(600);
const LEAD: Ns = Ns::from_us(200);
/// A pulse shows as LENGTH - LEAD; what is far below needs no flight record.
const WORTH_A_RECORD: Ns = Ns::from_us(300);
/// Samples before the first pulse: what is undisturbed.
const QUIET_SAMPLES: u64 = 100;
const QUIET_LONGEST: Ns = Ns::from_ms(500);
/// Agreement: within 10 % or 20 µs, whichever is more, of what was injected up to that plus the undisturbed level.
const TOLERANCE: Ns = Ns::from_us(20);

/// Calibrates each CPU of `setting`, one after another. Empty, with the reason said, where nothing can be injected.
///
/// # Errors
/// When the measuring thread cannot run at all.
pub fn calibrate(
    setting: &Setting,
    recording: &mut Recording,
    display: &mut Display,
) -> anyhow::Result<Vec<Calibration>> {
    let mut results = Vec::new();
    for &cpu in &setting.cpus {
        if signals::stop_requested().is_some() {
            break;
        }
        let result = on_cpu(cpu, setting, recording)?;
        display.say(&said(&result));
        results.push(result);
    }
    Ok(results)
}

/// Latencies below twice the undisturbed median are no peaks.
#[must_use]
pub fn peak_floor(calibration: &[Calibration]) -> Ns {
    let quiet = calibration.iter().filter_map(|one| one.undisturbed_ns).max();
    Ns(quiet.unwrap_or_default().0 * 2)
}

/// What one pulse must show, and what was seen of it.
#[derive(Clone, Copy, Debug)]
struct Sight {
    due: Ns,
    instrument: Ns,
    recorder: Option<Ns>,
}

fn on_cpu(cpu: Cpu, setting: &Setting, recording: &mut Recording) -> anyhow::Result<Calibration> {
    // A slower grid than the pulse is long, so that each pulse covers one activation.
    let interval = setting.interval.max(LENGTH + Ns::from_us(400));
    let alone = Setting {
        cpus: vec![cpu],
        interval,
        duration: Ns(60_000_000_000),
        peaks: 128,
        peak_floor: Ns::ZERO,
        ..setting.clone()
    };
    let (hooks, mut receivers) = hooks(&alone, recording, WORTH_A_RECORD);
    let cyclic = Cyclic::start(options(&alone), hooks)?;
    let undisturbed = quiet(&cyclic);
    let mut seen = receivers.first_mut().map(drain).unwrap_or_default();
    let kind =
        if matches!(recording, Recording::On(..)) { inject::Kind::Preemptoff } else { inject::Kind::Thread };
    let tid = cyclic.tid(0);
    let mut switched_in = BTreeMap::new();
    let next = next_activation(&seen, interval);
    let (pulses, problem) = std::thread::scope(|scope| {
        let injector = scope.spawn(|| pulses(kind, cpu, interval, next));
        // Flight buffers are few: they are read while the pulses go on, and once more when the last is over.
        loop {
            let over = injector.is_finished();
            std::thread::sleep(Duration::from_millis(if over { 20 } else { 5 }));
            seen.extend(receivers.first_mut().map(drain).unwrap_or_default());
            switched_in.extend(switches(recording, tid));
            if over {
                break;
            }
        }
        match injector.join() {
            Ok(Ok(pulses)) => (pulses, None),
            Ok(Err(error)) => (Vec::new(), Some(error)),
            Err(_) => (Vec::new(), Some("the injecting thread failed".to_owned())),
        }
    });
    drop(cyclic);
    let sights: Vec<Sight> = pulses.iter().filter_map(|pulse| sight(pulse, &seen, &switched_in)).collect();
    let needs_recorder = matches!(recording, Recording::On(..));
    let attempt = Attempt { cpu, kind, undisturbed, pulses: pulses.len(), problem, needs_recorder };
    Ok(conclude(attempt, &sights))
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

/// Injects on the grid of the measuring thread. The error is a line for the user.
fn pulses(kind: inject::Kind, cpu: Cpu, interval: Ns, next: Option<Mono>) -> Result<Vec<Pulse>, String> {
    let next = next.ok_or("the measuring thread gave no sample")?;
    let periods = Ns::from_ms(20).0.div_ceil(interval.0).max(2);
    let every = Ns(interval.0 * periods);
    let request = inject::Options {
        length: LENGTH,
        every,
        count: PULSES,
        first: Some(Mono((next + every).0 - LEAD.0)),
        ..inject::Options::once(cpu, LENGTH)
    };
    inject(kind, &request).map(|report| report.pulses).map_err(|error| error.to_string())
}

/// An activation that is yet to come, on the grid of those `seen`.
fn next_activation(seen: &[NewPeak], interval: Ns) -> Option<Mono> {
    let grid = seen.first()?.expected;
    let periods = clock::mono().since(grid).0 / interval.0 + 2;
    Some(grid + Ns(periods * interval.0))
}

fn drain(receiver: &mut PeakReceiver) -> Vec<NewPeak> {
    std::iter::from_fn(|| receiver.take()).collect()
}

/// Programmed wake-up of `tid` → switched in, as the recorder saw it, by the programmed wake-up.
fn switches(recording: &mut Recording, tid: Tid) -> Vec<(Mono, Ns)> {
    let Recording::On(recorder, symbols) = recording else { return Vec::new() };
    let windows = recorder.poll().into_iter().filter_map(|frozen| frozen.decode(symbols).ok());
    windows.flat_map(|window| wakeups(&window, tid)).collect()
}

/// Each switch-in of `tid` with the expiry of the timer that had woken it.
fn wakeups(window: &Window, tid: Tid) -> Vec<(Mono, Ns)> {
    let (mut firing, mut woken_for, mut found) = (None, None, Vec::new());
    for event in &window.events {
        match event.kind {
            What::TimerExpireEntry { expires, .. } => firing = expires,
            What::TimerExpireExit { .. } => firing = None,
            What::Waking { task, .. } if task.tid == tid => woken_for = firing,
            What::Switch { next, .. } if next.tid == tid => {
                found.extend(woken_for.take().map(|expires: Mono| (expires, event.at.since(expires))));
            }
            _ => {}
        }
    }
    found
}

/// What was seen of `pulse`: the sample whose programmed wake-up it covered.
fn sight(pulse: &Pulse, seen: &[NewPeak], switched_in: &BTreeMap<Mono, Ns>) -> Option<Sight> {
    let peak = seen.iter().find(|peak| pulse.begin <= peak.expected && peak.expected < pulse.end)?;
    let recorder = switched_in.get(&peak.expected).copied();
    Some(Sight { due: pulse.end.since(peak.expected), instrument: peak.latency, recorder })
}

/// What a calibration tried, before it is judged.
struct Attempt {
    cpu: Cpu,
    kind: inject::Kind,
    undisturbed: Option<Ns>,
    pulses: usize,
    problem: Option<String>,
    needs_recorder: bool,
}

fn conclude(attempt: Attempt, sights: &[Sight]) -> Calibration {
    let undisturbed = attempt.undisturbed.unwrap_or_default();
    let median = |mut all: Vec<(Ns, Ns)>| {
        all.sort_by_key(|&(due, seen)| error(due, seen, undisturbed));
        all.get(all.len() / 2).copied()
    };
    let instrument = median(sights.iter().map(|sight| (sight.due, sight.instrument)).collect());
    let recorded: Vec<(Ns, Ns)> =
        sights.iter().filter_map(|sight| Some((sight.due, sight.recorder?))).collect();
    let recorder = median(recorded.clone());
    let enough = attempt.pulses.div_ceil(2).max(1);
    let disagree = |pair: Option<(Ns, Ns)>| pair.filter(|&(due, seen)| !agree(due, seen, undisturbed));
    let note = match (attempt.problem, disagree(instrument), disagree(recorder)) {
        (Some(problem), ..) => problem,
        _ if sights.len() < enough => {
            format!("the instrument saw {} of {} pulses", sights.len(), attempt.pulses)
        }
        (_, Some((due, seen)), _) => format!("injected {due}, the instrument measured {seen}"),
        _ if attempt.needs_recorder && recorded.len() < enough => {
            format!("the recorder saw {} of {} pulses", recorded.len(), attempt.pulses)
        }
        (_, _, Some((due, seen))) => format!("injected {due}, the recorder measured {seen}"),
        _ => String::new(),
    };
    Calibration {
        cpu: attempt.cpu,
        kind: attempt.kind.name().to_owned(),
        injected_ns: instrument.map(|(due, _)| due),
        instrument_ns: instrument.map(|(_, seen)| seen),
        recorder_ns: recorder.map(|(_, seen)| seen),
        undisturbed_ns: attempt.undisturbed,
        passed: note.is_empty(),
        note,
    }
}

/// How far `seen` lies outside of what `due` allows.
fn error(due: Ns, seen: Ns, undisturbed: Ns) -> Ns {
    due.saturating_sub(seen).max(seen.saturating_sub(due + undisturbed))
}

fn agree(due: Ns, seen: Ns, undisturbed: Ns) -> bool {
    error(due, seen, undisturbed) <= TOLERANCE.max(Ns(due.0 / 10))
}

fn said(result: &Calibration) -> String {
    let shown = |value: Option<Ns>| value.map_or_else(|| "nothing".to_owned(), |value| value.to_string());
    let Calibration { cpu, kind, injected_ns, instrument_ns, recorder_ns, passed, note, .. } = result;
    match passed {
        true => format!(
            "calibrated CPU {cpu}: {kind} of {} seen as {} by the instrument, {} by the recorder",
            shown(*injected_ns),
            shown(*instrument_ns),
            shown(*recorder_ns)
        ),
        false => format!("calibration of CPU {cpu} with {kind} failed: {note}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peak(expected: u64, latency: u64) -> NewPeak {
        NewPeak {
            expected: Mono(expected),
            woken: Mono(expected + latency),
            latency: Ns(latency),
            freeze: None,
        }
    }

    #[test]
    fn a_pulse_is_held_against_the_sample_whose_wakeup_it_covered() {
        let pulse = Pulse { begin: Mono(1_000_000), end: Mono(1_600_000) };
        let seen = [peak(900_000, 80_000), peak(1_200_000, 405_000)];
        let sight = sight(&pulse, &seen, &BTreeMap::from([(Mono(1_200_000), Ns(403_000))])).unwrap();
        assert_eq!(
            (sight.due, sight.instrument, sight.recorder),
            (Ns(400_000), Ns(405_000), Some(Ns(403_000)))
        );
    }

    #[test]
    fn an_instrument_that_misjudges_by_more_than_a_tenth_fails() {
        let quiet = Ns(60_000);
        assert!(agree(Ns(400_000), Ns(361_000), quiet) && agree(Ns(400_000), Ns(499_000), quiet));
        assert!(!agree(Ns(400_000), Ns(359_000), quiet) && !agree(Ns(400_000), Ns(501_000), quiet));
        assert!(agree(Ns(50_000), Ns(31_000), Ns(0)) && !agree(Ns(50_000), Ns(29_000), Ns(0)));
    }

    fn attempt() -> Attempt {
        let kind = inject::Kind::Preemptoff;
        Attempt {
            cpu: Cpu(0),
            kind,
            undisturbed: Some(Ns(5_000)),
            pulses: 7,
            problem: None,
            needs_recorder: true,
        }
    }

    #[test]
    fn one_spoilt_pulse_of_many_does_not_fail_a_calibration_and_a_blind_recorder_does() {
        let good = Sight { due: Ns(400_000), instrument: Ns(402_000), recorder: Some(Ns(401_000)) };
        let spoilt = Sight { instrument: Ns(3_000_000), recorder: Some(Ns(2_999_000)), ..good };
        assert!(conclude(attempt(), &[good, spoilt, good, good, good]).passed);
        let blind = conclude(attempt(), &[Sight { recorder: None, ..good }; 7]);
        assert_eq!((blind.passed, blind.note.as_str()), (false, "the recorder saw 0 of 7 pulses"));
        assert_eq!(conclude(attempt(), &[good; 3]).note, "the instrument saw 3 of 7 pulses");
    }
}
