//! What the kernel's tracers recorded in the lab, read back with their own figures. See tests/data/tracers/README.md.
#![allow(clippy::disallowed_methods)] // tests read their recordings; the crate itself reads no file

use std::path::Path;

use lathunt_core::explain::tracers::{of_source, read, Report};
use lathunt_core::trace::ftrace_text::{tidy, FtraceText};
use lathunt_core::trace::trace_dat::{latency_text, TraceDat};

/// The file, its figure in ns, and what is said of it.
const RECORDED: [(&str, u64, &[&str]); 27] = [
    (
        "wakeup.txt",
        301_000,
        &[
            "ktimers/1/28 (RT 1) waited 301 µs for CPU 1",
            "dd/874 (nice 0) had it",
            "while the tracer wrote down the stack of the wake-up",
        ],
    ),
    (
        "wakeup_rt.txt",
        3_868_000,
        &[
            "rcuc/0/19 (RT 1) waited",
            "sh/721 (nice 0) had it for 3.663 ms (95 %)",
            "system call openat",
            "the longest step took 3.313 ms",
            "in a hard interrupt",
            "when rcu_pree/17 (RT 1) gave up the CPU itself",
            "timer interrupt of this CPU",
            "cuts names of threads",
        ],
    ),
    (
        "wakeup_rt_verbose.txt",
        3_868_000,
        &[
            "rcuc/0/19 (RT 1) waited",
            "after a hard interrupt woke it",
            "in a hard interrupt",
            "when rcu_preempt/17 (RT 1) gave up",
        ],
    ),
    // The tracer's figure is not printed there.
    (
        "wakeup_rt_no_heading.txt",
        3_852_000,
        &["waited at least", "own latency is missing", "sh/721 (nice 0) had it for 3.65"],
    ),
    (
        "wakeup_rt_graph.txt",
        16_066_000,
        &[
            "cyclictest/247 (RT 80) waited 16.066 ms for CPU 1 after its timer woke it",
            "dd/238 (nice 0) had it for 16.019 ms",
            "between hrtimer_interrupt and hrtimer_interrupt, in a hard interrupt",
        ],
    ),
    // Its functions count from the beginning, its stacks have the time of day.
    (
        "wakeup_rt_graph_no_heading.txt",
        16_014_000,
        &["cyclictest/247 (RT 80) waited at least", "dd/238 (nice 0) had it for 16.014 ms (100 %)"],
    ),
    (
        "wakeup_dl.txt",
        303_000,
        &["dl/901 (DL) waited 303 µs", "after its timer woke it: rcu_pree/17 (RT 1) had it"],
    ),
    (
        "timerlat.txt",
        11_993_834,
        &[
            "CPU 0",
            "timerlat/0/166",
            "came 11.994 ms after the expiry (sample #106)",
            "the timer's interrupt (local_timer:236) took 4.018 ms",
            "interrupted sleep/169",
            "system call clock_nanosleep",
        ],
    ),
    (
        "timerlat_latency.txt",
        11_993_834,
        &[
            "the timer's interrupt (local_timer:236) took 4.018 ms",
            "thread sleep/169",
            "interrupted sleep/169",
        ],
    ),
    (
        "osnoise.txt",
        54_549_000,
        &[
            "CPU 1",
            "24 × without a cause in the kernel (HW)",
            "32 × IRQ",
            "62 × thread",
            "worst of 20 periods",
        ],
    ),
    ("osnoise_verbose.txt", 54_549_000, &["24 × without a cause in the kernel (HW)"]),
    (
        "osnoise_events.txt",
        55_421_466,
        &[
            "from 19.344791022",
            "thread dd/441 took 14.619 ms (26 %) in 4 runs",
            "no event of the kernel accounts for 40.171 ms (72 %)",
        ],
    ),
    ("osnoise_events_latency.txt", 55_421_466, &["thread dd/441 took 14.619 ms (26 %) in 4 runs"]),
    (
        "hwlat.txt",
        214_311_000,
        &[
            "CPU 0 stalled for 214.311 ms",
            "inner 4.294 ms, outer 214.311 ms; 9 gap(s)",
            "worst of 27 samples",
        ],
    ),
    ("hwlat_verbose.txt", 214_311_000, &["CPU 0 stalled"]),
    // The time in brackets happens to have no letter.
    ("hwlat_verbose_digits.txt", 37_140_000, &["CPU 1 stalled for 37.140 ms", "worst of 2 samples"]),
    (
        "function.txt",
        2_012_000,
        &["dd/1072 had CPU 0 for 2.012 ms", "between read_zero ← vfs_read and irq_enter_rcu"],
    ),
    (
        "function_graph.txt",
        3_788_825,
        &[
            "try_to_wake_up() took 3.789 ms on CPU 0 in rcuc/0/19",
            "in which the task slept or lost the CPU are not counted",
        ],
    ),
    ("timerlat.dat", 18223021, &["CPU 0", "(sample #58)", "the CPU was idle"]),
    ("osnoise.dat", 74_559_000, &["CPU 0", "20 × without a cause in the kernel (HW)", "osnoise/0/177"]),
    ("hwlat.dat", 40_640_000, &["CPU 1 stalled for 40.640 ms", "2 gap(s)", "worst of 13 samples"]),
    // trace-cmd record -p wakeup_rt: it holds the text; trace-cmd extract -s: the events of another wake-up.
    (
        "wakeup_rt_text.dat",
        436_000,
        &["ktimers/1/33 (RT 1) waited 436 µs for CPU 1", "dd/259 (nice 0) had it for 399 µs (92 %)"],
    ),
    // Between two lines another task came, of which the tracer writes down no switch.
    (
        "wakeup_rt_leaving.txt",
        21_467_000,
        &["ktimers/1/33 (RT 1) waited 21.467 ms for CPU 1", "rcuc/1/32 (RT 1) had it for 19.631 ms (91 %)"],
    ),
    (
        "wakeup_other_came.txt",
        15_648_000,
        &[
            "cat/194 (nice 0), then rcu_pree/17 (RT 1) had it for 15.470 ms (99 %)",
            "the switch from one to the other is not in the text",
        ],
    ),
    ("wakeup_dl_6.12.txt", 640_000, &["dl/608 (DL) waited 640 µs", "dd/259 (nice 0) had it for 612 µs"]),
    ("timerlat_report.txt", 3_559_924, &["after the expiry"]),
    ("hwlat_report.txt", 40_640_000, &["CPU 1 stalled for 40.640 ms"]),
];

fn report(name: &str) -> Report {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tracers").join(name);
    let bytes = std::fs::read(path).unwrap();
    if let Some(text) = latency_text(&bytes) {
        return read(&String::from_utf8(text).unwrap()).expect("a tracer's text");
    }
    if name.ends_with(".dat") {
        return of_source(&TraceDat::open(&bytes).unwrap()).expect("events of a tracer");
    }
    let read = read(&tidy::text(&bytes));
    read.or_else(|| of_source(&FtraceText::open(&bytes).unwrap())).expect("a tracer's text")
}

#[test]
fn each_tracer_is_read_back_with_its_own_figure() {
    for (name, figure, said) in RECORDED {
        let report = report(name);
        let worst = report.worst.as_ref().unwrap_or_else(|| panic!("{name}: {:?}", report.limits));
        let explanation = &worst.explanation;
        assert!(explanation.tree.adds_up(), "{name}: {:#?}", explanation.tree);
        assert_eq!(explanation.total_ns.0, figure, "{name}: {}", explanation.sentence);
        let thread = worst.thread.to_string();
        let limits = [report.limits.clone(), explanation.limits.clone()].concat().join(" ");
        let tree: String = explanation.tree.leaves().iter().map(|leaf| leaf.label.clone() + " ").collect();
        let all = [&explanation.sentence, &explanation.advice, &thread, &limits, &tree]
            .map(String::as_str)
            .join(" ");
        for part in said {
            assert!(all.contains(part), "{name} lacks '{part}': {all}");
        }
        // Functions of a graph have two entries each.
        let cut = name.contains("_graph") && limits.contains("was cut");
        assert!(!cut, "{name}: {limits}");
    }
}

/// Idle and sleeping threads cause no latency, and noise outside the sample is not counted.
#[test]
fn nobody_is_blamed_for_what_the_lines_do_not_say() {
    for (name, never) in [
        ("function.txt", ["ksoftirqd", "<idle>"]),
        ("function_graph.txt", ["the longest call: schedule", "a function entered before"]),
        ("timerlat_latency.txt", ["(186×)", "irq_work"]),
        ("wakeup_rt_leaving.txt", ["interrupts off", "trace-cmd/897 (nice 0) had it"]),
        ("wakeup_other_came.txt", ["not preempted", "has the lower priority"]),
        ("wakeup_rt.txt", ["move it to another CPU", "rcu_pree/17 (RT 1) had it"]),
    ] {
        let report = report(name);
        let explanation = &report.worst.unwrap().explanation;
        let all = format!("{} {} {:?}", explanation.sentence, explanation.advice, explanation.tree);
        for part in never {
            assert!(!all.contains(part), "{name} says '{part}': {all}");
        }
    }
}
