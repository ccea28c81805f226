//! `lathunt record --potential` where the kernel tells when interrupts and preemption are switched off and on: are its
//! figures those of the events as ftrace has them, and does it find what is injected where the kernel's own tracers do?
//! And `lathunt box` over what only this kernel simulates ([`channels`]).
//!
//! No kernel of a distribution has those tracepoints. `make lab-potential` builds one, which takes longer than all other
//! tests together: hence a program of tests of its own, that only the feature `traced-kernel` builds.

#[allow(dead_code, reason = "the other program of tests uses all of it")]
mod boot;
mod channels;
mod freeze;
mod guest;
mod preemptirq;

use lathunt_core::path_analysis::{Longest, PathAnalysis};
use lathunt_core::peak::Peak;
use lathunt_core::run::Run;
use lathunt_core::series::Quantity;
use lathunt_core::time::{Cpu, Ns};

use boot::Outcome;
use guest::{Guest, SILENCE, SILENCE_OF_VIRTUAL_TIME, TWO_CPUS, VIRTUAL_TIME};

const GUESTS: &[Guest] = &[
    Guest {
        name: "traced-virtual-time",
        kernel: "traced",
        machine: VIRTUAL_TIME,
        scenarios: &["potential-same", "gpio", "vsock", "path-analysis", "path-cost"],
        silence: SILENCE_OF_VIRTUAL_TIME,
    },
    Guest {
        name: "traced-two-cpus",
        kernel: "traced",
        machine: TWO_CPUS,
        scenarios: &["potential-tracers", "path-injected"],
        silence: SILENCE,
    },
];

const POTENTIAL: [Quantity; 3] = [Quantity::Irqsoff, Quantity::Preemptoff, Quantity::Preemptirqsoff];

fn run_of(outcome: &Outcome, name: &str) -> Run {
    let text = outcome.text(&format!("{name}.json"));
    Run::from_json(&text).unwrap_or_else(|error| panic!("{name}: {error}\n{}", outcome.text("stderr")))
}

/// The longest of `quantity` on `cpu`.
fn longest(run: &Run, quantity: Quantity, cpu: Cpu) -> &Peak {
    let mut peaks = run.peaks.iter().filter(|peak| peak.quantity == quantity && peak.cpu == cpu);
    peaks.next().unwrap_or_else(|| panic!("no {} on CPU {cpu}: {:#?}", quantity.name(), run.peaks))
}

/// ftrace tells its times in whole µs, and reads the clock some instructions before or after us.
#[test]
#[ignore = "lab: run by make lab-potential"]
fn potential_latencies_are_those_of_the_events_that_ftrace_has() {
    let Some(outcome) = Outcome::of("potential-same", "lab: potential latencies beside ftrace") else {
        return;
    };
    let run = run_of(&outcome, "run");
    let intervals = preemptirq::intervals(&outcome.text("trace"));
    let mut ends = Vec::new();
    for quantity in POTENTIAL {
        let series = run.of(quantity).next().expect("samples");
        let ours = &series.histogram;
        let begin = series.begin.unwrap().0 / 1_000;
        let of_it = intervals.iter().filter(|interval| interval.quantity == quantity);
        assert!(of_it.clone().next().is_some_and(|first| first.end_us < begin), "the trace begins too late");
        let theirs: Vec<_> =
            of_it.filter(|one| one.end_us + 1 >= begin).take(ours.count() as usize).collect();
        assert_eq!(theirs.len() as u64, ours.count(), "{}", quantity.name());
        let sum: u64 = theirs.iter().map(|interval| interval.length_us).sum();
        let (count, our_sum) = (ours.count(), ours.sum_ns() / 1_000);
        let max = theirs.iter().map(|interval| interval.length_us).max().unwrap();
        let our_max = ours.max().unwrap().0 / 1_000;
        println!(
            "{}: {count} samples, {our_sum} µs in all, longest {our_max} µs; ftrace: {sum} µs, {max} µs",
            quantity.name()
        );
        assert!(count > 100 && max <= our_max + 2, "{max} {our_max}");
        assert!(sum.abs_diff(our_sum) <= our_sum / 20 + count / 10, "{sum} {our_sum}");
        // The very one that is reported, from the same place.
        let peak = longest(&run, quantity, Cpu(0));
        let (begun, end) = (peak.begin.0 / 1_000, (peak.begin + peak.total_ns).0 / 1_000);
        let same = |one: &&&preemptirq::Interval| {
            (one.end_us - one.length_us).abs_diff(begun) <= 2
                && (one.end_us.saturating_sub(2)..=one.next_us + 2).contains(&end)
        };
        let found = theirs.iter().find(same).unwrap_or_else(|| panic!("{peak:#?} is not in the trace"));
        let culprit = peak.culprit.as_deref().unwrap();
        assert!(culprit.contains(&format!(": off {}", found.begun)), "{culprit} {found:?}");
        ends.push(theirs.last().unwrap().end_us);
        let old = outcome.text(&format!("hist/{}/CPU0", quantity.name()));
        assert!(old.contains(&format!("#Total samples: {count}\n")), "{}", &old[..300]);
        assert!(old.contains(&format!("#Maximum latency: {our_max} microseconds\n")), "{}", &old[..300]);
    }
    // All three were read in the same moment: had one missed events, or seen too many, its last would be elsewhere.
    let (first, last) = (ends.iter().min().unwrap(), ends.iter().max().unwrap());
    assert!(last - first < 3_000, "{ends:?}");
    // Nobody did anything for most of these 200 ms: what the CPU is idle is no latency.
    assert!(POTENTIAL.iter().all(|&quantity| longest(&run, quantity, Cpu(0)).total_ns < Ns::from_ms(2)));
    assert_eq!(run.losses, vec![]);
}

/// Functions in the text of a latency tracer: `#  => started at: NAME`.
fn place<'t>(trace: &'t str, what: &str) -> &'t str {
    let found = trace.lines().find_map(|line| line.split_once(&format!("=> {what} at: ")));
    found.map(|(_, name)| name.trim()).unwrap_or_else(|| panic!("no '{what}' in {trace}"))
}

#[test]
#[ignore = "lab: run by make lab-potential"]
fn what_is_injected_is_found_and_blamed_where_the_kernel_s_own_tracers_find_it() {
    let Some(outcome) = Outcome::of("potential-tracers", "lab: potential latencies injected") else { return };
    for quantity in POTENTIAL {
        let name = quantity.name();
        let run = run_of(&outcome, name);
        let injected: serde_json::Value =
            serde_json::from_str(&outcome.text(&format!("{name}.injected"))).unwrap();
        let pulse = Ns(injected["max_ns"].as_u64().unwrap());
        let theirs = Ns::from_us(outcome.text(&format!("{name}.max")).trim().parse().unwrap());
        let peak = longest(&run, quantity, Cpu(1));
        let (ours, culprit) = (peak.total_ns, peak.culprit.as_deref().unwrap());
        println!("{name}: injected {pulse}, found {ours}, tracer {theirs}; {culprit}");
        assert!(ours >= pulse && ours.0 < pulse.0 * 3 / 2, "{ours} {pulse}");
        // Theirs of both is the union, of which ours is part; in an injected one they begin and end together.
        assert!(ours.0.abs_diff(theirs.0) < theirs.0 / 20, "{ours} {theirs}");
        assert!(culprit.starts_with("lathunt-inject/"), "{culprit}");
        let trace = outcome.text(&format!("{name}.trace"));
        let (off, on) = (place(&trace, "started"), place(&trace, "ended"));
        assert!(culprit.contains(&format!(": off in {off}+")), "{off}: {culprit}");
        assert!(culprit.contains(&format!("; on in {on}+")), "{on}: {culprit}");
        // The injecting thread is a real-time one: it is recorded as all others are, beside.
        assert!(
            run.max_of(Quantity::Wakeup).is_some() && !run.is_unfinished(),
            "{:?}",
            run.conditions.during
        );
    }
}

/// The path analysis of `cpu`, and the answer of `lathunt bound`.
fn path_of(outcome: &Outcome, cpu: Cpu) -> (PathAnalysis, serde_json::Value) {
    let run = run_of(outcome, "run");
    let path = run.path_analysis.iter().find(|path| path.cpu == cpu).expect("a path analysis");
    assert_eq!(path.lost, 0, "{:?}", run.losses);
    println!("{}", outcome.text("bound.txt"));
    let answer: serde_json::Value = serde_json::from_str(&outcome.text("bound.json")).unwrap();
    (path.clone(), answer["bound"].clone())
}

/// A bound in ns, whose terms add up.
fn value_of(bound: &serde_json::Value) -> f64 {
    let value = bound["value_ns"].as_f64().unwrap_or_else(|| panic!("{bound}"));
    let terms = bound["terms"].as_array().unwrap();
    let ns = |term: &serde_json::Value| term["value_ns"].as_f64().unwrap();
    let term = |name: &str| ns(terms.iter().find(|term| term["name"] == name).unwrap());
    let own = ["POID", "DST", "PAIE", "PSD"];
    let interrupts: f64 =
        terms.iter().filter(|term| own.iter().all(|name| term["name"] != *name)).map(ns).sum();
    assert_eq!(value, term("POID").max(term("DST")) + term("PAIE") + term("PSD") + interrupts);
    value
}

/// A section of the kernel's tracer has the interrupts in it, and lasts from the first thing switched off until all is on: at least
/// as long as one of ours, and at most as long as ours in a row.
#[test]
#[ignore = "lab: run by make lab-potential"]
fn a_path_analysis_has_the_sections_of_the_kernel_s_own_tracer_and_bounds_what_is_measured() {
    let Some(outcome) = Outcome::of("path-analysis", "lab: path analysis beside the kernel's tracer") else {
        return;
    };
    let (path, bound) = path_of(&outcome, Cpu(0));
    let bound = value_of(&bound);
    let of = |longest: &Option<Longest>| longest.as_ref().map_or(Ns::ZERO, |one| one.ns);
    let (poid, paie, psd, dst) = (of(&path.poid), of(&path.paie), of(&path.psd), of(&path.dst));
    assert!([poid, dst, psd].iter().all(|&ns| ns > Ns::ZERO && ns < Ns::from_us(500)), "{path:#?}");
    assert!(dst <= psd && paie < Ns::from_us(100), "{path:#?}");
    let theirs = Ns::from_us(outcome.text("max").trim().parse().unwrap());
    let interrupts: u64 = path.interrupts.iter().map(|one| one.longest_ns.0).sum();
    println!("POID {poid}, PSD {psd}, interrupts {interrupts} ns; preemptirqsoff {theirs}");
    assert!(theirs > Ns::from_us(5) && theirs.0 <= poid.0 + psd.0 + interrupts + 2_000, "{theirs}");
    // Each execution is there, from before its first handler until after its last: more than the recorder has of it.
    let run = run_of(&outcome, "run");
    let recorded = run.interference.iter().find(|one| one.source == "vector local_timer").expect("timer");
    let timer = path.interrupts.iter().find(|one| one.source == "vector local_timer").expect("timer");
    assert!(timer.count > 100 && timer.count <= recorded.count, "{timer:?} {recorded:?}");
    assert!(timer.longest_ns >= recorded.max_ns, "{timer:?} {recorded:?}");
    // No thread of the highest priority waited longer than the bound, which an idle machine does not reach by far.
    let waits = run.max_of(Quantity::TimerWakeup).or_else(|| run.max_of(Quantity::Wakeup)).expect("wake-ups");
    println!("bound {bound} ns, largest latency {waits}");
    assert!(bound >= waits.0 as f64 && bound < 20.0 * waits.0 as f64, "{bound} {waits}");
}

#[test]
#[ignore = "lab: run by make lab-potential"]
fn a_path_analysis_finds_what_is_injected_where_the_kernel_s_own_tracer_finds_it() {
    let Some(outcome) = Outcome::of("path-injected", "lab: path analysis of an injected section") else {
        return;
    };
    let (path, bound) = path_of(&outcome, Cpu(1));
    let injected: serde_json::Value = serde_json::from_str(&outcome.text("injected")).unwrap();
    let pulse = Ns(injected["max_ns"].as_u64().unwrap());
    let theirs = Ns::from_us(outcome.text("max").trim().parse().unwrap());
    let poid = path.poid.as_ref().expect("POID");
    println!("injected {pulse}, POID {}, preemptirqsoff {theirs}; {}: {}", poid.ns, poid.thread, poid.place);
    assert!(poid.ns >= pulse && poid.ns.0 < pulse.0 * 3 / 2, "{} {pulse}", poid.ns);
    assert!(poid.ns.0.abs_diff(theirs.0) < theirs.0 / 20, "{} {theirs}", poid.ns);
    let trace = outcome.text("trace");
    assert!(poid.place.contains(&format!("begins in {}+", place(&trace, "started"))), "{}", poid.place);
    assert!(poid.place.contains(&format!("; ends in {}+", place(&trace, "ended"))), "{}", poid.place);
    assert!(poid.thread.to_string().starts_with("lathunt-inject/"), "{}", poid.thread);
    // Longer than the windows of interrupts that are known, so that only the part without them has a number.
    assert!(
        bound["value_ns"].is_null() && bound["reason"].as_str().unwrap().contains("without interrupts"),
        "{bound}"
    );
    let without = &bound["cpus"][0]["characterisations"][0];
    assert!(without["value_ns"].as_u64().unwrap() >= pulse.0, "{without}");
}

/// Both follow each switching off and on; ours also each interrupt and context switch.
#[test]
#[ignore = "lab: run by make lab-potential"]
fn the_cost_of_a_path_analysis_is_told_beside_that_of_the_kernel_s_own_tracer() {
    let Some(outcome) = Outcome::of("path-cost", "lab: cost of a path analysis") else { return };
    assert!(!run_of(&outcome, "run").path_analysis.is_empty(), "{}", outcome.text("talk"));
    let times = outcome.text("times");
    let taken = |what: &str| -> Vec<f64> {
        let of_it = times.lines().filter_map(|line| line.strip_prefix(what)?.trim().split_once(' '));
        of_it.map(|(begin, end)| end.parse::<f64>().unwrap() - begin.parse::<f64>().unwrap()).collect()
    };
    let bare = taken("none");
    let [record, path, tracer] = ["record", "path", "tracer"].map(|what| taken(what)[0]);
    let added = |time: f64| time - (bare[0] + bare[1]) / 2.0;
    println!(
        "pipe {bare:.2?} s; record {record:.2} s, with a path analysis {path:.2} s, preemptirqsoff {tracer:.2} s: \
         the path analysis adds {:.2} of what the tracer adds",
        (path - record) / added(tracer)
    );
    assert!(added(tracer) > 0.0 && path > record, "{times}");
}

#[test]
#[ignore = "lab: run by make lab-potential"]
fn a_cpu_that_was_offline_had_nothing_off_meanwhile() {
    let Some(outcome) = Outcome::of("potential-tracers", "lab: potential latencies of a CPU offline") else {
        return;
    };
    let run = run_of(&outcome, "offline");
    for quantity in POTENTIAL {
        // It was gone for three seconds.
        let peak = longest(&run, quantity, Cpu(1));
        assert!(peak.total_ns < Ns::from_ms(1_500), "{peak:#?}");
    }
}
