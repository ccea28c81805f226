//! Recorded traces with known causes: each `NAME.dat` was recorded from `NAME.c`, and `NAME.truth.json` says what must
//! and what must not be said of its worst interval. See tests/data/cases/README.md.
#![allow(clippy::disallowed_methods)] // tests read their recordings; the crate itself reads no file

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use lathunt_core::explain::answers::{Answer, Answers, TraceFacts};
use lathunt_core::explain::explain_interval;
use lathunt_core::explain::intervals::{find, FoundInterval, Question, Whose};
use lathunt_core::explain::load::window;
use lathunt_core::explain::record::Record;
use lathunt_core::explain::text::{Options, WIDTH};
use lathunt_core::explain::Interval;
use lathunt_core::export::kernel_ctf;
use lathunt_core::time::Cpu;
use lathunt_core::trace::ctf::{Ctf, TraceFiles};
use lathunt_core::trace::item::Span;
use lathunt_core::trace::kallsyms::Symbols;
use lathunt_core::trace::merge::Stream;
use lathunt_core::trace::source::{About, Source};
use lathunt_core::trace::trace_dat::TraceDat;
use regex::RegexBuilder;
use serde_json::Value;

/// `--between A B [--pair FIELD]`.
fn question(cmdline: &str) -> Question {
    let words: Vec<&str> = cmdline.split_whitespace().collect();
    let after = |option: &str, place: usize| {
        let at = words.iter().position(|word| *word == option)?;
        words.get(at + place).copied()
    };
    Question::Between {
        from: after("--between", 1).unwrap().parse().unwrap(),
        to: after("--between", 2).unwrap().parse().unwrap(),
        pair: after("--pair", 1).map(str::to_owned),
    }
}

/// Explains the worst interval; gives it and everything said about it.
fn answered(source: &dyn Source, cmdline: &str) -> (FoundInterval, String) {
    let found = find(source, &question(cmdline), &Whose::default());
    let worst = found.intervals.first().expect("there is an interval").clone();
    let window = window(source, &found, worst.begin, worst.end);
    let record = Record::new(&window);
    let FoundInterval { tid, cpu, begin, end, .. } = worst;
    let explanation = explain_interval(&record, &Interval { tid, cpu, begin, end });
    assert!(explanation.tree.adds_up(), "{explanation:#?}");
    assert_eq!(explanation.tree.total_explained() + explanation.unexplained_ns, worst.total());
    let facts = TraceFacts { events: found.events, lost: found.lost, ..TraceFacts::default() };
    let mut answers = Answers::new(facts, cmdline.to_owned(), &found);
    answers.intervals.push(Answer::explained(&worst, explanation));
    let text = answers.to_text(Options { evidence: true, stacks: true });
    assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
    // A name must be found although the terminal breaks the line in it.
    let said = text.split_whitespace().collect::<Vec<_>>().join(" ");
    (worst, said + " " + &serde_json::to_string(&answers).unwrap())
}

/// Asks `source`, a recording of case `name`, and compares with what is known of it.
fn judge(name: &str, truth: &Value, source: &dyn Source) {
    let (worst, said) = answered(source, truth["cmdline"].as_str().unwrap());
    let us = worst.total().as_us();
    let expected = truth["passage_us"].as_f64().unwrap();
    let tolerance = truth["passage_tolerance_us"].as_f64().unwrap();
    assert!((us - expected).abs() <= tolerance, "{name}: {us} µs");
    assert_eq!(worst.key, Some(truth["worst_arg0"].to_string()), "{name}");
    let matches = |pattern: &Value| {
        let regex = RegexBuilder::new(pattern.as_str().unwrap()).case_insensitive(true).build().unwrap();
        regex.is_match(&said)
    };
    for pattern in truth["must"].as_array().unwrap() {
        assert!(matches(pattern), "{name} must say {pattern}:\n{said}");
    }
    for pattern in truth["must_not"].as_array().unwrap() {
        assert!(!matches(pattern), "{name} must not say {pattern}:\n{said}");
    }
}

/// Name, truth and recording of every case.
fn cases() -> Vec<(String, Value, Vec<u8>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/cases");
    let paths = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut cases: Vec<_> = paths
        .filter(|path| path.to_string_lossy().ends_with(".truth.json"))
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().replace(".truth.json", "");
            let truth = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
            let bytes = fs::read(path.with_file_name(format!("{name}.dat"))).unwrap();
            (name, truth, bytes)
        })
        .collect();
    cases.sort_by(|a, b| a.0.cmp(&b.0));
    assert!(cases.len() >= 3);
    cases
}

#[test]
fn recorded_cases_are_explained_by_their_known_causes() {
    for (name, truth, bytes) in cases() {
        judge(&name, &truth, &TraceDat::open(&bytes).unwrap());
    }
}

/// A CTF trace with the symbols of the recording it was made from.
struct Named<'s>(Ctf<'s>, &'s TraceDat<'s>);

impl Source for Named<'_> {
    fn about(&self) -> &About {
        self.0.about()
    }
    fn symbols(&self) -> &Symbols {
        self.1.symbols()
    }
    fn streams(&self, span: Span) -> Vec<Box<dyn Stream + '_>> {
        self.0.streams(span)
    }
}

/// Where no switch from idle to one of the threads was reported: LTTng, which does not say with each event which thread it
/// is from, leaves what that thread did without a name, its markers too.
const WITHOUT_SWITCH_IN: [&str; 9] = [
    "deadline",
    "delayed_work",
    "grace_period",
    "many_ipis",
    "owner_io",
    "pacing",
    "quota",
    "stopped",
    "timer_slack",
];

/// The same recordings as CTF: under perf's names, and as LTTng has them, which calls some events and fields otherwise
/// and does not say with each event which thread it is from.
#[test]
fn the_cases_are_told_alike_from_ctf_also_under_lttngs_names() {
    for (name, truth, bytes) in cases() {
        let trace = TraceDat::open(&bytes).unwrap();
        let mut streams: BTreeMap<Cpu, Vec<u8>> = BTreeMap::new();
        let written = kernel_ctf::streams(&trace, |cpu, packet| {
            streams.entry(cpu).or_default().extend(packet);
            Ok::<(), ()>(())
        });
        assert!(written.is_ok());
        let metadata = kernel_ctf::metadata(&trace);
        for (tracer, metadata) in [("perf", metadata.clone()), ("lttng", as_lttng(&metadata))] {
            if tracer == "lttng" && WITHOUT_SWITCH_IN.contains(&name.as_str()) {
                continue;
            }
            let streams = streams.iter().map(|(cpu, bytes)| (format!("cpu_{cpu}"), bytes.as_slice()));
            let files = TraceFiles {
                name: String::new(),
                metadata: metadata.as_bytes(),
                streams: streams.collect(),
                ..TraceFiles::default()
            };
            let ctf = Ctf::open(&[files]).unwrap();
            assert_eq!(ctf.info().damage, [], "{name} {tracer}");
            judge(&format!("{name} as CTF of {tracer}"), &truth, &Named(ctf, &trace));
        }
    }
}

/// Names as in lttng-modules 2.13.
fn as_lttng(metadata: &str) -> String {
    let mut text = metadata.replace("} perf_tid;", "} nobody;").replace("common_flags;", "nothing;");
    for (ours, theirs) in [
        ("raw_syscalls:sys_enter", "syscall_entry_unknown"),
        ("raw_syscalls:sys_exit", "syscall_exit_unknown"),
        ("irq:softirq_", "irq_softirq_"),
        ("timer:hrtimer_", "timer_hrtimer_"),
        ("power:cpu_idle", "power_cpu_idle"),
        ("irq_vectors:", "x86_irq_vectors_"),
        ("exceptions:page_fault_", "x86_exceptions_page_fault_"),
        ("net:netif_receive_skb", "net_if_receive_skb"),
    ] {
        text = text.replace(&format!("\"{ours}"), &format!("\"{theirs}"));
    }
    let system = RegexBuilder::new("name = \"[a-z_]+:").build().unwrap();
    let text = system.replace_all(&text, "name = \"");
    let tids = RegexBuilder::new(" _((?:prev_|next_)?)pid;").build().unwrap();
    tids.replace_all(&text, " _${1}tid;").into_owned()
}

#[test]
fn begins_and_ends_in_different_threads_pair_by_value_only() {
    let bytes =
        fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/cases/udp_wake.dat")).unwrap();
    let trace = TraceDat::open(&bytes).unwrap();
    let by_thread = find(&trace, &question("--between sys:600 sys:601"), &Whose::default());
    assert_eq!(by_thread.intervals, vec![]);
    assert!(
        by_thread.unmatched_ends == 4
            && by_thread.begin_threads.iter().any(|name| name.starts_with("planner/"))
    );
    let by_key = find(&trace, &question("--between sys:600 sys:601 --pair arg0"), &Whose::default());
    assert_eq!((by_key.count, by_key.unmatched_begins, by_key.unmatched_ends), (4, 0, 0));
    assert!(by_key.intervals.iter().all(|interval| interval.begun_by.is_some()));
    assert!(by_key.intervals.windows(2).all(|pair| pair[0].total() >= pair[1].total()));
}
