//! A recording as `record` and `monitor` make it: what is injected is among the worst cases, at its size, with the
//! injector to blame; windows hold what happened in them.

mod cyclic_thread;

use std::thread::sleep;
use std::time::Duration;

use cyclic_thread::{clock, CyclicThread};
use lathunt_core::cpuset::CpuSet;
use lathunt_core::peak::Peak;
use lathunt_core::series::Quantity;
use lathunt_core::time::{Cpu, Ns};
use lathunt_host::calibrate::{agree, disturb, Disturbance, Sight};
use lathunt_host::inject::{Kind, WORKER};
use lathunt_host::recording::{Recording, Selection, Settings};
use lathunt_host::testing::{lacks_bpf, may_run};

const PULSES: u32 = 6;
/// The machine's own load may spoil a whole cell; a broken recorder spoils every attempt.
const ATTEMPTS: usize = 5;
const CPU: Cpu = Cpu(0);

/// The cause that ranks first. A recording of real-time tasks leaves out switches between ordinary ones, so that who
/// held the CPU before is known from the switch that ended it.
fn is_cause(kind: Kind, cause: &str) -> bool {
    match kind {
        Kind::Softirq => cause.contains("softirq NET_RX"),
        _ => cause.contains(WORKER),
    }
}

/// Sizes of one kind on one CPU; the error says what did not agree.
fn cell(kind: Kind, cpu: Cpu, length: Ns) -> Result<String, String> {
    let settings = Settings { peaks: 32, ..Settings::on(CpuSet::from_iter([cpu])) };
    let mut recording = Recording::start(settings).map_err(|error| error.to_string())?;
    let what = Disturbance {
        kind,
        cpu,
        length,
        lead: Ns::from_us(30),
        pulses: PULSES,
        priority: 90,
        interval: length + Ns::from_ms(1),
        lock_memory: true,
    };
    let seen = std::thread::scope(|scope| {
        let disturbing = scope.spawn(|| disturb(&what, None));
        while !disturbing.is_finished() {
            sleep(Duration::from_millis(10));
            recording.poll();
        }
        disturbing.join().unwrap()
    });
    let seen = seen.map_err(|error| error.to_string())?;
    recording.finish();
    let snapshot = recording.snapshot();
    let quiet = seen.undisturbed.unwrap_or_default();
    let same = |sight: &&Sight| -> Option<Peak> {
        let mine = |peak: &&Peak| peak.victim.tid == seen.victim && peak.begin == sight.peak.expected;
        snapshot.peaks.iter().find(mine).cloned()
    };
    let found: Vec<(&Sight, Peak)> =
        seen.sights.iter().filter_map(|sight| Some((sight, same(&sight)?))).collect();
    let sized = found.iter().filter(|(sight, peak)| agree(sight.due, peak.total_ns, quiet)).count();
    let blamed = found.iter().filter(|(_, peak)| peak.culprit.as_deref().is_some_and(|c| is_cause(kind, c)));
    let explained = found.iter().filter_map(|(_, peak)| peak.explanation.as_ref());
    assert!(explained.clone().all(|explanation| explanation.tree.adds_up()));
    let (blamed, explained, pulses) = (blamed.count(), explained.count(), seen.sights.len());
    let told = format!(
        "{kind} of {length} on CPU {cpu}: {} of {pulses} pulses among the worst, {sized} at their size, {explained} explained, {blamed} blamed",
        found.len()
    );
    let most = PULSES as usize / 2;
    if pulses >= most && sized >= most && blamed >= most && explained >= most {
        return Ok(told);
    }
    let cases = found.iter().map(|(sight, peak)| {
        format!("\n  due {} saw {} {:?} {:?}", sight.due, peak.total_ns, peak.culprit, peak.no_evidence)
    });
    Err(told + &cases.collect::<String>())
}

#[test]
#[ignore = "root: run by make test"]
fn what_is_injected_is_among_the_worst_at_its_size_with_the_injector_to_blame() {
    if !may_run("what_is_injected_is_among_the_worst", lacks_bpf()) {
        return;
    }
    let on_rt = std::fs::read_to_string("/proc/version").is_ok_and(|version| version.contains("PREEMPT_RT"));
    let mut failures = Vec::new();
    for kind in Kind::ALL.into_iter().filter(|kind| !(on_rt && *kind == Kind::Softirq)) {
        for length in [Ns::from_us(600), Ns::from_ms(2)] {
            let mut outcome = Err(String::new());
            for _ in 0..ATTEMPTS {
                outcome = cell(kind, CPU, length);
                if outcome.is_ok() {
                    break;
                }
            }
            match outcome {
                Ok(told) => println!("{told}"),
                Err(told) => failures.push(told),
            }
        }
    }
    assert!(failures.is_empty(), "{} cells failed:\n{}", failures.len(), failures.join("\n"));
}

#[test]
#[ignore = "root: run by make test"]
fn windows_hold_what_happened_in_them_and_nothing_is_lost_in_between() {
    if !may_run("windows_hold_what_happened_in_them", lacks_bpf()) {
        return;
    }
    let thread = CyclicThread::start(CPU, 90);
    let selection = Selection::Comm("test-cyclic".to_owned());
    let settings = Settings { selection, ..Settings::on(CpuSet::from_iter([CPU])) };
    let mut recording = Recording::start(settings).unwrap_or_else(|error| panic!("{error}"));
    let (mut samples, mut maxima, mut turns) = (0, Vec::new(), 0);
    for window in 0..6 {
        let until = clock() + Ns::from_ms(250);
        while clock() < until {
            sleep(Duration::from_millis(10));
            recording.poll();
        }
        let held = recording.close_window();
        assert!(held.end.since(held.begin) >= Ns::from_ms(200), "{window}");
        let series = held.series.iter().find(|series| series.quantity == Quantity::TimerWakeup);
        let Some(series) = series else { continue };
        samples += series.histogram.count();
        let max = series.histogram.max().unwrap();
        maxima.push(max);
        let worst = held.worst.iter().find(|worst| worst.quantity == Quantity::TimerWakeup);
        // The case is known when its thread blocks again, which may be after the window.
        assert!(worst.is_none_or(|worst| worst.latency <= max), "{window}: {worst:?} {max}");
        let task = held.tasks.iter().find(|task| task.thread.tid == thread.tid);
        turns += task.map_or(0, |task| task.of(Quantity::TimerWakeup).map_or(0, |s| s.histogram.count()));
    }
    let tid = thread.tid;
    let seen = thread.finish();
    sleep(Duration::from_millis(20));
    let last = recording.close_window();
    let rest = last.series.iter().find(|series| series.quantity == Quantity::TimerWakeup);
    maxima.extend(rest.and_then(|series| series.histogram.max()));
    samples += rest.map_or(0, |series| series.histogram.count());
    let task = last.tasks.iter().find(|task| task.thread.tid == tid);
    turns += task.map_or(0, |task| task.of(Quantity::TimerWakeup).map_or(0, |s| s.histogram.count()));
    let cumulative = recording.recorder().series();
    let whole = cumulative.iter().find(|series| series.quantity == Quantity::TimerWakeup).unwrap();
    eprintln!("{samples} samples and {turns} activations in windows with the maxima {maxima:?}");
    assert_eq!(samples, whole.histogram.count(), "the windows add up");
    assert!(samples > 200 && samples <= seen.len() as u64 + 2, "{samples} of {}", seen.len());
    // A wake-up on the way to sleep is a sample and no activation of its own.
    assert!(turns <= samples && turns * 10 >= samples * 9, "{turns} of {samples}");
    assert_eq!(maxima.iter().max(), whole.histogram.max().as_ref(), "exact, not a bin's edge");
    assert!(maxima.windows(2).any(|pair| pair[1] < pair[0]), "each window has its own maximum: {maxima:?}");
}
