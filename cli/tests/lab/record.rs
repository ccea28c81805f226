//! `lathunt record` there: it loads, what is injected is among the worst, and its histograms are those of the kernel's
//! own timerlat tracer.

use lathunt_core::peak::Peak;
use lathunt_core::run::Run;
use lathunt_core::series::Quantity;
use lathunt_core::time::{Cpu, Mono, Ns};
use lathunt_core::trace::event::Kind;
use lathunt_core::trace::flight;
use lathunt_host::inject;

use crate::boot::Outcome;

fn run_of(outcome: &Outcome, file: &str) -> Run {
    let text = outcome.text(file);
    Run::from_json(&text).unwrap_or_else(|error| panic!("{file}: {error}\n{}", outcome.text("stderr")))
}

/// Pulses of `kind`, as the injector says.
fn pulses(outcome: &Outcome, kind: inject::Kind) -> Vec<(Mono, Mono)> {
    let report: serde_json::Value = serde_json::from_str(&outcome.text(&format!("{kind}.injected"))).unwrap();
    let at = |pulse: &serde_json::Value, what: &str| Mono(pulse[what].as_u64().unwrap());
    report["pulses"].as_array().unwrap().iter().map(|pulse| (at(pulse, "begin"), at(pulse, "end"))).collect()
}

#[test]
#[ignore = "lab: run by make test"]
fn injected_latencies_are_among_the_worst_of_a_recording_and_blamed() {
    let Some(outcome) = Outcome::of("record", "lab: record") else { return };
    let run = injected_are_found_and_blamed(&outcome);
    // NMIs come between any two instructions of the programs: counted, and in the evidence of what they fell into.
    let nmis = run.interference.iter().find(|source| source.cpu == Cpu(1) && source.source == "NMI");
    assert!(nmis.is_some_and(|nmis| nmis.count >= 6 && nmis.max_ns > Ns(0)), "{nmis:?}");
    let window = flight::decode(&outcome.bytes("injected/flight.bin"), |_| None).expect("flight records");
    let recorded = window.events.iter().filter(|event| matches!(event.kind, Kind::Nmi { .. })).count();
    assert!(recorded > 0, "{} events and no NMI", window.events.len());
}

/// Gives the run.
fn injected_are_found_and_blamed(outcome: &Outcome) -> Run {
    let run = run_of(outcome, "injected.json");
    assert_ne!(outcome.text("injected-status").trim(), "1", "{}", outcome.text("injected.talk"));
    // It was stopped long before its 60 s.
    assert!(!run.complete && run.conditions.kernel.realtime == Some(true));
    pulses_are_found_and_blamed(outcome, &run);
    run
}

/// Most of the pulses of each kind on CPU 1 are among the worst cases of `run`, in which they were injected.
fn pulses_are_found_and_blamed(outcome: &Outcome, run: &Run) {
    let worst: Vec<_> = run.peaks.iter().map(|p| (p.begin, p.total_ns, &p.victim.comm, &p.culprit)).collect();
    for kind in [inject::Kind::Irqoff, inject::Kind::Preemptoff, inject::Kind::Thread] {
        // Whoever should have run in it had to wait for its end. A busy host may have kept all of the guest's CPU waiting
        // before, the injector too: the pulse is the larger part of the wait.
        let waited = |&(begin, end): &(Mono, Mono)| -> Vec<&Peak> {
            let held =
                |peak: &&Peak| peak.cpu == Cpu(1) && peak.begin < end && peak.begin + peak.total_ns >= end;
            let most = |peak: &&Peak| end.since(begin.max(peak.begin)).0 * 2 > peak.total_ns.0;
            run.peaks.iter().filter(held).filter(most).collect()
        };
        let found: Vec<Vec<&Peak>> =
            pulses(outcome, kind).iter().map(waited).filter(|peaks| !peaks.is_empty()).collect();
        let blamed = |peak: &Peak| peak.culprit.as_deref().is_some_and(|culprit| culprit.contains("inject"));
        let named = found.iter().filter(|peaks| peaks.iter().any(|peak| blamed(peak))).count();
        assert!(
            found.len() >= 2 && named >= 2,
            "{kind}: {} of {:?} found, {named} blamed in {worst:#?}",
            found.len(),
            pulses(outcome, kind)
        );
    }
    for explanation in run.peaks.iter().filter_map(|peak| peak.explanation.as_ref()) {
        assert!(explanation.tree.adds_up(), "{explanation:#?}");
    }
}

/// The same if the reader of the evidence is too slow for all pulses, as `run` states: no task but the injector is
/// blamed for a pulse, and it is for one of each kind at least.
pub fn pulses_with_evidence_are_blamed(outcome: &Outcome, run: &Run) {
    for kind in [inject::Kind::Irqoff, inject::Kind::Preemptoff, inject::Kind::Thread] {
        let pulses = pulses(outcome, kind);
        let of_a_pulse = |peak: &&Peak| {
            let most = |&(begin, end): &(Mono, Mono)| {
                peak.begin < end
                    && peak.begin + peak.total_ns >= end
                    && end.since(begin.max(peak.begin)).0 * 2 > peak.total_ns.0
            };
            peak.cpu == Cpu(1) && pulses.iter().any(most)
        };
        let found: Vec<&Peak> = run.peaks.iter().filter(of_a_pulse).collect();
        let explained: Vec<&str> = found.iter().filter_map(|peak| peak.culprit.as_deref()).collect();
        // Where the host took the CPU as well, that may be the larger part.
        let nobody = ["timer late, unexplained", "the CPU stood still", "unexplained"];
        let culprits: Vec<&&str> = explained.iter().filter(|culprit| !nobody.contains(culprit)).collect();
        println!("{kind}: {} found of {}, blamed: {culprits:?}", found.len(), pulses.len());
        assert!(found.len() >= 2 && !culprits.is_empty(), "{kind}: {found:#?}");
        assert!(culprits.iter().all(|culprit| culprit.contains("inject")), "{kind}: {culprits:?}");
        let lost = run.losses.iter().any(|loss| loss.counter.starts_with("no_flight_buffer"));
        assert!(explained.len() == found.len() || lost, "{kind}: without evidence, and no loss is counted");
    }
}

/// Of the pulses of each kind on CPU 1, the one that is measured best is measured to a tenth of its length.
pub fn one_pulse_of_each_kind_is_sized(outcome: &Outcome, run: &Run) {
    for kind in [inject::Kind::Irqoff, inject::Kind::Preemptoff, inject::Kind::Thread] {
        // How far `peak` is from what it waited for the end of the pulse, ns; `None` when it did not.
        let error = |&(begin, end): &(Mono, Mono), peak: &Peak| -> Option<u64> {
            let held = peak.cpu == Cpu(1) && peak.begin < end && peak.begin + peak.total_ns >= end;
            held.then(|| peak.total_ns.0.abs_diff(end.since(begin.max(peak.begin)).0))
        };
        let pulses = pulses(outcome, kind);
        let best =
            pulses.iter().flat_map(|pulse| run.peaks.iter().filter_map(move |peak| error(pulse, peak))).min();
        assert!(best.is_some_and(|best| best <= 10_000_000), "{kind}: {best:?} ns beside 100 ms: {pulses:?}");
    }
}

/// The test program of `host/tests/beside_cyclictest.rs`, with cyclictest itself: activation by activation.
#[test]
#[ignore = "lab: run by make test"]
fn timer_and_wakeup_are_what_cyclictest_measures_less_the_way_to_user_space() {
    let Some(outcome) = Outcome::of("beside", "lab: beside cyclictest") else { return };
    let (told, offsets) = (outcome.text("stdout"), outcome.text("stderr"));
    println!("{offsets}");
    assert!(
        told.contains("test result: ok. 1 passed") && offsets.contains("cycles paired; p5 "),
        "{told}{offsets}"
    );
}

/// Latencies in the text of the tracer: `… #2     context    irq timer_latency   1525705 ns`.
fn timerlat(text: &str, context: &str) -> Vec<u64> {
    let value = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.iter().position(|&word| word == "context")?;
        match words.get(at + 1..) {
            Some([found, "timer_latency", ns, "ns"]) if *found == context => ns.parse().ok(),
            _ => None,
        }
    };
    let mut all: Vec<u64> = text.lines().filter_map(value).collect();
    all.sort_unstable();
    all
}

/// In virtual time: the tracer reads the clock some instructions after us, and our histogram has classes of 1 µs.
#[test]
#[ignore = "lab: run by make test"]
fn a_recording_of_the_timerlat_threads_agrees_with_the_tracer_to_microseconds() {
    let Some(outcome) = Outcome::of("timerlat", "lab: record beside timerlat") else { return };
    let run = run_of(&outcome, "timerlat.json");
    let trace = outcome.text("timerlat.trace");
    let tasks: Vec<_> = run.tasks.iter().filter(|task| task.thread.comm.starts_with("timerlat")).collect();
    assert!(!tasks.is_empty(), "{}", outcome.text("timerlat.talk"));
    for (quantity, context) in [(Quantity::Timer, "irq"), (Quantity::TimerWakeup, "thread")] {
        let theirs = timerlat(&trace, context);
        let mut ours = lathunt_core::histogram::Histogram::new(lathunt_core::histogram::Layout::LATENCY);
        for series in run.of(quantity) {
            ours.merge(&series.histogram).unwrap();
        }
        let (their, our) = (theirs.len(), ours.count());
        assert!(their > 500 && our as usize >= their, "timerlat {their} samples, recorded {our}");
        for q in [0.0, 0.1, 0.5, 0.9, 1.0] {
            let their = theirs[((their - 1) as f64 * q) as usize];
            let our = if q == 1.0 { ours.max() } else { ours.quantile(q) }.unwrap().0;
            let told = format!("{} quantile {q}: timerlat {their} ns, recorded {our} ns", quantity.name());
            eprintln!("{told}");
            assert!(their.abs_diff(our) <= 5_000, "{told}");
        }
    }
}
