//! Losses that the trace does not report, as where lines of a text were removed: the recorded cases with a tenth of their
//! events removed are explained by the same culprit or as unexplained, never by another one.
#![allow(clippy::disallowed_methods)] // tests read their recordings; the crate itself reads no file

use std::fs;
use std::path::Path;

use lathunt_core::explain::explain_interval;
use lathunt_core::explain::intervals::{find, Question, Whose};
use lathunt_core::explain::load::window;
use lathunt_core::explain::record::Record;
use lathunt_core::explain::segment::Explanation;
use lathunt_core::explain::Interval;
use lathunt_core::random::Random;
use lathunt_core::time::Mono;
use lathunt_core::trace::trace_dat::TraceDat;
use lathunt_core::trace::window::Window;

/// One event in this many is removed.
const ONE_IN: u64 = 10;
/// Different losses of each interval.
const SEEDS: u64 = 5;
/// Longest intervals of a recording that are asked.
const INTERVALS: usize = 2;

/// Recordings of different mechanisms, most of which once had a wrong culprit.
const CASES: [&str; 18] = [
    "compact",
    "dgram_full",
    "eventfd_chain",
    "foreign_timer",
    "forks",
    "frozen_writer",
    "fsync",
    "grace_period",
    "irq_thread",
    "kernel_lock",
    "long_call",
    "loopdev",
    "lowered",
    "pacing",
    "pi_chain",
    "seccomp_notify",
    "timer_slack",
    "udp_wake",
];

/// The longest intervals of a recording, each with the events around it.
fn intervals(name: &str) -> Vec<(Interval, Window)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/cases");
    let bytes = fs::read(directory.join(format!("{name}.dat"))).unwrap();
    let truth = fs::read_to_string(directory.join(format!("{name}.truth.json"))).unwrap();
    let trace = TraceDat::open(&bytes).unwrap();
    let pair = truth.contains("--pair arg0").then(|| "arg0".to_owned());
    let question =
        Question::Between { from: "sys:600".parse().unwrap(), to: "sys:601".parse().unwrap(), pair };
    let found = find(&trace, &question, &Whose::default());
    assert!(!found.intervals.is_empty(), "{name}");
    let worst = found.intervals.iter().take(INTERVALS);
    worst
        .map(|of| {
            let window = window(&trace, &found, of.begin, of.end);
            (Interval { tid: of.tid, cpu: of.cpu, begin: of.begin, end: of.end }, window)
        })
        .collect()
}

fn explain(window: &Window, of: &Interval) -> Explanation {
    let explanation = explain_interval(&Record::new(window), of);
    assert!(explanation.tree.adds_up(), "{explanation:#?}");
    explanation
}

fn thinned(whole: &Window, seed: u64) -> Window {
    let mut random = Random::new(seed);
    let mut thin = whole.clone();
    thin.events.retain(|_| random.below(ONE_IN) > 0);
    thin
}

/// The culprit in a cause: the same thread may hold a mutex, run or sleep.
fn culprit(cause: &str) -> &str {
    let cause = cause.split(" and ").next().unwrap();
    let forms = [
        "PI mutex of ",
        "mutex of ",
        "waited for: ",
        "sleep of ",
        "thread: ",
        "priority inversion: ",
        "timer armed by ",
        "timeout of ",
    ];
    forms.iter().find_map(|form| cause.strip_prefix(form)).unwrap_or(cause)
}

#[test]
fn with_a_tenth_of_the_events_missing_nobody_else_is_to_blame() {
    let (mut same, mut wrong) = (0, Vec::new());
    for name in CASES {
        for (of, whole) in intervals(name) {
            let right = explain(&whole, &of);
            for seed in 0..SEEDS {
                let answer = explain(&thinned(&whole, seed), &of);
                match answer.cause.as_str() {
                    cause if culprit(cause) == culprit(&right.cause) => same += 1,
                    "unexplained" => {}
                    _ => wrong.push(format!(
                        "{name}, interval at {}, seed {seed}:\n  {}\n  {}",
                        of.begin, right.sentence, answer.sentence
                    )),
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(same >= 65, "only {same} answers are left: the explanation gives up too early");
}

#[test]
fn a_loss_without_a_mark_is_noticed_and_whole_recordings_have_none() {
    let (mut asked, mut noticed) = (0, 0);
    for name in CASES {
        for (of, whole) in intervals(name) {
            let lacks = |window: &Window| Record::new(window).lacks_events(of.begin, of.end);
            assert!(!lacks(&whole), "{name} {:?}", Record::new(&whole).contradictions(Mono(0), of.end));
            asked += SEEDS;
            noticed += (0..SEEDS).filter(|&seed| lacks(&thinned(&whole, seed))).count() as u64;
        }
    }
    assert!(noticed * 4 >= asked * 3, "{noticed} of {asked}");
}
