//! The strongest proof: every kind of disturbance, at three sizes, on every CPU. Instrument, recorder and explanation
//! agree on its size (± 10 % or 20 µs beyond the undisturbed level), and the culprit named is the injected one.

use lathunt_core::cpuset::CpuSet;
use lathunt_core::explain::{explain_peak, Explanation, Kind as What, Segment, TimerPassage};
use lathunt_core::time::{Cpu, Ns};
use lathunt_host::calibrate::{agree, disturb, error, Disturbance, Seen, Sight};
use lathunt_host::inject::{Kind, WORKER};
use lathunt_host::recorder::{self, Recorder};
use lathunt_host::symbols::Symbols;
use lathunt_host::testing::{lacks_bpf, may_run};

const SIZES: [Ns; 3] = [Ns::from_us(100), Ns::from_us(500), Ns::from_ms(2)];
const PULSES: u32 = 12;
/// Pulses with evidence that a cell is judged by.
const ENOUGH: usize = 8;
/// On a busy machine most pulses miss the wake-up they are aimed at: those say nothing, and are repeated.
const ROUNDS: usize = 30;
const LEAD: Ns = Ns::from_us(30);
/// The machine's own load may spoil a whole cell; a broken instrument spoils every attempt.
const ATTEMPTS: usize = 3;

fn online() -> CpuSet {
    std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap().parse().unwrap()
}

fn explained(sight: &Sight, seen: &Seen, cpu: Cpu) -> Option<Explanation> {
    let passage = TimerPassage { tid: seen.victim, cpu, begin: sight.peak.expected, end: sight.peak.woken };
    let explanation = explain_peak(sight.window.as_ref()?, &passage);
    assert!(explanation.tree.adds_up(), "{explanation:#?}");
    assert_eq!(explanation.total_ns, sight.peak.latency);
    assert_eq!(explanation.tree.total_explained() + explanation.unexplained_ns, explanation.total_ns);
    Some(explanation)
}

/// Time that the leaves give to what was injected, and to interrupts (the timer's own among them), which may have come
/// while it held the CPU.
fn blamed(kind: Kind, explanation: &Explanation) -> (Ns, Ns) {
    let is_injected = |leaf: &&Segment| match kind {
        Kind::Softirq => leaf.label.starts_with("softirq NET_RX"),
        _ => leaf.label.contains(WORKER),
    };
    let interrupts = [What::TimerInterrupt, What::Vector, What::HardIrq, What::Softirq, What::Nmi];
    let (injected, others): (Vec<&Segment>, Vec<&Segment>) =
        explanation.tree.leaves().into_iter().partition(is_injected);
    let time = |leaves: Vec<&Segment>| leaves.iter().map(|leaf| leaf.duration_ns).sum();
    (time(injected), time(others.into_iter().filter(|leaf| interrupts.contains(&leaf.kind)).collect()))
}

/// The cause that ranks first, for each kind. Without kernel preemption a softirq may be charged to the thread that
/// it interrupted only where its entry was not seen: never here.
fn is_cause(kind: Kind, cause: &str) -> bool {
    match kind {
        Kind::Irqoff => cause.starts_with("irqs off: ") && cause.contains(WORKER),
        Kind::Preemptoff => cause.starts_with("preemption off: ") && cause.contains(WORKER),
        Kind::Softirq => cause.contains("softirq NET_RX"),
        Kind::Thread => cause.starts_with("thread: ") && cause.contains(WORKER),
        Kind::Pagefault => cause.starts_with("page faults: ") && cause.contains(WORKER),
    }
}

fn median(mut all: Vec<(Ns, Ns)>, quiet: Ns) -> (Ns, Ns) {
    all.sort_by_key(|&(due, seen)| error(due, seen, quiet));
    all[all.len() / 2]
}

/// One cell of the matrix; the error says what did not agree.
fn cell(
    kind: Kind,
    cpu: Cpu,
    length: Ns,
    recorder: &mut Recorder,
    symbols: &Symbols,
) -> Result<String, String> {
    let interval = Ns::from_ms(1).max(length + Ns::from_ms(1));
    let what = Disturbance {
        kind,
        cpu,
        length,
        lead: LEAD,
        pulses: PULSES,
        priority: 90,
        interval,
        lock_memory: true,
    };
    let mut with: Vec<(Sight, Explanation)> = Vec::new();
    let (mut quiet, mut aimed) = (Ns(0), 0);
    for _ in 0..ROUNDS {
        let seen = disturb(&what, Some((recorder, symbols))).map_err(|error| error.to_string())?;
        quiet = quiet.max(seen.undisturbed.unwrap_or_default());
        aimed += seen.pulses;
        with.extend(
            seen.sights.iter().filter_map(|sight| Some((sight.clone(), explained(sight, &seen, cpu)?))),
        );
        if with.len() >= ENOUGH {
            break;
        }
    }
    if with.len() < ENOUGH {
        return Err(format!(
            "{kind} of {length} on CPU {cpu}: {} of {aimed} pulses seen with evidence",
            with.len()
        ));
    }
    let instrument = median(with.iter().map(|(sight, _)| (sight.due, sight.peak.latency)).collect(), quiet);
    let recorded =
        median(with.iter().filter_map(|(sight, _)| Some((sight.due, sight.recorder?))).collect(), quiet);
    let mut given: Vec<(Ns, Ns, Ns)> = with
        .iter()
        .map(|(sight, explanation)| {
            let (injected, interrupts) = blamed(kind, explanation);
            (error(sight.due.saturating_sub(interrupts), injected, interrupts), sight.due, injected)
        })
        .collect();
    given.sort_unstable();
    let (off, due, given) = given[given.len() / 2];
    let causes = with.iter().filter(|(_, explanation)| is_cause(kind, &explanation.cause)).count();
    let told = format!(
        "{kind} of {length} on CPU {cpu}: due {}, instrument {}, recorder {}, blamed {}, cause named in {causes} of {} ({aimed} aimed)",
        instrument.0,
        instrument.1,
        recorded.1,
        given,
        with.len()
    );
    let fits = agree(instrument.0, instrument.1, quiet)
        && agree(recorded.0, recorded.1, quiet)
        && off <= Ns::from_us(20).max(Ns(due.0 / 10))
        && causes * 3 >= with.len() * 2;
    let sentences =
        || with.iter().map(|(_, e)| format!("\n  [{}] {}", e.cause, e.sentence)).collect::<String>();
    if fits {
        Ok(told)
    } else {
        Err(told + &sentences())
    }
}

#[test]
#[ignore = "root: run by make test"]
fn every_injected_disturbance_is_found_sized_and_blamed_on_every_cpu() {
    if !may_run("injection matrix", lacks_bpf()) {
        return;
    }
    let online = online();
    let mut recorder =
        Recorder::start(&recorder::Options::on(online.clone())).unwrap_or_else(|e| panic!("{e}"));
    let symbols = Symbols::read().unwrap_or_else(|e| panic!("{e}"));
    let on_rt = std::fs::read_to_string("/proc/version").is_ok_and(|version| version.contains("PREEMPT_RT"));
    let mut failures = Vec::new();
    for kind in Kind::ALL.into_iter().filter(|kind| !(on_rt && *kind == Kind::Softirq)) {
        for cpu in online.iter().take(4) {
            for length in SIZES {
                let attempts = (0..ATTEMPTS).map(|_| cell(kind, cpu, length, &mut recorder, &symbols));
                let mut outcome = Err(String::new());
                for attempt in attempts {
                    outcome = attempt;
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
    }
    assert!(failures.is_empty(), "{} cells failed:\n{}", failures.len(), failures.join("\n"));
}
