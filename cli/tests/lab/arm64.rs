//! The same on arm64: QEMU's generic board with two cores and Debian's PREEMPT_RT kernel. What is judged is what differs
//! there: counter, interrupts and their names, registers, the order of stores. The judges of size and blame are those of
//! x86-64.

use lathunt_core::run::Run;
use lathunt_core::series::Quantity;

use crate::boot::Outcome;
use crate::{hidden, record, runs};

fn of(scenario: &str) -> Option<Outcome> {
    Outcome::on("arm64", scenario, &format!("lab: arm64, {scenario}"))
}

fn json(outcome: &Outcome, file: &str) -> serde_json::Value {
    let text = outcome.text(file);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{file}: {error}\n{text}"))
}

#[test]
#[ignore = "lab: run by make test"]
fn the_arm64_guest_runs_a_preempt_rt_kernel_and_our_binary_starts_there() {
    let Some(kernel) = of("kernel") else { return };
    assert!(kernel.text("release").trim().ends_with("-rt-arm64"), "{}", kernel.text("release"));
    crate::is_preempt_rt(&kernel);
}

#[test]
#[ignore = "lab: run by make test"]
fn a_hunt_on_arm64_loads_the_recorders_and_explains_what_it_finds() {
    let Some(outcome) = of("pulses") else { return };
    assert_ne!(outcome.text("hunt-status").trim(), "1", "hunt could not measure: {}", outcome.text("told"));
    let run = runs::run_of(&outcome, "run.json");
    assert_eq!(run.conditions.machine.architecture.as_deref(), Some("aarch64"));
    assert!(run.verdict.is_some() && run.conditions.kernel.realtime == Some(true));
    runs::sees_every_cpu(&outcome, 300);
    runs::every_explanation_adds_up(&outcome);
}

#[test]
#[ignore = "lab: run by make test"]
fn pulses_in_a_hunt_on_arm64_are_found_sized_and_blamed() {
    let Some(outcome) = of("pulses") else { return };
    let run = runs::run_of(&outcome, "run.json");
    record::pulses_with_evidence_are_blamed(&outcome, &run);
    record::one_pulse_of_each_kind_is_sized(&outcome, &run);
}

#[test]
#[ignore = "lab: run by make test"]
fn late_jobs_on_arm64_have_their_number_and_size() {
    let Some(outcome) = of("jobs") else { return };
    hidden::late_jobs_are_counted_and_sized(&outcome, &[("plain", "plain")]);
}

#[test]
#[ignore = "lab: run by make test"]
fn clock_and_npt_read_the_virtual_counter_of_arm64() {
    let Some(outcome) = of("clock") else { return };
    assert_eq!(outcome.text("clocksource").trim(), "arch_sys_counter");
    let clock = json(&outcome, "clock.json");
    assert_eq!(clock["clocksource"], "arch_sys_counter");
    let run = Run::from_json(&outcome.text("npt.json")).unwrap();
    let turns: u64 = run.of(Quantity::Npt).map(|series| series.histogram.count()).sum();
    assert_eq!(turns, 20_000);
    let costs = clock["costs"].as_array().unwrap();
    assert!(costs.iter().any(|path| path["path"] == "mrs cntvct_el0"), "{clock:#}");
}

#[test]
#[ignore = "lab: run by make test"]
fn check_finds_on_arm64_what_is_there_and_nothing_of_x86() {
    let Some(outcome) = of("check") else { return };
    let text = outcome.text("text");
    assert!(text.contains("-rt-arm64: a real-time kernel (PREEMPT_RT)"), "{text}");
    let report = json(&outcome, "json");
    let outcome_of = |rule: &str| {
        let findings = report["findings"].as_array().unwrap();
        findings.iter().find(|one| one["id"] == rule).unwrap_or_else(|| panic!("no {rule}"))["outcome"]
            .clone()
    };
    for (rule, outcome) in [
        ("preempt-rt", "good"),
        ("clocksource", "good"),
        ("threaded-irqs", "good"),
        ("nmi", "good"),
        ("virtualisation", "unknown"), // its processor does not say
        ("tsc-flags", "does_not_apply"),
        ("smi", "does_not_apply"),
        ("machine-checks", "does_not_apply"),
        ("microcode", "does_not_apply"),
        ("pstate-driver", "does_not_apply"),
        ("turbo", "does_not_apply"),
    ] {
        assert_eq!(outcome_of(rule), outcome, "{rule}: {text}");
    }
}
