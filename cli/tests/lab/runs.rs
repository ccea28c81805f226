//! What `lathunt` itself finds there: the recorders load from the same object, a hunt ends with a valid run, and known
//! disturbances are found, sized and blamed.

use lathunt_core::explain::Explanation;
use lathunt_core::run::Run;
use lathunt_core::series::Quantity;
use lathunt_core::time::{Cpu, Ns};
use lathunt_host::inject::Kind;

use crate::boot::Outcome;
use crate::freeze;

pub fn run_of(outcome: &Outcome, file: &str) -> Run {
    let text = outcome.text(file);
    Run::from_json(&text).unwrap_or_else(|error| panic!("{file}: {error}\n{}", outcome.text("stderr")))
}

#[test]
#[ignore = "lab: run by make test"]
fn a_short_hunt_ends_with_a_valid_run_on_preempt_rt() {
    let Some(outcome) = Outcome::of("hunt", "lab: hunt") else { return };
    let run = run_of(&outcome, "run.json");
    assert_ne!(outcome.text("hunt-status").trim(), "1", "hunt could not measure");
    assert!(run.complete);
    assert_eq!(run.conditions.kernel.realtime, Some(true), "{:?}", run.conditions.kernel);
    assert!(run.verdict.is_some());
    for cpu in [Cpu(0), Cpu(1)] {
        let samples: u64 = of_cpu(&run, Quantity::Cyclic, cpu);
        assert!(samples > 1000, "CPU {cpu}: {samples} samples in 5 s at 1 ms");
    }
    let kept = Run::from_json(&outcome.text("hunt/run.lathunt.json")).expect("the file is a run, too");
    assert_eq!(kept.series, run.series, "stdout and file tell the same");
    assert!(outcome.text("hunt/report.html").contains("</html>"));
}

#[test]
#[ignore = "lab: run by make test"]
fn the_recorders_load_from_the_same_object_and_see_every_cpu() {
    let Some(outcome) = Outcome::of("hunt", "lab: recorders") else { return };
    sees_every_cpu(&outcome, 1000);
}

/// More than `least` samples of each quantity.
pub fn sees_every_cpu(outcome: &Outcome, least: u64) {
    let run = run_of(outcome, "run.json");
    for quantity in [Quantity::Timer, Quantity::Wakeup, Quantity::TimerWakeup] {
        for cpu in [Cpu(0), Cpu(1)] {
            assert!(of_cpu(&run, quantity, cpu) > least, "no {} on CPU {cpu}", quantity.name());
        }
    }
}

#[test]
#[ignore = "lab: run by make test"]
fn parts_add_up_in_every_explanation() {
    let Some(outcome) = Outcome::of("hunt", "lab: parts") else { return };
    every_explanation_adds_up(&outcome);
}

pub fn every_explanation_adds_up(outcome: &Outcome) {
    let run = run_of(outcome, "run.json");
    let explained: Vec<&Explanation> =
        run.peaks.iter().filter_map(|peak| peak.explanation.as_ref()).collect();
    assert!(!explained.is_empty(), "no peak is explained");
    for explanation in explained {
        assert!(explanation.tree.adds_up(), "{explanation:#?}");
        assert_eq!(explanation.tree.total_explained() + explanation.unexplained_ns, explanation.total_ns);
    }
}

/// The test program of `host/tests/matrix.rs` as `scenario`: it was there for each of these CPUs and lengths. What each
/// cell says is in the scenario's stdout; its status is the verdict.
fn matrix(scenario: &str, cpus: &[u32], lengths: &[&str]) {
    let Some(outcome) = Outcome::of(scenario, &format!("lab: {scenario}")) else { return };
    let told = outcome.text("stdout");
    println!("{told}");
    for kind in Kind::ALL {
        for (cpu, length) in cpus.iter().flat_map(|cpu| lengths.iter().map(move |length| (cpu, length))) {
            let cell = format!("{kind} of {length} on CPU {cpu}: due ");
            assert!(told.lines().any(|line| line.contains(&cell)), "no {cell:?} in\n{told}");
        }
    }
}

#[test]
#[ignore = "lab: run by make test"]
fn every_kind_of_disturbance_is_found_sized_and_blamed_on_both_cpus() {
    matrix("matrix", &[0, 1], &["20.000 ms"]);
}

#[test]
#[ignore = "lab: run by make test"]
fn every_kind_of_disturbance_is_found_at_a_tenth_of_a_millisecond_and_more_in_virtual_time() {
    matrix("exact", &[0], &["100 µs", "500 µs", "2.000 ms"]);
}

#[test]
#[ignore = "lab: run by make test"]
fn nobody_on_any_cpu_is_blamed_for_a_machine_that_is_stopped_from_outside() {
    let Some(outcome) = Outcome::of("frozen", "lab: frozen under hunt") else { return };
    let (run, programs) = (run_of(&outcome, "run.json"), outcome.text("programs"));
    let stopped = Ns(freeze::LENGTH.as_nanos() as u64 * 9 / 10);
    for cpu in [Cpu(0), Cpu(1)] {
        let cases: Vec<&Explanation> = run
            .peaks
            .iter()
            .filter(|peak| peak.cpu == cpu && peak.total_ns >= stopped)
            .filter_map(|case| case.explanation.as_ref())
            .inspect(|why| println!("CPU {cpu}: {} ({})", why.sentence, why.cause))
            .collect();
        // The measuring thread may itself be stopped, in its interrupt or on its way: whose time it then is as far as
        // can be seen, or the scenario's shell where interrupts are off. But the two programs had no part in it.
        let nobody = ["timer late, unexplained", "the CPU stood still", "unexplained"];
        let (unexplained, blamed): (Vec<&Explanation>, Vec<&Explanation>) =
            cases.iter().partition(|why| nobody.contains(&why.cause.as_str()));
        assert!(!unexplained.is_empty(), "CPU {cpu} was stopped eight times: {:#?}", run.peaks);
        // A machine that is stopped just within a short section with interrupts off makes that section look long (decision
        // 0018, "To know"): one stop in eight may hit one.
        let is_named =
            |why: &&&Explanation| programs.split_whitespace().any(|program| why.sentence.contains(program));
        let named: Vec<_> = blamed.iter().filter(is_named).collect();
        assert!(named.len() <= 1, "CPU {cpu}: {named:#?}");
    }
}

fn of_cpu(run: &Run, quantity: Quantity, cpu: Cpu) -> u64 {
    run.of(quantity).filter(|series| series.cpu == Some(cpu)).map(|series| series.histogram.count()).sum()
}
