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
/// thread without its system call.
fn is_part_of(cause: &str, right: &Explanation) -> bool {
    let occupies = |hog: &str| right.sentence.contains(&format!("occupied by {hog}/"));
    right.cause.starts_with("moved to a busy CPU") && cause.strip_prefix("thread: ").is_some_and(occupies)
        || right.cause.starts_with("its own system call") && cause == "its own running"
}

#[test]
fn with_events_missing_nobody_else_is_to_blame() {
    let (mut same, mut all, mut wrong) = ([0; REMOVED.len()], 0, Vec::new());
    for name in cases() {
        for (of, whole) in intervals(&name) {
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
fn a_loss_without_a_mark_is_noticed_and_whole_recordings_have_none() {
    let (mut asked, mut noticed) = (0, 0);
    for name in cases() {
        for (number, (of, whole)) in intervals(&name).into_iter().enumerate() {
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
