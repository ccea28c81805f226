//! Losses that the trace does not report, as where lines of a text were removed: the recorded cases with a tenth of their
//! events removed are explained by the same culprit or as unexplained, never by another one.
#![allow(clippy::disallowed_methods)] // tests read their recordings; the crate itself reads no file

use std::fs;
use std::path::Path;

use lathunt_core::explain::explain_interval;
use lathunt_core::explain::intervals::{find, Question, Whose};
use lathunt_core::explain::load::window;
use lathunt_core::explain::record::Record;
use lathunt_core::explain::segment::{Explanation, Segment};
use lathunt_core::explain::Interval;
use lathunt_core::random::Random;
use lathunt_core::time::{Mono, Ns};
use lathunt_core::trace::trace_dat::TraceDat;
use lathunt_core::trace::window::Window;

/// Shares of the events that are removed, in percent.
const REMOVED: [u64; 3] = [1, 10, 30];
/// Different losses of each interval with each share; `LATHUNT_LOSS_SEEDS` sets another number.
const SEEDS: u64 = 1;
/// Longest intervals of a recording that are asked.
const INTERVALS: usize = 2;

fn seeds() -> u64 {
    std::env::var("LATHUNT_LOSS_SEEDS").ok().map_or(SEEDS, |seeds| seeds.parse().unwrap())
}

/// The names of all recordings.
fn cases() -> Vec<String> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/cases");
    let names =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> =
        names.filter_map(|name| Some(name.strip_suffix(".dat")?.to_owned())).collect();
    names.sort();
    assert!(names.len() >= 80);
    names
}

/// The longest intervals of a recording, at most `most`, each with the events around it.
fn intervals(name: &str, most: usize) -> Vec<(Interval, Window)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/cases");
    let bytes = fs::read(directory.join(format!("{name}.dat"))).unwrap();
    let truth = fs::read_to_string(directory.join(format!("{name}.truth.json"))).unwrap();
    let trace = TraceDat::open(&bytes).unwrap();
    let pair = truth.contains("--pair arg0").then(|| "arg0".to_owned());
    let question =
        Question::Between { from: "sys:600".parse().unwrap(), to: "sys:601".parse().unwrap(), pair };
    let found = find(&trace, &question, &Whose::default());
    assert!(!found.intervals.is_empty(), "{name}");
    let worst = found.intervals.iter().take(most);
    worst
        .map(|of| {
            let window = window(&trace, &found, of.begin, of.end);
            (Interval { tid: of.tid, cpu: of.cpu, begin: of.begin, end: of.end }, window)
        })
        .collect()
}

fn explain(window: &Window, of: &Interval) -> Explanation {
    let explanation = explain_interval(&Record::new(window), of);
    check_parts(&explanation, of);
    explanation
}

/// The parts and the unexplained time are the whole interval, and no time is in two parts.
fn check_parts(explanation: &Explanation, of: &Interval) {
    let Explanation { tree, total_ns, unexplained_ns, .. } = explanation;
    let leaves = tree.leaves();
    let parts: Ns = leaves.iter().map(|leaf| leaf.duration_ns).sum();
    let gaps: Ns = tree.all_gaps().iter().map(|gap| gap.duration_ns).sum();
    let is_whole = *total_ns == of.end.since(of.begin) && tree.duration_ns == *total_ns;
    assert!(is_whole && tree.adds_up(), "{explanation:#?}");
    assert_eq!((parts + gaps, gaps), (*total_ns, *unexplained_ns), "{explanation:#?}");
    let mut pieces: Vec<(Mono, Mono, &str)> = leaves.iter().flat_map(|leaf| pieces_of(leaf)).collect();
    pieces.sort();
    assert!(pieces.iter().all(|(begin, end, _)| of.begin <= *begin && *end <= of.end), "{explanation:#?}");
    let twice = pieces.windows(2).find(|pair| pair[1].0 < pair[0].1);
    assert_eq!(twice, None, "{explanation:#?}");
}

/// Start, end and label of each piece of a part.
fn pieces_of(leaf: &Segment) -> Vec<(Mono, Mono, &str)> {
    let whole = [(leaf.begin, leaf.begin + leaf.duration_ns)];
    let pieces = if leaf.pieces.is_empty() { &whole[..] } else { &leaf.pieces };
    let net: Ns = pieces.iter().map(|(begin, end)| end.since(*begin)).sum();
    assert_eq!(net, leaf.duration_ns, "{leaf:#?}");
    pieces.iter().map(|&(begin, end)| (begin, end, leaf.label.as_str())).collect()
}

fn thinned(whole: &Window, removed: u64, seed: u64) -> Window {
    let mut random = Random::new(seed);
    let mut thin = whole.clone();
    thin.events.retain(|_| random.below(100) >= removed);
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

/// Whether a cause is less than the right one, and true: the hog on the CPU to which a thread was moved; the own time of a
/// thread without its system call; a stacked device (a loop device) without the one below.
fn is_part_of(cause: &str, right: &Explanation) -> bool {
    let occupies = |hog: &str| right.sentence.contains(&format!("occupied by {hog}/"));
    right.cause.starts_with("moved to a busy CPU") && cause.strip_prefix("thread: ").is_some_and(occupies)
        || right.cause.starts_with("its own system call") && cause == "its own running"
        || right.cause.starts_with("block I/O: device") && cause.starts_with("block I/O: device 7:")
}

#[test]
fn with_events_missing_nobody_else_is_to_blame() {
    let (mut same, mut all, mut wrong) = ([0; REMOVED.len()], 0, Vec::new());
    for name in cases() {
        for (of, whole) in intervals(&name, INTERVALS) {
            let right = explain(&whole, &of);
            all += seeds();
            for (seed, (place, removed)) in
                (0..seeds()).flat_map(|seed| REMOVED.into_iter().enumerate().map(move |of| (seed, of)))
            {
                let answer = explain(&thinned(&whole, removed, seed), &of);
                match answer.cause.as_str() {
                    cause if culprit(cause) == culprit(&right.cause) => same[place] += 1,
                    "unexplained" => {}
                    cause if is_part_of(cause, &right) => {}
                    _ => wrong.push(format!(
                        "{name}, interval at {}, {removed} % removed, seed {seed}: {} / {}:\n  {}\n  {}",
                        of.begin, right.cause, answer.cause, right.sentence, answer.sentence
                    )),
                }
            }
        }
    }
    println!("{same:?} of {all} answers each have the right cause with {REMOVED:?} % removed");
    assert!(wrong.is_empty(), "{}\n{} wrong", wrong.join("\n"), wrong.len());
    let enough = same[0] * 4 >= all * 3 && same[1] * 2 >= all;
    assert!(enough, "{same:?} of {all} answers are left: the explanation gives up too early");
}

#[test]
fn parts_and_unexplained_time_are_the_interval_and_no_time_is_in_two_parts() {
    for name in cases() {
        for (number, (of, whole)) in intervals(&name, usize::MAX).into_iter().enumerate() {
            explain(&whole, &of);
            for removed in [3, 20] {
                explain(&thinned(&whole, removed, number as u64), &of);
            }
        }
    }
}

#[test]
fn a_loss_without_a_mark_is_noticed_and_whole_recordings_have_none() {
    let (mut asked, mut noticed) = (0, 0);
    for name in cases() {
        for (number, (of, whole)) in intervals(&name, INTERVALS).into_iter().enumerate() {
            let lacks = |window: &Window| Record::new(window).lacks_events(of.begin, of.end);
            // The kernel that recorded them hides some switches.
            if (number > 0 || name == "quota_holder") && lacks(&whole) {
                continue;
            }
            assert!(!lacks(&whole), "{name} {:?}", Record::new(&whole).contradictions(Mono(0), of.end));
            asked += seeds();
            noticed += (0..seeds()).filter(|&seed| lacks(&thinned(&whole, 10, seed))).count() as u64;
        }
    }
    assert!(noticed * 4 >= asked * 3, "{noticed} of {asked}");
}
