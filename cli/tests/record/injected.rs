//! What is injected while `record` runs.

#[path = "../../../host/tests/cyclic_thread/mod.rs"]
mod cyclic_thread;

use cyclic_thread::{allowed, CyclicThread, Turns, PERIOD};
use lathunt_core::peak::Peak;
use lathunt_core::time::Mono;
use lathunt_host::inject::Pulse;

use super::*;

/// More than the injected ones: what a host takes from this guest can be worse than they are.
const PEAKS: usize = 64;

/// A recording of a cyclic thread on CPU 1, while 12 pulses hold that CPU. With it, those that were what delayed the thread,
/// as it saw them itself: each with its end, and the expiry and the latency of the thread.
fn recorded_beside_pulses(kind: &str, length: Ns) -> (Run, Vec<(Pulse, Mono, Ns)>) {
    let place = tempfile::tempdir().unwrap();
    let victim = CyclicThread::start(Cpu(1), 80);
    let directory = place.path().to_str().unwrap();
    let record = command(&["record", "-D", "15s", "--worst", &PEAKS.to_string(), "-o", directory, "-q"])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    wait_until_it_records(place.path());
    let asked = length.to_string().replace(' ', "");
    let injected = lathunt(&[
        "inject", kind, "-c", "1", "--length", &asked, "--every", "50ms", "--count", "12", "--json",
    ]);
    assert!(injected.status.success(), "{}", said(&injected));
    assert!(Command::new("kill").args(["-TERM", &record.id().to_string()]).status().unwrap().success());
    let ended = record.wait_with_output().unwrap();
    let origin = victim.origin;
    let turns = Turns::new(origin, &victim.finish());
    assert!(ended.status.success() || ended.status.code() == Some(3), "{}", said(&ended));
    let report: serde_json::Value = serde_json::from_slice(&injected.stdout).unwrap();
    let at = |pulse: &serde_json::Value, end: &str| Mono(pulse[end].as_u64().unwrap());
    let pulse = |pulse: &serde_json::Value| Pulse { begin: at(pulse, "begin"), end: at(pulse, "end") };
    let pulses: Vec<Pulse> = report["pulses"].as_array().unwrap().iter().map(pulse).collect();
    let alone = turns.alone(&pulses, length, PERIOD);
    (read(place.path()), alone)
}

#[test]
#[ignore = "root: run by make test"]
fn injected_latencies_are_among_the_worst_at_their_size_with_the_injector_to_blame() {
    let name = "injected_latencies_are_among_the_worst";
    let one_cpu = || (std::thread::available_parallelism().unwrap().get() < 2).then_some("needs two CPUs");
    if !may_run(name, lacks_bpf().or_else(one_cpu)) {
        return;
    }
    let length = Ns::from_ms(5);
    for kind in ["preemptoff", "thread"] {
        let (mut judged, mut explained, mut not_blamed) = (0, 0, Vec::new());
        // One is enough on a quiet machine. A host that takes milliseconds from this guest spoils most pulses.
        for _ in 0..12 {
            let (run, alone) = recorded_beside_pulses(kind, length);
            judged += alone.len();
            for (_, expiry, late) in &alone {
                let of_it = |peak: &&Peak| peak.cpu == Cpu(1) && peak.begin == *expiry;
                let Some(peak) = run.peaks.iter().find(of_it) else {
                    // A busy host may have done as many worse things as are kept.
                    let full = run.peaks.iter().filter(|peak| peak.total_ns >= *late).count() >= PEAKS;
                    judged -= usize::from(full);
                    not_blamed.extend((!full).then(|| format!("{late} is not among {}", run.peaks.len())));
                    continue;
                };
                // From the switch to user space's look at the clock it takes some time, on a busy host much.
                let off = late.saturating_sub(peak.total_ns);
                assert!(
                    peak.total_ns <= *late && off <= allowed(length),
                    "{kind}: {late}, recorded {peak:?}"
                );
                assert!(peak.context.as_ref().is_none_or(|context| context.policy == "SCHED_FIFO"));
                // On a machine whose CPUs are all busy others may find no free flight buffer; each then says so.
                if let Some(explanation) = &peak.explanation {
                    explained += 1;
                    assert_eq!(explanation.total_ns, peak.total_ns);
                }
                let why = peak.explanation.as_ref().map(|why| why.sentence.as_str()).unwrap_or_default();
                let culprit = peak.culprit.as_deref().unwrap_or_default();
                if !why.contains("lathunt-inject") && !culprit.contains("lathunt-inject") {
                    not_blamed.push(format!("{why:?} {culprit:?} {:?}", peak.no_evidence));
                }
            }
            eprintln!("{kind}: {} of 12 alone", alone.len());
            if judged >= 6 {
                break;
            }
        }
        assert!(judged >= 6, "{kind}: {judged} pulses alone delayed the thread");
        assert!(explained > 0 && not_blamed.len() * 2 <= judged, "{kind}: of {judged} {not_blamed:#?}");
    }
}
