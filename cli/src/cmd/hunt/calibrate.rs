//! Before any result is trusted: instrument and recorder must both detect a known disturbance on each measured CPU, at its
//! size. Several pulses, and the median error counts: a stall of the host may spoil one.

use lathunt_core::run::Calibration;
use lathunt_core::time::{Cpu, Ns};
use lathunt_host::calibrate::{agree, disturb, error, Disturbance, PulseObservation, Seen};
use lathunt_host::inject::Kind;
use lathunt_host::signals;

use super::measure::{Recording, Setting};
use crate::live::Display;

const PULSES: u32 = 7;
const ATTEMPTS: u32 = 3;
/// Length of each pulse, and how long before the programmed wake-up it starts.
const LENGTH: Ns = Ns::from_us(600);
const LEAD: Ns = Ns::from_us(200);
/// Injected threads have priority 98; a measuring thread above that would not be disturbed by them.
const HIGHEST: i32 = 97;

/// Calibrates each CPU of `setting`, one after another.
#[must_use]
pub fn calibrate(setting: &Setting, recording: &mut Recording, display: &mut Display) -> Vec<Calibration> {
    let mut results = Vec::new();
    for &cpu in &setting.cpus {
        if signals::stop_requested().is_some() {
            break;
        }
        // Other work may delay pulses so that they miss their target; a faulty instrument fails every time.
        let mut result = on_cpu(cpu, setting, recording);
        for _ in 1..ATTEMPTS {
            if result.passed || signals::stop_requested().is_some() {
                break;
            }
            result = on_cpu(cpu, setting, recording);
        }
        display.say(&said(&result));
        results.push(result);
    }
    results
}

/// Latencies below twice the undisturbed median are not peaks.
#[must_use]
pub fn peak_floor(calibration: &[Calibration]) -> Ns {
    let quiet = calibration.iter().filter_map(|one| one.undisturbed_ns).max();
    Ns(quiet.unwrap_or_default().0 * 2)
}

fn on_cpu(cpu: Cpu, setting: &Setting, recording: &mut Recording) -> Calibration {
    let (kind, recorder) = match recording {
        Recording::On(recorder, symbols) => (Kind::Preemptoff, Some((&mut **recorder, &*symbols))),
        Recording::Off(_) => (Kind::Thread, None),
    };
    let needs_recorder = recorder.is_some();
    let what = Disturbance {
        kind,
        cpu,
        length: LENGTH,
        lead: LEAD,
        pulses: PULSES,
        priority: setting.priority.min(HIGHEST),
        // A period longer than the pulse, so that each pulse covers one activation.
        interval: setting.interval.max(LENGTH + Ns::from_us(400)),
        lock_memory: setting.lock_memory,
        only_cpu: false,
    };
    let seen = disturb(&what, recorder);
    seen.map_or_else(
        |problem| failed(cpu, kind, &problem.to_string()),
        |seen| conclude(cpu, kind, &seen, needs_recorder),
    )
}

fn failed(cpu: Cpu, kind: Kind, note: &str) -> Calibration {
    Calibration {
        cpu,
        kind: kind.name().to_owned(),
        injected_ns: None,
        instrument_ns: None,
        recorder_ns: None,
        undisturbed_ns: None,
        passed: false,
        note: note.to_owned(),
    }
}

fn conclude(cpu: Cpu, kind: Kind, seen: &Seen, needs_recorder: bool) -> Calibration {
    let Seen { undisturbed, pulses, sights, .. } = seen;
    let quiet = undisturbed.unwrap_or_default();
    let median = |mut all: Vec<(Ns, Ns)>| {
        all.sort_by_key(|&(due, seen)| error(due, seen, quiet));
        all.get(all.len() / 2).copied()
    };
    let recorded: Vec<(Ns, Ns)> =
        sights.iter().filter_map(|sight| Some((sight.due, sight.recorder?))).collect();
    let measured: Vec<(Ns, Ns)> =
        sights.iter().map(|sight: &PulseObservation| (sight.due, sight.peak.latency)).collect();
    let (instrument, recorder) = (median(measured.clone()), median(recorded.clone()));
    let enough = pulses.div_ceil(2).max(1);
    let disagree = |pair: Option<(Ns, Ns)>| pair.filter(|&(due, seen)| !agree(due, seen, quiet));
    let note = match (disagree(instrument), disagree(recorder)) {
        _ if sights.len() < enough => format!("the instrument saw {} of {pulses} pulses", sights.len()),
        (Some((due, seen)), _) => format!("injected {due}, the instrument measured {seen}"),
        _ if needs_recorder && recorded.len() < enough => {
            format!("the recorder saw {} of {pulses} pulses", recorded.len())
        }
        (_, Some((due, seen))) => format!("injected {due}, the recorder measured {seen}"),
        _ => drowned("instrument", &measured, quiet)
            .or_else(|| drowned("recorder", &recorded, quiet))
            .unwrap_or_default(),
    };
    Calibration {
        cpu,
        kind: kind.name().to_owned(),
        injected_ns: instrument.map(|(due, _)| due),
        instrument_ns: instrument.map(|(_, seen)| seen),
        recorder_ns: recorder.map(|(_, seen)| seen),
        undisturbed_ns: *undisturbed,
        passed: note.is_empty(),
        note,
    }
}

/// Even the best pulse is within the delays of this CPU: nothing is proven about `who`, the instrument or the recorder.
fn drowned(who: &str, pulses: &[(Ns, Ns)], quiet: Ns) -> Option<String> {
    // The CPU runs the pulse, so it is not idle: no idle-state exit latency is added.
    let own = |due: Ns| quiet.min(Ns(due.0 / 4));
    let &(due, seen) = pulses.iter().min_by_key(|&&(due, seen)| error(due, seen, own(due)))?;
    (!agree(due, seen, own(due))).then(|| {
        format!(
            "injected {due}, the {who} measured {seen}, at best: too close to the undisturbed latency of {quiet} here"
        )
    })
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
    use lathunt_core::time::{Mono, Tid};
    use lathunt_host::instrument::peak_queue::NewPeak;

    use super::*;

    fn sight(latency: u64, recorder: Option<u64>) -> PulseObservation {
        let peak = NewPeak {
            expected: Mono(0),
            woken: Mono(latency),
            latency: Ns(latency),
            freeze: None,
            cpu: Cpu(0),
        };
        PulseObservation { due: Ns(400_000), peak, recorder: recorder.map(Ns), window: None }
    }

    fn concluded(sights: Vec<PulseObservation>) -> Calibration {
        let seen = Seen { victim: Tid(1), undisturbed: Some(Ns(5_000)), pulses: 7, sights };
        conclude(Cpu(0), Kind::Preemptoff, &seen, true)
    }

    #[test]
    fn one_spoilt_pulse_of_many_does_not_fail_a_calibration_and_a_blind_recorder_does() {
        let good = || sight(402_000, Some(401_000));
        let spoilt = sight(3_000_000, Some(2_999_000));
        assert!(concluded(vec![good(), spoilt, good(), good(), good()]).passed);
        let blind = concluded((0..7).map(|_| sight(402_000, None)).collect());
        assert_eq!((blind.passed, blind.note.as_str()), (false, "the recorder saw 0 of 7 pulses"));
        assert_eq!(concluded(vec![good(), good(), good()]).note, "the instrument saw 3 of 7 pulses");
        let wrong = concluded((0..7).map(|_| sight(300_000, Some(401_000))).collect());
        assert_eq!(wrong.note, "injected 400 µs, the instrument measured 300 µs");
    }

    #[test]
    fn a_pulse_that_drowns_in_what_delays_the_cpu_anyway_proves_nothing() {
        let late = |latency| {
            let sights = (0..7).map(|_| sight(latency, Some(latency))).collect();
            let seen = Seen { victim: Tid(1), undisturbed: Some(Ns(2_000_000)), pulses: 7, sights };
            conclude(Cpu(0), Kind::Preemptoff, &seen, true)
        };
        assert!(late(520_000).passed);
        let drowned = late(2_200_000);
        assert!(!drowned.passed && drowned.note.contains("the instrument measured 2.200 ms, at best"));
    }
}
