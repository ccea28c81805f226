//! Recorded traces with known causes: each `NAME.dat` was recorded from `NAME.c`, and `NAME.truth.json` says what must
//! and what must not be said of its worst passage. See tests/data/cases/README.md.
#![allow(clippy::disallowed_methods)] // tests read their recordings; the crate itself reads no file

use std::fs;
use std::path::Path;

use lathunt_core::explain::answers::{Answer, Answers, TraceFacts};
use lathunt_core::explain::explain_passage;
use lathunt_core::explain::load::window;
use lathunt_core::explain::passages::{find, Passage, Question, Whose};
use lathunt_core::explain::peak::TimerPassage;
use lathunt_core::explain::record::Record;
use lathunt_core::explain::text::{Options, WIDTH};
use lathunt_core::trace::source::Source;
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

/// Explains the worst passage; gives it and everything said about it.
fn answered(source: &dyn Source, cmdline: &str) -> (Passage, String) {
    let found = find(source, &question(cmdline), &Whose::default());
    let worst = found.passages.first().expect("there is a passage").clone();
    let window = window(source, &found, worst.begin, worst.end);
    let record = Record::new(&window);
    let Passage { tid, cpu, begin, end, .. } = worst;
    let explanation = explain_passage(&record, &TimerPassage { tid, cpu, begin, end });
    assert!(explanation.tree.adds_up(), "{explanation:#?}");
    assert_eq!(explanation.tree.total_explained() + explanation.unexplained_ns, worst.total());
    let facts = TraceFacts {
        path: String::new(),
        format: String::new(),
        clock: String::new(),
        events: found.events,
        lost: found.lost,
    };
    let mut answers = Answers::new(facts, cmdline.to_owned(), &found);
    answers.passages.push(Answer::explained(&worst, explanation));
    let text = answers.to_text(Options { evidence: true, stacks: true });
    assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
    // A name must be found although the terminal breaks the line in it.
    let said = text.split_whitespace().collect::<Vec<_>>().join(" ");
    (worst, said + " " + &serde_json::to_string(&answers).unwrap())
}

fn judge(path: &Path) {
    let truth: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let name = path.file_name().unwrap().to_str().unwrap().replace(".truth.json", "");
    let bytes = fs::read(path.with_file_name(format!("{name}.dat"))).unwrap();
    let trace = TraceDat::open(&bytes).unwrap();
    let (worst, said) = answered(&trace, truth["cmdline"].as_str().unwrap());
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

#[test]
fn recorded_cases_are_explained_by_their_known_causes() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/cases");
    let mut truths: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().ends_with(".truth.json"))
        .collect();
    truths.sort();
    assert!(truths.len() >= 3, "{truths:?}");
    truths.iter().for_each(|path| judge(path));
}

#[test]
fn begins_and_ends_in_different_threads_pair_by_value_only() {
    let bytes =
        fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/cases/udp_wake.dat")).unwrap();
    let trace = TraceDat::open(&bytes).unwrap();
    let by_thread = find(&trace, &question("--between sys:600 sys:601"), &Whose::default());
    assert_eq!(by_thread.passages, vec![]);
    assert!(
        by_thread.unmatched_ends == 4
            && by_thread.begin_threads.iter().any(|name| name.starts_with("planner/"))
    );
    let by_key = find(&trace, &question("--between sys:600 sys:601 --pair arg0"), &Whose::default());
    assert_eq!((by_key.count, by_key.unmatched_begins, by_key.unmatched_ends), (4, 0, 0));
    assert!(by_key.passages.iter().all(|passage| passage.begun_by.is_some()));
    assert!(by_key.passages.windows(2).all(|pair| pair[0].total() >= pair[1].total()));
}
